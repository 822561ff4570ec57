// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes by classes of powers of two, over all sites or against each other.
import type { Site, SizeRow } from './types';

/** 0 for 0, else the number of bits: 1, 2-3, 4-7, 8-15, ... */
export function classOf(value: number): number {
	return value < 1 ? 0 : Math.floor(Math.log2(value)) + 1;
}

export function classRange(index: number): { low: number; high: number } {
	return index === 0 ? { low: 0, high: 0 } : { low: 2 ** (index - 1), high: 2 ** index - 1 };
}

export interface SizeClass {
	index: number;
	calls: number;
	bytes: number;
	/** Of estimates. */
	callsVariance: number;
	bytesVariance: number;
}

function none(index: number): SizeClass {
	return { index, calls: 0, bytes: 0, callsVariance: 0, bytesVariance: 0 };
}

/** Exact sizes and classes alike go where their middle is. */
export function sizeClasses(rows: readonly SizeRow[]): SizeClass[] {
	const classes: SizeClass[] = [];
	for (const row of rows) {
		const index = classOf((row.low + Math.min(row.high, row.low * 2)) / 2);
		const known = (classes[index] ??= none(index));
		const errors = row as unknown as Record<string, number | undefined>;
		known.calls += row.calls;
		known.bytes += row.total_bytes;
		known.callsVariance += (errors.calls_error ?? 0) ** 2;
		known.bytesVariance += (errors.total_bytes_error ?? 0) ** 2;
	}
	const last = classes.length;
	return Array.from({ length: last }, (_, index) => classes[index] ?? none(index)).slice(classes.findIndex(Boolean));
}

export interface Heat {
	/** Classes of sizes and of milliseconds that occur, rising. */
	sizes: number[];
	times: number[];
	/** By time, then by size. */
	cells: number[][];
	most: number;
	total: number;
}

/**
 * Freed blocks by size and lifetime. Both are counted for each site, not for each pair: where a site has several sizes
 * its lifetimes are divided among them in proportion.
 */
export function heatOf(sites: readonly Site[]): Heat {
	const cells = new Map<number, number>();
	const sizes = new Set<number>();
	const times = new Set<number>();
	for (const site of sites) {
		const calls = (site.sizes ?? []).reduce((sum, bar) => sum + bar.count, 0);
		for (const life of site.lifetimes ?? []) {
			const time = classOf(life.low_ms);
			times.add(time);
			for (const size of site.sizes ?? []) {
				const at = classOf((size.low + Math.min(size.high, size.low * 2)) / 2);
				sizes.add(at);
				const key = time * 128 + at;
				cells.set(key, (cells.get(key) ?? 0) + (life.count * size.count) / calls);
			}
		}
	}
	const range = (set: Set<number>) => {
		const low = Math.min(...set);
		return set.size ? Array.from({ length: Math.max(...set) - low + 1 }, (_, i) => low + i) : [];
	};
	const columns = range(sizes);
	const rows = range(times);
	const table = rows.map((time) => columns.map((size) => cells.get(time * 128 + size) ?? 0));
	return {
		sizes: columns,
		times: rows,
		cells: table,
		most: Math.max(1, ...table.flat()),
		total: table.flat().reduce((sum, value) => sum + value, 0),
	};
}
