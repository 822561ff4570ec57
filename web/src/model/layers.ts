// SPDX-License-Identifier: Apache-2.0
// The heaviest sites as layers under the line of what is live. What a site held is known at snapshots and stays until
// the next, but no layer is drawn above the line: what was freed since is not there. What the layers do not explain is a layer of its own.
import { ownerLabel } from './frames';
import type { HistoryResult, HistorySite, Point } from './types';

export interface Layer {
	key: string;
	label: string;
	hint: string;
	colour: string;
	/** By point of the timeline. */
	values: number[];
	/** Standard errors of estimates, likewise. */
	errors?: number[] | undefined;
	/** The upper edge: this layer and all below it, and at most what is live. */
	tops: number[];
	site?: HistorySite;
}

export const LAYER_COLOURS = ['#8fc3ea', '#f2bf6c', '#86cfb0', '#e8a3c4', '#ece08a', '#f0a184', '#b3b0ea', '#a9c7b8', '#d6b89c'];
const OTHER_COLOUR = '#c4c7c5';

/** A course at other times: the last value until then. */
export function stepped(moments: readonly number[], course: readonly number[], times: readonly number[]): number[] {
	let at = -1;
	return times.map((time) => {
		while (at + 1 < moments.length && moments[at + 1]! <= time) at++;
		return at < 0 ? 0 : Math.max(0, course[at] ?? 0);
	});
}

/** Highest edge first, so that each is drawn over the one before. */
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
		hint: 'What the layers above do not hold',
		colour: OTHER_COLOUR,
		values: rest,
		tops: points.map((point) => point.live_bytes),
	});
	return layers.reverse();
}
