// SPDX-License-Identifier: Apache-2.0
// What speedscope's page shows of each file: for each profile in it, its name and the table of the sandwich view.
import { readFiles } from './browser.mjs';

const PAGE = new URL('./node_modules/speedscope/dist/release/index.html', import.meta.url);

async function readOnce(page) {
	const rows = await page.locator('table tbody tr, table tr').allInnerTexts();
	return rows.map((row) => row.split('\t').map((cell) => cell.trim())).filter((row) => row.length === 3);
}

// The page draws when it likes: the same twice, a moment apart, and not without a row unless there is none for a second.
async function readTable(page) {
	let before = null;
	for (let i = 0; i < 50; i++) {
		const rows = await readOnce(page);
		if (JSON.stringify(rows) === JSON.stringify(before) && (rows.length > 1 || i >= 10))
			return rows;
		before = rows;
		await page.waitForTimeout(100);
	}
	throw new Error('the table does not come to rest');
}

await readFiles(async (page, file) => {
	await page.goto(PAGE.href);
	await page.locator('input[type=file]').first().setInputFiles(file);
	await page.getByText('Sandwich').click();
	await readTable(page);
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
