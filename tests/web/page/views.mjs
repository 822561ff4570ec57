// SPDX-License-Identifier: Apache-2.0
// What each view shows: enough of it to compare with the report.
import { grid, hashOf, idle, plain, show, texts, wrongs } from "./browser.mjs";

/** Name of a scene, and how it is looked at. */
export const VIEWS = {
  async start(page) {
    await show(page, "start");
    return {
      figures: await texts(page, ".card .figure"),
      verdict: await texts(page, ".verdict button"),
      cards: await texts(page, ".card"),
      findings: await texts(page, ".findings li"),
      balance: await plain(page, ".balance"),
      tops: await page.evaluate(() =>
        Object.fromEntries(
          [...document.querySelectorAll(".panel.top")].map((panel) => [
            panel.getAttribute("aria-label"),
            [...panel.querySelectorAll("tr")].map((row) => ({
              value: row.children[0].title,
              name: row.children[2].title,
            })),
          ]),
        ),
      ),
      badge: (await texts(page, ".badge"))[0],
      sum: (await texts(page, ".question .answer strong"))[0],
    };
  },
  async sites(page) {
    await show(page, "sites?cost=total");
    const rows = await grid(page, "Sites");
    await show(page, "sites?cost=calls&by=function");
    const functions = await grid(page, "Sites");
    await show(page, "sites?cost=leaked&by=module");
    return { rows, functions, modules: await grid(page, "Sites") };
  },
  async siteDetail(page) {
    await show(page, "sites?cost=total");
    await page.locator("[role=grid] .line").first().click();
    await idle(page);
    return {
      stack: await texts(page, ".side .stack .fn"),
      facts: await texts(page, ".side .facts dd"),
    };
  },
  /** Always the heaviest child, from main inwards. */
  async flame(page) {
    await show(page, "flame?cost=total");
    await page.locator(".flame-scroll").focus();
    const path = [];
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press("ArrowDown");
      await page.waitForTimeout(30);
      path.push({
        name: (await texts(page, ".flame-foot > .cut"))[0].title,
        value: (await texts(page, ".flame-foot .numbers b"))[0].title,
      });
    }
    await page.fill("#search", "sqlite3Vdbe|main");
    await idle(page);
    return {
      path,
      matched: (await texts(page, ".toolbar [role=status]"))[0].text,
    };
  },
  async pivot(page) {
    await show(page, "flame?cost=total&pivot=sqlite3VdbeExec");
    return { pivot: (await texts(page, ".pivot"))[0].text };
  },
  async tree(page) {
    await show(page, "tree?cost=total");
    const rows = await grid(page, "Call tree", 8);
    await show(page, "tree?cost=total&sel=sqlite3VdbeExec");
    return {
      rows,
      callees: await texts(page, ".side dd"),
      lists: await texts(page, ".side section"),
    };
  },
  async time(page) {
    await show(page, "time");
    return {
      reading: await texts(page, ".reading dd"),
      layers: await plain(page, ".side section:first-child .layers"),
      titles: await texts(page, ".charts h2"),
      charts: await page.locator(".charts .uplot").count(),
    };
  },
  async sizes(page) {
    await show(page, "sizes?cost=calls");
    const sizes = await grid(page, "Sizes");
    await show(page, "sizes?tab=lifetimes");
    const lifetimes = await grid(page, "Sites by short lives");
    const bars = await texts(page, ".side .bars [role=listitem]");
    await show(page, "sizes?tab=reallocs");
    const reallocs = await grid(page, "Sites by copied bytes");
    const steps = await texts(page, ".heat td.full");
    await show(page, "sizes?tab=course&cost=peak");
    const course = await page.evaluate(() =>
      [...document.querySelectorAll(".heat tbody tr")].map((row) =>
        [...row.querySelectorAll("td")].map((cell) => cell.title),
      ),
    );
    await show(page, "sizes?tab=both");
    return {
      steps,
      course,
      sizes,
      lifetimes,
      bars,
      reallocs,
      heat: await texts(page, ".heat td.full"),
    };
  },
  async run(page) {
    await show(page, "run");
    return {
      facts: await plain(page, ".run-table"),
      modules: await plain(page, "table.modules"),
      globals: await plain(page, "table.globals"),
      cost: (await texts(page, ".panel p"))[0].text,
    };
  },
};

async function answered(page, address) {
  await show(page, address);
  return {
    hash: await hashOf(page),
    states: (await texts(page, "main .state")).map((state) => state.text),
    alerts: await page.locator("[role=alert]").count(),
    why: await texts(page, ".question .why"),
    asked: await page.locator("#question").inputValue(),
    sum: (await texts(page, ".question .answer strong"))[0],
    command: (await page.locator("#copy").getAttribute("title")).split("\n")[0],
  };
}

