// SPDX-License-Identifier: Apache-2.0
// A running process: asks every second whether there is a newer state, and makes the page ask for it. What a person has
// chosen is in the address, which this does not touch.
import { computed, signal } from '@preact/signals';
import { about, busy, fetchJson, readAnew } from './source';

interface LiveState {
	reading: number;
	read_real_ns: number;
	ended: boolean;
	problem: string | null;
}

const INTERVAL_MS = 1000;

/** The page is of a running process, or of one that ran when it began. */
export const isLive = computed(() => (about.value?.live_pid ?? 0) > 0);
export const newest = signal<LiveState | undefined>(undefined);
export const paused = signal(false);
/** Nobody answers any more. */
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

/** Not while nobody sees it, and not before what was asked last is answered: the server may be slower than we. */
function tick(): void {
	const idle = document.hidden || paused.peek() || busy() || newest.peek()?.ended;
	void (idle ? Promise.resolve() : look()).then(() => {
		if (!newest.peek()?.ended) setTimeout(tick, idle && busy() ? INTERVAL_MS / 10 : INTERVAL_MS);
	});
}

export function startLive(): void {
	if (isLive.peek()) tick();
}

export function switchPause(): void {
	if (!isLive.peek() || newest.peek()?.ended) return;
	paused.value = !paused.peek();
	if (!paused.peek()) void look();
}
