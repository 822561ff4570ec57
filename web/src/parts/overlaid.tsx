// SPDX-License-Identifier: Apache-2.0
// Live bytes of both recordings of a comparison, over the time since the start of each.
import type { TargetedKeyboardEvent } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { base } from '../model/frames';
import { overlay, type Course } from '../model/overlay';
import { ask as askParams, canonical } from '../model/query';
import { about, useAnswer } from '../model/source';
import { state } from '../model/state';
import type { Point, TimelineResult } from '../model/types';
import { bytes, duration, exact } from '../model/units';
import { Amount, errorOf, hintOf } from './amount';
import { Chart, type Line, type Mark } from './chart';
import { errorsOf, peakOf } from './layered';
import { Answered } from './states';
import { TIMELINE_POINTS, useTimeline } from './strip';

interface Run {
	name: 'before' | 'after';
	file: string;
	colour: string;
	points: readonly Point[];
	course: Course;
	durationNs: number;
}

/** How many steps of an arrow key lead from one end to the other. */
const STEPS = 60;

function lineOf(run: Run): Line {
	const errors = errorsOf(run.points, 'live_bytes');
	return {
		label: run.name,
		colour: run.colour,
		values: run.course.values,
		errors: errors && run.course.at.map((at) => errors[at] ?? 0),
		...(run.name === 'after' ? { fill: 'pale' as const } : { dash: true }),
	};
}

function marksOf(runs: readonly Run[]): Mark[] {
	return runs
		.map((run) => ({
			at: run.points[peakOf(run.points)]!.at_ns,
			label: `peak ${run.name}`,
			colour: run.colour,
			tall: true,
			aside: true,
		}))
		.sort((a, b) => b.at - a.at);
}

function pointText(run: Run, index: number): string {
	const point = run.points[run.course.at[index]!];
	return point ? bytes(point.live_bytes) : run.course.at[index]! < 0 ? 'not yet observed' : 'ended';
}

function Live({ point }: { point: Point }) {
	return <Amount value={point.live_bytes} unit="bytes" error={errorOf(point, 'live_bytes')} />;
}

function liveHint(point: Point): string {
	return hintOf(point.live_bytes, 'bytes', errorOf(point, 'live_bytes'));
}

/** The legend, with the numbers at the peak, at the end and at the moment of the pointer or the arrow keys. */
function Legend({ runs, times, index }: { runs: readonly Run[]; times: readonly number[]; index: number }) {
	return (
		<table class="plain overlaid">
			<thead>
				<tr>
					<th>Run</th>
					<th class="number">Peak</th>
					<th class="number">at</th>
					<th class="number">At end</th>
					<th class="number">Duration</th>
					<th class="number" title={exact(times[index]!, 'ns')}>
						Live at {duration(times[index]!)}
					</th>
				</tr>
			</thead>
			<tbody>
				{runs.map((run) => {
					const peak = run.points[peakOf(run.points)]!;
					const end = run.points[run.points.length - 1]!;
					const here = run.points[run.course.at[index]!];
					return (
						<tr key={run.name}>
							<td class="name" title={run.file}>
								<span class="line-key">
									<i style={{ borderTop: `2px ${run.name === 'before' ? 'dashed' : 'solid'} var(--${run.colour})` }} /> {run.name}
								</span>{' '}
								<span class="soft file">{base(run.file)}</span>
							</td>
							<td class="number" title={liveHint(peak)}>
								<Live point={peak} />
							</td>
							<td class="number" title={exact(peak.at_ns, 'ns')}>
								{duration(peak.at_ns)}
							</td>
							<td class="number" title={liveHint(end)}>
								<Live point={end} />
							</td>
							<td class="number" title={exact(run.durationNs, 'ns')}>
								{duration(run.durationNs)}
							</td>
							<td class="number" title={here && liveHint(here)}>
								{here ? <Live point={here} /> : <span class="soft">{pointText(run, index)}</span>}
							</td>
						</tr>
					);
				})}
			</tbody>
		</table>
	);
}

function Picture({ before, after }: { before: TimelineResult; after: TimelineResult }) {
	const [pointed, setPointed] = useState<number | null>(null);
	const [stepped, setStepped] = useState<number | null>(null);
	const all = useMemo(() => overlay([before.timeline, after.timeline]), [before, after]);
	const { times } = all;
	const runs = useMemo((): Run[] => {
		const [old, young] = all.courses as [Course, Course];
		return [
			{ name: 'before', file: before.file, colour: 'soft', points: before.timeline, course: old, durationNs: before.run.duration_ns },
			{ name: 'after', file: after.file, colour: 'series-live', points: after.timeline, course: young, durationNs: after.run.duration_ns },
		];
	}, [all]);
	const peaks = runs.map((run) => run.points[peakOf(run.points)]!);
	const last = times.length - 1;
	const start = Math.max(0, times.indexOf(peaks[1]!.at_ns));
	const index = Math.min(last, pointed ?? stepped ?? start);
	const onKey = (event: TargetedKeyboardEvent<HTMLElement>) => {
		const by = Math.max(1, Math.round(times.length / STEPS));
		const step = { ArrowRight: by, ArrowLeft: -by, Home: -times.length, End: times.length }[event.key];
		if (event.key === 'Escape') setStepped(null);
		else if (step === undefined) return;
		else setStepped(Math.max(0, Math.min(last, (stepped ?? start) + step)));
		event.preventDefault();
	};
	return (
		<>
			<div
				class="overlaid-chart"
				tabIndex={0}
				role="group"
				aria-label="Both timelines. Left and right move the moment of the last column, Home and End go to the ends, Escape goes back."
				onKeyDown={onKey}
			>
				<Chart
					label={`Live heap over time: before at most ${bytes(peaks[0]!.live_bytes)}, after at most ${bytes(peaks[1]!.live_bytes)}`}
					unit="bytes"
					height={190}
					times={times}
					lines={[...runs].reverse().map(lineOf)}
					marks={marksOf(runs)}
					range={stepped === null ? undefined : { from: times[index]!, to: times[index]! }}
					onHover={setPointed}
				/>
				<span class="hidden-words" role="status">
					{stepped !== null && `At ${duration(times[index]!)}: ${runs.map((run) => `${run.name} ${pointText(run, index)}`).join(', ')}`}
				</span>
			</div>
			<Legend runs={runs} times={times} index={index} />
		</>
	);
}

export function Overlaid() {
	const older = { ...state.value, values: { ...state.value.values, file: ['before'] } };
	const before = useAnswer<TimelineResult>(canonical('timeline', askParams(older, 'timeline', [['limit', TIMELINE_POINTS]])));
	const after = useTimeline();
	return (
		<section class="panel" aria-labelledby="overlaid-title">
			<h2 id="overlaid-title">
				Live heap over time <span class="soft">{base(about.value?.before)} and {base(after.data?.file)}, each since its start</span>
			</h2>
			<Answered answer={before} what="Reading the older timeline">
				{(old) => (
					<Answered answer={after} what="Reading the timeline">
						{(young) =>
							old.timeline.length && young.timeline.length ? (
								<Picture before={old} after={young} />
							) : (
								<p class="soft">One of the runs ended before it was observed.</p>
							)
						}
					</Answered>
				)}
			</Answered>
		</section>
	);
}
