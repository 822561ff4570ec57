// SPDX-License-Identifier: Apache-2.0
// node saved.mjs PLAN.json: what saved pages show. The plan has a list of pages, each with its `url` and the `addresses` to look at. Prints for
// each page:
//   cpu_s    processor time of the renderer from its start until the verdict is on screen
//   filter   the filter box: whether it is disabled, its title, and the description that a screen reader reads
//   options  the disabled choices of the question, and of the axes while a filter is active: text and title of each
//   seen     by address: the sum above the view, the rows of its table, its tree with the names of each path, and its words
//   errors   of the page; `hosts` that it asked anything
import { readFileSync } from "node:fs";
import { grid, launch, open, show, texts } from "./page/browser.mjs";

const ROWS = 60;
const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await launch();

/** Opens the page in a renderer of its own, and measures that. */
async function openingCpu(url) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForSelector(".verdict");
  const { metrics } = await session.send("Performance.getMetrics");
  await context.close();
  return metrics.find((one) => one.name === "ProcessTime").value;
}

/** [path, value, self] of each node; a path has function, file and module of each frame. */
function treeOf(page) {
  return page.evaluate(() => {
    const painting = document.querySelector(".flame-scroll canvas")?.painting;
    if (!painting) return null;
    const { tree, names } = painting.props;
    const paths = [""];
    const nodes = [];
    for (let node = 1; node < tree.count; node++) {
      const name = names[tree.name[node]];
      paths[node] = `${paths[tree.parent[node]]}\n${name.function}|${name.file ?? ""}|${name.module ?? ""}`;
      nodes.push([paths[node], tree.value[node], tree.self[node]]);
    }
    return nodes;
  });
}

function disabledOptions(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll("option:disabled")].map((option) => ({ text: option.textContent, title: option.title })),
  );
}

function filterBox(page) {
  return page.evaluate(() => {
    const box = document.querySelector("#filter");
    return {
      disabled: box.disabled,
      title: box.title,
      described: document.getElementById(box.getAttribute("aria-describedby"))?.textContent ?? "",
    };
  });
}

const pages = [];
for (const { url, addresses } of plan) {
  const cpu_s = await openingCpu(url);
  const page = await open(browser, url, "light", { viewport: { width: 1600, height: ROWS * 24 + 400 } });
  const filter = await filterBox(page);
  const seen = {};
  for (const address of addresses) {
    await show(page, address);
    seen[address] = {
      sum: (await texts(page, ".answer strong"))[0] ?? null,
      rows: await grid(page, "Sites", ROWS),
      tree: await treeOf(page),
      words: await page.locator("main").innerText(),
    };
  }
  await show(page, "sites?focus=a");
  const options = await disabledOptions(page);
  await page.locator("#filter").fill("thread:1").catch(() => undefined);
  await page.locator("#filter").press("Enter").catch(() => undefined);
  const refused = (await texts(page, ".filters [role=status]"))[0].text;
  pages.push({ cpu_s, filter, options, refused, seen, errors: page.seen.errors, hosts: [...page.seen.hosts] });
  await page.context().close();
}
await browser.close();
console.log(JSON.stringify(pages));
