// SPDX-License-Identifier: Apache-2.0
// A call tree in arrays, laid out once: a million nodes are eight arrays and no objects.
//
// Nodes are in depth-first pre-order with the root at 0, so that everything below node n is n+1 .. end[n]-1. A node covers [start,
// start+weight) of the root's weight; its children start at its left edge, in order, followed by its self value. The children of a node are
// contiguous in `children`, sorted by `start`, and are found by binary search.

export const ROOT_NAME = -2;
export const OTHERS_NAME = -1;

export interface FlatNodes {
	name: ArrayLike<number>;
	parent: ArrayLike<number>;
	value: ArrayLike<number>;
	self: ArrayLike<number>;
	before?: ArrayLike<number>;
	value_error?: ArrayLike<number>;
}

export interface FlameTree {
	count: number;
	/** Index into the names; or OTHERS_NAME, ROOT_NAME. */
	name: Int32Array;
	parent: Int32Array;
	/** The cost of the node and everything below it; in a comparison, the change. */
	value: Float64Array;
	self: Float64Array;
	/** Only in a comparison. */
	before: Float64Array | undefined;
	/** Only for estimates: squared standard errors of value, which add up as values do. */
	variance: Float64Array | undefined;
	/** The width. */
	weight: Float64Array;
	start: Float64Array;
	end: Int32Array;
	depth: Uint16Array;
	deepest: number;
	/** children[childFrom[n] .. childFrom[n + 1]] */
	children: Int32Array;
	childFrom: Int32Array;
}

function linkChildren(parent: Int32Array, count: number): { children: Int32Array; childFrom: Int32Array } {
	const childFrom = new Int32Array(count + 1);
	const children = new Int32Array(Math.max(0, count - 1));
	for (let i = 1; i < count; i++) childFrom[parent[i]! + 1]!++;
	for (let i = 0; i < count; i++) childFrom[i + 1]! += childFrom[i]!;
	const next = childFrom.slice(0, count);
	for (let i = 1; i < count; i++) children[next[parent[i]!]!++] = i;
	return { children, childFrom };
}

/**
 * Computes widths: for plain numbers, the values. Changes have a sign and may cancel out, so the width of a node is the larger of its self
 * value before and after, plus the widths of its children.
 */
function weigh(tree: Pick<FlameTree, 'count' | 'parent' | 'value' | 'self' | 'before'>): Float64Array {
	const { count, parent, value, self, before } = tree;
	const weight = new Float64Array(count);
	if (!before) {
		/* Threads with many remote frees have negative values: a parent is at least as wide as its children. */
		const below = new Float64Array(count);
		for (let i = count - 1; i >= 0; i--) {
			weight[i] = Math.max(0, value[i]!, below[i]!);
			if (i > 0) below[parent[i]!]! += weight[i]!;
		}
		return weight;
	}
	const ownBefore = Float64Array.from(before);
	for (let i = count - 1; i > 0; i--) ownBefore[parent[i]!]! -= before[i]!;
	for (let i = count - 1; i >= 0; i--) {
		weight[i]! += Math.max(0, ownBefore[i]!, ownBefore[i]! + self[i]!);
		if (i > 0) weight[parent[i]!]! += weight[i]!;
	}
	return weight;
}

function place(tree: Pick<FlameTree, 'count' | 'parent' | 'weight'>): { start: Float64Array; depth: Uint16Array; deepest: number } {
	const { count, parent, weight } = tree;
	const start = new Float64Array(count);
	const cursor = new Float64Array(count);
	const depth = new Uint16Array(count);
	let deepest = 0;
	for (let i = 1; i < count; i++) {
		const above = parent[i]!;
		start[i] = cursor[above]!;
		cursor[i] = start[i]!;
		cursor[above] = start[i]! + weight[i]!;
		const level = depth[above]! + 1;
		depth[i] = level;
		if (level > deepest) deepest = level;
	}
	return { start, depth, deepest };
}

