// SPDX-License-Identifier: Apache-2.0
// node page.mjs PLAN.json: looks at the page as PLAN says and prints what was seen, by scene, as one JSON object.
// PLAN: { url, threads, crowd, sampled, tagged, compared, runs: servers of six recordings, source: a file of the second, saved: a page on disk }
import { readFileSync } from "node:fs";
import { hashOf, idle, launch, open, overflowOf, show, texts, wrongs } from "./page/browser.mjs";
import { DOINGS } from "./page/doings.mjs";
import {
  COMPARED_VIEWS,
  CROWD_VIEWS,
  RUN_VIEWS,
  SAMPLED_VIEWS,
  TAG_VIEWS,
  THREAD_VIEWS,
  VIEWS,
} from "./page/views.mjs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await launch();
const seen = { scenes: {}, wrongs: {}, errors: {}, hosts: {}, overflows: {} };
const ADDRESSES = [
  "start",
  "flame",
  "flame?pivot=main",
  "sites",
  "tree",
  "source",
  "time",
  "sizes",
  "sizes?tab=lifetimes",
  "sizes?tab=both",
  "sizes?tab=course",
  "sizes?tab=reallocs",
  "threads",
  "threads?tab=handover",
  "threads?tab=processes",
  "tags",
  "tags?tab=labels",
  "tags?tab=pools",
  "compare?compare=1&cost=peak",
  "flame?compare=1",
  "run",
];

/** Each scene has its own chance: one that breaks says so and does not stop the others. */
async function play(name, scene, page) {
  const began = Date.now();
  try {
    seen.scenes[name] = await scene(page, plan, browser);
  } catch (error) {
    seen.scenes[name] = { failed: `${name}: ${error.message}` };
  }
  if (process.env.TIMES) console.error(`${name}: ${Date.now() - began} ms`);
}

function keep(name, page) {
  seen.errors[name] = page.seen.errors;
  seen.hosts[name] = [...page.seen.hosts];
}

async function playAll(name, url, scenes) {
  const page = await open(browser, url, "light", {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  for (const [scene, look] of Object.entries(scenes))
    await play(scene, look, page);
  keep(name, page);
  await page.context().close();
}

/** Names of states that a person brings a view into, and how. */
const STATES = {
  async detail(page) {
    await show(page, "sites");
    await page.locator("[role=grid] .line").first().click();
  },
  async keys(page) {
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
  },
  async columns(page) {
    await page.keyboard.press("Escape");
    await show(page, "sites?cost=total");
    await page.getByRole("button", { name: "Columns" }).click();
    await page.waitForSelector(".pop .card");
  },
  async filtered(page) {
    await page.keyboard.press("Escape");
    await show(page, "sites?focus=sqlite3&ignore=nobody");
    await page.waitForSelector(".chip");
  },
  async zoomed(page) {
    await show(page, "flame");
    await page.locator(".flame-scroll").focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"])
      await page.keyboard.press(key);
    await page.waitForFunction(() => location.hash.includes("zoom="));
  },
  async pointed(page) {
    await page.locator(".flame-scroll canvas").hover({ position: { x: 60, y: 8 } });
    await page.waitForSelector(".tip");
  },
  async moment(page) {
    await page.mouse.move(0, 0);
    await show(page, "time?cost=grown&at=end&minus=peak");
  },
  async pivot(page) {
    await show(page, "flame?pivot=sqlite3VdbeExec");
  },
};

/** Everything in a theme and a width: what axe says, and that nothing is wider than the screen. */
async function check(url, theme, viewport) {
  const kind = `${theme} ${viewport.width}`;
  const page = await open(browser, url, theme, { viewport });
  const look = async (name) => {
    await idle(page);
    seen.wrongs[`${kind} ${name}`] = await wrongs(page);
    seen.overflows[`${kind} ${name}`] = await overflowOf(page);
  };
  for (const address of ADDRESSES) {
    await show(page, address);
    await look(address);
  }
  for (const [name, reach] of Object.entries(STATES)) {
    await reach(page);
    await look(name);
  }
  keep(kind, page);
  await page.context().close();
}

async function lookAtSaved() {
  const page = await open(browser, plan.saved, "light", { offline: true });
  const figures = await texts(page, ".card .figure");
  await show(page, "flame");
  const flame = await page.locator(".flame-scroll canvas").count();
  await show(page, "sites?cost=leaked");
  const rows = await page.locator("[role=grid] .line").count();
  await show(page, "sites?cost=leaked&by=size");
  const absent = (await texts(page, "main .state"))[0]?.text;
  await page.evaluate(() => {
    location.hash = "#/time";
  });
  keep("saved", page);
  await page.context().close();
  return { figures, flame, rows, absent };
}

/** A question that makes no sense, and a server that has gone. */
async function lookAtTroubles() {
  const page = await open(browser, plan.url);
  await show(page, "sites?focus=a(");
  const broken = (await texts(page, "main .state"))[0]?.text;
  await page.route("**/api/**", (route) => route.abort());
  await show(page, "sites?cost=waste&focus=abc");
  const gone = (await texts(page, "main .state"))[0]?.text;
  const hash = await hashOf(page);
  await page.context().close();
  return { broken, gone, hash };
}

await playAll("main", plan.url, { ...VIEWS, ...DOINGS });
await playAll("threads", plan.threads, THREAD_VIEWS);
await playAll("crowd", plan.crowd, CROWD_VIEWS);
await playAll("sampled", plan.sampled, SAMPLED_VIEWS);
await playAll("tagged", plan.tagged, TAG_VIEWS);
await playAll("compared", plan.compared, COMPARED_VIEWS);
await playAll("runs", plan.runs, RUN_VIEWS);
for (const theme of ["light", "dark"])
  for (const viewport of [
    { width: 1280, height: 720 },
    { width: 390, height: 844 },
  ])
    await check(plan.compared, theme, viewport);
await play("saved", lookAtSaved);
await play("troubles", lookAtTroubles);
await browser.close();
console.log(JSON.stringify(seen));
