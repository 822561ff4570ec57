// SPDX-License-Identifier: Apache-2.0
// What following an advice would save, in the words of the terminal.
import type { Finding } from './types';
import { bytes, count } from './units';

export function savingsOf(finding: Finding): string {
	const parts: string[] = [];
	if (finding.saving_peak_bytes) parts.push(`${bytes(finding.saving_peak_bytes)} at the peak`);
	if (finding.saving_copied_bytes) parts.push(`${bytes(finding.saving_copied_bytes)} of copying`);
	if (finding.saving_leaked_bytes) parts.push(`${bytes(finding.saving_leaked_bytes)} that leaked`);
	if (finding.saving_calls) parts.push(`${count(finding.saving_calls)} calls`);
	if (finding.saving_foreign_frees) parts.push(`${count(finding.saving_foreign_frees)} frees in another thread`);
	return parts.length ? `saves ${parts.join(', ')}` : '';
}
