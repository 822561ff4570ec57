// SPDX-License-Identifier: Apache-2.0
// A page in headless Chromium for a test: reads(page, file) is called for each file of the command line, and what it
// gives is printed as one JSON list. An error of the page is an error of the test.
import { chromium } from 'playwright-core';

const TIMEOUT_MS = 300000;

export async function readFiles(read) {
	const browser = await chromium.launch({
		executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
		args: ['--no-sandbox'],
	});
	const results = [];
	try {
		for (const file of process.argv.slice(2)) {
			// High enough for lists that draw only the rows in sight.
			const page = await browser.newPage({ viewport: { width: 1600, height: 6000 } });
			const errors = [];
			page.setDefaultTimeout(TIMEOUT_MS);
			page.on('pageerror', (error) => errors.push(error.message));
			const result = await read(page, file);
			if (errors.length)
				throw new Error(`${file}: ${errors.join('; ')}`);
			results.push(result);
			await page.close();
		}
	} finally {
		await browser.close();
	}
	console.log(JSON.stringify(results));
}
