// SPDX-License-Identifier: Apache-2.0
// The tree and its picture, against the slow and simple way to get the same.
import { describe, expect, it } from 'vitest';
import { colouringOf } from '../src/flame/colours';
import { drawScanlines, type Frame } from '../src/flame/draw';
import { matchNodes, ratios } from '../src/flame/match';
import { calleesOf, callersOf, inverted, outermost } from '../src/flame/pivot';
import { firstOpen, neighboursOf, openRows, withPath } from '../src/flame/rows';
import { findMatches, matcherOf, matchNames } from '../src/flame/search';
import { addressOf, nodeOfAddress, step } from '../src/flame/steps';
import { errorAt, nodeAt, pathTo, selfErrorAt, treeOf, type FlameTree } from '../src/flame/tree';
import type { FlameName } from '../src/model/types';

const NAMES: FlameName[] = ['main', 'parse', 'grow', 'malloc'].map((name) => ({
	function: name,
	module: '/bin/x',
	file: name === 'parse' ? '/src/parse.c' : null,
	line: 0,
	inlined: false,
}));

/** main(100) { parse(70) { grow(50, itself 50), malloc(20) }, grow(20) { malloc(20) } }, itself 10 */
function small(): FlameTree {
	return treeOf(
		{
			name: [0, 1, 2, 3, 2, 3],
			parent: [-1, 0, 1, 1, 0, 4],
			value: [100, 70, 50, 20, 20, 20],
			self: [10, 0, 50, 20, 0, 20],
		},
		100,
	);
}

function random(seed: number): () => number {
	let state = seed;
	return () => {
		state = Math.imul(state ^ (state >>> 15), 2246822519) + 374761393;
		return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
	};
}

/** Stacks of random functions and weights, merged by a map: the plain way. */
function stacksOf(next: () => number, count: number) {
	return Array.from({ length: count }, () => ({
		frames: Array.from({ length: 1 + Math.floor(next() * 7) }, () => Math.floor(next() * 4)),
		weight: 1 + Math.floor(next() * 50),
	}));
}

function treeOfStacks(stacks: ReturnType<typeof stacksOf>): FlameTree {
	interface Node {
		name: number;
		value: number;
		self: number;
		children: Map<number, Node>;
	}
	const root: Node = { name: -2, value: 0, self: 0, children: new Map() };
	for (const { frames, weight } of stacks) {
		let node = root;
		root.value += weight;
		for (const name of frames) {
			if (!node.children.has(name)) node.children.set(name, { name, value: 0, self: 0, children: new Map() });
			node = node.children.get(name)!;
			node.value += weight;
		}
		node.self += weight;
	}
	const flat = { name: [] as number[], parent: [] as number[], value: [] as number[], self: [] as number[] };
	const walk = (node: Node, parent: number) => {
		for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
			const index = flat.name.push(child.name) - 1;
			flat.parent.push(parent);
			flat.value.push(child.value);
			flat.self.push(child.self);
			walk(child, index);
		}
	};
	walk(root, -1);
	return treeOf(flat, root.value);
}

describe('the tree', () => {
	it('lays children out from the left edge of their parent', () => {
		const tree = small();
		expect([...tree.start]).toEqual([0, 0, 0, 0, 50, 70, 70]);
		expect([...tree.depth]).toEqual([0, 1, 2, 3, 3, 2, 3]);
		expect([...tree.end]).toEqual([7, 7, 5, 4, 5, 7, 7]);
		expect(tree.deepest).toBe(3);
	});
	it('finds the node under a point as a search through all nodes does', () => {
		const tree = treeOfStacks(stacksOf(random(7), 200));
		const next = random(9);
		for (let i = 0; i < 300; i++) {
			const x = next() * tree.weight[0]!;
			const depth = Math.floor(next() * (tree.deepest + 1));
			let slow = -1;
			for (let node = 0; node < tree.count; node++) {
				if (tree.depth[node] === depth && x >= tree.start[node]! && x < tree.start[node]! + tree.weight[node]!) slow = node;
			}
			expect(nodeAt(tree, x, depth)).toBe(slow);
		}
	});
	it('is as wide as before or after, whichever is more, where two runs are compared', () => {
		/* a: 10 -> 4, b: 0 -> 6: together nothing changed, and both are there. */
		const tree = treeOf({ name: [0, 1, 2], parent: [-1, 0, 0], value: [0, -6, 6], self: [0, -6, 6], before: [10, 10, 0] }, 0);
		expect([...tree.weight]).toEqual([16, 16, 10, 6]);
	});
});

