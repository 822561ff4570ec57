// SPDX-License-Identifier: Apache-2.0
// What counts as growth, as defined by the views growth and summary, and which verdicts are good news.
import { plural, quantity } from './units';
import type { GrowthResult, Verdict } from './types';

export function growthFigure(growth: GrowthResult): string {
	if (growth.heap_verdict === 'growing') return quantity(growth.growing_bytes_per_second ?? 0, 'bytes-rate');
	return growth.heap_verdict === 'bounded' ? 'none' : 'unknown';
}

/** What a result about heap sites says nothing about. */
export function unjudgedWords(result: { unjudged_mapped_bytes: number }): string {
	return result.unjudged_mapped_bytes ? `; up to ${quantity(result.unjudged_mapped_bytes, 'bytes')} of mappings are not judged` : '';
}

export function growthWords(growth: GrowthResult): string {
	if (growth.growing_sites)
		return `in ${plural(growth.growing_sites, 'site')} that ${growth.growing_sites === 1 ? 'keeps' : 'keep'} growing`;
	if (growth.heap_verdict === 'growing') return 'in very many sites, none of which grows for certain';
	return growth.heap_verdict === 'bounded' ? `no heap site grows${unjudgedWords(growth)}` : 'no site is certain to grow or to be bounded';
}

/** The class of the edge; '': whether something is wrong is unknown. */
export function edgeOf(verdict: Verdict): 'edge-good' | 'edge-warn' | 'edge-bad' | '' {
	if (verdict.kind === 'growing' || verdict.growth === 'growing') return 'edge-bad';
	if (verdict.kind === 'unclear' || (verdict.unreachable_blocks ?? 0) > 0) return 'edge-warn';
	return verdict.kind === 'freed' || verdict.growth === 'bounded' ? 'edge-good' : '';
}