function endsOf(parent: Int32Array, count: number): Int32Array {
	const end = new Int32Array(count);
	for (let i = count - 1; i >= 0; i--) {
		if (end[i] === 0) end[i] = i + 1;
		if (i > 0 && end[parent[i]!]! < end[i]!) end[parent[i]!] = end[i]!;
	}
	return end;
}

/** From arrays that already have the root at 0. */
export function layOut(nodes: {
	name: Int32Array;
	parent: Int32Array;
	value: Float64Array;
	self: Float64Array;
	before?: Float64Array | undefined;
	variance?: Float64Array | undefined;
}): FlameTree {
	const count = nodes.name.length;
	const before = nodes.before;
	const weight = weigh({ ...nodes, before, count });
	return {
		...nodes,
		before,
		variance: nodes.variance,
		count,
		weight,
		...place({ parent: nodes.parent, weight, count }),
		end: endsOf(nodes.parent, count),
		...linkChildren(nodes.parent, count),
	};
}

/** From the server's data, where outermost nodes have the parent -1. */
export function treeOf(nodes: FlatNodes, total: number): FlameTree {
	const count = nodes.name.length + 1;
	const name = new Int32Array(count);
	const parent = new Int32Array(count);
	const value = new Float64Array(count);
	const self = new Float64Array(count);
	const before = nodes.before && new Float64Array(count);
	const variance = nodes.value_error && new Float64Array(count);
	name[0] = ROOT_NAME;
	parent[0] = -1;
	value[0] = total;
	self[0] = total;
	for (let i = 1; i < count; i++) {
		name[i] = nodes.name[i - 1]!;
		parent[i] = nodes.parent[i - 1]! + 1;
		value[i] = nodes.value[i - 1]!;
		self[i] = nodes.self[i - 1]!;
		if (before) before[i] = nodes.before![i - 1]!;
		if (variance) variance[i] = nodes.value_error![i - 1]! ** 2;
		if (parent[i] === 0) {
			self[0]! -= value[i]!;
			if (before) before[0]! += before[i]!;
			if (variance) variance[0]! += variance[i]!;
		}
	}
	return layOut({ name, parent, value, self, before, variance });
}

/** The first child whose right edge is right of x, as an index into `children`. */
export function firstChildAfter(tree: FlameTree, node: number, x: number): number {
	let low = tree.childFrom[node]!;
	let high = tree.childFrom[node + 1]!;
	while (low < high) {
		const middle = (low + high) >>> 1;
		const child = tree.children[middle]!;
		if (tree.start[child]! + tree.weight[child]! > x) high = middle;
		else low = middle + 1;
	}
	return low;
}

/** The node at a depth that covers x; -1 if there is none. */
export function nodeAt(tree: FlameTree, x: number, depth: number): number {
	let node = 0;
	if (x < 0 || x >= tree.weight[0]!) return -1;
	while (tree.depth[node]! < depth) {
		const at = firstChildAfter(tree, node, x);
		if (at >= tree.childFrom[node + 1]!) return -1;
		const child = tree.children[at]!;
		if (tree.start[child]! > x) return -1;
		node = child;
	}
	return node;
}

/** From the outermost caller to the node itself, without the root. */
export function pathTo(tree: FlameTree, node: number): number[] {
	const path: number[] = [];
	for (let at = node; at > 0; at = tree.parent[at]!) path.push(at);
	return path.reverse();
}

/** Standard errors of the total and of the self value of a node. 0: it is exact. */
export function errorAt(tree: FlameTree, node: number): number {
	return Math.sqrt(Math.max(0, tree.variance?.[node] ?? 0));
}

export function selfErrorAt(tree: FlameTree, node: number): number {
	if (!tree.variance) return 0;
	let own = tree.variance[node]!;
	for (let i = tree.childFrom[node]!; i < tree.childFrom[node + 1]!; i++) own -= tree.variance[tree.children[i]!]!;
	/* A rounding residue is not an error. */
	return own > tree.variance[node]! * 1e-3 ? Math.sqrt(own) : 0;
}
