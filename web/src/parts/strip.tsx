// SPDX-License-Identifier: Apache-2.0
// The time strip above every view: live heap and RSS over the run. A click selects a moment, a drag the growth between two, or what was
// counted between them if the number is counted. The nearest snapshot is used, and the strip says so.
import type { TargetedKeyboardEvent } from 'preact';
import { isLive } from '../model/live';
import { canonical, ask as askParams } from '../model/query';
import { useAnswer } from '../model/source';
import { costOf, inWindow, knownCosts, question, set, value, type State } from '../model/state';
import type { SnapshotsResult, TimelineResult } from '../model/types';
import { eventsOf, findMoment, momentsOf, nearestMoment, type Event, type Moment } from '../model/moments';
import { bytes } from '../model/units';
import { errorOf } from './amount';
import { Chart, type Mark } from './chart';
import { useScope } from './scope';

export const TIMELINE_POINTS = '1000';

/** What to ask about the run; undefined: nothing yet, or nothing ever of a heap profile of another tool. */
function useRun(): State | undefined {
	const scope = useScope().state;
	return knownCosts.value ? undefined : scope;
}

/** The timeline, queried once for the whole page. */
export function useTimeline() {
	const scope = useRun();
	return useAnswer<TimelineResult>(scope ? canonical('timeline', askParams(scope, 'timeline', [['limit', TIMELINE_POINTS]])) : null);
}

/** Named moments. The page works without them: only the names are missing. */
export function useNamed(): SnapshotsResult | undefined {
	const scope = useRun();
	return useAnswer<SnapshotsResult>(scope ? canonical('snapshots', askParams(scope, 'snapshots')) : null).data;
}

/** How many names fit above a chart. */
const NAMES = 12;

/** The peak is last: its line is over the others, and its label is the first to get room. */
export function marksOf(moments: readonly Moment[], events: readonly Event[]): Mark[] {
	const kept = moments.filter((moment) => moment.kind === 'kept');
	const peaks = moments.filter((moment) => moment.kind === 'peak');
	/* Many snapshots may have one name: the first has it. */
	const first = (name: string | undefined) => kept.find((moment) => moment.name === name);
	const room = events.length + kept.filter((moment) => moment.name !== undefined).length <= NAMES;
	return [
		...events.map(({ at, name }) => ({ at, label: name, colour: 'soft', tall: room })),
		...kept.map((moment) => ({
			at: moment.at,
			label: first(moment.name) === moment ? (moment.name ?? '') : '',
			colour: 'soft',
			tall: room && moment.name !== undefined,
		})),
		...peaks.map(({ at }) => ({ at, label: 'peak', colour: 'series-a', tall: true })),
	];
}

/** The selected moments as a range; from and to are equal for a single moment. */
export function chosenRange(moments: readonly Moment[]): { from: number; to: number } | undefined {
	const cost = value('cost') ?? 'peak';
	const to = findMoment(moments, value('at') ?? 'end');
	if (cost !== 'live' && cost !== 'grown' && !inWindow()) return undefined;
	const from = cost !== 'live' ? findMoment(moments, value('minus') ?? 'peak') : to;
	return from && to && { from: Math.min(from.at, to.at), to: Math.max(from.at, to.at) };
}

export function choosePoint(moments: readonly Moment[], at: number): void {
	const moment = nearestMoment(moments, at);
	if (moment) set({ cost: 'live', at: moment.word, minus: null });
}

export function chooseRange(all: readonly Moment[], from: number, to: number): void {
	/* What is counted is known at snapshots and at the end, not at the peak. */
	const counted = question.value.ofWindow;
	const moments = counted ? all.filter((moment) => moment.kind !== 'peak') : all;
	const first = nearestMoment(moments, from);
	const last = nearestMoment(moments, to);
	if (!first || !last) return;
	if (first.word === last.word) set({ cost: 'live', at: last.word, minus: null });
	else if (counted) set({ at: last.word, minus: first.word });
	else set({ cost: 'grown', at: last.word, minus: first.word });
}

/** Arrows step through the snapshots; with Shift they move the end of a range. */
function onKey(event: TargetedKeyboardEvent<HTMLElement>, moments: readonly Moment[]): void {
	const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
	if (event.key === 'Escape') {
		set(inWindow() ? { at: null, minus: null } : { cost: costOf('peak'), at: null, minus: null });
		return;
	}
	if (!step || !moments.length) return;
	event.preventDefault();
	const cost = value('cost') ?? 'peak';
	const known = cost === 'live' || cost === 'grown' ? findMoment(moments, value('at') ?? 'end') : findMoment(moments, 'peak');
	const here = known ? moments.indexOf(known) : moments.length - 1;
	const next = moments[Math.max(0, Math.min(moments.length - 1, here + step))]!;
	if (event.shiftKey) set({ cost: 'grown', at: next.word, minus: value('minus') ?? known?.word ?? 'peak' });
	else set({ cost: 'live', at: next.word, minus: null });
}

export function Strip() {
	const answer = useTimeline();
	const named = useNamed();
	const timeline = answer.data?.timeline;
	if (knownCosts.value)
		return (
			<div class="strip soft">
				<span class="words">one moment: nothing is known over time</span>
			</div>
		);
	if (!timeline) return <div class="strip soft">{answer.status === 'error' ? 'No timeline: ' + (answer.error ?? '') : ''}</div>;
	if (timeline.length < 2)
		return (
			<div class="strip soft">
				<span class="words">too short to show over time</span>
			</div>
		);
	const moments = momentsOf(answer.data!, isLive.value, named);
	const most = Math.max(...timeline.map((point) => point.live_bytes));
	/* Beside a much larger RSS the heap would be a flat line, and its shape is what matters here. */
	const withRss = timeline.some((point) => point.rss_bytes) && Math.max(...timeline.map((point) => point.rss_bytes ?? 0)) < 4 * most;
	/* The words are where the label of the peak is not. */
	const last = timeline[timeline.length - 1]!.at_ns;
	const early = moments.some((moment) => moment.kind === 'peak' && moment.at < last / 2);
	return (
		<div
			class="strip"
			tabIndex={0}
			role="group"
			aria-label="Time. Left and right step through the snapshots, with Shift they choose a range, Escape goes back to the peak."
			onKeyDown={(event) => onKey(event, moments)}
		>
			<span class={`words ${early ? 'right' : ''}`}>
				live heap, at most {bytes(most)}
				{withRss ? '; RSS in grey' : ''}
			</span>
			<Chart
				label="Live heap and RSS over time"
				bare
				unit="bytes"
				height={60}
				times={timeline.map((point) => point.at_ns)}
				lines={[
					...(withRss ? [{ label: 'RSS', colour: 'series-rss', values: timeline.map((point) => point.rss_bytes || null), width: 1 }] : []),
					{
						label: 'live',
						colour: 'series-live',
						values: timeline.map((point) => point.live_bytes),
						errors: answer.data!.sampling ? timeline.map((point) => errorOf(point, 'live_bytes')) : undefined,
						fill: 'pale',
					},
				]}
				marks={marksOf(moments, eventsOf(named))}
				range={chosenRange(moments)}
				onPoint={(at) => choosePoint(moments, at)}
				onRange={(from, to) => chooseRange(moments, from, to)}
			/>
		</div>
	);
}
