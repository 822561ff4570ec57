// SPDX-License-Identifier: Apache-2.0
// node speed.mjs URL: how long a person waits, by the browser's own clocks. Prints one JSON object:
//   paint_ms       first contentful paint
//   numbers_ms     until the first numbers of Start here are there
//   flame_ms       from choosing Flame until it is drawn
//   draw_ms        what one picture of the flame graph costs, at most, while zooming
//   fps            pictures in each second of zooming and panning, at the worst
//   slowest_ms     the longest that any key or click took until the next paint (Event Timing)
//   long_tasks     tasks above 50 ms while doing so
import { launch, open, show } from "./page/browser.mjs";

const url = process.argv[2];
const browser = await launch();

async function firstNumbers() {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 720 },
  });
  const page = await context.newPage();
  const began = Date.now();
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction(
    () => document.querySelector(".card .figure")?.textContent,
  );
  const numbers = Date.now() - began;
  const paint = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  );
  await context.close();
  return { paint_ms: Math.round(paint), numbers_ms: numbers };
}

async function watch(page) {
  await page.evaluate(() => {
    window.timed = { events: [], tasks: [] };
    new PerformanceObserver((list) =>
      window.timed.events.push(
        ...list
          .getEntries()
          .map((e) => [
            e.name,
            e.duration,
            e.processingEnd - e.processingStart,
          ]),
      ),
    ).observe({ type: "event", durationThreshold: 16 });
    new PerformanceObserver((list) =>
      window.timed.tasks.push(...list.getEntries().map((e) => e.duration)),
    ).observe({ type: "longtask" });
  });
}

async function flame(page) {
  const began = Date.now();
  await show(page, "flame?cost=total");
  await page.waitForFunction(
    () => document.querySelector(".flame-scroll canvas")?.painting?.lastMs > 0,
  );
  const flame_ms = Date.now() - began;
  await watch(page);
  const box = await page.locator(".flame-scroll").boundingBox();
  /* Pictures are counted while the wheel zooms in and out and keys zoom to nodes. */
  await page.evaluate(() => {
    window.frames = [];
    window.draws = [];
    const canvas = document.querySelector(".flame-scroll canvas");
    const tick = (now) => {
      window.frames.push(now);
      window.draws.push(canvas.painting.lastMs);
      window.going && requestAnimationFrame(tick);
    };
    window.going = true;
    requestAnimationFrame(tick);
  });
  await page.mouse.move(box.x + box.width * 0.4, box.y + 120);
  await page.keyboard.down("Control");
  for (const delta of [...Array(40).fill(-120), ...Array(40).fill(120)]) {
    await page.mouse.wheel(0, delta);
    await page.waitForTimeout(16);
  }
  await page.keyboard.up("Control");
  await page.locator(".flame-scroll").focus();
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForTimeout(180);
  }
  await page.keyboard.press("Escape");
  await page.waitForTimeout(200);
  return page.evaluate((flame_ms) => {
    window.going = false;
    const gaps = window.frames
      .slice(1)
      .map((now, i) => now - window.frames[i])
      .sort((a, b) => b - a);
    const whole = window.frames[window.frames.length - 1] - window.frames[0];
    return {
      flame_ms,
      draw_ms: Math.max(...window.draws),
      fps: (window.frames.length - 1) / (whole / 1000),
      worst_gap_ms: gaps[0],
      gap_95_ms: gaps[Math.floor(gaps.length * 0.05)],
      nodes: document.querySelector(".flame-scroll canvas").painting.props.tree
        .count,
    };
  }, flame_ms);
}

async function doings(page) {
  await show(page, "sites?cost=total");
  await page.locator("[role=grid]").focus();
  for (const key of [
    "ArrowDown",
    "ArrowDown",
    "PageDown",
    "PageDown",
    "Home",
    "ArrowDown",
  ])
    (await page.keyboard.press(key), await page.waitForTimeout(60));
  await page
    .locator("[role=columnheader] button", { hasText: "Mean size" })
    .click();
  await page.waitForTimeout(120);
  await page.keyboard.press("d");
  await page.waitForTimeout(120);
  await page.keyboard.press("d");
  await page.waitForTimeout(120);
  await show(page, "tree?cost=total");
  await page.locator("[role=treegrid]").focus();
  for (const key of [
    "ArrowDown",
    "ArrowDown",
    "ArrowRight",
    "ArrowDown",
    "ArrowLeft",
  ])
    (await page.keyboard.press(key), await page.waitForTimeout(150));
  for (const key of ["1", "2", "3", "6", "1"])
    (await page.keyboard.press(key), await page.waitForTimeout(300));
}

const first = await firstNumbers();
const page = await open(browser, url);
const drawn = await flame(page);
await doings(page);
const timed = await page.evaluate(() => window.timed);
await browser.close();
const slowest = timed.events.sort((a, b) => b[1] - a[1]).slice(0, 5);
console.log(
  JSON.stringify(
    {
      ...first,
      ...drawn,
      slowest_ms: slowest[0]?.[1] ?? 0,
      slowest,
      long_tasks: timed.tasks.sort((a, b) => b - a).slice(0, 8),
      errors: page.seen.errors,
    },
    null,
    1,
  ),
);
