// SPDX-License-Identifier: Apache-2.0
// One function in the middle: its callers above, its callees below, each summed over all call sites.
import { layOut, ROOT_NAME, type FlameTree } from './tree';

interface Growing {
	name: number[];
	parent: number[];
	value: number[];
	before: number[] | undefined;
	variance: number[] | undefined;
	/** (parent, name) to node. */
	known: Map<number, number>;
}

function begin(root: number, from: FlameTree): Growing {
	return {
		name: [root],
		parent: [-1],
		value: [0],
		before: from.before ? [0] : undefined,
		variance: from.variance ? [0] : undefined,
		known: new Map(),
	};
}

function childOf(tree: Growing, parent: number, name: number, names: number): number {
	const key = parent * (names + 2) + name + 1;
	let node = tree.known.get(key);
	if (node === undefined) {
		node = tree.name.length;
		tree.known.set(key, node);
		tree.name.push(name);
		tree.parent.push(parent);
		tree.value.push(0);
		tree.before?.push(0);
		tree.variance?.push(0);
	}
	return node;
}

/** In pre-order, heavy children first. The part that no child has is the node's self value. */
function finish(tree: Growing): FlameTree {
	const count = tree.name.length;
	const self = [...tree.value];
	for (let i = 1; i < count; i++) self[tree.parent[i]!]! -= tree.value[i]!;
	const lists: number[][] = Array.from({ length: count }, () => []);
	for (let i = 1; i < count; i++) lists[tree.parent[i]!]!.push(i);
	const order: number[] = [];
	const todo = [0];
	const place = new Int32Array(count);
	while (todo.length) {
		const node = todo.pop()!;
		place[node] = order.length;
		order.push(node);
		const list = lists[node]!.sort((a, b) => tree.value[a]! - tree.value[b]!);
		for (const child of list) todo.push(child);
	}
	const { before, variance } = tree;
	return layOut({
		name: Int32Array.from(order, (node) => tree.name[node]!),
		parent: Int32Array.from(order, (node) => (node === 0 ? -1 : place[tree.parent[node]!]!)),
		value: Float64Array.from(order, (node) => tree.value[node]!),
		self: Float64Array.from(order, (node) => self[node]!),
		before: before && Float64Array.from(order, (node) => before[node]!),
		variance: variance && Float64Array.from(order, (node) => variance[node]!),
	});
}

/** Nodes of the function that are not below another node of it. */
export function outermost(tree: FlameTree, wanted: Uint8Array): number[] {
	const found: number[] = [];
	for (let node = 1; node < tree.count;) {
		const name = tree.name[node]!;
		if (name >= 0 && wanted[name]) {
			found.push(node);
			node = tree.end[node]!;
		} else {
			node++;
		}
	}
	return found;
}

/** Nodes below this fraction of the whole are not drawn and not expanded. */
const LEAST = 1 / 20000;

/** A subtree, whose children are already merged, without invisible nodes. */
function subtree(tree: FlameTree, from: number): FlameTree {
	const least = tree.weight[from]! * LEAST;
	const kept: number[] = [];
	const parents: number[] = [];
	const todo = [from];
	const above = [-1];
	while (todo.length) {
		const node = todo.pop()!;
		const place = kept.push(node) - 1;
		parents.push(above.pop()!);
		for (let i = tree.childFrom[node + 1]! - 1; i >= tree.childFrom[node]!; i--) {
			const child = tree.children[i]!;
			if (tree.weight[child]! < least) continue;
			todo.push(child);
			above.push(place);
		}
	}
	const self = kept.map((node) => tree.value[node]!);
	parents.forEach((parent, i) => {
		if (parent >= 0) self[parent]! -= tree.value[kept[i]!]!;
	});
	const { before, variance } = tree;
	return layOut({
		name: Int32Array.from(kept, (node, i) => (i === 0 ? ROOT_NAME : tree.name[node]!)),
		parent: Int32Array.from(parents),
		value: Float64Array.from(kept, (node) => tree.value[node]!),
		self: Float64Array.from(self),
		before: before && Float64Array.from(kept, (node) => before[node]!),
		variance: variance && Float64Array.from(kept, (node) => variance[node]!),
	});
}

/** Nor are nodes that are too deep to compute in time, level by level. */
const MOST_LOOKED = 100000;

/** Nodes of the old tree that form one node of the new one: the current node of each walk, and the node of the function where it started. */
interface Group {
	to: number;
	at: number[];
	top: number[];
}

