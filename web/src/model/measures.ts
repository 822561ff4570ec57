// SPDX-License-Identifier: Apache-2.0
// Every number of a site: its key in the JSON, its unit, and what it means.
import type { Unit } from './units';

export interface MeasureWord {
	key: string;
	title: string;
	unit: Unit;
	help: string;
	/** The number bounds the true one. */
	bound?: 'most' | 'least';
	/** Shown by default. */
	shown?: boolean;
}

export const MEASURES: readonly MeasureWord[] = [
	{ key: 'peak_bytes', title: 'At peak', unit: 'bytes', help: 'Bytes live when the heap was largest', shown: true },
	{ key: 'peak_blocks', title: 'Blocks at peak', unit: 'count', help: 'Blocks live when the heap was largest' },
	{ key: 'not_freed_bytes', title: 'At end', unit: 'bytes', help: 'Bytes not freed at exit', shown: true },
	{ key: 'not_freed_blocks', title: 'Blocks at end', unit: 'count', help: 'Blocks not freed at exit' },
	{ key: 'live_bytes', title: 'Live', unit: 'bytes', help: 'Bytes live at the chosen moment' },
	{ key: 'live_blocks', title: 'Live blocks', unit: 'count', help: 'Blocks live at the chosen moment' },
	{ key: 'total_bytes', title: 'Total', unit: 'bytes', help: 'Bytes requested over the whole run, or in the selected range of time', shown: true },
	{ key: 'calls', title: 'Calls', unit: 'count', help: 'Allocations over the whole run, or in the selected range of time', shown: true },
	{ key: 'calls_per_second', title: 'Rate', unit: 'rate', help: 'Allocations per second of the run' },
	{ key: 'mean_bytes', title: 'Mean size', unit: 'bytes', help: 'Bytes per allocation', shown: true },
	{ key: 'smallest_bytes', title: 'Smallest', unit: 'bytes', help: 'Smallest allocation, or the bound of its class' },
	{ key: 'largest_bytes', title: 'Largest', unit: 'bytes', help: 'Largest allocation, or the bound of its class' },
	{ key: 'operations', title: 'Operations', unit: 'count', help: 'Allocations and frees' },
	{ key: 'temporary_calls', title: 'Temporary', unit: 'count', help: "Allocations freed before the same thread's next one", shown: true },
	{ key: 'frees', title: 'Freed', unit: 'count', help: 'Blocks that were freed' },
	{ key: 'freed_bytes', title: 'Freed bytes', unit: 'bytes', help: 'Bytes that were freed' },
	{ key: 'max_bytes', title: 'Own max', unit: 'bytes', help: 'Largest live size that this site ever had' },
	{ key: 'internal_fragmentation_bytes', title: 'Waste', unit: 'bytes', help: 'Bytes the allocator added by rounding up' },
	{ key: 'not_freed_internal_fragmentation_bytes', title: 'Waste at end', unit: 'bytes', help: 'Internal fragmentation of blocks not freed at exit' },
	{ key: 'mean_lifetime_ns', title: 'Mean life', unit: 'ns', help: 'Mean lifetime of freed blocks', shown: true },
	{ key: 'lifetime_ns', title: 'Lifetime sum', unit: 'ns', help: 'Total lifetime of freed blocks' },
	{ key: 'min_lifetime_ns', title: 'Min life', unit: 'ns', bound: 'least', help: 'Freed blocks lived at least this long' },
	{ key: 'median_lifetime_ns', title: 'Median life', unit: 'ns', bound: 'most', help: 'Half of the freed blocks lived at most this long' },
	{ key: 'max_lifetime_ns', title: 'Max life', unit: 'ns', bound: 'most', help: 'All freed blocks lived at most this long' },
	{ key: 'short_lived_frees', title: 'Within 1 ms', unit: 'count', help: 'Blocks freed within a millisecond' },
	{ key: 'first_seen_ns', title: 'First seen', unit: 'ns', help: 'When the first allocation was made' },
	{ key: 'allocator_ns', title: 'In allocator', unit: 'ns', help: 'Time in the allocator, with record --time-calls' },
	{ key: 'copied_bytes', title: 'Copied', unit: 'bytes', help: 'Bytes copied because realloc moved the block' },
];

/**
 * The measures that a heap profile of another tool has, of which `rows` are sites: all others are unknown in every row. Its end is the only
 * moment, and "live" the word for it.
 */
export function knownMeasures(rows: readonly Readonly<Record<string, unknown>>[]): MeasureWord[] {
	return MEASURES.filter(({ key }) => !key.startsWith('not_freed_') && rows.some((row) => typeof row[key] === 'number')).map((measure) => ({
		...measure,
		shown: true,
	}));
}

export function measureOf(key: string): MeasureWord | undefined {
	return MEASURES.find((measure) => measure.key === key);
}
