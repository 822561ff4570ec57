// SPDX-License-Identifier: Apache-2.0
// The measure that Compare opens on.
import type { Measure } from './types';

const OPENS_ON = ['peak', 'leaked', 'total', 'calls'];

/**
 * The measure to open on: the one that changed most, up or down, relative to before. What was nothing before counts as doubled, as in the
 * bars; a change within the spread of the runs or the noise of sampling counts as none; of equal changes the first in the table.
 */
export function mostChanged(changes: readonly Measure[]): string {
	const size = (row: Measure) =>
		row.within_spread || row.within_noise ? 0 : row.before ? Math.abs(row.change / row.before) : Math.sign(Math.abs(row.change));
	const rows = changes.filter((row) => OPENS_ON.includes(row.measure));
	return rows.reduce((most, row) => (size(row) > size(most) ? row : most)).measure;
}

/** A rise is a warning. A change that may be chance, or is not known, is neither good nor bad. */
export function changeEdge(measures: readonly (Measure | undefined)[]): 'edge-good' | 'edge-warn' | '' {
	const unsure = (row: Measure | undefined) => !row || (row.change !== 0 && (row.within_spread || row.within_noise));
	if (measures.some((row) => !unsure(row) && row!.change > 0)) return 'edge-warn';
	return measures.some(unsure) ? '' : 'edge-good';
}
