// SPDX-License-Identifier: Apache-2.0
// Keeps the user's position when a newer tree of the same process replaces the tree: zoomed, selected and open nodes are found again by the
// names on their path, since node numbers and the order of siblings change with their values.
import { useEffect, useRef } from 'preact/hooks';
import { reading } from '../model/source';
import { note, value } from '../model/state';
import type { FlameName } from '../model/types';
import { matchNodes } from './match';
import { addressOf, nodeOfAddress } from './steps';
import type { FlameTree } from './tree';

interface Drawn {
	tree: FlameTree;
	names: readonly FlameName[];
	/** The query that it answers. */
	of: string | null | undefined;
}

/** Maps nodes of the last tree to nodes of this one; undefined: it is the same tree, or one of another query. */
export function useSuccessor(drawn: Drawn): ((node: number) => number) | undefined {
	const last = useRef<Drawn | undefined>(undefined);
	const before = last.current;
	last.current = drawn;
	if (!before || !reading.value || before.tree === drawn.tree || before.of !== drawn.of) return undefined;
	const match = matchNodes(before.tree, before.names, drawn.tree, drawn.names, 0);
	/* The deepest node on the path that still exists. */
	return (node) => {
		let at = node;
		while (at > 0 && match[at]! < 0) at = before.tree.parent[at]!;
		return at < 0 ? at : match[at]!;
	};
}

/** The node that a key of the address refers to; -1: none. */
export function usePlace(drawn: Drawn, key: 'zoom' | 'node', successor: ((node: number) => number) | undefined): number {
	const address = value(key);
	const kept = useRef<{ address: string | undefined; node: number }>({ address: undefined, node: -1 });
	const place = kept.current;
	if (address === undefined) kept.current = { address, node: -1 };
	else if (place.address !== address) kept.current = { address, node: nodeOfAddress(drawn.tree, address) };
	else if (successor) kept.current = { address, node: successor(place.node) };
	else kept.current = { address, node: nodeOfAddress(drawn.tree, address) };
	const { node } = kept.current;
	useEffect(() => {
		if (!successor || address === undefined || node < 0) return;
		const now = addressOf(drawn.tree, node) || '0*0';
		kept.current = { address: now, node };
		note({ [key]: now });
	}, [drawn.tree]);
	return node;
}
