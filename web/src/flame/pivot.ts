// SPDX-License-Identifier: Apache-2.0
// A function in the middle: who calls it above, what it calls below, each summed over all places where it is called.
import { layOut, ROOT_NAME, type FlameTree } from './tree';

interface Growing {
	name: number[];
	parent: number[];
	value: number[];
	self: number[];
	before: number[] | undefined;
	/** (parent, name) to node. */
	known: Map<number, number>;
}

function begin(root: number, compared: boolean): Growing {
	return { name: [root], parent: [-1], value: [0], self: [0], before: compared ? [0] : undefined, known: new Map() };
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
		tree.self.push(0);
		tree.before?.push(0);
	}
	return node;
}

/** In pre-order, heavy children first. */
function finish(tree: Growing): FlameTree {
	const count = tree.name.length;
	const lists: number[][] = Array.from({ length: count }, () => []);
	for (let i = 1; i < count; i++)
		lists[tree.parent[i]!]!.push(i);
	const order: number[] = [];
	const todo = [0];
	const place = new Int32Array(count);
	while (todo.length) {
		const node = todo.pop()!;
		place[node] = order.length;
		order.push(node);
		const list = lists[node]!.sort((a, b) => tree.value[a]! - tree.value[b]!);
		for (const child of list)
			todo.push(child);
	}
	const before = tree.before;
	return layOut({
		name: Int32Array.from(order, (node) => tree.name[node]!),
		parent: Int32Array.from(order, (node) => (node === 0 ? -1 : place[tree.parent[node]!]!)),
		value: Float64Array.from(order, (node) => tree.value[node]!),
		self: Float64Array.from(order, (node) => tree.self[node]!),
		before: before && Float64Array.from(order, (node) => before[node]!),
	});
}

/** Where the function is called by something else than itself. */
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

/** A subtree alone: the children of a node are merged already. */
function subtree(tree: FlameTree, from: number): FlameTree {
	const end = tree.end[from]!;
	const name = tree.name.slice(from, end);
	const parent = tree.parent.slice(from, end).map((above) => above - from);
	name[0] = ROOT_NAME;
	parent[0] = -1;
	return layOut({
		name,
		parent,
		value: tree.value.slice(from, end),
		self: tree.self.slice(from, end),
		before: tree.before?.slice(from, end),
	});
}

/** What the function calls. The root is the function itself. */
export function calleesOf(tree: FlameTree, nodes: readonly number[], names: number): FlameTree {
	if (nodes.length === 1)
		return subtree(tree, nodes[0]!);
	const made = begin(ROOT_NAME, tree.before !== undefined);
	const add = (to: number, node: number) => {
		made.value[to]! += tree.value[node]!;
		made.self[to]! += tree.self[node]!;
		if (made.before)
			made.before[to]! += tree.before![node]!;
	};
	for (const top of nodes) {
		/* By depth below `top`: where in the new tree the walk is. */
		const at = [0];
		add(0, top);
		for (let node = top + 1; node < tree.end[top]!; node++) {
			const level = tree.depth[node]! - tree.depth[top]!;
			const to = childOf(made, at[level - 1]!, tree.name[node]!, names);
			at[level] = to;
			add(to, node);
		}
	}
	return finish(made);
}

/** Who calls it: the root is the function, its children are the callers. */
export function callersOf(tree: FlameTree, nodes: readonly number[], names: number): FlameTree {
	const made = begin(ROOT_NAME, tree.before !== undefined);
	for (const top of nodes) {
		let to = 0;
		for (let node = top; node > 0; node = tree.parent[node]!) {
			if (node !== top)
				to = childOf(made, to, tree.name[node]!, names);
			made.value[to]! += tree.value[top]!;
			if (made.before)
				made.before[to]! += tree.before![top]!;
		}
		made.self[to]! += tree.value[top]!;
	}
	return finish(made);
}

/** From the allocating functions outwards: for each function what it asked for itself, and below it its callers. */
export function inverted(tree: FlameTree, names: number): FlameTree {
	const made = begin(ROOT_NAME, tree.before !== undefined);
	const own = tree.before && Float64Array.from(tree.before);
	for (let node = tree.count - 1; own && node > 0; node--)
		own[tree.parent[node]!]! -= tree.before![node]!;
	for (let node = 0; node < tree.count; node++) {
		const value = tree.self[node]!;
		const before = own?.[node] ?? 0;
		if (!value && !before)
			continue;
		let to = 0;
		made.value[0]! += value;
		if (made.before)
			made.before[0]! += before;
		for (let at = node; at > 0; at = tree.parent[at]!) {
			to = childOf(made, to, tree.name[at]!, names);
			made.value[to]! += value;
			if (made.before)
				made.before[to]! += before;
		}
		made.self[to]! += value;
	}
	return finish(made);
}
