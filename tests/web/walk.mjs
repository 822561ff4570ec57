// SPDX-License-Identifier: Apache-2.0
// node walk.mjs PLAN.json: a person who clicks at random. PLAN: { url, seed, steps, filters: what to type into the filter box }.
// Prints for every step what was done and what the page shows then, as one JSON list. The same seed makes the
// same choices.
import { readFileSync } from "node:fs";
import { idle, launch, open } from "./page/browser.mjs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const CLICK_MS = 2000;
const SETTLE_MS = 120000;

/** mulberry32: small, and the same everywhere. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = generator(plan.seed);
const below = (count) => Math.floor(random() * count);
const oneOf = (list) => list[below(list.length)];

/** One of those that are in sight; false: there is none. */
async function click(page, selector) {
  const found = page.locator(selector);
  const count = await found.count();
  if (!count) return false;
  const one = found.nth(below(count));
  /* It may be gone by now: an answer came. */
  const name = await one.textContent({ timeout: CLICK_MS }).catch(() => "");
  await one.click({ timeout: CLICK_MS, force: true }).catch(() => undefined);
  return `${selector} ${name.trim().slice(0, 40)}`;
}

async function choose(page, selector) {
  const found = page.locator(selector);
  const count = await found.count();
  if (!count) return false;
  const select = found.nth(below(count));
  const options = await select.locator("option").count();
  if (!options) return false;
  const index = below(options);
  await select
    .selectOption({ index }, { timeout: CLICK_MS })
    .catch(() => undefined);
  return `${selector} option ${index}`;
}

async function brush(page) {
  const over = page.locator(".strip .u-over");
  if (!(await over.count())) return false;
  const box = await over.first().boundingBox();
  if (!box) return false;
  const [from, to] = [random(), random()].map(
    (part) => box.x + box.width * part,
  );
  const y = box.y + box.height / 2;
  await page.mouse.move(from, y);
  await page.mouse.down();
  if (random() < 0.5) await page.mouse.move(to, y, { steps: 3 });
  await page.mouse.up();
  return "brush";
}

const KEYS = [
  ..."1234567890gqQjk+-ps",
  "ArrowDown",
  "ArrowUp",
  "ArrowRight",
  "ArrowLeft",
  "Enter",
  "Backspace",
  "Escape",
];

/** Name, how often, and what is done. False: it was not possible here. */
const ACTIONS = [
  ["tab", 6, (page) => click(page, ".tabs a")],
  ["question", 3, (page) => choose(page, "#question")],
  [
    "unit or moment",
    2,
    (page) => choose(page, ".question .pick select:not(#question)"),
  ],
  [
    "filter",
    2,
    async (page) => {
      const text = oneOf(plan.filters);
      await page.fill("#filter", text);
      await page.press("#filter", "Enter");
      return `filter ${text}`;
    },
  ],
  ["no filter", 3, (page) => click(page, ".chip button")],
  ["compare", 2, (page) => click(page, ".filters label.check input")],
  ["sort", 3, (page) => click(page, "main [role=columnheader] button")],
  ["row", 2, (page) => click(page, "main .line")],
  ["part", 3, (page) => click(page, "main .segments button")],
  ["group", 2, (page) => choose(page, "main select")],
  ["switch", 1, (page) => click(page, "main .toolbar input[type=checkbox]")],
  ["link", 3, (page) => click(page, "main button.link")],
  ["button", 1, (page) => click(page, "main .side button")],
  ["brush", 1, brush],
  [
    "back",
    3,
    async (page) => {
      await page.goBack();
      /* Before the first step there is an empty page. */
      if (page.url() === "about:blank") await page.goForward();
      return "back";
    },
  ],
  ["forward", 1, (page) => page.goForward().then(() => "forward")],
  ["reload", 0.2, (page) => page.reload().then(() => "reload")],
  [
    "key",
    2,
    async (page) => {
      const key = oneOf(KEYS);
      await page.keyboard.press(key);
      return `key ${key}`;
    },
  ],
];
const WEIGHT = ACTIONS.reduce((sum, [, weight]) => sum + weight, 0);

