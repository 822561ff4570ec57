// SPDX-License-Identifier: Apache-2.0
// Tags as a tree that can be expanded and is sorted among siblings. The report lists them in pre-order with their depth.
import type { Tag } from './types';

/** Identifies a row: its path, or what it stands for below its parent. */
export function keyOf(tags: readonly Tag[], index: number): string {
	const tag = tags[index]!;
	if (tag.tag !== null) return tag.tag;
	let parent = index - 1;
	while (parent >= 0 && tags[parent]!.depth >= tag.depth) parent--;
	return `${parent >= 0 ? tags[parent]!.tag : ''}/ ${tag.hidden ? 'hidden' : 'none'}`;
}

export interface TagRow {
	key: string;
	tag: Tag;
	/** undefined: it has no children. */
	open: boolean | undefined;
}

interface Node {
	index: number;
	children: Node[];
}

function forest(tags: readonly Tag[]): Node[] {
	const roots: Node[] = [];
	const path: Node[] = [];
	tags.forEach((tag, index) => {
		const node: Node = { index, children: [] };
		path.length = Math.min(path.length, tag.depth - 1);
		(path.length ? path[path.length - 1]!.children : roots).push(node);
		path.push(node);
	});
	return roots;
}

/** The visible rows. `by`: larger numbers first, nulls last; without it: in the given order. */
export function tagRows(tags: readonly Tag[], shut: ReadonlySet<string>, by?: (tag: Tag) => number | string | null, down = true): TagRow[] {
	const rows: TagRow[] = [];
	const compare = (a: Node, b: Node) => {
		const x = by!(tags[a.index]!);
		const y = by!(tags[b.index]!);
		if (x === y) return a.index - b.index;
		if (x === null) return 1;
		if (y === null) return -1;
		return (down ? -1 : 1) * (x < y ? -1 : 1);
	};
	const todo = [...forest(tags)].reverse();
	if (by) todo.sort((a, b) => -compare(a, b));
	while (todo.length) {
		const node = todo.pop()!;
		const key = keyOf(tags, node.index);
		const open = node.children.length ? !shut.has(key) : undefined;
		rows.push({ key, tag: tags[node.index]!, open });
		if (!open) continue;
		const children = by ? [...node.children].sort(compare) : node.children;
		for (let i = children.length - 1; i >= 0; i--) todo.push(children[i]!);
	}
	return rows;
}
