// SPDX-License-Identifier: Apache-2.0
// node tasks.mjs URL PID COMPARED: what the page of a large recording costs, in units that other load on the machine does not change;
// COMPARED is the URL of a server that compares two. Prints one JSON object:
//   verdict_cpu_s  processor time of the server (PID) from its start until the verdict is on screen
//   page_bytes     transferred for the page itself, which has the data of its first view inside
//   start_bytes    transferred for everything else that Start asks for; `requests` has each
//   compare_bytes  the same of Compare; `compare_requests` has each
//   tasks          by what a person does: the longest task of the page's main thread, in milliseconds of its processor time
//   elements       by view: elements in the document
//   visited        by flame graph: nodes that a picture of it visited, at most
import { readFileSync } from "node:fs";
import { idle, launch, open, show } from "./page/browser.mjs";

const [url, pid, compared] = process.argv.slice(2);
const TICKS = 100; // of a second, in /proc/PID/stat

/** Seconds of processor time of all threads of the server. */
function serverCpu() {
  if (!pid) return null;
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Opens a page at an address, and counts what it transfers; `arrived` is told when the selector is there. */
async function transferred(browser, address, selector, arrived = () => undefined) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  page.setDefaultTimeout(300000);
  const session = await context.newCDPSession(page);
  const urls = new Map();
  const sizes = [];
  await session.send("Network.enable");
  session.on("Network.requestWillBeSent", (e) => urls.set(e.requestId, e.request.url));
  session.on("Network.loadingFinished", (e) => sizes.push([urls.get(e.requestId), e.encodedDataLength]));
  await page.goto(address, { waitUntil: "commit" });
  await page.waitForSelector(selector);
  arrived();
  await idle(page);
  await page.waitForTimeout(500);
  await idle(page);
  await context.close();
  const isPage = ([url]) => !new URL(url).pathname.startsWith("/api/");
  const sum = (list) => list.reduce((all, [, size]) => all + size, 0);
  const data = sizes.filter((one) => !isPage(one) && !one[0].startsWith("data:"));
  return {
    page: sum(sizes.filter((one) => isPage(one) && !one[0].startsWith("data:"))),
    bytes: sum(data),
    requests: data.map(([url, size]) => [new URL(url).search.slice(1) || new URL(url).pathname, size]),
  };
}

async function start(browser) {
  let verdict_cpu_s = null;
  const seen = await transferred(browser, url, ".verdict", () => {
    verdict_cpu_s = serverCpu();
  });
  return { verdict_cpu_s, whole_cpu_s: serverCpu(), page_bytes: seen.page, start_bytes: seen.bytes, requests: seen.requests };
}

async function compare(browser) {
  const seen = await transferred(browser, `${compared}#/compare`, ".changed-stacks .line");
  return { compare_bytes: seen.bytes, compare_requests: seen.requests };
}

/** The longest task of the main thread of `page` while `act` runs, by its processor time. */
async function longest(browser, page, act) {
  await browser.startTracing(page, { categories: ["toplevel", "__metadata"] });
  await act();
  await idle(page);
  const trace = JSON.parse((await browser.stopTracing()).toString());
  const mains = new Set(
    trace.traceEvents
      .filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain")
      .map((e) => `${e.pid} ${e.tid}`),
  );
  const tasks = trace.traceEvents
    .filter((e) => e.ph === "X" && e.tdur !== undefined && mains.has(`${e.pid} ${e.tid}`))
    .map((e) => e.tdur / 1000)
    .sort((a, b) => b - a);
  if (tasks.length === 0) throw new Error("the trace has no tasks of the main thread");
  return Math.round(tasks[0]);
}

async function hover(page, selector) {
  const box = await page.locator(selector).first().boundingBox();
  for (let i = 0; i < 24; i++) {
    await page.mouse.move(box.x + box.width * ((i * 7) % 24) / 24 + 5, box.y + 10 + Math.min(box.height - 20, (i % 8) * 40));
    await page.waitForTimeout(20);
  }
}

