// SPDX-License-Identifier: Apache-2.0
// node imported.mjs PLAN.json: what the page shows of heap profiles of other tools. The plan has `pages`, each with its `url` and the
// `addresses` to look at, and `shots`, a folder for pictures or "". Prints for each page:
//   seen     by address: its words, the sum above the view, and the rows of Sites
//   facts    of the first site: the terms of its details
//   choices  of the question, and of the axes of Sites
//   refused  queries that the server did not answer
//   errors   of the page
import { readFileSync } from "node:fs";
import { grid, launch, open, show, texts } from "./page/browser.mjs";

const { pages: plan, shots } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await launch();

async function optionsOf(page, selector) {
  return (await texts(page, `${selector} option`)).map((option) => option.text);
}

const pages = [];
for (const [name, { url, addresses }] of Object.entries(plan)) {
  const refused = [];
  const page = await open(browser, url, "light", { viewport: { width: 1280, height: 900 } });
  page.on("response", (response) => response.status() >= 400 && refused.push(response.url()));
  await page.reload();
  const seen = {};
  for (const address of addresses) {
    await show(page, address);
    seen[address] = {
      words: await page.locator(".app").innerText(),
      sum: (await texts(page, ".answer strong"))[0] ?? null,
      rows: await grid(page, "Sites"),
    };
    if (shots) await page.screenshot({ path: `${shots}/${name}-${address.replace(/\W+/g, "-")}.png` });
  }
  await show(page, "sites");
  const choices = { question: await optionsOf(page, "#question"), axis: await optionsOf(page, ".toolbar select") };
  await page.locator('[role=grid][aria-label="Sites"] .line').first().click();
  await page.waitForSelector(".side .facts");
  const facts = (await texts(page, ".side .facts dt")).map((term) => term.text);
  if (shots) await page.screenshot({ path: `${shots}/${name}-site.png` });
  pages.push([name, { seen, facts, choices, refused, errors: page.seen.errors }]);
  await page.context().close();
}
await browser.close();
console.log(JSON.stringify(Object.fromEntries(pages)));
