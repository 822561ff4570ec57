// SPDX-License-Identifier: Apache-2.0
// The rows of an opened tree, and what stands directly above and below one function.
import { calleesOf, callersOf, outermost } from './pivot';
import type { FlameTree } from './tree';
import type { FlameName } from '../model/types';

/** Nodes in sight: the children of all that is open, in pre-order. */
export function openRows(tree: FlameTree, open: ReadonlySet<number>): number[] {
	const rows: number[] = [];
	const todo: number[] = [];
	const push = (node: number) => {
		for (let i = tree.childFrom[node + 1]! - 1; i >= tree.childFrom[node]!; i--)
			todo.push(tree.children[i]!);
	};
	push(0);
	while (todo.length) {
		const node = todo.pop()!;
		rows.push(node);
		if (open.has(node))
			push(node);
	}
	return rows;
}

/** What is worth to be open at first: whatever holds a good part of the whole, as far as a screen reaches. */
export function firstOpen(tree: FlameTree, share: number, most: number): Set<number> {
	const open = new Set<number>();
	const least = tree.weight[0]! * share;
	const todo = [0];
	let rows = 0;
	while (todo.length && rows < most) {
		const node = todo.shift()!;
		for (let i = tree.childFrom[node]!; i < tree.childFrom[node + 1]!; i++) {
			const child = tree.children[i]!;
			rows++;
			if (tree.weight[child]! < least || tree.childFrom[child + 1]! === tree.childFrom[child]!)
				continue;
			open.add(child);
			todo.push(child);
		}
	}
	return open;
}

export function withPath(tree: FlameTree, open: ReadonlySet<number>, node: number): Set<number> {
	const more = new Set(open);
	for (let at = tree.parent[node] ?? -1; at > 0; at = tree.parent[at]!)
		more.add(at);
	return more;
}

export interface Neighbour {
	name: number;
	value: number;
	before: number;
}

function childrenOfRoot(tree: FlameTree): Neighbour[] {
	const list: Neighbour[] = [];
	for (let i = tree.childFrom[0]!; i < tree.childFrom[1]!; i++) {
		const node = tree.children[i]!;
		list.push({ name: tree.name[node]!, value: tree.value[node]!, before: tree.before?.[node] ?? 0 });
	}
	return list;
}

export interface Neighbours {
	total: number;
	self: number;
	callers: Neighbour[];
	callees: Neighbour[];
}

/** Of a function on all stacks, once for each stack. */
export function neighboursOf(tree: FlameTree, names: readonly FlameName[], wanted: string): Neighbours | undefined {
	const nodes = outermost(tree, Uint8Array.from(names, (name) => (name.function === wanted ? 1 : 0)));
	if (!nodes.length)
		return undefined;
	const callees = calleesOf(tree, nodes, names.length);
	return {
		total: callees.value[0]!,
		self: callees.self[0]!,
		callers: childrenOfRoot(callersOf(tree, nodes, names.length)),
		callees: childrenOfRoot(callees),
	};
}
