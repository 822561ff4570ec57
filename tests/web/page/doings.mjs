// SPDX-License-Identifier: Apache-2.0
// What a person does: keys, filters, the brush, going back, an address that is sent to somebody.
import { grid, hashOf, idle, open, show, texts } from "./browser.mjs";

/** Selects the middle three fifths of the time strip. */
async function dragStrip(page) {
  const box = await page.locator(".strip .u-over").boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.2, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, y, { steps: 4 });
  await page.mouse.move(box.x + box.width * 0.8, y, { steps: 4 });
  await page.mouse.up();
  await idle(page);
}

async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await idle(page);
  return hashOf(page);
}

export const DOINGS = {
  async keys(page) {
    await show(page, "start");
    await page.evaluate(() => document.activeElement?.blur());
    const views = [];
    for (const key of ["2", "3", "4", "5", "6", "7", "8", "9", "0", "g", "1"])
      views.push(await press(page, key));
    const asked = [
      await press(page, "q"),
      await press(page, "q"),
      await press(page, "Q"),
    ];
    await press(page, "?");
    const listed = await page.locator("dialog[open] dt").count();
    await press(page, "Escape");
    const closed = await page.locator("dialog[open]").count();
    const before = await page.evaluate(
      () => document.documentElement.dataset.theme,
    );
    await press(page, "d");
    const after = await page.evaluate(
      () => document.documentElement.dataset.theme,
    );
    await press(page, "d");
    await press(page, "/");
    const focused = await page.evaluate(() => document.activeElement.id);
    await press(page, "Escape");
    await show(page, "sites");
    await press(page, "c");
    const copied = (await texts(page, ".toast code"))[0]?.text;
    return {
      views,
      asked,
      listed,
      closed,
      themes: [before, after],
      focused,
      copied,
    };
  },
  async table(page) {
    await show(page, "sites?cost=total");
    await page.locator("[role=grid]").focus();
    const hashes = [
      await press(page, "ArrowDown"),
      await press(page, "j"),
      await press(page, "k"),
      await press(page, "End"),
      await press(page, "Home"),
    ];
    const active = await page.evaluate(() =>
      document
        .querySelector("[role=grid]")
        .getAttribute("aria-activedescendant"),
    );
    await page
      .locator("[role=columnheader] button", { hasText: "Mean size" })
      .click();
    await idle(page);
    const sorted = await grid(page, "Sites");
    const sortHash = await hashOf(page);
    await page
      .locator("[role=columnheader] button", { hasText: "Calls" })
      .click();
    await idle(page);
    const byCalls = await grid(page, "Sites");
    await page.locator("[role=grid]").focus();
    const byKeys = [
      await press(page, "r"),
      await press(page, ">"),
      await press(page, "<"),
    ];
    await page.getByRole("button", { name: "Columns" }).click();
    await page.getByLabel("Own max").check();
    await page.keyboard.press("Escape");
    await idle(page);
    return {
      hashes,
      active,
      sorted,
      sortHash,
      byCalls,
      byKeys,
      widened: await grid(page, "Sites", 3),
    };
  },
  async flameKeys(page) {
    await show(page, "flame?cost=total");
    await page.locator(".flame-scroll").focus();
    for (let i = 0; i < 8; i++) await page.keyboard.press("ArrowDown");
    const zoomed = await press(page, "Enter");
    const out = await press(page, "Backspace");
    const whole = await press(page, "Escape");
    const said = (await texts(page, ".flame-scroll [role=status]"))[0].text;
    return { zoomed, out, whole, said };
  },
  async narrow(page) {
    const before = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    const lines = {};
    for (const address of ["sites?cost=total", "sites?cost=total&by=function", "source"]) {
      await show(page, address);
      lines[address] = await page.locator("[role=grid] .line").count();
    }
    const names = {};
    for (const address of ["sites?cost=total", "sites?by=own", "tree?cost=total", "source", "threads", "threads?tab=processes"]) {
      await show(page, address);
      names[address] = await page.evaluate(() =>
        [...document.querySelectorAll(".grid .line .fn")].map((name) => {
          const box = name.getBoundingClientRect();
          return [box.left, name.closest(".cell").getBoundingClientRect().right];
        }),
      );
    }
    await show(page, "source");
    const code = await page.locator(".view.source").evaluate((view) => view.lastElementChild.getBoundingClientRect().top);
    await page.setViewportSize(before);
    return { lines, names, code };
  },
  async flamePan(page) {
    await show(page, "flame?cost=total");
    const scroll = page.locator(".flame-scroll");
    const box = await scroll.boundingBox();
    const shown = () =>
      page.evaluate(() => {
        const at = document.querySelector(".flame-scroll canvas").painting;
        return [at.from, at.to];
      });
    await page.mouse.move(box.x + box.width / 2, box.y + 30);
    const tip = (await texts(page, ".tip"))[0].text;
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -700);
    await page.keyboard.up("Control");
    const zoomed = await shown();
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2 - 100, box.y + 30, { steps: 5 });
    await page.mouse.up();
    const dragged = await shown();
    const chosen = await hashOf(page);
    await scroll.focus();
    await page.keyboard.press("Shift+ArrowLeft");
    const moved = await shown();
    for (let i = 0; i < 40; i++) await page.keyboard.press("Shift+ArrowLeft");
    const left = await shown();
    await page.keyboard.press("o");
    const out = await shown();
    await page.keyboard.press("i");
    const into = await shown();
    return { out, into, tip, zoomed, dragged, chosen, moved, left, width: box.width };
  },
  async icicle(page) {
    await show(page, "start");
    const picture = page.locator(".icicle .flame-scroll");
    await picture.focus();
    const path = [];
    for (let i = 0; i < 3; i++) {
      await page.keyboard.press("ArrowDown");
      path.push((await texts(page, ".icicle [role=status]"))[0].text);
    }
    const hash = await press(page, "Enter");
    const opened = (await texts(page, ".flame-foot b.code"))[0].text;
    return { path, hash, opened };
  },
  async filters(page) {
    await show(page, "sites?cost=total");
    const type = async (text) => {
      await page.fill("#filter", text);
      await page.keyboard.press("Enter");
      await idle(page);
    };
    await type("sqlite3VdbeExec");
    const focus = {
      hash: await hashOf(page),
      sum: (await texts(page, ".question .answer strong"))[0].title,
    };
    await type("-sqlite3BtreeInsert");
    const both = {
      hash: await hashOf(page),
      sum: (await texts(page, ".question .answer strong"))[0].title,
      chips: await texts(page, ".chip code"),
    };
    await page.goBack();
    await idle(page);
    const back = await hashOf(page);
    await page.locator(".chip button").first().click();
    await idle(page);
    await type("size>4k");
    const size = {
      hash: await hashOf(page),
      sum: (await texts(page, ".question .answer strong"))[0].title,
    };
    return { focus, both, back, size };
  },
  /** A click and a drag on the strip. */
  async brush(page) {
    await show(page, "sites");
    const box = await page.locator(".strip .u-over").boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.click(box.x + box.width * 0.45, y);
    await idle(page);
    const click = {
      hash: await hashOf(page),
      sum: (await texts(page, ".question .answer strong"))[0].title,
    };
    await dragStrip(page);
    const drag = {
      hash: await hashOf(page),
      sum: (await texts(page, ".question .answer strong"))[0].title,
      moment: (await texts(page, ".question .answer .soft"))[0].title,
    };
    await page.locator(".strip[tabindex]").focus();
    const stepped = await press(page, "ArrowLeft");
    const ranged = await press(page, "Shift+ArrowRight");
    return { click, drag, stepped, ranged };
  },
  /** A drag on the strip while the number is one that is counted, then another such number, and back to the whole run. */
  async brushCounted(page) {
    const now = async () => ({
      hash: await hashOf(page),
      sum: (await texts(page, ".question .answer strong"))[0].title,
      moment: (await texts(page, ".question .answer .soft"))[0].title,
    });
    await show(page, "sites?cost=calls");
    await dragStrip(page);
    const drag = await now();
    const rows = await grid(page, "Sites");
    await page.selectOption("#question", "total");
    await idle(page);
    const total = await now();
    await page.locator(".question .pick button.link").click();
    await idle(page);
    return { drag, rows, total, whole: await now() };
  },
  /** What one person sees at an address, another does. */
  async roundTrip(page, plan, browser) {
    await show(page, "sites?cost=total");
    await page.fill("#filter", "-sqlite3BtreeInsert");
    await page.keyboard.press("Enter");
    await idle(page);
    await page
      .locator("[role=columnheader] button", { hasText: "Calls" })
      .first()
      .click();
    await page.locator("[role=grid] .line").nth(2).click();
    await idle(page);
    const hash = await hashOf(page);
    const here = {
      rows: await grid(page, "Sites"),
      side: await texts(page, ".side .stack .fn"),
    };
    const other = await open(browser, plan.url + hash);
    const there = {
      rows: await grid(other, "Sites"),
      side: await texts(other, ".side .stack .fn"),
    };
    await other.context().close();
    return { hash, here, there };
  },
  async questions(page) {
    const sums = {};
    for (const name of [
      "peak",
      "leaked",
      "total",
      "calls",
      "temporary",
      "max",
      "waste",
      "lifetime",
      "realloc",
      "rate",
    ]) {
      await show(page, `sites?cost=${name}`);
      sums[name] = (await texts(page, ".question .answer strong"))[0].title;
    }
    await show(page, "sites?unit=blocks");
    sums.blocks = (await texts(page, ".question .answer strong"))[0].title;
    return sums;
  },
};
