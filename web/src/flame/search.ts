// SPDX-License-Identifier: Apache-2.0
// Which nodes match a search, and their share of the whole.
import type { FlameName } from '../model/types';
import type { FlameTree } from './tree';

/** The text as a regular expression if it is valid, else literally; case is ignored. */
export function matcherOf(text: string): RegExp | undefined {
	if (!text) return undefined;
	try {
		return new RegExp(text, 'i');
	} catch {
		return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
	}
}

export interface Matches {
	/** By name. */
	names: Uint8Array;
	count: number;
	/** The total of matching functions including their callees, counting each byte once. */
	value: number;
}

export function matchNames(names: readonly FlameName[], matcher: RegExp): Uint8Array {
	return Uint8Array.from(names, (name) => (matcher.test(name.function) || (name.file !== null && matcher.test(name.file)) ? 1 : 0));
}

/** Does not descend below a match. */
export function findMatches(tree: FlameTree, names: Uint8Array): Matches {
	let count = 0;
	let value = 0;
	for (let node = 1; node < tree.count;) {
		const name = tree.name[node]!;
		if (name >= 0 && names[name]) {
			value += tree.value[node]!;
			count++;
			node = tree.end[node]!;
		} else {
			node++;
		}
	}
	return { names, count, value };
}