/** Of a program with threads and with source. */
export const THREAD_VIEWS = {
  /** What threads held at the peak, where blocks were passed on. */
  async peaks(page, plan) {
    const before = page.seen.errors.length;
    const seen = {};
    for (const view of ["sites", "flame", "tree", "source", "tags", "start"])
      seen[view] = await answered(page, `${view}?thread=${plan.producer}`);
    seen.start.lists = (
      await texts(page, "[aria-label='Most at the peak'] p")
    ).map((text) => text.text);
    seen.start.card = (await texts(page, ".card .figure"))[0].text;
    seen.blocks = await answered(
      page,
      `sites?thread=${plan.producer}&unit=blocks`,
    );
    seen.calls = await answered(
      page,
      `sites?thread=${plan.producer}&cost=calls&sort=-peak_bytes`,
    );
    seen.each = {
      ...(await answered(page, "sites?by=thread")),
      rows: await grid(page, "Sites"),
    };
    seen.wrong = await wrongs(page);
    /* All threads together: nothing was passed on to others, and nobody to ask about. */
    seen.all = await answered(page, "sites?thread=.");
    seen.none = await answered(page, "sites");
    seen.refused = page.seen.errors.slice(before);
    return seen;
  },
  /** Filters that leave nothing. */
  async unmatched(page) {
    const seen = {};
    for (const address of [
      "sites",
      "sites?by=function",
      "flame",
      "tree",
      "source",
      "tags",
      "tags?tab=labels",
      "sizes",
      "sizes?tab=lifetimes",
      "sizes?tab=both",
      "sizes?tab=course",
      "sizes?tab=reallocs",
    ])
      seen[address] = await answered(
        page,
        `${address}${address.includes("?") ? "&" : "?"}focus=nobody`,
      );
    await show(page, "start?focus=nobody");
    const lists = await texts(page, ".panel.top p");
    return { seen, lists: lists.map((text) => text.text) };
  },
  async threads(page) {
    await show(page, "threads");
    const threads = await grid(page, "Threads");
    await show(page, "threads?tab=handover");
    const handover = await texts(page, ".heat td.full");
    await show(page, "threads?tab=processes");
    return { threads, handover, processes: await grid(page, "Processes") };
  },
  async source(page, plan) {
    await show(
      page,
      `source?cost=total&path=${encodeURIComponent(plan.source)}`,
    );
    return {
      list: await grid(page, "Functions with source", 40),
      lines: await page.evaluate(() =>
        [...document.querySelectorAll(".source-code .line")].map((line) =>
          [...line.children].map((cell) => ({
            text: cell.textContent.trim(),
            title: cell.title,
          })),
        ),
      ),
    };
  },
};

/** Of so many threads that some share counters. */
export const CROWD_VIEWS = {
  async crowd(page, plan) {
    // The last ones: they began when every counter had its thread.
    await show(page, "threads?sort=-started_ns");
    const threads = await grid(page, "Threads");
    const notes = await texts(page, "main .toolbar .soft");
    const shared = await answered(page, `sites?thread=${plan.shared}`);
    const refused = page.seen.errors.splice(0);
    await show(page, "sites?by=thread");
    return {
      threads,
      notes,
      shared,
      refused,
      groups: await grid(page, "Sites"),
    };
  },
};

