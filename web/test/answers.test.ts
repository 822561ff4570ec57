// SPDX-License-Identifier: Apache-2.0
// What is made of answers: layers, classes, matrices, moments, filters.
import { describe, expect, it } from 'vitest';
import { savingsOf } from '../src/model/advice';
import { edgeOf, growthFigure, growthWords } from '../src/model/growth';
import { classOf, classRange, courseGrid, lifeGrid, pairGrid, sizeClasses } from '../src/model/distributions';
import { matrixOf } from '../src/model/handover';
import { layersOf } from '../src/model/layers';
import { eventsOf, findMoment, momentsOf, nearestMoment } from '../src/model/moments';
import { ratesOf } from '../src/model/rates';
import { tagRows } from '../src/model/tags';
import type { Finding, GrowthResult, HistoryResult, OwnersHistoryResult, Point, Site, SizeRow, SnapshotsResult, Tag, Thread, TimelineResult, Verdict } from '../src/model/types';

describe('classes', () => {
	it('are powers of two', () => {
		expect([0, 1, 2, 3, 4, 7, 8, 1024].map(classOf)).toEqual([0, 1, 2, 2, 3, 3, 4, 11]);
		expect(classRange(4)).toEqual({ low: 8, high: 15 });
	});
	it('hold every call', () => {
		const rows = [
			[0, 0, 3],
			[24, 24, 5],
			[32, 63, 7],
			[2048, 2048, 1],
		].map(([low, high, calls]) => ({ low_bytes: low, high_bytes: high, calls, total_bytes: calls! * low! }) as SizeRow);
		const classes = sizeClasses(rows);
		expect(classes.reduce((sum, one) => sum + one.calls, 0)).toBe(16);
		expect(classes[0]!.index).toBe(0);
		expect(classes[classes.length - 1]!.index).toBe(12);
	});
	it('have the root of the sum of squares of their errors', () => {
		const rows = [3, 4].map((error) => ({ low_bytes: 20, high_bytes: 20, calls: 10, total_bytes: 200, calls_error: error })) as unknown as SizeRow[];
		expect(Math.sqrt(sizeClasses(rows)[0]!.callsVariance)).toBe(5);
	});
	it('against each other keep the number of freed blocks', () => {
		const heat = lifeGrid({ 16: { 0: 6, 4: 3 }, 64: { 0: 2, 4: 1 } });
		expect(heat.total).toBe(12);
		expect(heat.columns).toEqual([5, 6, 7]);
		expect(heat.rows).toEqual([0, 1, 2, 3]);
		expect(heat.cells[0]).toEqual([6, 0, 2]);
		expect(heat.cells[3]).toEqual([3, 0, 1]);
		expect(lifeGrid({}).total).toBe(0);
	});
});

function point(at: number, live: number, more: Partial<Point> = {}): Point {
	return { at_ns: at, live_bytes: live, rss_bytes: 0, snapshot: null, peak: false, ...more } as Point;
}

