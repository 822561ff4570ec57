// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { changeEdge, mostChanged } from '../src/model/changes';
import { overlay } from '../src/model/overlay';
import type { Measure, Point } from '../src/model/types';

function measure(name: string, before: number, after: number, more: Partial<Measure> = {}): Measure {
	return { measure: name, before, after, change: after - before, spread: 0, within_spread: false, ...more };
}

it('a comparison has a green edge only if it is known that nothing rose', () => {
	expect(changeEdge([measure('peak', 9, 9), measure('leaked', 5, 4)])).toBe('edge-good');
	expect(changeEdge([measure('peak', 9, 10), measure('leaked', 5, 5)])).toBe('edge-warn');
	expect(changeEdge([measure('peak', 9, 10, { within_noise: true }), measure('leaked', 5, 5)])).toBe('');
	expect(changeEdge([undefined, measure('leaked', 5, 5)])).toBe('');
	expect(changeEdge([undefined, measure('leaked', 5, 6)])).toBe('edge-warn');
});

describe('Compare opens on what changed most', () => {
	it('relative to before, up or down', () => {
		expect(mostChanged([measure('peak', 100, 110), measure('leaked', 1000, 1050), measure('calls', 10, 5)])).toBe('calls');
	});
	it('and counts what was nothing before as doubled', () => {
		expect(mostChanged([measure('peak', 100, 190), measure('leaked', 0, 8)])).toBe('leaked');
		expect(mostChanged([measure('peak', 100, 210), measure('leaked', 0, 8)])).toBe('peak');
	});
	it('but not on chance, nor on another measure', () => {
		expect(mostChanged([measure('peak', 100, 101), measure('total', 1, 9, { within_noise: true })])).toBe('peak');
		expect(mostChanged([measure('peak', 100, 101), measure('total', 1, 9, { within_spread: true })])).toBe('peak');
		expect(mostChanged([measure('peak', 100, 101), measure('waste', 1, 9)])).toBe('peak');
	});
	it('and on the peak if nothing changed', () => {
		expect(mostChanged([measure('peak', 7, 7), measure('leaked', 0, 0), measure('calls', 3, 3)])).toBe('peak');
	});
});

describe('timelines on one axis', () => {
	const points = (...list: [number, number][]) => list.map(([at_ns, live_bytes]) => ({ at_ns, live_bytes }) as Point);
	it('start at 0, have their own points, and end on their own', () => {
		const all = overlay([points([10, 1], [20, 2]), points([15, 5], [20, 6], [40, 7])]);
		expect(all.times).toEqual([0, 10, 15, 20, 40]);
		expect(all.courses[0]).toEqual({ values: [undefined, 1, undefined, 2, undefined], at: [-1, 0, 0, 1, 2] });
		expect(all.courses[1]).toEqual({ values: [undefined, undefined, 5, 6, 7], at: [-1, -1, 0, 1, 2] });
	});
});
