// SPDX-License-Identifier: Apache-2.0
// Paths of references in words, as the report writes them.
import type { PathStep } from './types';
import { count, plural } from './units';

/** "insert (cache.c:8) [Entry] +0x8 ×3" */
export function stepWords(step: PathStep): string {
	if (step.name === null) return `… ${plural(step.blocks ?? 0, 'block')} …`;
	const type = step.type ? ` [${step.type}]` : '';
	const offset = step.offset_bytes === null ? '' : ` +0x${step.offset_bytes.toString(16)}`;
	const blocks = (step.blocks ?? 0) > 1 ? ` ×${count(step.blocks ?? 0)}` : '';
	return `${step.name}${type}${offset}${blocks}`;
}

export function pathWords(path: PathStep[] | null | undefined): string {
	return (path ?? []).map(stepWords).join(' > ');
}