describe('layers', () => {
	const history = (snapshot_at_ns: number[], live_bytes: number[], ...owners: number[][]) =>
		({
			snapshot_at_ns,
			live_bytes,
			owners: owners.map((course, i) => ({ own: `f${i} (a.c:${i})`, max_snapshot_bytes: Math.max(...course), history: course })),
		}) as unknown as OwnersHistoryResult;
	const valuesOf = (of: OwnersHistoryResult, points: Point[]) => Object.fromEntries(layersOf(of, points).map((layer) => [layer.key, layer.values]));

	it('are what was recorded at snapshots, and what an owner held at both of them between', () => {
		const layers = layersOf(history([10, 20], [10, 12], [4, 6], [3, 1]), [point(5, 2), point(10, 10), point(15, 11), point(20, 12)]);
		expect(layers.map((layer) => layer.key)).toEqual(['unknown', 'others', 'f1 (a.c:1)', 'f0 (a.c:0)']);
		expect(layers.map((layer) => layer.tops)).toEqual([
			[2, 10, 11, 12],
			[0, 10, 8, 12],
			[0, 7, 5, 7],
			[0, 4, 4, 6],
		]);
		expect(layers[0]!.values).toEqual([2, 0, 3, 0]);
	});
	it('do not show memory that an owner has freed until the next snapshot', () => {
		const freed = valuesOf(history([10, 30], [20, 5], [15, 0], [5, 5]), [point(10, 20), point(20, 20), point(25, 5), point(30, 5)]);
		expect(freed['f0 (a.c:0)']).toEqual([15, 0, 0, 0]);
		expect(freed['f1 (a.c:1)']).toEqual([5, 5, 5, 5]);
		expect(freed.unknown).toEqual([0, 15, 0, 0]);
	});
	it('give nobody what somebody must have freed and allocated again between snapshots', () => {
		const dip = valuesOf(history([10, 30], [12, 12], [8, 8], [3, 3]), [point(10, 12), point(20, 6), point(25, 1), point(30, 12)]);
		expect(dip['f0 (a.c:0)']).toEqual([8, 2, 0, 8]);
		expect(dip['f1 (a.c:1)']).toEqual([3, 0, 0, 3]);
		expect(dip.others).toEqual([1, 0, 0, 1]);
		expect(dip.unknown).toEqual([0, 4, 1, 0]);
	});
	it('add up to the live heap at every point', () => {
		let seed = 1;
		const random = (most: number) => (seed = (seed * 48271) % 2147483647) % (most + 1);
		for (let round = 0; round < 50; round++) {
			const moments = [10, 20, 20, 35, 50];
			const courses = Array.from({ length: 4 }, () => moments.map(() => random(100)));
			const sums = moments.map((_, at) => courses.reduce((sum, course) => sum + course[at]!, 0));
			const of = history(moments, sums.map((sum) => Math.max(0, sum + random(60) - 10)), ...courses);
			const points = Array.from({ length: 60 }, (_, at) => point(at, random(500)));
			const layers = layersOf(of, points);
			expect(layers[0]!.tops).toEqual(points.map((one) => one.live_bytes));
			for (const layer of layers) expect(Math.min(...layer.values)).toBeGreaterThanOrEqual(0);
		}
	});
});

describe('rates', () => {
	it('go from sample to sample, whatever stands between', () => {
		const at = (seconds: number, calls: number, more: Partial<Point> = {}) =>
			point(seconds * 1e9, 0, { calls, frees: calls, total_bytes: calls * 10, ...more });
		const rates = ratesOf([at(0, 0), at(1, 100), at(1.5, 100, { snapshot: 1 }), at(2, 300), at(3, 300), at(4, 350, { peak: true })]);
		expect(rates.calls).toEqual([0, 100, 200, 200, 0, 50]);
		expect(rates.bytes).toEqual([0, 1000, 2000, 2000, 0, 500]);
	});
	it('are as many as points, also if the last one is between', () => {
		const points = [
			point(0, 0, { calls: 0, frees: 0, total_bytes: 0 }),
			point(1e9, 0, { calls: 5, frees: 5, total_bytes: 5 }),
			point(2e9, 0, { calls: 5, frees: 5, total_bytes: 5, snapshot: 3 }),
		];
		expect(ratesOf(points).calls).toEqual([0, 5, 0]);
	});
	it('are not known where the counters were not read', () => {
		const unread = { calls: null, frees: null, total_bytes: null };
		const read = { calls: 90, frees: 90, total_bytes: 90 };
		const points = [point(1e9, 0, { ...unread, snapshot: 1 }), point(2e9, 0, { ...unread, snapshot: 2 }), point(3e9, 0, read)];
		expect(ratesOf(points).calls).toEqual([null, null, 30]);
	});
});

