// SPDX-License-Identifier: Apache-2.0
// node questions.mjs PLAN.json: whether the page shows answers to its questions and no others. PLAN: { url, pids, worker, sorts, saved, replaced }: a server
// of two recordings of several processes, of whom it is, and the newer one as a page on disk. Prints what was seen, by scene, as one JSON object.
import { readFileSync } from "node:fs";
import {
  grid,
  hashOf,
  idle,
  launch,
  open,
  plain,
  show,
  texts,
  wrongs,
} from "./page/browser.mjs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const LATE_MS = 1500;
const browser = await launch();

async function headline(page) {
  return {
    sum: (await texts(page, ".question .answer strong"))[0],
    words: (await texts(page, ".question .answer .soft"))[0].title,
  };
}

async function start(page, address) {
  await show(page, address);
  /* Which processes there are is the first answer, and what is asked of them the second. */
  await page.waitForFunction(
    () =>
      document.querySelectorAll(".panel.top").length >= 4 &&
      !document.querySelector("main .state[role=status]"),
  );
  return {
    ...(await headline(page)),
    strip: (await texts(page, ".strip .words"))[0].text,
    headline: (await texts(page, ".headline"))[0].text,
    verdict: (await texts(page, ".verdict"))[0]?.text,
    edge: await page.locator(".verdict").getAttribute("class"),
    figures: await texts(page, ".card .figure"),
    cards: await texts(page, ".card"),
    tops: await page.evaluate(() =>
      Object.fromEntries(
        [...document.querySelectorAll(".panel.top")].map((list) => [
          list.ariaLabel,
          [...list.querySelectorAll("tr")].map((row) => [
            row.children[0].title,
            row.children[1].textContent,
          ]),
        ]),
      ),
    ),
    balance: {
      caption: (await texts(page, ".balance caption"))[0]?.text,
      rows: await plain(page, ".balance"),
    },
    processes: await plain(page, ".together tbody"),
  };
}

