// SPDX-License-Identifier: Apache-2.0
//
// node dev/shots.mjs URL FOLDER [VIEW...]: pictures of the views in both themes, as they are in docs/screenshots.
// A view is the text behind #/ of an address, with an optional NAME= before it.
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(new URL('../../tests/web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const [url, folder, ...views] = process.argv.slice(2);

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
for (const theme of (process.env.THEMES || 'light,dark').split(',')) {
	const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: theme });
	page.on('console', (message) => message.type() === 'error' && console.log(`${theme}: ${message.text()}`));
	page.on('pageerror', (error) => console.log(`${theme}: ${error.message}`));
	for (const view of views) {
		const [name, hash] = /^(\w+)=(.*)$/s.exec(view)?.slice(1) ?? [view, view];
		await page.goto(`${url}#/${hash}`);
		await page.reload();
		await page.waitForSelector('.app');
		await page.waitForFunction(() => !document.querySelector('.progress'), null, { timeout: 60000 });
		await page.waitForTimeout(250);
		await page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
	}
	await page.close();
}
await browser.close();