describe('snapshots', () => {
	const timeline = {
		timeline: [point(0, 0), point(5, 3, { snapshot: 1 }), point(9, 8, { peak: true }), point(12, 4, { snapshot: 2 }), point(20, 0)],
		run: { duration_ns: 20 },
	} as TimelineResult;
	const moments = momentsOf(timeline);
	it('are the snapshots, the peak and the end', () =>
		expect(moments.map((moment) => moment.word)).toEqual(['snap:1', 'peak', 'snap:2', 'end']));
	it('answer for times near to them', () => {
		expect(nearestMoment(moments, 6)?.word).toBe('snap:1');
		expect(nearestMoment(moments, 100)?.word).toBe('end');
		expect(findMoment(moments, 'time:0.000000011s')?.word).toBe('snap:2');
		expect(findMoment(moments, 'snap:9')).toBeUndefined();
	});
	it('have their names, and numbers that tell them apart (P7)', () => {
		const snapshots = [
			{ snapshot: 1, at_ns: 5, name: 'warm' },
			{ snapshot: null, at_ns: 7, name: 'half' },
			{ snapshot: 3, at_ns: 12, name: 'done' },
		];
		const named = { snapshots } as SnapshotsResult;
		expect(momentsOf(timeline, false, named).map((moment) => moment.label)).toEqual([
			'warm, 5 ns, snap:1',
			'the peak, 9 ns',
			'done, 12 ns, snap:2',
			'the end, 20 ns',
		]);
		expect(eventsOf(named)).toEqual([{ at: 7, name: 'half' }]);
	});
});

it('a matrix has a row for who frees and a column for whose it was', () => {
	const thread = (tid: number, slot: number, freed: Thread['freed_by_owner']) =>
		({
			pid: 1,
			tid,
			slot,
			name: `t${tid}`,
			live_bytes: 0,
			freed_for_others_bytes: Object.values(freed ?? {}).reduce((sum, one) => sum + one.bytes, 0),
			freed_by_owner: freed,
		}) as Thread;
	const matrix = matrixOf([
		thread(1, 0, {}),
		thread(2, 1, { 0: { blocks: 2, bytes: 20 } }),
		thread(3, 2, { 0: { blocks: 1, bytes: 50 }, 1: { blocks: 1, bytes: 5 } }),
	]);
	expect(matrix.freers.map((one) => one.tid)).toEqual([3, 2]);
	expect(matrix.owners.map((one) => one.thread?.tid)).toEqual([1, 2]);
	expect(matrix.cells.map((row) => row.map((cell) => cell?.bytes ?? 0))).toEqual([
		[50, 5],
		[20, 0],
	]);
	expect(matrix.most).toBe(50);
	const both = matrixOf([
		thread(1, 0, { 1: { blocks: 1, bytes: 40 } }),
		thread(2, 1, { 0: { blocks: 1, bytes: 20 }, 2: { blocks: 1, bytes: 70 } }),
		thread(3, 2, { 0: { blocks: 1, bytes: 30 } }),
	]);
	expect(both.freers.map((one) => one.tid)).toEqual([2, 3, 1]);
	expect(both.owners.map((one) => one.thread?.tid)).toEqual([2, 3, 1]);
});

it('a saving is said in the words of the terminal', () => {
	const finding = {
		saving_peak_bytes: 2048,
		saving_calls: 1200,
		saving_copied_bytes: 0,
		saving_not_freed_bytes: 0,
		saving_cross_thread_frees: 0,
	} as Finding;
	expect(savingsOf(finding)).toBe('saves 2.0 KiB at the peak, 1,200 calls');
});

it('growth is what the view says it is, whichever sites it is of (N14)', () => {
	const growth = (heap_verdict: string, growing_bytes_per_second: number | null, growing_sites: number, unjudged_mapped_bytes = 0) =>
		({ heap_verdict, growing_bytes_per_second, growing_sites, bounded_sites: 3, unjudged_mapped_bytes }) as GrowthResult;
	expect(growthFigure(growth('growing', 2048, 2))).toBe('2.0 KiB/s');
	expect(growthWords(growth('growing', 2048, 2))).toBe('in 2 sites that keep growing');
	expect(growthFigure(growth('growing', 2048, 0))).toBe('2.0 KiB/s');
	expect(growthFigure(growth('bounded', 0, 0))).toBe('none');
	expect(growthWords(growth('bounded', 0, 0))).toBe('no heap site grows');
	expect(growthWords(growth('bounded', 0, 0, 2048))).toBe('no heap site grows; up to 2.0 KiB of mappings are not judged');
	expect(growthFigure(growth('unknown', null, 0))).toBe('unknown');
	expect(growthWords(growth('unknown', null, 0))).toBe('no site is certain to grow or to be bounded');
});

