// SPDX-License-Identifier: Apache-2.0
// Rates for a chart. Snapshots and the peak lie between the samples of the timeline and have no counts of their own: a rate is that from
// one sample to the next.
import type { Point } from './types';

export interface Rates {
	/** null: the counters were not read. */
	calls: (number | null)[];
	frees: (number | null)[];
	bytes: (number | null)[];
	/** Standard errors of estimates. */
	errors: { calls: number[]; frees: number[]; bytes: number[] };
}

function errorOf(point: Point | undefined, key: string): number {
	return (point as unknown as Record<string, number | undefined> | undefined)?.[`${key}_error`] ?? 0;
}

function isBetween(point: Point, before: Point | undefined): boolean {
	return (point.peak || point.snapshot !== null) && before !== undefined && point.calls === before.calls && point.frees === before.frees;
}

export function ratesOf(points: readonly Point[]): Rates {
	const rates: Rates = { calls: [], frees: [], bytes: [], errors: { calls: [], frees: [], bytes: [] } };
	let last: Point | undefined;
	let filled = 0;
	points.forEach((point, i) => {
		if (point.calls !== null && isBetween(point, points[i - 1]) && i + 1 < points.length) return;
		const seconds = (point.at_ns - (last?.at_ns ?? 0)) / 1e9;
		const rate = (key: 'calls' | 'frees' | 'total_bytes') =>
			point[key] === null ? null : seconds > 0 ? Math.max(0, (point[key] - (last?.[key] ?? 0)) / seconds) : 0;
		/* The blocks allocated since are independent of those before: the variances subtract. */
		const error = (key: 'calls' | 'frees' | 'total_bytes') =>
			seconds > 0 ? Math.sqrt(Math.max(0, errorOf(point, key) ** 2 - errorOf(last, key) ** 2)) / seconds : 0;
		const [calls, frees, bytes] = [rate('calls'), rate('frees'), rate('total_bytes')];
		const errors = { calls: error('calls'), frees: error('frees'), bytes: error('total_bytes') };
		for (; filled <= i; filled++) {
			rates.calls.push(calls);
			rates.frees.push(frees);
			rates.bytes.push(bytes);
			rates.errors.calls.push(errors.calls);
			rates.errors.frees.push(errors.frees);
			rates.errors.bytes.push(errors.bytes);
		}
		if (point.calls !== null) last = point;
	});
	return rates;
}
