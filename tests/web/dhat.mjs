// SPDX-License-Identifier: Apache-2.0
// What valgrind's dh_view.html shows of each file.
import { readFiles } from './browser.mjs';

await readFiles(async (page, file) => {
	await page.goto('file:///usr/libexec/valgrind/dh_view.html');
	await page.setInputFiles('input[type=file]', file);
	// Everything is there when the legend below the tree is.
	await page.getByText('PP significance threshold', { exact: false }).waitFor();
	return page.locator('body').innerText();
});
