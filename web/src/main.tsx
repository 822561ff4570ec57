// SPDX-License-Identifier: Apache-2.0
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/layout.css';
import './style/parts.css';
import './style/views.css';
import { render } from 'preact';
import { App } from './app';
import { loadAbout, readEmbedded } from './model/source';
import { startAtNow, startLive } from './model/live';
import { startState } from './model/state';
import { startTheme } from './model/theme';
import { startGuard } from './parts/guard';
import { startKeys } from './parts/keys';

const page = document.getElementById('page')!;

async function start(): Promise<void> {
	await readEmbedded(document.getElementById('heapgauge-data')?.textContent ?? 'null');
	startTheme();
	startGuard();
	startState();
	startAtNow();
	startKeys();
	page.textContent = '';
	render(<App />, page);
	/* The page works without it: only the names of the files are missing. */
	loadAbout().then(startLive, () => undefined);
}

start().catch((error: unknown) => {
	page.textContent = `The page cannot be read: ${String(error)}. A browser from 2023 or later is needed.`;
});
