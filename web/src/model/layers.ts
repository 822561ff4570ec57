// SPDX-License-Identifier: Apache-2.0
// The owners of the most memory as layers below the curve of live bytes. Owners are known at snapshots and assumed constant until the next
// one; what was added since then belongs to nobody yet and is a layer of its own. No layer exceeds the curve: memory freed since the
// snapshot is not drawn.
import { shortName, splitOwner } from './frames';
import type { HistoryOwner, OwnersHistoryResult, Point } from './types';

export interface Layer {
	key: string;
	label: string;
	hint: string;
	/** Name of a colour in the style sheet. */
	colour: string;
	/** By point of the timeline. */
	values: number[];
	/** Standard errors of estimates, by point of the timeline. */
	errors?: number[] | undefined;
	/** The upper edge: this layer plus all below it, at most the live bytes. */
	tops: number[];
	owner?: HistoryOwner;
}

const COLOURS = 9;

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
	const moments = history.snapshot_at_ns;
	const sums = new Array<number>(times.length).fill(0);
	const add = (layer: Omit<Layer, 'tops'>): Layer => {
		layer.values.forEach((value, at) => {
			sums[at]! += value;
		});
		return { ...layer, tops: sums.map((sum, at) => Math.min(sum, points[at]!.live_bytes)) };
	};
	const layers = history.owners.map((owner, i) =>
		add({
			key: owner.own,
			label: shortName(splitOwner(owner.own).name),
			hint: owner.own,
			colour: `layer-${(i % COLOURS) + 1}`,
			values: stepped(moments, owner.history, times),
			errors: owner.history_error && stepped(moments, owner.history_error, times),
			owner,
		}),
	);
	const live = stepped(times, points.map((point) => point.live_bytes), moments);
	const others = live.map((all, at) => all - history.owners.reduce((sum, owner) => sum + (owner.history[at] ?? 0), 0));
	layers.push(
		add({
			key: 'others',
			label: 'all others',
			hint: 'Live at the last snapshot and owned by none of the above',
			colour: 'layer-others',
			values: stepped(moments, others, times),
		}),
	);
	const since = points.map((point, at) => Math.max(0, point.live_bytes - sums[at]!));
	if (since.some((value) => value > 0))
		layers.push(
			add({
				key: 'since',
				label: 'since the last snapshot',
				hint: 'Added since the last snapshot: owners are known at snapshots, their sum also in between',
				colour: 'layer-since',
				values: since,
			}),
		);
	return layers.reverse();
}
