// SPDX-License-Identifier: Apache-2.0
// node live.mjs PLAN.json: looks at the page of a running process and prints what was seen as one JSON object.
// PLAN: { url: a server of the process, pid: the process itself (see test_page_live.py), picture: where to put a screenshot }
import { readFileSync } from "node:fs";
import {
  grid,
  hashOf,
  idle,
  launch,
  open,
  overflowOf,
  show,
  texts,
  wrongs,
} from "./page/browser.mjs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await launch();
const page = await open(browser, plan.url, "light", {
  viewport: { width: 1300, height: 800 },
});
const seen = {
  first: { hash: await hashOf(page), words: (await texts(page, ".question"))[0].text },
  verdict: {
    words: (await texts(page, ".verdict"))[0].text,
    edge: await page.locator(".verdict").getAttribute("class"),
  },
};

async function stateText() {
  return (await texts(page, ".live [role=status]"))[0]?.text;
}

/** Waits until the page shows a newer state than now, n times. */
async function newer(times = 1) {
  for (let i = 0; i < times; i++) {
    const before = await stateText();
    await page.waitForFunction(
      (old) =>
        document.querySelector(".live [role=status]")?.textContent !== old,
      before,
    );
    await idle(page);
    await page.waitForTimeout(150); // what was asked quietly
  }
}

/** All digits of the first number of the row of that function. */
function bytesOf(rows, name) {
  const row = rows.find((one) =>
    Object.values(one).some((cell) => cell.text.startsWith(name)),
  );
  return (
    row && Object.values(row).find((cell) => / B/.test(cell.title ?? ""))?.title
  );
}

async function sites() {
  await show(page, "sites?cost=live&focus=main");
  await newer();
  const first = await grid(page, "Sites", 20);
  const ticks = [bytesOf(first, "tick")];
  // A newer state has more, unless the program itself had no CPU meanwhile.
  for (let i = 0; i < 30 && ticks.at(-1) === ticks[0]; i++) {
    await newer();
    ticks.push(bytesOf(await grid(page, "Sites", 20), "tick"));
  }
  const table = page.locator("[role=grid]");
  await table.evaluate((element) => {
    element.scrollTop = 2400;
  });
  await page.waitForTimeout(100);
  await page.locator("[role=grid] .line").nth(12).click();
  const [hash, top] = [
    await hashOf(page),
    await table.evaluate((e) => e.scrollTop),
  ];
  await newer(2);
  return {
    ticks,
    hash: [hash, await hashOf(page)],
    top: [top, await table.evaluate((e) => e.scrollTop)],
    rows: first.length,
  };
}

async function tree() {
  await show(page, "tree?cost=live");
  await newer();
  const rowOf = (name) =>
    page.locator("[role=treegrid] .line", { hasText: name }).first();
  await rowOf("deep").click(); // chooses it; → opens
  await page.keyboard.press("ArrowRight");
  await idle(page);
  const opened = await page.locator("[role=treegrid] .line").count();
  await rowOf("beta").click();
  const chosen = () =>
    texts(page, "[role=treegrid] .line[aria-selected=true] .fn");
  const orders = () => texts(page, "[role=treegrid] .line .fn");
  const before = {
    chosen: await chosen(),
    names: await orders(),
    hash: await hashOf(page),
  };
  process.kill(plan.pid, "SIGUSR1"); // alpha overtakes beta
  await newer(3);
  return {
    opened: [opened, await page.locator("[role=treegrid] .line").count()],
    before,
    after: {
      chosen: await chosen(),
      names: await orders(),
      hash: await hashOf(page),
    },
  };
}

function painting() {
  return page.evaluate(() => {
    const { props, ...p } = document.querySelector(
      ".flame-scroll canvas",
    ).painting;
    const part = document.querySelector(".flame-scroll canvas").painting.part();
    const name = (node) => props.names[props.tree.name[node]]?.function ?? null;
    return {
      zoom: name(props.zoom),
      chosen: name(props.chosen),
      part,
      weight: props.tree.weight[0],
      from: p.from,
      to: p.to,
    };
  });
}

async function flame() {
  await show(page, "flame?cost=live");
  await newer();
  await page.evaluate(() => {
    const { props } = document.querySelector(".flame-scroll canvas").painting;
    const { tree, names } = props;
    for (let i = 1; i < tree.count; i++) {
      if (names[tree.name[i]]?.function === "beta") {
        props.onZoom(i);
        break;
      }
    }
  });
  await page.waitForTimeout(400);
  await page.evaluate(() =>
    document
      .querySelector(".flame-scroll canvas")
      .painting.zoomAround(300, 0.5),
  );
  await page.waitForTimeout(100);
  const before = await painting();
  process.kill(plan.pid, "SIGUSR2"); // beta overtakes alpha again
  await newer(3);
  return { before, after: await painting() };
}

async function pause() {
  await show(page, "sites?cost=live&focus=main");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.waitForTimeout(300);
  await idle(page); // what was asked before is answered
  const words = [await stateText()];
  const rows = bytesOf(await grid(page, "Sites", 20), "tick");
  await page.waitForTimeout(2300);
  words.push(await stateText());
  const same = bytesOf(await grid(page, "Sites", 20), "tick");
  await page.keyboard.press("l");
  await newer();
  words.push(await stateText());
  // The program goes on when it is scheduled.
  let later = same;
  for (let turn = 0; turn < 100 && later === same; turn++) {
    await page.waitForTimeout(200);
    later = bytesOf(await grid(page, "Sites", 20), "tick");
  }
  return { words, ticks: [rows, same, later] };
}

async function time() {
  await show(page, "time");
  await newer();
  const strip = await page.locator(".strip canvas").count();
  await page.locator(".strip[tabindex]").focus();
  await page.keyboard.press("ArrowLeft");
  await idle(page);
  const hash = await hashOf(page);
  await newer(2);
  return {
    strip,
    hash: [hash, await hashOf(page)],
    error: await page.locator("[role=alert]").count(),
  };
}

async function end() {
  await show(page, "sites?cost=live&focus=main");
  await newer();
  await page.screenshot({ path: plan.picture });
  const wrong = await wrongs(page);
  const overflows = [];
  for (const width of [1024, 800, 480]) {
    await page.setViewportSize({ width, height: 700 });
    overflows.push(await overflowOf(page));
  }
  await page.setViewportSize({ width: 1300, height: 800 });
  process.kill(plan.pid, "SIGKILL");
  await page.waitForFunction(() =>
    /ended/.test(document.querySelector(".live")?.textContent),
  );
  await page.waitForTimeout(500);
  const words = await stateText();
  const rows = bytesOf(await grid(page, "Sites", 20), "tick");
  await page.waitForTimeout(1500);
  return {
    words,
    later: await stateText(),
    buttons: await page.locator(".live button").count(),
    rows,
    wrong,
    overflows,
  };
}

for (const scene of [sites, tree, flame, pause, time, end]) {
  try {
    seen[scene.name] = await scene();
  } catch (error) {
    seen[scene.name] = { failed: `${scene.name}: ${error.message}` };
  }
}
seen.errors = page.seen.errors;
await browser.close();
console.log(JSON.stringify(seen));
