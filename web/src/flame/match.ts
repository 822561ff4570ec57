// SPDX-License-Identifier: Apache-2.0
// Finds the same node in another tree: the one with the same names on its path. Each result numbers its names differently.
import type { FlameName } from '../model/types';
import type { FlameTree } from './tree';

function keyOf(name: FlameName): string {
	return `${name.function}\0${name.module}\0${name.file}`;
}

/** By name of `from`: the index of the same name in `to`, or -1. */
function matchNames(from: readonly FlameName[], to: readonly FlameName[]): Int32Array {
	const known = new Map(to.map((name, i) => [keyOf(name), i]));
	return Int32Array.from(from, (name) => known.get(keyOf(name)) ?? -1);
}

/** By node of `tree`: the same node of `other`, or -1. Nodes too small to be visible are skipped. */
export function matchNodes(
	tree: FlameTree,
	names: readonly FlameName[],
	other: FlameTree,
	otherNames: readonly FlameName[],
	least = 1 / 20000,
): Int32Array {
	const same = matchNames(names, otherNames);
	const found = new Int32Array(tree.count).fill(-1);
	const limit = tree.weight[0]! * least;
	const todo = [0];
	found[0] = 0;
	while (todo.length) {
		const node = todo.pop()!;
		const twin = found[node]!;
		const children = new Map<number, number>();
		for (let i = other.childFrom[twin]!; i < other.childFrom[twin + 1]!; i++)
			children.set(other.name[other.children[i]!]!, other.children[i]!);
		for (let i = tree.childFrom[node]!; i < tree.childFrom[node + 1]!; i++) {
			const child = tree.children[i]!;
			const name = tree.name[child]!;
			const match = name < 0 || tree.weight[child]! < limit ? undefined : children.get(same[name]!);
			if (match === undefined) continue;
			found[child] = match;
			todo.push(child);
		}
	}
	return found;
}

/** By node of `tree`: the ratio of two numbers, where both are known. */
export function ratios(
	tree: FlameTree,
	names: readonly FlameName[],
	above: { tree: FlameTree; names: readonly FlameName[] },
	below: { tree: FlameTree; names: readonly FlameName[] },
): Float64Array {
	const upper = matchNodes(tree, names, above.tree, above.names);
	const lower = matchNodes(tree, names, below.tree, below.names);
	return Float64Array.from(upper, (node, i) => {
		const parts = lower[i]! < 0 ? 0 : below.tree.value[lower[i]!]!;
		return node < 0 || !parts ? -1 : above.tree.value[node]! / parts;
	});
}
