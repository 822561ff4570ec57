// SPDX-License-Identifier: Apache-2.0
// node parts.mjs PLAN.json: what the page shows of recordings that have more than others, or not. The plan has `pages`, each with its
// `url`, the `addresses` to look at and the `label` of its table, and `shots`, a folder for pictures or "". Prints for each page:
//   seen     by address: the parts of the view, the sum above it, its rows, its balance, and what axe finds wrong
//   walked   of a map: what keys and the pointer do
//   picked   of the first row: the title of its details
//   choices  of the question
//   refused  queries that the server did not answer
//   errors   of the page
import { readFileSync } from "node:fs";
import { grid, idle, launch, open, overflowOf, plain, show, texts, wrongs } from "./page/browser.mjs";

const { pages: plan, shots } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await launch();

async function look(page, label) {
  return {
    parts: (await texts(page, "main .segments button")).map((part) => part.text),
    sum: (await texts(page, ".answer strong"))[0] ?? null,
    rows: await grid(page, label, 40),
    regions: await grid(page, "Regions", 40),
    map: await page.evaluate(() => ({ ...document.querySelector(".map-squares")?.dataset })),
    balance: await plain(page, ".side .balance"),
    words: await page.locator("main").innerText(),
    wrong: await wrongs(page),
    wider: await overflowOf(page),
  };
}

async function pick(page, label) {
  const row = page.locator(`[role=grid][aria-label="${label}"] .line`).first();
  if (!(await row.count())) return null;
  await row.click();
  await idle(page);
  return (await texts(page, ".side header h2"))[0]?.text ?? null;
}

/** Moves on the map, zooms in and out by keys, and to a region by the table: what is said, and the square of each step. */
async function walk(page) {
  const map = page.locator(".map-squares");
  const said = [];
  const step = async (key) => {
    await map.press(key);
    await idle(page);
    said.push({ key, words: await page.locator(".map-squares [role=status]").innerText(), unit: Number(await map.getAttribute("data-unit")), hash: await page.evaluate(() => location.hash) });
  };
  await map.focus();
  for (const key of ["ArrowRight", "ArrowDown", "Enter", "Enter", "Enter", "Enter", "Enter", "Enter", "Backspace", "Escape"]) await step(key);
  await page.locator('[role=grid][aria-label="Regions"] .line').first().dblclick();
  await idle(page);
  said.push({ key: "region", unit: Number(await map.getAttribute("data-unit")), hash: await page.evaluate(() => location.hash) });
  const box = await map.boundingBox();
  await page.mouse.move(box.x + 30, box.y + 20);
  await idle(page);
  const colours = await page.evaluate(() => {
    const canvas = document.querySelector(".map-squares canvas");
    const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(data).size;
  });
  return { said, colours, tip: (await texts(page, ".tip"))[0]?.text ?? null };
}

const pages = [];
for (const [name, { url, addresses, label }] of Object.entries(plan)) {
  const refused = [];
  const page = await open(browser, url, "light", { viewport: { width: 1280, height: 800 } });
  page.on("response", (response) => response.status() >= 400 && refused.push(response.url()));
  await page.reload();
  const seen = {};
  for (const address of addresses)
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await show(page, address);
      const found = await look(page, label);
      if (width === 1280) seen[address] = found;
      else seen[address].wrong.push(...found.wrong, ...(found.wider > 0 ? [`${found.wider} pixels wider than the screen`] : []));
      if (shots) await page.screenshot({ path: `${shots}/${name}-${address.replace(/\W+/g, "-")}-${width}.png` });
    }
  await page.setViewportSize({ width: 1280, height: 800 });
  await show(page, addresses[0]);
  const picked = await pick(page, label);
  if (shots) await page.screenshot({ path: `${shots}/${name}-picked.png` });
  const choices = (await texts(page, "#question option")).map((option) => option.text);
  let walked = null;
  if (addresses.some((address) => address.includes("tab=map"))) {
    await show(page, addresses.find((address) => address.includes("tab=map")));
    walked = await walk(page);
    if (shots) await page.screenshot({ path: `${shots}/${name}-walked.png` });
  }
  pages.push([name, { seen, picked, walked, choices, refused, errors: page.seen.errors }]);
  await page.context().close();
}
await browser.close();
console.log(JSON.stringify(Object.fromEntries(pages)));
