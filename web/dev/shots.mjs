// SPDX-License-Identifier: Apache-2.0
//
// node dev/shots.mjs URL FOLDER [VIEW...]: pictures of the views in both themes and three widths, as they are in docs/screenshots.
// A view is the text behind #/ of an address, with an optional NAME= before it.
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(new URL('../../tests/web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const [url, folder, ...views] = process.argv.slice(2);

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
/** The first has no suffix. */
const SIZES = [
	{ width: 1440, height: 900 },
	{ width: 1024, height: 768 },
	{ width: 390, height: 844 },
].slice(0, Number(process.env.SIZES || 3));

async function shoot(theme, size, suffix) {
	const page = await browser.newPage({ viewport: size, colorScheme: theme });
	page.on('console', (message) => message.type() === 'error' && console.log(`${theme}: ${message.text()}`));
	page.on('pageerror', (error) => console.log(`${theme}: ${error.message}`));
	for (const view of views) {
		const [name, hash] = /^(\w+)=(.*)$/s.exec(view)?.slice(1) ?? [view, view];
		await page.goto(`${url}#/${hash}`);
		await page.reload();
		await page.waitForSelector('.app');
		await page.waitForFunction(() => !document.querySelector('.progress'), null, { timeout: 60000 });
		await page.waitForTimeout(250);
		const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
		if (wide > 0) console.log(`${name} at ${size.width}: ${wide} pixels wider than the screen`);
		await page.screenshot({ path: join(folder, `${name}-${theme}${suffix}.png`) });
	}
	await page.close();
}

for (const theme of (process.env.THEMES || 'light,dark').split(','))
	for (const size of SIZES) await shoot(theme, size, size === SIZES[0] ? '' : `-${size.width}`);
await browser.close();
