// SPDX-License-Identifier: Apache-2.0
// Remote frees: rows are the threads that free, columns the threads that allocated the blocks.
import type { Thread } from './types';

export interface Handed {
	blocks: number;
	bytes: number;
}

export interface Matrix {
	freers: Thread[];
	owners: { slot: string; thread: Thread | undefined }[];
	/** By freeing thread, then by allocating thread. */
	cells: (Handed | undefined)[][];
	most: number;
	/** Not all threads are shown. */
	cut: boolean;
}

const MOST = 24;

function keyOf(thread: Thread): string {
	return `${thread.pid}.${thread.slot}`;
}

export function matrixOf(threads: readonly Thread[]): Matrix {
	const all = threads.filter((thread) => thread.freed_by_owner && Object.keys(thread.freed_by_owner).length);
	const freers = [...all].sort((a, b) => (b.freed_for_others_bytes ?? 0) - (a.freed_for_others_bytes ?? 0)).slice(0, MOST);
	const sums = new Map<string, number>();
	for (const freer of freers) {
		for (const [slot, handed] of Object.entries(freer.freed_by_owner!)) {
			const key = `${freer.pid}.${slot}`;
			sums.set(key, (sums.get(key) ?? 0) + handed.bytes);
		}
	}
	const heaviest = [...sums.keys()].sort((a, b) => sums.get(b)! - sums.get(a)!).slice(0, MOST);
	/* Rows and columns have the same order, so that a thread is found in both. */
	const weights = new Map(sums);
	for (const freer of freers) weights.set(keyOf(freer), (weights.get(keyOf(freer)) ?? 0) + (freer.freed_for_others_bytes ?? 0));
	const keys = heaviest.sort((a, b) => weights.get(b)! - weights.get(a)!);
	freers.sort((a, b) => weights.get(keyOf(b))! - weights.get(keyOf(a))!);
	const owners = keys.map((key) => {
		const [process = '', slot = ''] = key.split(/\.(.*)/s);
		const thread = threads.find((one) => String(one.pid) === process && String(one.slot) === slot && one.live_bytes !== null);
		return { key, process, slot, thread };
	});
	const cells = freers.map((freer) =>
		owners.map((owner) => (String(freer.pid) === owner.process ? freer.freed_by_owner![owner.slot] : undefined)),
	);
	return {
		freers,
		owners: owners.map(({ slot, thread }) => ({ slot, thread })),
		cells,
		most: Math.max(1, ...cells.flat().map((cell) => cell?.bytes ?? 0)),
		cut: all.length > freers.length || sums.size > keys.length,
	};
}
