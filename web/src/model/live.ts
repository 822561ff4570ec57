// SPDX-License-Identifier: Apache-2.0
// A running process: polls every second for a newer reading, and makes the page query it. The user's choices are in the address, which polling
// does not touch.
import { computed, signal } from '@preact/signals';
import { about, busy, fetchJson, readAnew } from './source';
import { note } from './state';

interface LiveState {
	reading: number;
	read_real_ns: number;
	ended: boolean;
	problem: string | null;
}

const INTERVAL_MS = 1000;

/** The page shows a running process, or one that was running when the page was opened. */
export const isLive = computed(() => (about.value?.live_pid ?? 0) > 0);
export const newest = signal<LiveState | undefined>(undefined);
export const paused = signal(false);
/** The server no longer responds. */
export const lost = signal(false);

async function look(): Promise<void> {
	try {
		const state = (await fetchJson('/api/live')) as LiveState;
		lost.value = false;
		if (paused.peek()) return;
		newest.value = state;
		readAnew(state.reading);
	} catch {
		lost.value = true;
	}
}

/** Does not poll while the page is hidden, or before the last query is answered: the server may be slower than the interval. */
function tick(): void {
	const idle = document.hidden || paused.peek() || busy() || newest.peek()?.ended;
	void (idle ? Promise.resolve() : look()).then(() => {
		if (!newest.peek()?.ended) setTimeout(tick, idle && busy() ? INTERVAL_MS / 10 : INTERVAL_MS);
	});
}

/** A running process is first shown as it is now, not at its peak. */
export function startAtNow(): void {
	if (isLive.peek() && !location.hash) note({ cost: 'live' });
}

export function startLive(): void {
	if (isLive.peek()) tick();
}

export function switchPause(): void {
	if (!isLive.peek() || newest.peek()?.ended) return;
	paused.value = !paused.peek();
	if (!paused.peek()) void look();
}
