// SPDX-License-Identifier: Apache-2.0
// Timelines of several runs on one axis of time. Each counts from its own start, and has points at its own times.
import type { Point } from './types';

export interface Course {
	/** By time of the axis: the live bytes if the run has a point there; else undefined. */
	values: (number | undefined)[];
	/** By time of the axis: the run's last point until then. -1: before the first one; the number of points: the run has ended. */
	at: number[];
}

export interface Overlay {
	times: number[];
	courses: Course[];
}

export function overlay(runs: readonly (readonly Point[])[]): Overlay {
	/* All runs start at 0, whenever they were first observed. */
	const times = [...new Set([0, ...runs.flatMap((points) => points.map((point) => point.at_ns))])].sort((a, b) => a - b);
	const courses = runs.map((points): Course => {
		const end = points[points.length - 1]?.at_ns ?? -1;
		let last = -1;
		const at = times.map((time) => {
			while (last + 1 < points.length && points[last + 1]!.at_ns <= time) last++;
			return time > end ? points.length : last;
		});
		return { at, values: at.map((index, i) => (points[index]?.at_ns === times[i] ? points[index]!.live_bytes : undefined)) };
	});
	return { times, courses };
}
