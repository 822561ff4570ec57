// SPDX-License-Identifier: Apache-2.0
// What speedscope's page shows of each file: for each profile in it, its name and the table of the sandwich view.
import { readFiles } from './browser.mjs';

const PAGE = new URL('./node_modules/speedscope/dist/release/index.html', import.meta.url);

async function readTable(page) {
	const rows = await page.locator('table tbody tr, table tr').allInnerTexts();
	return rows.map((row) => row.split('\t').map((cell) => cell.trim())).filter((row) => row.length === 3);
}

await readFiles(async (page, file) => {
	await page.goto(PAGE.href);
	await page.locator('input[type=file]').first().setInputFiles(file);
	await page.getByText('Sandwich').click();
	const profiles = [];
	const title = page.getByText(/^ *\(\d+\/\d+\)$/);
	const many = await title.count();
	const count = many ? Number((await title.innerText()).match(/\/(\d+)\)$/)[1]) : 1;
	const first = many ? Number((await title.innerText()).match(/\((\d+)\//)[1]) : 1;
	for (let i = 1; i < first; i++)
		await page.keyboard.press('p');
	for (let i = 1; i <= count; i++) {
		if (many)
			await page.getByText(`(${i}/${count})`).waitFor();
		profiles.push({
			name: many ? (await title.locator('..').innerText()).replace(/\s*\(\d+\/\d+\)$/, '') : null,
			rows: await readTable(page),
		});
		await page.keyboard.press('n');
	}
	return { shown: first - 1, profiles };
});
