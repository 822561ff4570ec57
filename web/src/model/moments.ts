// SPDX-License-Identifier: Apache-2.0
// Snapshots: the only moments with numbers for every site. A time that the user selects is mapped to the nearest one.
import type { SnapshotsResult, TimelineResult } from './types';
import { duration } from './units';

export interface Moment {
	at: number;
	/** The value for --at. */
	word: string;
	label: string;
	kind: 'peak' | 'end' | 'kept';
	/** The name given by the program or the user. */
	name?: string | undefined;
}

/** A moment that the program named, without a snapshot. */
export interface Event {
	at: number;
	name: string;
}

export function eventsOf(named: SnapshotsResult | undefined): Event[] {
	return (named?.snapshots ?? []).flatMap((row) => (row.snapshot === null && row.name ? [{ at: row.at_ns, name: row.name }] : []));
}

/** Names of the snapshots from one number to another, all represented by one row of the timeline. */
function nameOf(named: SnapshotsResult | undefined, from: number, to: number): string | undefined {
	const names = (named?.snapshots ?? []).filter((row) => row.snapshot !== null && row.snapshot >= from && row.snapshot < to && row.name);
	return names.length ? names.map((row) => row.name).join(', ') : undefined;
}

/** Snapshots of a running process are thinned out over time, which changes their numbers but not their times. */
export function momentsOf(timeline: TimelineResult, live = false, named?: SnapshotsResult): Moment[] {
	const points = timeline.timeline;
	const numbers = points.flatMap((point) => (point.snapshot === null ? [] : [point.snapshot]));
	const list: Moment[] = [];
	for (const point of points) {
		if (point.snapshot !== null) {
			const next = numbers.find((number) => number > point.snapshot!) ?? Infinity;
			const name = nameOf(named, point.snapshot, next);
			/* Several processes have snapshots at nearly the same time: the number distinguishes them. */
			const label = [name, duration(point.at_ns), live ? '' : `snap:${point.snapshot}`].filter(Boolean).join(', ');
			list.push({ at: point.at_ns, word: live ? `time:${point.at_ns / 1e9}s` : `snap:${point.snapshot}`, label, kind: 'kept', name });
		}
		if (point.peak) list.push({ at: point.at_ns, word: 'peak', label: `the peak, ${duration(point.at_ns)}`, kind: 'peak' });
	}
	const end = points[points.length - 1]?.at_ns ?? timeline.run.duration_ns;
	list.push({ at: end, word: 'end', label: `${live ? 'now' : 'the end'}, ${duration(end)}`, kind: 'end' });
	return list;
}

export function nearestMoment(moments: readonly Moment[], at: number): Moment | undefined {
	let best: Moment | undefined;
	for (const moment of moments) {
		if (!best || Math.abs(moment.at - at) <= Math.abs(best.at - at)) best = moment;
	}
	return best;
}

export function findMoment(moments: readonly Moment[], word: string | undefined): Moment | undefined {
	const time = word && /^time:([\d.]+)s$/.exec(word);
	if (time) return nearestMoment(moments, Number(time[1]) * 1e9);
	return moments.find((moment) => moment.word === word);
}