/** Of a sampled recording: numbers with their errors. */
export const SAMPLED_VIEWS = {
  async sampled(page, plan) {
    const shots = plan.shots
      ? (name) => page.screenshot({ path: `${plan.shots}/${name}.png` })
      : async () => {};
    await show(page, "start");
    const start = {
      figures: await texts(page, ".card .figure"),
      note: (await texts(page, "[role=note]"))[0]?.text,
      badge: (await texts(page, ".badge"))[0].text,
      balance: await plain(page, ".balance"),
      sum: (await texts(page, ".question .answer strong"))[0],
    };
    await shots("sampled-start");
    await show(page, "sites?cost=total");
    const sites = await grid(page, "Sites");
    await page.locator("[role=grid] .line").first().click();
    await idle(page);
    const facts = await texts(page, ".side .facts dd");
    const whiskers = await page.locator(".side .whisker").count();
    await shots("sampled-sites");
    await show(page, "sites?cost=total&by=function");
    const functions = await grid(page, "Sites");
    await show(page, "tree?cost=total");
    const tree = await grid(page, "Call tree");
    await show(page, "flame?cost=total");
    await page.locator(".flame-scroll").focus();
    await page.keyboard.press("ArrowDown");
    await page.waitForTimeout(50);
    const flame = (await texts(page, ".flame-foot .numbers b"))[0];
    await page
      .locator(".flame-scroll canvas")
      .hover({ position: { x: 200, y: 8 } });
    await page.waitForSelector(".tip");
    const tip = (await texts(page, ".tip"))[0].text;
    await shots("sampled-flame");
    await show(page, "time");
    const reading = await texts(page, ".reading dd");
    const band = await bandAbove(page);
    await shots("sampled-time");
    await show(page, "sizes");
    const sizes = await grid(page, "Sizes");
    await shots("sampled-sizes");
    await show(page, "threads");
    const threads = await grid(page, "Threads");
    await show(page, "tags");
    const tags = await grid(page, "Tags");
    await shots("sampled-tags");
    return {
      start,
      sites,
      facts,
      whiskers,
      functions,
      tree,
      flame,
      tip,
      reading,
      band,
      sizes,
      threads,
      tags,
    };
  },
};

/** Of a program that has tags, labels and pools. */
export const TAG_VIEWS = {
  async tags(page, plan) {
    await show(page, "tags?cost=total");
    const rows = await grid(page, "Tags", 40);
    const levels = await page.evaluate(() =>
      [...document.querySelectorAll("[role=treegrid] .line")].map((line) => [
        line.ariaLevel,
        line.ariaExpanded,
      ]),
    );
    await page.locator("[role=treegrid] .line").first().click();
    await idle(page);
    const detail = await plain(page, ".side table");
    if (plan.shots) await page.screenshot({ path: `${plan.shots}/tags.png` });
    await page.keyboard.press("ArrowLeft");
    await page.waitForTimeout(100);
    const shut = await grid(page, "Tags", 40);
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Escape");
    await show(page, "tags?cost=total&sort=visits");
    const sorted = await grid(page, "Tags", 40);
    await show(page, "tags?cost=total");
    await page.locator("[role=treegrid] .line").first().dblclick();
    await idle(page);
    const filtered = {
      hash: await page.evaluate(() => location.hash),
      chips: await texts(page, ".chip"),
      sum: (await texts(page, ".question .answer strong"))[0],
    };
    const sums = {};
    for (const view of ["flame", "sites", "tree", "sizes", "time"]) {
      await page.locator(`nav a[href*="#/${view}"]`).click();
      await idle(page);
      sums[view] = (await texts(page, ".chip code")).map((one) => one.text);
    }
    await show(page, "tags?tab=labels&cost=total");
    const labels = await grid(page, "Labels");
    await page.locator("[role=grid] .line").first().dblclick();
    await idle(page);
    const labelled = (await texts(page, ".question .answer strong"))[0];
    await show(page, "tags?tab=pools");
    const pools = await grid(page, "Pools");
    await show(page, "sites?cost=total");
    await page.locator("[role=grid] .line").first().click();
    await idle(page);
    const named = await texts(page, ".side .facts button");
    return {
      rows,
      levels,
      detail,
      shut,
      sorted,
      filtered,
      sums,
      labels,
      labelled,
      pools,
      named,
    };
  },
};

/** How many pixels of the first chart have the tint of a band: paler than its line. */
function bandAbove(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector(".charts canvas");
    const { data, width, height } = canvas
      .getContext("2d")
      .getImageData(0, 0, canvas.width, canvas.height);
    let tinted = 0;
    for (let i = 0; i < width * height; i++)
      tinted += data[i * 4 + 3] > 60 && data[i * 4 + 3] < 100;
    return tinted;
  });
}

/** Opens Compare without a number, and waits for the one that it chooses. */
async function openCompare(page) {
  await page.evaluate(() => {
    location.hash = "#/compare";
  });
  await page.waitForFunction(() => location.hash.includes("cost="));
  await page.waitForSelector(".overlaid tbody");
  await page.waitForSelector(".icicle canvas");
  await idle(page);
}

