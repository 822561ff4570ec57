// SPDX-License-Identifier: Apache-2.0
// The rows of an expanded tree, and the direct callers and callees of one function.
import { outermost } from './pivot';
import { selfErrorAt, type FlameTree } from './tree';
import type { FlameName } from '../model/types';

/** The visible nodes: the children of all open nodes, in pre-order. */
export function openRows(tree: FlameTree, open: ReadonlySet<number>): number[] {
	const rows: number[] = [];
	const todo: number[] = [];
	const push = (node: number) => {
		for (let i = tree.childFrom[node + 1]! - 1; i >= tree.childFrom[node]!; i--) todo.push(tree.children[i]!);
	};
	push(0);
	while (todo.length) {
		const node = todo.pop()!;
		rows.push(node);
		if (open.has(node)) push(node);
	}
	return rows;
}

/** The nodes to expand at first: those with a large share of the whole, up to a screenful. */
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
			if (tree.weight[child]! < least || tree.childFrom[child + 1]! === tree.childFrom[child]!) continue;
			open.add(child);
			todo.push(child);
		}
	}
	return open;
}

export function withPath(tree: FlameTree, open: ReadonlySet<number>, node: number): Set<number> {
	const more = new Set(open);
	for (let at = tree.parent[node] ?? -1; at > 0; at = tree.parent[at]!) more.add(at);
	return more;
}

export interface Neighbour {
	name: number;
	value: number;
	before: number;
	variance: number;
}

class Sums {
	private readonly by = new Map<number, Neighbour>();

	add(name: number, value: number, before: number, variance: number): void {
		const known = this.by.get(name);
		if (known) {
			known.value += value;
			known.before += before;
			known.variance += variance;
		} else {
			this.by.set(name, { name, value, before, variance });
		}
	}

	list(): Neighbour[] {
		return [...this.by.values()].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
	}
}

export interface Neighbours {
	total: number;
	self: number;
	variance: number;
	selfVariance: number;
	callers: Neighbour[];
	callees: Neighbour[];
}

/** Callers and callees of a function on all stacks, counted once per stack. */
export function neighboursOf(tree: FlameTree, names: readonly FlameName[], wanted: string): Neighbours | undefined {
	const nodes = outermost(
		tree,
		Uint8Array.from(names, (name) => (name.function === wanted ? 1 : 0)),
	);
	if (!nodes.length) return undefined;
	const callers = new Sums();
	const callees = new Sums();
	let total = 0;
	let self = 0;
	let variance = 0;
	let selfVariance = 0;
	for (const node of nodes) {
		total += tree.value[node]!;
		self += tree.self[node]!;
		variance += tree.variance?.[node] ?? 0;
		selfVariance += selfErrorAt(tree, node) ** 2;
		if (tree.parent[node]! > 0)
			callers.add(tree.name[tree.parent[node]!]!, tree.value[node]!, tree.before?.[node] ?? 0, tree.variance?.[node] ?? 0);
		for (let i = tree.childFrom[node]!; i < tree.childFrom[node + 1]!; i++) {
			const child = tree.children[i]!;
			callees.add(tree.name[child]!, tree.value[child]!, tree.before?.[child] ?? 0, tree.variance?.[child] ?? 0);
		}
	}
	return { total, self, variance, selfVariance, callers: callers.list(), callees: callees.list() };
}
