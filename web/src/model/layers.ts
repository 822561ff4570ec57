// SPDX-License-Identifier: Apache-2.0
// The owners of the most memory as layers below the curve of live bytes. Their live bytes are known at snapshots and assumed constant
// until the next one, but a layer never exceeds the curve: memory freed since then is not drawn. The remainder is a layer of its own.
import { shortName, splitOwner } from './frames';
import type { HistoryOwner, OwnersHistoryResult, Point } from './types';

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
	owner?: HistoryOwner;
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
export function layersOf(history: OwnersHistoryResult, points: readonly Point[]): Layer[] {
	const times = points.map((point) => point.at_ns);
	const tops = new Array<number>(times.length).fill(0);
	const layers = history.owners.map((owner, i): Layer => {
		const values = stepped(history.snapshot_at_ns, owner.history, times);
		values.forEach((value, at) => {
			tops[at]! += value;
		});
		return {
			key: owner.own,
			label: shortName(splitOwner(owner.own).name),
			hint: owner.own,
			colour: LAYER_COLOURS[i % LAYER_COLOURS.length]!,
			values,
			errors: owner.history_error && stepped(history.snapshot_at_ns, owner.history_error, times),
			tops: tops.map((top, at) => Math.min(top, points[at]!.live_bytes)),
			owner,
		};
	});
	const rest = points.map((point, at) => Math.max(0, point.live_bytes - tops[at]!));
	layers.push({
		key: 'rest',
		label: 'all others',
		hint: 'Live bytes outside the layers above',
		colour: OTHER_COLOUR,
		values: rest,
		tops: points.map((point) => point.live_bytes),
	});
	return layers.reverse();
}
