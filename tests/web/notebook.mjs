// SPDX-License-Identifier: Apache-2.0
// node notebook.mjs FILE.html: what a notebook that was written as HTML shows of heapgauge.
import { readFiles } from './browser.mjs';

await readFiles(async (page, file) => {
	await page.goto(`file://${file}`);
	const tables = await page.$$eval('table', (all) =>
		all.map((table) => ({
			heads: [...table.querySelectorAll('th')].map((cell) => cell.textContent),
			rows: [...table.querySelectorAll('tbody tr')].map((row) =>
				[...row.cells].map((cell) => ({ text: cell.textContent, title: cell.title })),
			),
			caption: table.parentElement.nextElementSibling.textContent,
		})),
	);
	const frame = await (await page.waitForSelector('iframe')).contentFrame();
	await frame.waitForSelector('.verdict');
	const start = await frame.locator('main').innerText();
	await frame.getByRole('link', { name: 'Sites', exact: true }).click();
	await frame.waitForSelector('[role=grid]');
	const shown = { start, sites: await frame.locator('main').innerText(), origin: await frame.evaluate(() => origin) };
	if (process.env.HEAPGAUGE_SHOTS) await page.screenshot({ path: `${process.env.HEAPGAUGE_SHOTS}/notebook.png` });
	return {
		tables,
		page: shown,
		images: await page.locator('img').count(),
		hacked: await page.evaluate(() => 'hacked' in window),
	};
});
