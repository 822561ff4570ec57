// SPDX-License-Identifier: Apache-2.0
// What counts as growth, as defined by the views growth and summary.
import { plural, quantity } from './units';
import type { GrowthResult } from './types';

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
