// SPDX-License-Identifier: Apache-2.0
// Several processes in one recording (P3).
import { describe, expect, it } from 'vitest';
import { listedOf, pidsOf, startedOf, totalsOf } from '../src/model/processes';
import type { Process } from '../src/model/types';

function process(pid: number, more: Partial<Process> = {}): Process {
	return { pid, end: 'exit', peak_bytes: 0, mmap_peak_bytes: 0, peak_rss_bytes: null, ...more } as Process;
}

describe('processes', () => {
	it('begin with the one that was started, however small', () => {
		expect(startedOf([process(7), process(8, { peak_bytes: 100 })])?.pid).toBe(7);
		expect(startedOf([])).toBeUndefined();
	});
	it('are what the started one has become last', () => {
		const chain = [process(7, { end: 'exec' }), process(8), process(7, { end: 'exec' }), process(7, { command: 'last' })];
		expect(startedOf(chain)?.command).toBe('last');
		expect(pidsOf(chain)).toEqual([7, 8]);
	});
	it('add up, and so do the squares of their errors', () => {
		const three = { peak_bytes: 10, peak_bytes_error: 3 } as unknown as Partial<Process>;
		const four = { peak_bytes: 20, peak_bytes_error: 4, peak_rss_bytes: 5 } as unknown as Partial<Process>;
		const sum = totalsOf([process(1, three), process(2, four)]);
		expect(sum.peak_bytes).toBe(30);
		expect(sum.peak_rss_bytes).toBe(5);
		expect(sum.without_rss).toBe(1);
		expect(totalsOf([process(1, { peak_rss_bytes: null })]).peak_rss_bytes).toBe(null);
		expect((sum as unknown as Record<string, number>).peak_bytes_error).toBe(5);
	});
	it('are listed with the started one and the largest, mappings included', () => {
		const all = [process(1), process(2), process(3, { peak_bytes: 5 }), process(4, { mmap_peak_bytes: 9 })];
		expect(listedOf(all, 3).map((one) => one.pid)).toEqual([1, 4, 3]);
		expect(listedOf(all, 4).map((one) => one.pid)).toEqual([1, 2, 3, 4]);
	});
});
