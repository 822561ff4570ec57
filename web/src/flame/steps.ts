// SPDX-License-Identifier: Apache-2.0
// Keyboard navigation in the tree, and the address of a node: its index among its siblings at each level.
import type { FlameTree } from './tree';

function rankOf(tree: FlameTree, node: number): number {
	const parent = tree.parent[node]!;
	const from = tree.childFrom[parent]!;
	let low = from;
	let high = tree.childFrom[parent + 1]!;
	/* Children are ascending: nodes are in pre-order. */
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (tree.children[middle]! < node) low = middle + 1;
		else high = middle;
	}
	return low - from;
}

function sibling(tree: FlameTree, node: number, by: number): number {
	if (node <= 0) return node;
	const parent = tree.parent[node]!;
	const at = tree.childFrom[parent]! + rankOf(tree, node) + by;
	return at >= tree.childFrom[parent]! && at < tree.childFrom[parent + 1]! ? tree.children[at]! : node;
}

/** The node that an arrow key selects; undefined: another key. */
export function step(tree: FlameTree, node: number, key: string, upwards: boolean): number | undefined {
	const inwards = upwards ? ['ArrowUp', 'k'] : ['ArrowDown', 'j'];
	const outwards = upwards ? ['ArrowDown', 'j'] : ['ArrowUp', 'k'];
	if (inwards.includes(key)) {
		const first = tree.childFrom[node]!;
		return first < tree.childFrom[node + 1]! ? tree.children[first]! : node;
	}
	if (outwards.includes(key)) return Math.max(0, tree.parent[node]!);
	if (key === 'ArrowRight') return sibling(tree, node, 1);
	if (key === 'ArrowLeft') return sibling(tree, node, -1);
	return key === 'Home' ? 0 : undefined;
}

/** "0*12.3.0": twelve times the first child, then the fourth, then the first. */
export function addressOf(tree: FlameTree, node: number): string {
	const ranks: number[] = [];
	for (let at = node; at > 0; at = tree.parent[at]!) ranks.push(rankOf(tree, at));
	const parts: string[] = [];
	for (let i = ranks.length - 1; i >= 0;) {
		let run = 1;
		while (i - run >= 0 && ranks[i - run] === ranks[i]) run++;
		parts.push(run > 1 ? `${ranks[i]}*${run}` : `${ranks[i]}`);
		i -= run;
	}
	return parts.join('.');
}

/** Follows the address as far as it exists. */
export function nodeOfAddress(tree: FlameTree, address: string | undefined): number {
	let node = 0;
	for (const part of address ? address.split('.') : []) {
		const [rank = 0, times = 1] = part.split('*').map(Number);
		for (let i = 0; i < times; i++) {
			const at = tree.childFrom[node]! + rank;
			if (!(at < tree.childFrom[node + 1]!)) return node;
			node = tree.children[at]!;
		}
	}
	return node;
}
