// SPDX-License-Identifier: Apache-2.0
// The heaviest sites as layers below the curve of live bytes. A site's live bytes are known at snapshots and assumed constant until the
// next one, but a layer never exceeds the curve: memory freed since then is not drawn. The remainder is a layer of its own.
import { ownerLabel } from './frames';
import type { HistoryResult, HistorySite, Point } from './types';

export interface Layer {
	key: string;
	label: string;
	hint: string;
	colour: string;
	/** By point of the timeline. */
	values: number[];
	/** Standard errors of estimates, by point of the timeline. */
	errors?: number[] | undefined;
	/** The upper edge: this layer plus all below it, at most the live bytes. */
	tops: number[];
	site?: HistorySite;
}

export const LAYER_COLOURS = ['#8fc3ea', '#f2bf6c', '#86cfb0', '#e8a3c4', '#ece08a', '#f0a184', '#b3b0ea', '#a9c7b8', '#d6b89c'];
const OTHER_COLOUR = '#c4c7c5';

/** Resamples a step function: each time gets the last value before it. */
export function stepped(moments: readonly number[], course: readonly number[], times: readonly number[]): number[] {
	let at = -1;
	return times.map((time) => {
		while (at + 1 < moments.length && moments[at + 1]! <= time) at++;
		return at < 0 ? 0 : Math.max(0, course[at] ?? 0);
	});
}

/** Highest edge first, so that each layer is drawn over the one before. */
export function layersOf(history: HistoryResult, points: readonly Point[]): Layer[] {
	const times = points.map((point) => point.at_ns);
	const tops = new Array<number>(times.length).fill(0);
	const layers = history.sites.map((site, i): Layer => {
		const values = stepped(history.snapshot_at_ns, site.history, times);
		values.forEach((value, at) => {
			tops[at]! += value;
		});
		return {
			key: `${site.pid}.${site.site}`,
			label: ownerLabel(site.stack, history.frames),
			hint: site.stack
				.slice(0, 20)
				.map((frame) => history.frames[frame]?.function)
				.join('\n'),
			colour: LAYER_COLOURS[i % LAYER_COLOURS.length]!,
			values,
			errors: site.history_error && stepped(history.snapshot_at_ns, site.history_error, times),
			tops: tops.map((top, at) => Math.min(top, points[at]!.live_bytes)),
			site,
		};
	});
	const rest = points.map((point, at) => Math.max(0, point.live_bytes - tops[at]!));
	layers.push({
		key: 'rest',
		label: 'all other sites',
		hint: 'Live bytes outside the layers above',
		colour: OTHER_COLOUR,
		values: rest,
		tops: points.map((point) => point.live_bytes),
	});
	return layers.reverse();
}