/** Pixels inside the chart of both timelines in the colour of each line. */
function linePixels(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector(".overlaid-chart canvas");
    const style = getComputedStyle(document.documentElement);
    const over = document.querySelector(".overlaid-chart .u-over");
    const ratio = canvas.width / canvas.clientWidth;
    const box = [over.offsetLeft, over.offsetTop, over.offsetWidth, over.offsetHeight].map((side) => side * ratio);
    const { data } = canvas.getContext("2d").getImageData(...box);
    const count = (name) => {
      const colour = parseInt(style.getPropertyValue(`--${name}`).trim().slice(1), 16);
      const parts = [colour >> 16, (colour >> 8) & 255, colour & 255];
      let found = 0;
      for (let i = 0; i < data.length; i += 4)
        found += data[i + 3] > 127 && parts.every((part, at) => Math.abs(data[i + at] - part) < 48);
      return found;
    };
    return { before: count("soft"), after: count("series-live") };
  });
}

/** What the legend of both timelines shows at moments that keys lead to. */
async function overlaidAt(page) {
  const shown = [await plain(page, ".overlaid")];
  await page.locator(".overlaid-chart").focus();
  for (const key of ["End", "ArrowLeft", "ArrowLeft", "Home", "ArrowRight", "ArrowRight", "ArrowRight"]) {
    await page.keyboard.press(key);
    await page.waitForTimeout(30);
    shown.push(await plain(page, ".overlaid"));
  }
  return { shown, said: (await texts(page, ".overlaid-chart [role=status]"))[0].text };
}

/** Always the first child, from the root inwards, and the same node in the flame graph. */
async function changedTree(page) {
  const whole = await page.locator(".icicle .flame-scroll").getAttribute("data-whole");
  await page.locator(".icicle .flame-scroll").focus();
  const path = [];
  for (let i = 0; i < 3; i++) {
    await page.keyboard.press("ArrowDown");
    await page.waitForTimeout(30);
    path.push((await texts(page, ".icicle-foot"))[0]);
  }
  await page.keyboard.press("Enter");
  await page.waitForSelector(".flame:not(.icicle) canvas");
  await idle(page);
  return {
    whole: Number(whole),
    path,
    hash: await hashOf(page),
    flame: (await texts(page, ".flame-foot .numbers b"))[0],
    name: (await texts(page, ".flame-foot > .cut b"))[0].text,
  };
}

/** Of a server that compares. */
export const COMPARED_VIEWS = {
  async compare(page) {
    await show(page, "compare?compare=1&cost=peak");
    const changes = await plain(page, ".changes");
    const stacks = await grid(page, "Stacks that changed");
    await show(page, "sites?compare=1&by=function&cost=total");
    const functions = await grid(page, "Sites");
    await show(page, "flame?compare=1&cost=total");
    await page.locator(".flame-scroll").focus();
    await page.keyboard.press("ArrowDown");
    await page.waitForTimeout(30);
    return {
      changes,
      stacks,
      functions,
      flame: (await texts(page, ".flame-foot .numbers b"))[0].title,
    };
  },
  async compareStory(page) {
    await show(page, "start");
    await openCompare(page);
    const opened = await hashOf(page);
    const verdict = (await texts(page, ".verdict"))[0].text;
    const order = await texts(page, ".compare > .panel, .compare > .verdict");
    const pixels = await linePixels(page);
    const overlaid = await overlaidAt(page);
    const tree = await changedTree(page);
    await page.goBack();
    await idle(page);
    await page.selectOption("#question", "peak");
    await idle(page);
    return { opened, verdict, order, pixels, overlaid, tree, chosen: await hashOf(page) };
  },
};

/** Of a server with more than two recordings, and of one without an older recording. */
export const RUN_VIEWS = {
  async trend(page, plan, browser) {
    await show(page, "compare?compare=1&cost=peak");
    await page.waitForSelector(".trend tbody");
    const rows = await plain(page, ".trend");
    const dots = await page.evaluate(() =>
      [...document.querySelectorAll(".trend .dots")].map((one) => ({
        label: one.ariaLabel,
        heights: [...one.querySelectorAll("circle")].map((dot) => Number(dot.getAttribute("cy"))),
        titles: [...one.querySelectorAll("title")].map((title) => ({ title: title.textContent.split(" ").slice(1).join(" ") })),
      })),
    );
    await page.selectOption("[aria-label=Recording]", "1");
    await idle(page);
    const wrong = [];
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await idle(page);
      wrong.push(...(await wrongs(page)));
      /* Of the page, of the view, and of each part but the table that scrolls sideways. */
      wrong.push(
        await page.evaluate(() =>
          Math.max(
            document.documentElement.scrollWidth - innerWidth,
            ...[...document.querySelectorAll(".compare, .compare > .panel:not(.changes-pane)")].map((part) => part.scrollWidth - part.clientWidth),
          ),
        ),
      );
    }
    return { rows, dots, second: await plain(page, ".changes"), wrong };
  },
};
