// SPDX-License-Identifier: Apache-2.0
// Keys for a selected row, the same in every table: p pivots, s shows the source, + and - filter.
import { go } from '../model/state';
import type { Frame } from '../model/types';
import { addFilter } from './filters';
import { ownerOfRow, type SiteRow } from './site-columns';

export function escapeRegex(text: string): string {
	return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

interface Subject {
	function?: string | undefined;
	file?: string | null | undefined;
	line?: number | undefined;
	module?: string | null | undefined;
}

/** Returns true if the key was handled. */
export function onSubjectKey(key: string, subject: Subject): boolean {
	const name = subject.function;
	switch (key) {
		case 'p':
			if (name) go('flame', { pivot: name });
			return true;
		case 's':
			if (subject.file) go('source', { path: subject.file, line: subject.line ? String(subject.line) : null });
			return true;
		case '+':
		case '-':
			if (name) addFilter({ name: key === '+' ? 'focus' : 'ignore', value: `^${escapeRegex(name)}$` });
			else if (subject.module) addFilter({ name: key === '+' ? 'module' : 'not-module', value: escapeRegex(subject.module) });
			return true;
		default:
			return false;
	}
}

export function onRowKey(event: KeyboardEvent, row: SiteRow | undefined, axis: string): boolean {
	if (!row) return false;
	const owner: Frame | undefined = ownerOfRow(row);
	if (owner) return onSubjectKey(event.key, owner);
	const values = row.values;
	return onSubjectKey(event.key, {
		function: axis === 'function' ? String(values.function) : undefined,
		file: (axis === 'file' ? values.file : values.source_file) as string | null | undefined,
		line: values.source_line as number | undefined,
		module: axis === 'module' ? String(values.module) : undefined,
	});
}
