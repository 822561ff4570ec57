// SPDX-License-Identifier: Apache-2.0
// Several processes in one recording: which one comes first, and their totals.
import type { Process } from './types';

/** The process that was started; if it has called exec, the last program it became. Same as the summary in the terminal. */
export function startedOf(processes: readonly Process[]): Process | undefined {
	let first = processes[0];
	for (const process of processes.slice(1)) if (first?.end === 'exec' && process.pid === first.pid) first = process;
	return first;
}

export function pidsOf(processes: readonly Process[]): number[] {
	return [...new Set(processes.map((process) => process.pid))];
}

const SUMMED = [
	'peak_bytes',
	'peak_blocks',
	'not_freed_bytes',
	'not_freed_blocks',
	'calls',
	'total_bytes',
	'temporary_calls',
	'mmap_calls',
	'mmap_peak_bytes',
	'recorder_bytes',
] as const;

/** peak_rss_bytes: of the processes of which it was read; `without_rss` is how many it was not. null: of none. */
export type Totals = Record<(typeof SUMMED)[number], number> & { peak_rss_bytes: number | null; without_rss: number };

/** Sums, with the errors of sums of independent estimates. Values at a moment refer to each process' own. */
export function totalsOf(processes: readonly Process[]): Totals {
	const sums: Record<string, number> = {};
	for (const key of SUMMED) {
		sums[key] = processes.reduce((sum, process) => sum + process[key], 0);
		const errors = processes.map((process) => (process as unknown as Record<string, number | undefined>)[`${key}_error`] ?? 0);
		sums[`${key}_error`] = Math.hypot(...errors);
	}
	const rss = processes.map((process) => process.peak_rss_bytes);
	const known = rss.filter((one) => typeof one === 'number');
	const peak_rss_bytes = known.length ? known.reduce((sum, one) => sum + one, 0) : null;
	return { ...sums, peak_rss_bytes, without_rss: rss.length - known.length } as Totals;
}

/** The process that was started, then the others by start time; if there are more than `limit`, those with the most memory. */
export function listedOf(processes: readonly Process[], limit: number): readonly Process[] {
	if (processes.length <= limit) return processes;
	const first = startedOf(processes)!;
	const size = (process: Process) => process.peak_bytes + process.mmap_peak_bytes;
	const others = processes.filter((process) => process !== first).sort((a, b) => size(b) - size(a));
	return [first, ...others.slice(0, limit - 1)];
}
