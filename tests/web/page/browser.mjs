// SPDX-License-Identifier: Apache-2.0
// The page in headless Chromium, and what tests want to know of it. Numbers are read with all their digits, which stand
// in the tooltips.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const TIMEOUT_MS = 120000; // a machine may be busy
const AXE = readFileSync(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
}

/** A page whose errors and requests are written down. */
export async function open(browser, url, theme = "light", options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 720 },
    colorScheme: theme,
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.seen = { errors: [], hosts: new Set() };
  page.on("pageerror", (error) => page.seen.errors.push(error.message));
  page.on(
    "console",
    (message) =>
      message.type() === "error" && page.seen.errors.push(message.text()),
  );
  page.on("request", (request) =>
    page.seen.hosts.add(new URL(request.url()).origin),
  );
  await page.goto(url);
  await idle(page);
  return page;
}

/** Nothing is being asked any more, and what was answered is drawn. */
export async function idle(page) {
  await page.waitForSelector(".app");
  await page.waitForFunction(() => !document.querySelector(".progress"));
  await page.evaluate(
    () =>
      new Promise((done) =>
        requestAnimationFrame(() => requestAnimationFrame(done)),
      ),
  );
  await page.waitForFunction(() => !document.querySelector(".progress"));
}

export async function show(page, hash) {
  await page.evaluate((to) => {
    location.hash = to;
  }, `#/${hash}`);
  await page.waitForFunction((to) => location.hash === to, `#/${hash}`);
  await idle(page);
}

export function hashOf(page) {
  return page.evaluate(() => location.hash);
}

/** The rows in sight of a table that draws only those: by heading, text and tooltip of each cell. */
export function grid(page, label, rows = 12) {
  return page.evaluate(
    ({ label, rows }) => {
      const table = document.querySelector(
        `[role=grid][aria-label="${label}"], [role=treegrid][aria-label="${label}"]`,
      );
      if (!table) return null;
      const heads = [...table.querySelectorAll("[role=columnheader]")].map(
        (cell) => cell.textContent.replace(/ [↓↑]$/, ""),
      );
      const lines = [...table.querySelectorAll(".line")].sort(
        (a, b) => Number(a.ariaRowIndex) - Number(b.ariaRowIndex),
      );
      return lines
        .slice(0, rows)
        .map((line) =>
          Object.fromEntries(
            [...line.querySelectorAll("[role=gridcell]")].map((cell, i) => [
              heads[i],
              { text: cell.textContent.trim(), title: cell.title },
            ]),
          ),
        );
    },
    { label, rows },
  );
}

/** Rows of an ordinary table: text and tooltip of each cell. */
export function plain(page, selector) {
  return page.evaluate(
    (selector) =>
      [...document.querySelectorAll(`${selector} tr`)].map((row) =>
        [...row.children].map((cell) => ({
          text: cell.textContent.trim(),
          title: cell.title,
        })),
      ),
    selector,
  );
}

/** Text and tooltip of each element. */
export function texts(page, selector) {
  return page.evaluate(
    (selector) =>
      [...document.querySelectorAll(selector)].map((element) => ({
        text: element.textContent.trim(),
        title: element.title,
      })),
    selector,
  );
}

/** How much wider than the window the page is, once the browser has drawn it anew. */
export async function overflowOf(page) {
  await page
    .waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, null, { timeout: 5000 })
    .catch(() => {});
  return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}

/** What axe finds wrong, as "rule: where". */
export async function wrongs(page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  return page.evaluate(async () => {
    const found = await window.axe.run(document, {
      resultTypes: ["violations"],
    });
    return found.violations.flatMap((rule) =>
      rule.nodes.map(
        (node) =>
          `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary.split("\n").slice(1, 3).join(" ").trim()}`,
      ),
    );
  });
}