describe('the picture', () => {
	const frame = (tree: FlameTree, width: number): Frame => ({
		from: 0,
		to: tree.weight[0]!,
		width,
		rowHeight: 1,
		firstRow: 0,
		rows: tree.deepest + 1,
	});
	it('has at each pixel the node that is there, where it is wide enough', () => {
		const tree = treeOfStacks(stacksOf(random(3), 60));
		const width = 4000;
		const { pixels } = drawScanlines(tree, frame(tree, width), (node) => node + 10, 0, 1);
		for (let depth = 0; depth <= tree.deepest; depth++) {
			for (let x = 0; x < width; x += 7) {
				const node = nodeAt(tree, ((x + 0.5) / width) * tree.weight[0]!, depth);
				const drawn = pixels[depth * width + x]!;
				/* Edges are rounded, and a pixel of ground keeps neighbours apart. */
				if (node >= 0 && drawn > 1 && drawn - 10 !== node)
					expect(Math.abs((tree.start[node]! / tree.weight[0]!) * width - x)).toBeLessThan(2);
				if (node < 0) expect([0, 1].includes(drawn) || nodeAt(tree, ((x - 0.5) / width) * tree.weight[0]!, depth) >= 0).toBe(true);
			}
		}
	});
	it('looks at few nodes of very many', () => {
		const count = 300000;
		const tree = treeOf(
			{
				name: new Int32Array(count),
				parent: new Int32Array(count).fill(0).map((_, i) => (i === 0 ? -1 : 0)),
				value: new Float64Array(count).fill(1).map((_, i) => (i === 0 ? count : 1)),
				self: new Float64Array(count).fill(1).map((_, i) => (i === 0 ? 1 : 1)),
			},
			count,
		);
		const made = drawScanlines(tree, frame(tree, 1280), () => 5, 0, 1);
		expect(made.visited).toBeLessThan(3 * 1280);
		expect(made.pixels.filter((pixel) => pixel === 1).length).toBeGreaterThan(1270);
	});
	it('writes names only where there is room', () => {
		const made = drawScanlines(small(), frame(small(), 300), () => 5, 0, 1);
		expect(made.labels.map((label) => label.node).sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
		expect(
			drawScanlines(small(), frame(small(), 100), () => 5, 0, 1)
				.labels.map((label) => label.node)
				.sort(),
		).toEqual([0, 1, 2, 3]);
	});
});

describe('search', () => {
	it('counts every byte once, however often a stack matches', () => {
		const tree = small();
		const found = findMatches(tree, matchNames(NAMES, matcherOf('grow|malloc')!));
		expect(found.value).toBe(50 + 20 + 20);
		expect(found.count).toBe(3);
		expect(findMatches(tree, matchNames(NAMES, matcherOf('parse')!)).value).toBe(70);
	});
	it('matches files too, and takes a broken expression as text', () => {
		expect([...matchNames(NAMES, matcherOf('/src/')!)]).toEqual([0, 1, 0, 0]);
		expect(matcherOf('a(')!.test('xa(y')).toBe(true);
		expect(matcherOf('')).toBeUndefined();
	});
});

describe('one function in the middle', () => {
	it('has its callers and callees over all places', () => {
		const tree = small();
		const nodes = outermost(tree, Uint8Array.from([0, 0, 1, 0]));
		expect(nodes).toEqual([3, 5]);
		const callees = calleesOf(tree, nodes, 4);
		expect([...callees.value]).toEqual([70, 20]);
		expect(callees.self[0]).toBe(50);
		const callers = callersOf(tree, nodes, 4);
		expect([...callers.name]).toEqual([-2, 1, 0, 0]);
		expect([...callers.value]).toEqual([70, 50, 50, 20]);
	});
	it('gives for random stacks what adding up stack by stack gives', () => {
		const stacks = stacksOf(random(11), 300);
		const tree = treeOfStacks(stacks);
		for (let wanted = 0; wanted < 4; wanted++) {
			const found = neighboursOf(tree, NAMES, NAMES[wanted]!.function)!;
			const total = stacks.filter((stack) => stack.frames.includes(wanted)).reduce((sum, stack) => sum + stack.weight, 0);
			expect(found.total).toBe(total);
			const callers = new Map<number, number>();
			for (const { frames, weight } of stacks) {
				const at = frames.indexOf(wanted);
				if (at > 0) callers.set(frames[at - 1]!, (callers.get(frames[at - 1]!) ?? 0) + weight);
			}
			expect(new Map(found.callers.map((one) => [one.name, one.value]))).toEqual(callers);
		}
	});
	it('turned round keeps every sum', () => {
		const tree = treeOfStacks(stacksOf(random(5), 200));
		const turned = inverted(tree, 4);
		expect(turned.value[0]).toBe(tree.value[0]);
		const own = new Map<number, number>();
		for (let node = 1; node < tree.count; node++) own.set(tree.name[node]!, (own.get(tree.name[node]!) ?? 0) + tree.self[node]!);
		for (let i = turned.childFrom[0]!; i < turned.childFrom[1]!; i++) {
			const node = turned.children[i]!;
			expect(turned.value[node]).toBe(own.get(turned.name[node]!));
		}
		expect([...inverted(turned, 4).value].sort()).toEqual([...tree.value].sort());
	});
});

describe('the same node in another tree', () => {
	it('is found by the names on the way to it, whatever their numbers and order', () => {
		const stacks = stacksOf(random(17), 150);
		const tree = treeOfStacks(stacks);
		const turn = [2, 0, 3, 1];
		const other = treeOfStacks(
			stacks.map(({ frames, weight }, i) => ({ frames: frames.map((name) => turn[name]!), weight: weight * (1 + (i % 3)) })),
		);
		const otherNames = NAMES.map((_, i) => NAMES[turn.indexOf(i)]!);
		const found = matchNodes(tree, NAMES, other, otherNames, 0);
		for (let node = 1; node < tree.count; node++) {
			const names = pathTo(tree, node).map((at) => NAMES[tree.name[at]!]!.function);
			expect(pathTo(other, found[node]!).map((at) => otherNames[other.name[at]!]!.function)).toEqual(names);
		}
		const halves = ratios(tree, NAMES, { tree: other, names: otherNames }, { tree, names: NAMES });
		expect(halves[0]).toBe(other.value[0]! / tree.value[0]!);
	});
});

describe('keys and addresses', () => {
	it('lead to every node and back', () => {
		const tree = treeOfStacks(stacksOf(random(13), 100));
		for (let node = 0; node < tree.count; node++) expect(nodeOfAddress(tree, addressOf(tree, node))).toBe(node);
		expect(nodeOfAddress(tree, '0.999.1')).toBe(nodeOfAddress(tree, '0'));
		expect(nodeOfAddress(tree, undefined)).toBe(0);
	});
	it('move to the parent, the first child and the siblings', () => {
		const tree = small();
		expect(step(tree, 1, 'ArrowDown', false)).toBe(2);
		expect(step(tree, 2, 'ArrowRight', false)).toBe(5);
		expect(step(tree, 5, 'ArrowLeft', false)).toBe(2);
		expect(step(tree, 2, 'ArrowUp', false)).toBe(1);
		expect(step(tree, 1, 'ArrowUp', true)).toBe(2);
		expect(step(tree, 4, 'ArrowDown', false)).toBe(4);
		expect(step(tree, 4, 'x', false)).toBeUndefined();
		expect(pathTo(tree, 4)).toEqual([1, 2, 4]);
	});
});

describe('the opened tree', () => {
	it('shows the children of what is open', () => {
		const tree = small();
		expect(openRows(tree, new Set())).toEqual([1]);
		expect(openRows(tree, new Set([1, 5]))).toEqual([1, 2, 5, 6]);
		expect([...firstOpen(tree, 0.5, 100)]).toEqual([1, 2]);
		expect([...withPath(tree, new Set(), 6)]).toEqual([5, 1]);
	});
});

describe('errors of estimates', () => {
	/** As small(), sampled: the variances of what each asked for itself are 9, 16 (grow in parse), 0, 25 (malloc in grow). */
	const sampled = () =>
		treeOf(
			{
				name: [0, 1, 2, 3, 2, 3],
				parent: [-1, 0, 1, 1, 0, 4],
				value: [100, 70, 50, 20, 20, 20],
				self: [10, 0, 50, 20, 0, 20],
				value_error: [Math.sqrt(50), 4, 4, 0, 5, 5],
			},
			100,
		);
	it('add up by their squares', () => {
		const tree = sampled();
		expect(errorAt(tree, 0)).toBeCloseTo(Math.sqrt(50));
		expect(selfErrorAt(tree, 1)).toBeCloseTo(3);
		expect([2, 3, 4, 5, 6].map((node) => selfErrorAt(tree, node))).toEqual([0, 4, 0, 0, 5]);
	});
	it('go with the numbers when the tree is turned round or cut', () => {
		const tree = sampled();
		const turned = inverted(tree, NAMES.length);
		const malloc = turned.name.indexOf(3);
		expect(turned.value[malloc]).toBe(40);
		expect(errorAt(turned, malloc)).toBeCloseTo(5);
		expect(errorAt(turned, 0)).toBeCloseTo(Math.sqrt(50));
		const grow = outermost(tree, Uint8Array.from([0, 0, 1, 0]));
		expect(errorAt(calleesOf(tree, grow, NAMES.length), 0)).toBeCloseTo(Math.sqrt(41));
		const callers = callersOf(tree, grow, NAMES.length);
		const parse = callers.name.indexOf(1);
		expect(errorAt(callers, parse)).toBeCloseTo(4);
		const found = neighboursOf(tree, NAMES, 'grow')!;
		expect(found.variance).toBeCloseTo(41);
		expect(found.callers.map((one) => one.variance).sort()).toEqual([16, 25]);
	});
	it('says the language of each name', () => {
		const tree = sampled();
		const names = NAMES.map((name, i) => ({ ...name, language: ['python', 'c', null][i % 3] }));
		const { legend } = colouringOf('language', tree, names);
		expect(legend.map((entry) => entry.label).sort()).toEqual(['c', 'not known', 'python']);
	});
	it('colour what is sure otherwise than a guess', () => {
		const tree = sampled();
		const painter = colouringOf('error', tree, NAMES).painterOf(tree);
		expect(painter(4)).not.toBe(painter(5)); // malloc in parse is exact, grow in main is off by 25 %
		expect(painter(5)).toBe(painter(6));
	});
	it('are none where every block was recorded', () => {
		const tree = small();
		expect(errorAt(tree, 1)).toBe(0);
		expect(selfErrorAt(tree, 1)).toBe(0);
	});
});
