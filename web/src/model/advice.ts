// SPDX-License-Identifier: Apache-2.0
// The saving of a finding, in the same words as in the terminal.
import type { Finding } from './types';
import { spread, quantity, type Unit } from './units';

export function savingsOf(finding: Finding): string {
	const parts: string[] = [];
	const add = (key: keyof Finding, unit: Unit, of: string) => {
		const value = finding[key] as number;
		const error = (finding as unknown as Record<string, number | undefined>)[`${key}_error`];
		if (value) parts.push(`${quantity(value, unit)}${error ? ` ${spread(error, value)}` : ''} ${of}`);
	};
	add('saving_peak_bytes', 'bytes', 'at the peak');
	add('saving_copied_bytes', 'bytes', 'of copying');
	add('saving_not_freed_bytes', 'bytes', 'not freed');
	add('saving_reserved_bytes', 'bytes', 'of address space');
	add('saving_resident_bytes', 'bytes', 'of RSS');
	add('saving_calls', 'count', 'calls');
	add('saving_cross_thread_frees', 'count', 'frees in another thread');
	if (!parts.length) return '';
	// Memory that was not freed may be intended.
	return finding.saving_not_freed_bytes ? parts.join(', ') : `saves ${parts.join(', ')}`;
}
