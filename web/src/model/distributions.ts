// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes in power-of-two classes, over all sites or against each other.
import type { HistoryResult, Pairs, Site, SizeRow } from './types';

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

/** The first class by row, the second by column: reallocs by size before and after. */
export function pairGrid(pairs: Pairs): Grid {
	const sums = new Sums();
	const firsts = new Set<number>();
	const seconds = new Set<number>();
	for (const [first, row] of Object.entries(pairs)) {
		for (const [second, count] of Object.entries(row)) {
			firsts.add(classOf(Number(first)));
			seconds.add(classOf(Number(second)));
			sums.add(classOf(Number(second)), classOf(Number(first)), count, 0);
		}
	}
	return gridOf(span(seconds), span(firsts), sums);
}

const flipped = (cells: number[][]) => (cells[0] ?? []).map((_, i) => cells.map((row) => row[i]!));

/** Freed blocks: sizes by column, lifetimes by row. */
export function lifeGrid(pairs: Pairs): Grid {
	const grid = pairGrid(pairs);
	return { ...grid, columns: grid.rows, rows: grid.columns, cells: flipped(grid.cells), errors: flipped(grid.errors) };
}

const MOST_MOMENTS = 16;

/** Every nth number, and the last one. */
function someOf(count: number): number[] {
	const step = Math.max(1, Math.ceil(count / MOST_MOMENTS));
	return Array.from({ length: count }, (_, i) => i).filter((i) => i % step === 0 || i === count - 1);
}

/** Live bytes at snapshots that were asked for, by the size of the blocks; largest sizes on top. */
export function momentGrid(bytes: Pairs): Grid {
	const all = Object.entries(bytes);
	const moments = someOf(all.length);
	const sums = new Sums();
	const sizes = new Set<number>();
	for (const moment of moments)
		for (const [size, live] of Object.entries(all[moment]![1])) {
			sizes.add(classOf(Number(size)));
			sums.add(moment, classOf(Number(size)), live, 0);
		}
	const grid = gridOf(moments, span(sizes).reverse(), sums);
	return { ...grid, columns: moments.map((moment) => Number(all[moment]![0])) };
}

/** Live bytes over time, by the mean block size of the site; largest sizes on top. */
export function courseGrid(history: HistoryResult, sites: readonly Site[]): Grid {
	const sized = sites.filter((site) => typeof site.mean_bytes === 'number');
	const size = new Map(sized.map((site) => [`${site.pid}.${site.site}`, classOf(site.mean_bytes as number)]));
	const moments = someOf(history.snapshot_at_ns.length);
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
