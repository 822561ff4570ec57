// SPDX-License-Identifier: Apache-2.0
// Rates for a chart. Kept moments and the peak stand between the samples of the timeline and count nothing by themselves:
// a rate belongs to the time from one sample to the next.
import type { Point } from './types';

export interface Rates {
	calls: number[];
	frees: number[];
	bytes: number[];
}

function isBetween(point: Point, before: Point | undefined): boolean {
	return (point.peak || point.snapshot !== null) && before !== undefined && point.calls === before.calls && point.frees === before.frees;
}

export function ratesOf(points: readonly Point[]): Rates {
	const rates: Rates = { calls: [], frees: [], bytes: [] };
	let last: Point | undefined;
	let filled = 0;
	points.forEach((point, i) => {
		if (isBetween(point, points[i - 1]) && i + 1 < points.length) return;
		const seconds = (point.at_ns - (last?.at_ns ?? 0)) / 1e9;
		const rate = (key: 'calls' | 'frees' | 'bytes') => (seconds > 0 ? Math.max(0, (point[key] - (last?.[key] ?? 0)) / seconds) : 0);
		const [calls, frees, bytes] = [rate('calls'), rate('frees'), rate('bytes')];
		for (; filled <= i; filled++) {
			rates.calls.push(calls);
			rates.frees.push(frees);
			rates.bytes.push(bytes);
		}
		last = point;
	});
	return rates;
}