/**
 * Splits groups by the names that `next` returns, level by level; groups too small to be visible are not split. Otherwise a function that
 * is called everywhere would cost a walk over all its stacks.
 */
function grow(
	made: Growing,
	tree: FlameTree,
	first: Group,
	names: number,
	next: (at: number, visit: (child: number) => void) => void,
	valueOf: (at: number, top: number) => number,
): void {
	const least = Math.abs(made.value[0]!) * LEAST;
	const todo = [first];
	let looked = 0;
	for (let i = 0; i < todo.length && looked < MOST_LOOKED; i++) {
		const group = todo[i]!;
		const groups = new Map<number, Group>();
		looked += group.at.length;
		group.at.forEach((place, at) =>
			next(place, (child) => {
				const name = tree.name[child]!;
				let found = groups.get(name);
				if (!found) groups.set(name, (found = { to: childOf(made, group.to, name, names), at: [], top: [] }));
				found.at.push(child);
				found.top.push(group.top[at]!);
				looked++;
			}),
		);
		for (const found of groups.values()) {
			let size = 0;
			found.at.forEach((child, at) => {
				const top = found.top[at]!;
				const value = valueOf(child, top);
				made.value[found.to]! += value;
				size += Math.abs(value);
				const of = tree.depth[child]! < tree.depth[top]! ? top : child;
				if (made.variance) made.variance[found.to]! += tree.variance![of]!;
				if (made.before) {
					const before = tree.before![of]!;
					made.before[found.to]! += before;
					size += Math.abs(before);
				}
			});
			if (size >= least) todo.push(found);
		}
	}
}

function beginWith(tree: FlameTree, nodes: readonly number[]): Growing {
	const made = begin(ROOT_NAME, tree);
	for (const top of nodes) {
		if (made.variance) made.variance[0]! += tree.variance![top]!;
		made.value[0]! += tree.value[top]!;
		if (made.before) made.before[0]! += tree.before![top]!;
	}
	return made;
}

/** The callees. The root is the function itself. */
export function calleesOf(tree: FlameTree, nodes: readonly number[], names: number): FlameTree {
	if (nodes.length === 1) return subtree(tree, nodes[0]!);
	const made = beginWith(tree, nodes);
	const next = (at: number, visit: (child: number) => void) => {
		for (let i = tree.childFrom[at]!; i < tree.childFrom[at + 1]!; i++) visit(tree.children[i]!);
	};
	grow(made, tree, { to: 0, at: [...nodes], top: [...nodes] }, names, next, (at) => tree.value[at]!);
	return finish(made);
}

/** The callers: the root is the function, its children are its callers. */
export function callersOf(tree: FlameTree, nodes: readonly number[], names: number): FlameTree {
	const made = beginWith(tree, nodes);
	const next = (at: number, visit: (child: number) => void) => {
		if (tree.parent[at]! > 0) visit(tree.parent[at]!);
	};
	grow(made, tree, { to: 0, at: [...nodes], top: [...nodes] }, names, next, (_, top) => tree.value[top]!);
	return finish(made);
}

/** Inverted, from the allocating functions: each function with its self value, and its callers below it. */
export function inverted(tree: FlameTree, names: number): FlameTree {
	const made = begin(ROOT_NAME, tree);
	const ownVariance = tree.variance && Float64Array.from(tree.variance);
	for (let node = tree.count - 1; ownVariance && node > 0; node--) ownVariance[tree.parent[node]!]! -= tree.variance![node]!;
	const own = tree.before && Float64Array.from(tree.before);
	for (let node = tree.count - 1; own && node > 0; node--) own[tree.parent[node]!]! -= tree.before![node]!;
	for (let node = 0; node < tree.count; node++) {
		const value = tree.self[node]!;
		const before = own?.[node] ?? 0;
		if (!value && !before) continue;
		let to = 0;
		made.value[0]! += value;
		const variance = Math.max(0, ownVariance?.[node] ?? 0);
		if (made.before) made.before[0]! += before;
		if (made.variance) made.variance[0]! += variance;
		for (let at = node; at > 0; at = tree.parent[at]!) {
			to = childOf(made, to, tree.name[at]!, names);
			made.value[to]! += value;
			if (made.before) made.before[to]! += before;
			if (made.variance) made.variance[to]! += variance;
		}
	}
	return finish(made);
}
