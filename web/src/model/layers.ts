// SPDX-License-Identifier: Apache-2.0
// The owners of the most memory as layers that add up to the live bytes at each point of the timeline. Owners are recorded at snapshots, at
// the peak and at the end only. Between two of these moments an owner is drawn with what it held at both, less what must have been freed
// if all of them together held more than was live. The rest has no known owner and is a layer of its own.
import { shortName, splitOwner } from './frames';
import type { HistoryOwner, OwnersHistoryResult, Point } from './types';

export interface Layer {
	key: string;
	label: string;
	hint: string;
	/** Name of a colour in the style sheet. */
	colour: string;
	hatched?: true;
	/** By point of the timeline. */
	values: number[];
	/** Standard errors of estimates, by point of the timeline. */
	errors?: number[] | undefined;
	/** The upper edge: this layer plus all below it. */
	tops: number[];
	owner?: HistoryOwner;
}

const COLOURS = 9;

/** The indices of the last moment up to a time and of the first one from it on; -1: there is none. */
export interface Around {
	before: number;
	after: number;
}

export function around(moments: readonly number[], times: readonly number[]): Around[] {
	let next = 0;
	return times.map((time) => {
		while (next < moments.length && moments[next]! < time) next++;
		let before = next - 1;
		while (before + 1 < moments.length && moments[before + 1]! === time) before++;
		return { before, after: next < moments.length ? next : -1 };
	});
}

/** What was held at both moments. */
function heldAtBoth(course: readonly number[], { before, after }: Around): number {
	return before < 0 || after < 0 ? 0 : Math.max(0, Math.min(course[before] ?? 0, course[after] ?? 0));
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** Sites and their sum are read one after the other, while the program runs: the sites may add up to slightly more. */
function fitted(held: readonly number[], live: number): number[] {
	const sum = sumOf(held);
	if (sum <= live) return [...held];
	const scaled = held.map((value) => Math.floor((value * live) / sum));
	scaled[0]! += live - sumOf(scaled);
	return scaled;
}

/** If less was live in between, any one of them may have freed all of the difference. */
function certain(held: readonly number[], live: number): number[] {
	const freed = Math.max(0, sumOf(held) - live);
	return held.map((value) => Math.max(0, value - freed));
}

/** Whether the owners were recorded at this point, not only before and after it. */
export function knownOwners(history: OwnersHistoryResult, point: Point): boolean {
	return history.snapshot_at_ns.includes(point.at_ns);
}

function othersOf(history: OwnersHistoryResult): number[] {
	return history.live_bytes.map((all, at) => all - history.owners.reduce((sum, owner) => sum + Math.max(0, owner.history[at] ?? 0), 0));
}

/** Highest edge first, so that each layer is drawn over the one before. */
export function layersOf(history: OwnersHistoryResult, points: readonly Point[]): Layer[] {
	const places = around(
		history.snapshot_at_ns,
		points.map((point) => point.at_ns),
	);
	const courses = [...history.owners.map((owner) => owner.history), othersOf(history)];
	const columns = points.map((point, at) => {
		const held = courses.map((course) => heldAtBoth(course, places[at]!));
		return places[at]!.before === places[at]!.after ? fitted(held, point.live_bytes) : certain(held, point.live_bytes);
	});
	const tops = new Array<number>(points.length).fill(0);
	const stack = (layer: Omit<Layer, 'tops'>): Layer => {
		layer.values.forEach((value, at) => {
			tops[at]! += value;
		});
		return { ...layer, tops: [...tops] };
	};
	const layers = history.owners.map((owner, i) =>
		stack({
			key: owner.own,
			label: shortName(splitOwner(owner.own).name),
			hint: owner.own,
			colour: `layer-${(i % COLOURS) + 1}`,
			values: columns.map((column) => column[i]!),
			errors: owner.history_error && places.map(({ before }) => owner.history_error![before] ?? 0),
			owner,
		}),
	);
	layers.push(
		stack({ key: 'others', label: 'all others', hint: 'Owned by none of the above', colour: 'layer-others', values: columns.map((column) => column[history.owners.length]!) }),
	);
	const rest = points.map((point, at) => Math.max(0, point.live_bytes - tops[at]!));
	if (rest.some((value) => value > 0))
		layers.push(
			stack({
				key: 'unknown',
				label: 'owner unknown',
				hint: 'Owners are recorded at snapshots, at the peak and at the end. Between these, an owner is shown with what it held at both.',
				colour: 'layer-rest',
				hatched: true,
				values: rest,
			}),
		);
	return layers.reverse();
}
