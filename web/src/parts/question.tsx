// SPDX-License-Identifier: Apache-2.0
// The query: which number, at which moment; and the result in one line.
import { isLive } from '../model/live';
import { sumQuestion } from '../model/query';
import { UNSAVED_MOMENTS } from '../model/saved-sites';
import { saved, useAnswer } from '../model/source';
import { address, costOf, differing, endForPeak, hasCost, inWindow, peakUnknown, question, set, value, wordedQuestion } from '../model/state';
import type { Answered } from '../model/types';
import { share } from '../model/units';
import { Amount, amountText, errorOf, hintOf } from './amount';
import { QUESTIONS, questionOf, type Question } from '../model/words';
import { findMoment, momentsOf, type Moment } from '../model/moments';
import { useScope } from './scope';
import { useNamed, useTimeline } from './strip';

const MOMENT_NAMES = new Set(['live', 'grown']);

function choose(name: string, moments: readonly Moment[]): void {
	/* A selected range stays, unless it begins or ends at the peak, where nothing is counted. */
	if (questionOf(name).ofWindow && value('minus') && value('minus') !== 'peak' && value('at') !== 'peak') {
		set({ cost: name });
		return;
	}
	if (!MOMENT_NAMES.has(name)) {
		set({ cost: costOf(name), at: null, minus: null });
		return;
	}
	const kept = moments.filter((moment) => moment.kind === 'kept');
	set({
		cost: name,
		at: value('at') ?? (name === 'live' ? (kept[Math.floor(kept.length / 2)]?.word ?? 'end') : 'end'),
		minus: name === 'grown' ? (value('minus') ?? kept[0]?.word ?? 'peak') : null,
	});
}

function MomentPick({ label, name, moments }: { label: string; name: 'at' | 'minus'; moments: readonly Moment[] }) {
	const chosen = findMoment(moments, value(name) ?? 'end');
	return (
		<select aria-label={label} title={label} value={chosen?.word ?? ''} onChange={(event) => set({ [name]: event.currentTarget.value })}>
			{!chosen && <option value="">{value(name)}</option>}
			{moments.map((moment) => (
				<option key={moment.word} value={moment.word}>
					{moment.label}
				</option>
			))}
		</select>
	);
}

/** Whether the number needs other moments than a saved page has. */
function unsaved(q: Question): boolean {
	return saved.value && MOMENT_NAMES.has(q.name);
}

function options(ofMoment: boolean) {
	return QUESTIONS.filter((q) => q.ofMoment === ofMoment && hasCost(q.name)).map((q) => (
		<option key={q.name} value={q.name} disabled={unsaved(q)} title={unsaved(q) ? UNSAVED_MOMENTS : undefined}>
			{wordedQuestion(q.name).label}
			{unsaved(q) ? ' (not in a saved page)' : ''}
		</option>
	));
}

function useSum() {
	const scope = useScope();
	const answer = useAnswer<Answered>(scope.state ? sumQuestion(scope.state) : null);
	return { scope, answer };
}

/** A caveat about the number: that it is of the end, or what it excludes. */
function Note() {
	const { answer } = useSum();
	const note = answer.data?.unmatched ? undefined : answer.data?.note;
	if (!endForPeak.value && !note) return null;
	return (
		<div class="why soft" role="status" title={peakUnknown.value ?? note}>
			{endForPeak.value ? 'The peak is not known: other threads freed some of these blocks. This is the end.' : note}
		</div>
	);
}

/** The sum of what is shown, and the whole that it is a part of. */
function Sum({ asked }: { asked: Question }) {
	const { scope, answer } = useSum();
	const data = answer.data;
	if (answer.status === 'error')
		return (
			<span class="soft cut" title={answer.error}>
				{answer.absent ? 'not in this file' : answer.error}
			</span>
		);
	if (!data) return <span class="soft">…</span>;
	const signed = differing.value;
	const part = !signed && share(data.shown, data.total);
	const words = [
		...(scope.started !== undefined
			? [`process ${scope.started}`]
			: scope.count > 1 && !value('process')
				? [`${scope.count} processes`]
				: []),
		...(part && scope.started === undefined && data.shown !== data.total
			? [`${part} of ${amountText(data.total, asked.unit, errorOf(data, 'total'))}`]
			: []),
		data.moment,
	].join(', ');
	return (
		<>
			<strong title={hintOf(data.shown, asked.unit, errorOf(data, 'shown'))}>
				<Amount value={data.shown} unit={asked.unit} error={errorOf(data, 'shown')} signed={signed} />
			</strong>
			<span class="soft words" title={words}>
				{words}
			</span>
		</>
	);
}

/** `known`: whether it can be queried. The pick shows the user's choice, the result line what is shown instead. */
export function QuestionPick({ known }: { known: boolean }) {
	const asked = question.value;
	const timeline = useTimeline().data;
	const named = useNamed();
	const moments = timeline ? momentsOf(timeline, isLive.value, named) : [];
	const wanted = address.value.values.cost?.[0] ?? 'peak';
	const name = hasCost(wanted) ? wanted : asked.name;
	return (
		<div class="question">
			<div class="pick">
				<select
					id="question"
					aria-label="Question"
					title={asked.help}
					value={name}
					onChange={(event) => choose(event.currentTarget.value, moments)}
				>
					<optgroup label="At a moment">{options(true)}</optgroup>
					{hasCost('total') && <optgroup label="Over the whole run">{options(false)}</optgroup>}
				</select>
				{asked.ofMoment && (
					<select
						aria-label="Measured in"
						value={value('unit') ?? 'bytes'}
						onChange={(event) => set({ unit: event.currentTarget.value === 'blocks' ? 'blocks' : null })}
					>
						<option value="bytes">bytes</option>
						<option value="blocks">blocks</option>
					</select>
				)}
			</div>
			{inWindow() && (
				<div class="pick">
					<MomentPick label="from" name="minus" moments={moments.filter((moment) => moment.kind !== 'peak')} />
					<MomentPick label="to" name="at" moments={moments.filter((moment) => moment.kind !== 'peak')} />
					<button type="button" class="link" title="Count over the whole run" onClick={() => set({ at: null, minus: null })}>
						whole run
					</button>
				</div>
			)}
			{MOMENT_NAMES.has(name) && (
				<div class="pick">
					{name === 'grown' && <MomentPick label="from" name="minus" moments={moments} />}
					<MomentPick label={name === 'grown' ? 'to' : 'at'} name="at" moments={moments} />
				</div>
			)}
			<div class="answer">{known && <Sum asked={asked} />}</div>
			{known && <Note />}
		</div>
	);
}