const SCENES = {
  /** Each column of Sites, heaviest first. */
  async sorted(page) {
    const seen = {};
    for (const key of plan.sorts) {
      await show(page, `sites?sort=-${key}`);
      seen[key] = await grid(page, "Sites", 20);
    }
    return seen;
  },
  async signs(page) {
    await show(page, "sites?by=thread&cost=leaked");
    const threads = await grid(page, "Sites");
    await show(page, `sites?thread=${plan.worker}&cost=leaked`);
    const worker = await headline(page);
    await show(page, "sites?cost=grown&at=end&minus=peak");
    const grown = await grid(page, "Sites");
    await show(page, "tree?cost=grown&at=end&minus=peak");
    const tree = await grid(page, "Call tree");
    return { threads, worker, grown, tree };
  },
  /** The switch on Sites, then every tab. */
  async compared(page) {
    await show(page, "sites");
    await page.locator(".filters label.check input").check();
    await idle(page);
    const stacks = await grid(page, "Sites");
    const tabs = [];
    for (const tab of await page.locator(".tabs a").all()) {
      await tab.click();
      await idle(page);
      tabs.push([
        await tab.textContent(),
        await page.locator("main h1").textContent(),
        await page.locator("main [aria-label=Sites]").count(),
      ]);
    }
    const maps = {};
    for (const tab of ["both", "course"]) {
      await show(page, `sizes?compare=1&tab=${tab}`);
      maps[tab] = {
        cells: await page.locator("main .both table td").count(),
        note: (await texts(page, ".filters .right > .soft"))[0]?.text,
      };
    }
    return { stacks, tabs, maps };
  },
  /** The answer to the first question comes after that to the second. */
  async late(page) {
    let arrived;
    const late = new Promise((done) => (arrived = done));
    await page.route(/view=sites&cost=calls/, async (route) => {
      const response = await route.fetch();
      await new Promise((done) => setTimeout(done, LATE_MS));
      await route.fulfill({ response });
      arrived();
    });
    await show(page, "run");
    await page.evaluate(() => {
      location.hash = "#/sites?cost=calls";
    });
    await page.waitForFunction(() => document.querySelector("main .state"));
    const waiting = {
      rows: await page.locator("main .line").count(),
      sum: await page.locator(".question .answer strong").count(),
    };
    await page.evaluate(() => {
      location.hash = "#/sites?cost=total";
    });
    await page.waitForSelector("main .line");
    const before = await grid(page, "Sites");
    await late;
    await idle(page);
    const after = await grid(page, "Sites");
    const { sum } = await headline(page);
    await page.unroute(/view=sites&cost=calls/);
    return { waiting, before, after, sum };
  },
  /** An answer that no view can draw. */
  async broken(page) {
    await page.route(/view=threads/, (route) => route.fulfill({ json: {} }));
    await show(page, "threads");
    const said = (await texts(page, "main .broken"))[0]?.text;
    const wrong = await wrongs(page);
    await page.locator("main .broken button").first().click();
    await page.waitForFunction(() =>
      document
        .querySelector("main .broken button")
        .textContent.startsWith("Copied"),
    );
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    await page.locator(".tabs a", { hasText: "Sites" }).click();
    await idle(page);
    const next = await grid(page, "Sites");
    await page.unroute(/view=threads/);
    await page.locator(".tabs a", { hasText: "Threads" }).click();
    await idle(page);
    const again = await grid(page, "Threads");
    await page.evaluate(() => setTimeout(() => null.nobody));
    await page.waitForSelector(".unexpected");
    const unexpected = (await texts(page, ".unexpected"))[0].text;
    await page.locator(".unexpected button", { hasText: "Close" }).click();
    const errors = page.seen.errors.splice(0);
    const left = await page.locator(".unexpected").count();
    return { said, wrong, copied, next, again, unexpected, errors, left };
  },
  /** What has a name, in the list of moments and in the view over time. */
  async names(page) {
    await show(page, "time?cost=live&at=end");
    const named = await plain(page, ".named");
    await page.locator(".named button").first().click();
    await idle(page);
    return {
      named,
      hash: await hashOf(page),
      ...(await headline(page)),
      moments: (await texts(page, "select[aria-label=at] option")).map(
        (option) => option.text,
      ),
    };
  },
  async processes(page) {
    const seen = { started: await start(page, "start") };
    seen.wrongs = await wrongs(page);
    for (const pid of plan.pids)
      seen[pid] = await start(page, `start?process=${pid}`);
    seen.all = await start(page, "start?process=.");
    await show(page, "start");
    await page.locator("[aria-label='Most at the peak'] h2 button").click();
    await idle(page);
    seen.opened = { hash: await hashOf(page), ...(await headline(page)) };
    return seen;
  },
};

/** A page on disk has the answers of Start inside. */
SCENES.saved = async (_, browser) => {
  const page = await open(browser, plan.saved, "light", { offline: true });
  const seen = await start(page, "start");
  seen.states = (await texts(page, ".state")).map((state) => state.text);
  await page.context().close();
  return seen;
};

/** One process that was two programs. */
SCENES.replaced = async (_, browser) => {
  const page = await open(browser, plan.replaced, "light", { offline: true });
  const verdict = (await texts(page, ".verdict"))[0].text;
  const layers = await texts(page, ".layers td.number");
  await page.context().close();
  return { verdict, layers };
};

const seen = { errors: {} };
for (const [name, scene] of Object.entries(SCENES)) {
  /* Each has a page of its own, which has asked nothing yet. */
  const page = await open(browser, plan.url, "light", {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  try {
    seen[name] = await scene(page, browser);
  } catch (error) {
    seen[name] = { failed: `${name}: ${error.message}` };
  }
  seen.errors[name] = page.seen.errors;
  if (plan.shots) await page.screenshot({ path: `${plan.shots}/${name}.png` });
  await page.context().close();
}
await browser.close();
console.log(JSON.stringify(seen));
