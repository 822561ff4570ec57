// SPDX-License-Identifier: Apache-2.0
// Kept moments: the only ones of which every site is known. A time that a person points at stands for the nearest.
import type { TimelineResult } from './types';
import { duration } from './units';

export interface Moment {
	at: number;
	/** As --at takes it. */
	word: string;
	label: string;
	kind: 'peak' | 'end' | 'kept';
}

/** Of a running process moments are thinned out as it goes on, and their numbers change: their times do not. */
export function momentsOf(timeline: TimelineResult, live = false): Moment[] {
	const points = timeline.timeline;
	const list: Moment[] = [];
	for (const point of points) {
		if (point.snapshot !== null)
			list.push({
				at: point.at_ns,
				word: live ? `time:${point.at_ns / 1e9}s` : `snap:${point.snapshot}`,
				label: `${duration(point.at_ns)}`,
				kind: 'kept',
			});
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
