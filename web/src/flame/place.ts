// SPDX-License-Identifier: Apache-2.0
// A person's place in a tree that is replaced by a newer one of the same process: what was zoomed, chosen or open is found again by
// the names on the way to it, since the numbers of nodes and the order of siblings change with what they hold.
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
	/** The question that it answers. */
	of: string | null | undefined;
}

/** Gives for nodes of the last tree those of this one; undefined: it is the same tree, or one about something else. */
export function useSuccessor(drawn: Drawn): ((node: number) => number) | undefined {
	const last = useRef<Drawn | undefined>(undefined);
	const before = last.current;
	last.current = drawn;
	if (!before || !reading.value || before.tree === drawn.tree || before.of !== drawn.of) return undefined;
	const match = matchNodes(before.tree, before.names, drawn.tree, drawn.names, 0);
	/* As far as it is still there. */
	return (node) => {
		let at = node;
		while (at > 0 && match[at]! < 0) at = before.tree.parent[at]!;
		return at < 0 ? at : match[at]!;
	};
}

/** The node that a key of the address names; -1: none. */
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
