// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes in power-of-two classes, over all sites or against each other.
import type { HistoryResult, Site, SizeRow } from './types';

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
	/** For estimates. */
	callsVariance: number;
	bytesVariance: number;
}

function none(index: number): SizeClass {
	return { index, calls: 0, bytes: 0, callsVariance: 0, bytesVariance: 0 };
}

/** Assigns both exact sizes and classes by their midpoint. */
export function sizeClasses(rows: readonly SizeRow[]): SizeClass[] {
	const classes: SizeClass[] = [];
	for (const row of rows) {
		const index = classOf((row.low_bytes + Math.min(row.high_bytes, row.low_bytes * 2)) / 2);
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
	/** Classes of sizes and of milliseconds that occur, ascending. */
	sizes: number[];
	times: number[];
	/** By time, then by size. */
	cells: number[][];
	/** For estimates: standard errors, by time, then by size. */
	errors: number[][];
	most: number;
	total: number;
}

/**
 * Freed blocks by size and lifetime. The counts are per site, not per pair: if a site has several sizes, its lifetimes are divided among
 * them in proportion.
 */
export function heatOf(sites: readonly Site[]): Heat {
	const cells = new Map<number, number>();
	const variances = new Map<number, number>();
	const sizes = new Set<number>();
	const times = new Set<number>();
	for (const site of sites) {
		const calls = (site.sizes ?? []).reduce((sum, bar) => sum + bar.count, 0);
		for (const life of site.lifetimes ?? []) {
			const time = classOf(life.low_ms);
			times.add(time);
			for (const size of site.sizes ?? []) {
				const at = classOf((size.low_bytes + Math.min(size.high_bytes, size.low_bytes * 2)) / 2);
				sizes.add(at);
				const key = time * 128 + at;
				cells.set(key, (cells.get(key) ?? 0) + (life.count * size.count) / calls);
				variances.set(key, (variances.get(key) ?? 0) + (((life.count_error ?? 0) * size.count) / calls) ** 2);
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
		errors: rows.map((time) => columns.map((size) => Math.sqrt(variances.get(time * 128 + size) ?? 0))),
		most: Math.max(1, ...table.flat()),
		total: table.flat().reduce((sum, value) => sum + value, 0),
	};
}

/** Numbers in two dimensions; cells by row, then by column. */
export interface Grid {
	columns: number[];
	rows: number[];
	cells: number[][];
	/** For estimates: standard errors, by row, then by column. */
	errors: number[][];
	most: number;
	total: number;
}

/** A sum and its variance. */
interface Sum {
	value: number;
	variance: number;
}

class Sums {
	private readonly by = new Map<string, Sum>();

	add(column: number, row: number, value: number, error: number): void {
		const key = `${column}.${row}`;
		const known = this.by.get(key) ?? { value: 0, variance: 0 };
		this.by.set(key, { value: known.value + value, variance: known.variance + error ** 2 });
	}

	at(column: number, row: number): Sum {
		return this.by.get(`${column}.${row}`) ?? { value: 0, variance: 0 };
	}
}

function gridOf(columns: number[], rows: number[], sums: Sums): Grid {
	const cells = rows.map((row) => columns.map((column) => sums.at(column, row).value));
	const errors = rows.map((row) => columns.map((column) => Math.sqrt(sums.at(column, row).variance)));
	return { columns, rows, cells, errors, most: Math.max(1, ...cells.flat()), total: cells.flat().reduce((sum, value) => sum + value, 0) };
}

function span(classes: Iterable<number>): number[] {
	const all = [...classes];
	const low = Math.min(...all);
	return all.length ? Array.from({ length: Math.max(...all) - low + 1 }, (_, i) => low + i) : [];
}

/** Reallocs by size before and after; the calls of a site are placed at its mean sizes. */
export function reallocGrid(sites: readonly Site[]): Grid {
	const calls = new Sums();
	const olds = new Set<number>();
	const news = new Set<number>();
	for (const { realloc } of sites) {
		if (!realloc?.calls) continue;
		const old = classOf(realloc.old_bytes / realloc.calls);
		const now = classOf(realloc.new_bytes / realloc.calls);
		olds.add(old);
		news.add(now);
		calls.add(now, old, realloc.calls, realloc.calls_error ?? 0);
	}
	return gridOf(span(news), span(olds), calls);
}

const MOST_MOMENTS = 16;

/** Live bytes over time, by the mean block size of the site; largest sizes on top. */
export function courseGrid(history: HistoryResult, sites: readonly Site[]): Grid {
	const size = new Map(sites.map((site) => [`${site.pid}.${site.site}`, classOf(Number(site.mean_bytes) || 0)]));
	const step = Math.max(1, Math.ceil(history.snapshot_at_ns.length / MOST_MOMENTS));
	const moments = history.snapshot_at_ns.map((_, i) => i).filter((i) => i % step === 0 || i === history.snapshot_at_ns.length - 1);
	const sums = new Sums();
	const sizes = new Set<number>();
	for (const site of history.sites) {
		const at = size.get(`${site.pid}.${site.site}`);
		if (at === undefined) continue;
		sizes.add(at);
		for (const moment of moments) sums.add(moment, at, Math.max(0, site.history[moment] ?? 0), site.history_error?.[moment] ?? 0);
	}
	const grid = gridOf(moments, span(sizes).reverse(), sums);
	return { ...grid, columns: moments.map((moment) => history.snapshot_at_ns[moment]!) };
}