it('a verdict has a green edge only if it says something good', () => {
	const edge = (kind: string, growth: string, unreachable_blocks: number | null = null) => edgeOf({ kind, growth, unreachable_blocks } as Verdict);
	expect(edge('live', 'unknown')).toBe('');
	expect(edge('kept', 'unknown')).toBe('');
	expect(edge('live', 'bounded')).toBe('edge-good');
	expect(edge('freed', 'unknown')).toBe('edge-good');
	expect(edge('live', 'bounded', 5)).toBe('edge-warn');
	expect(edge('unclear', 'unknown')).toBe('edge-warn');
	expect(edge('growing', 'growing')).toBe('edge-bad');
});

describe('tags', () => {
	const tag = (path: string | null, depth: number, visits: number | null, hidden = 0) =>
		({ tag: path, name: path, depth, visits, hidden }) as unknown as Tag;
	const tags = [tag('a', 1, 5), tag('a/x', 2, 1), tag('a/y', 2, 9), tag(null, 2, null, 3), tag('b', 1, 7), tag(null, 1, null)];
	it('open and shut as a tree', () => {
		expect(tagRows(tags, new Set()).map((row) => [row.key, row.open])).toEqual([
			['a', true],
			['a/x', undefined],
			['a/y', undefined],
			['a/ hidden', undefined],
			['b', undefined],
			['/ none', undefined],
		]);
		expect(tagRows(tags, new Set(['a'])).map((row) => row.key)).toEqual(['a', 'b', '/ none']);
	});
	it('are sorted among siblings, what has no number last', () => {
		expect(tagRows(tags, new Set(), (one) => one.visits).map((row) => row.key)).toEqual(['b', 'a', 'a/y', 'a/x', 'a/ hidden', '/ none']);
		expect(tagRows(tags, new Set(), (one) => one.visits, false).map((row) => row.key)).toEqual([
			'a',
			'a/x',
			'a/y',
			'a/ hidden',
			'b',
			'/ none',
		]);
	});
});

describe('pictures of sizes', () => {
	it('have every realloc where its sizes are', () => {
		const grid = pairGrid({ 16: { 64: 15 }, 64: { 16: 1 } });
		expect(grid.total).toBe(16);
		expect(grid.rows).toEqual([5, 6, 7]);
		expect(grid.columns).toEqual([5, 6, 7]);
		expect(grid.cells).toEqual([
			[0, 0, 15],
			[0, 0, 0],
			[1, 0, 0],
		]);
		expect(pairGrid({}).cells).toEqual([]);
	});
	it('add up what sites held over time by the size of their blocks', () => {
		const history = {
			snapshot_at_ns: [0, 10, 20],
			sites: [
				{ pid: 1, site: 1, history: [5, 6, 7] },
				{ pid: 1, site: 2, history: [100, -3, 50] },
				{ pid: 1, site: 3, history: [1, 1, 1] },
			],
		} as unknown as HistoryResult;
		const sites = [64, 1000, 70].map((mean, i) => ({ pid: 1, site: i + 1, mean_bytes: mean })) as unknown as Site[];
		const grid = courseGrid(history, sites);
		expect(grid.columns).toEqual([0, 10, 20]);
		expect(grid.rows).toEqual([10, 9, 8, 7]);
		expect(grid.cells[0]).toEqual([100, 0, 50]);
		expect(grid.cells[3]).toEqual([6, 7, 8]);
	});
});