async function wheel(page, selector, ctrl) {
  const box = await page.locator(selector).first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + Math.min(120, box.height / 2));
  if (ctrl) await page.keyboard.down("Control");
  for (const delta of [...Array(12).fill(-120), ...Array(12).fill(120), ...Array(12).fill(-120)]) {
    await page.mouse.wheel(0, ctrl ? delta : -delta * 4);
    await page.waitForTimeout(20);
  }
  if (ctrl) await page.keyboard.up("Control");
}

async function press(page, selector, keys) {
  await page.locator(selector).first().focus();
  for (const key of keys) {
    await page.keyboard.press(key);
    await page.waitForTimeout(200);
  }
}

async function type(page, selector, text) {
  await page.locator(selector).first().focus();
  await page.keyboard.type(text, { delay: 60 });
  await page.waitForTimeout(400);
}

const FLAME_KEYS = "ArrowDown ArrowDown Enter ArrowDown ArrowRight Enter Backspace Escape".split(" ");
const TREE_KEYS = "ArrowDown ArrowDown ArrowRight ArrowDown ArrowRight ArrowLeft PageDown End Home".split(" ");
const TABLE_KEYS = "ArrowDown ArrowDown PageDown End End End Home".split(" ");

const FLAME = {
  hover: (page) => hover(page, ".flame-scroll"),
  zoom: (page) => wheel(page, ".flame-scroll", true),
  keys: (page) => press(page, ".flame-scroll", FLAME_KEYS),
  search: (page) => type(page, "#search", "read"),
};
const TREE = {
  hover: (page) => hover(page, "[role=treegrid]"),
  keys: (page) => press(page, "[role=treegrid]", TREE_KEYS),
  scroll: (page) => wheel(page, "[role=treegrid]"),
};
const TABLE = {
  hover: (page) => hover(page, "[role=grid]"),
  keys: (page) => press(page, "[role=grid]", TABLE_KEYS),
  scroll: (page) => wheel(page, "[role=grid]"),
  filter: async (page) => {
    await type(page, "#filter", "read");
    await page.keyboard.press("Enter");
  },
};
const PLAIN = {
  hover: (page) => hover(page, "main"),
  scroll: (page) => wheel(page, "main"),
};

/** By view: its address, and what a person does there. */
const VIEWS = {
  start: ["start", PLAIN],
  flame: ["flame?cost=total", FLAME],
  "flame from allocations": ["flame?cost=total&dir=callees", FLAME],
  tree: ["tree?cost=total", TREE],
  "tree from allocations": ["tree?cost=total&dir=callees", TREE],
  sites: ["sites?cost=total", TABLE],
  functions: ["sites?cost=total&by=function", TABLE],
  types: ["sites?cost=total&by=type", TABLE],
  source: ["source", PLAIN],
  time: ["time", PLAIN],
  sizes: ["sizes", PLAIN],
  "sizes and lifetimes": ["sizes?tab=both", PLAIN],
  threads: ["threads", PLAIN],
  run: ["run", PLAIN],
};

/** Nodes of the tree that the last picture of a flame graph visited; null: there is none. */
function visited(page) {
  return page.evaluate(() => document.querySelector(".flame-scroll canvas")?.painting.visited ?? null);
}

const browser = await launch();
const first = { ...(await start(browser)), ...(await compare(browser)) };
const page = await open(browser, url);
const tasks = {};
const elements = {};
const visits = {};
for (const [name, [address, acts]] of Object.entries(VIEWS)) {
  tasks[`${name}: open`] = await longest(browser, page, () => show(page, address));
  for (const [act, run] of Object.entries(acts)) {
    tasks[`${name}: ${act}`] = await longest(browser, page, () => run(page));
    elements[name] = Math.max(elements[name] ?? 0, await page.locator("*").count());
    const nodes = await visited(page);
    if (nodes !== null) visits[name] = Math.max(visits[name] ?? 0, nodes);
  }
}
await browser.close();
console.log(JSON.stringify({ ...first, elements, visited: visits, tasks, errors: page.seen.errors }, null, 1));