async function act(page) {
  for (;;) {
    let at = random() * WEIGHT;
    const [, , action] = ACTIONS.find(([, weight]) => (at -= weight) < 0);
    const done = await action(page);
    if (done) return done;
  }
}

/** An answer may lead to the next question a moment later. What still waits then waits for ever, and is seen. */
async function settle(page) {
  await idle(page);
  await page
    .waitForFunction(
      () =>
        !document.querySelector("main .state[role=status], .progress") &&
        document.querySelector(".question .answer")?.textContent !== "…",
      null,
      { timeout: SETTLE_MS },
    )
    .catch(() => undefined);
  await idle(page);
}

/** Everything that the test compares. */
function look(page) {
  return page.evaluate(() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const cells = (list) =>
      list.map((cell) => ({
        text: cell.textContent.trim(),
        title: cell.title,
      }));
    const grids = all("main [role=grid], main [role=treegrid]").map((grid) => ({
      label: grid.ariaLabel,
      heads: [...grid.querySelectorAll("[role=columnheader]")].map((cell) =>
        cell.textContent.replace(/ [↓↑]$/, ""),
      ),
      rows: [...grid.querySelectorAll(".line")].map((line) =>
        cells([...line.querySelectorAll("[role=gridcell]")]),
      ),
    }));
    /* What changed may be more than there was before. Each number is a text of its own. */
    const words = [];
    const walker = document.createTreeWalker(
      document.body,
      NodeFilter.SHOW_TEXT,
    );
    for (let node; (node = walker.nextNode());)
      if (!node.parentElement.closest(".changes, script, style"))
        words.push(node.data);
    words.push(...all("[title]").map((element) => element.title));
    return {
      hash: location.hash,
      heading: document.querySelector("main h1")?.textContent,
      current: all(".tabs a[aria-current]").map((tab) => tab.textContent),
      command: document.querySelector("#copy")?.title.split("\n")[0],
      note: all(".filters .right > .soft")
        .map((one) => one.textContent)
        .join(),
      sum: cells(all(".question .answer strong"))[0] ?? null,
      words: cells(all(".question .answer .soft"))[0] ?? null,
      broken: all(".broken").map((one) => one.textContent),
      states: cells(all("main .state")).map((one) => one.text),
      loading: all("main .state[role=status]").map((one) => one.textContent),
      percents: words.flatMap(
        (text) => text.match(/[−±-]?[\d,]+\.?\d* %/g) ?? [],
      ),
      grids,
      flame: document.querySelector(".flame:not(.icicle) [data-whole]")?.dataset.whole ?? null,
      reading: cells(all("main .reading dd")),
      changes: all("main .changes tbody tr").map((row) =>
        cells([...row.children]),
      ),
      figures: Object.fromEntries(
        all(".card").map((card) => [
          card.ariaLabel,
          cells([card.querySelector(".figure")])[0],
        ]),
      ),
      tops: Object.fromEntries(
        all(".panel.top").map((list) => [
          list.ariaLabel,
          [...list.querySelectorAll("tr")].map(
            (row) => cells([row.children[0]])[0],
          ),
        ]),
      ),
    };
  });
}

const browser = await launch();
const page = await open(browser, plan.url);
const walked = [];
for (let step = 0; step < plan.steps; step++) {
  const done = [await act(page)];
  /* Not everybody waits for an answer before the next question. */
  while (random() < 0.25) done.push(await act(page));
  await settle(page);
  const errors = page.seen.errors.splice(0);
  walked.push({
    step,
    done,
    /* Refused questions and sources that are not here are no errors. */
    errors: errors.filter((text) => !/status of 40[04]/.test(text)),
    ...(await look(page)),
  });
}
await browser.close();
console.log(JSON.stringify(walked));
