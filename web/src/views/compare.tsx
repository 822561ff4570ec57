// SPDX-License-Identifier: Apache-2.0
// Compare: two recordings side by side, and what changed most. Every other view can compare too, with the switch beside the filters.
import { useEffect, useMemo } from 'preact/hooks';
import { base } from '../model/frames';
import { ask as askParams, canonical } from '../model/query';
import { about, useAnswer } from '../model/source';
import { go, note, question, set, state, value, type State } from '../model/state';
import type { ChangesResult, Measure, StacksResult } from '../model/types';
import { bytes, percent, relative, type Unit } from '../model/units';
import { Amount, errorOf, hintOf } from '../parts/amount';
import { asking } from '../parts/copy';
import { onRowKey } from '../parts/row-keys';
import { changedColumns, type SiteRow } from '../parts/site-columns';
import { Stack } from '../parts/stack';
import { Answered, Empty, Failed, Loading, NoRows } from '../parts/states';
import { sortRows, Table } from '../parts/table';

interface Asked {
	cost: string;
	unit?: string;
	measured: Unit;
	/** The label, if it differs from the key. */
	words?: string;
}

const QUESTIONS: Readonly<Record<string, Asked>> = {
	peak: { cost: 'peak', measured: 'bytes' },
	leaked: { cost: 'leaked', measured: 'bytes', words: 'not freed' },
	'leaked blocks': { cost: 'leaked', unit: 'blocks', measured: 'count', words: 'blocks not freed' },
	total: { cost: 'total', measured: 'bytes' },
	calls: { cost: 'calls', measured: 'count' },
	temporary: { cost: 'temporary', measured: 'count' },
	'copied by realloc': { cost: 'realloc', measured: 'bytes' },
	waste: { cost: 'waste', measured: 'bytes' },
};

function compared(from: State): State {
	return { ...from, values: { ...from.values, compare: ['1'] } };
}

/** Left of the middle shrank, right of it grew; the full width is a factor of two. */
function Swing({ measure }: { measure: Measure }) {
	const part = measure.before ? Math.max(-1, Math.min(1, measure.change / measure.before)) : Math.sign(measure.change);
	return (
		<span class="swing" aria-hidden="true">
			<i class={part < 0 ? 'down' : 'up'} style={{ left: `${part < 0 ? 50 + part * 50 : 50}%`, width: `${Math.abs(part) * 50}%` }} />
		</span>
	);
}

function Changes({ changes }: { changes: readonly Measure[] }) {
	const chosen = (row: Measure) => {
		const asked = QUESTIONS[row.measure];
		return asked !== undefined && asked.cost === question.value.name && (asked.unit ?? 'bytes') === (value('unit') ?? 'bytes');
	};
	return (
		<table class="plain changes">
			<thead>
				<tr>
					<th>Measure</th>
					<th class="number">Before</th>
					<th class="number">After</th>
					<th class="number">Change</th>
					<th class="number">of before</th>
					<th class="wide">
						<span class="hidden-words">Bar</span>
					</th>
					<th>
						<span class="hidden-words">Note</span>
					</th>
				</tr>
			</thead>
			<tbody>
				{changes.map((row) => {
					const asked: Asked = QUESTIONS[row.measure] ?? { cost: 'peak', measured: 'count' };
					const sign = row.change > 0 ? 'grew' : row.change < 0 ? 'shrank' : 'soft';
					return (
						<tr key={row.measure} class={chosen(row) ? 'chosen' : ''}>
							<td>
								<button
									type="button"
									class="link"
									onClick={() => set({ cost: asked.cost === 'peak' ? null : asked.cost, unit: asked.unit ?? null, at: null, minus: null })}
								>
									{asked.words ?? row.measure}
								</button>
							</td>
							<td class="number" title={hintOf(row.before, asked.measured, errorOf(row, 'before'))}>
								<Amount value={row.before} unit={asked.measured} error={errorOf(row, 'before')} />
							</td>
							<td class="number" title={hintOf(row.after, asked.measured, errorOf(row, 'after'))}>
								<Amount value={row.after} unit={asked.measured} error={errorOf(row, 'after')} />
							</td>
							<td class={`number ${sign}`} title={hintOf(row.change, asked.measured, errorOf(row, 'change'))}>
								<Amount value={row.change} unit={asked.measured} error={errorOf(row, 'change')} signed />
							</td>
							<td class={`number ${sign}`}>{row.before ? relative(row.change, row.before) : row.after ? 'new' : ''}</td>
							<td class="wide">
								<Swing measure={row} />
							</td>
							<td class="soft">
								{row.within_spread ? 'within the spread of the runs' : row.within_noise ? 'within the noise of sampling' : ''}
							</td>
						</tr>
					);
				})}
			</tbody>
		</table>
	);
}

/** "Peak +2.7 MiB, 98.0 % of it in T::grow (t.cc:9)." */
function changeWords(what: string, measure: Measure | undefined, owner: string | null, part: number): string {
	if (!measure || measure.change === 0) return `${what} unchanged. `;
	const of = owner ? `, ${percent(Math.min(Math.abs(part), Math.abs(measure.change)), Math.abs(measure.change))} of it in ${owner}` : '';
	const chance = measure.within_spread ? ', within the spread of the runs' : measure.within_noise ? ', within the noise of sampling' : '';
	return `${what} ${measure.change > 0 ? '+' : '−'}${bytes(Math.abs(measure.change))}${chance || of}. `;
}

function ChangeVerdict({ data }: { data: ChangesResult }) {
	const measure = (name: string) => data.changes.find((row) => row.measure === name);
	const verdict = data.verdict;
	if (!verdict) return null;
	const rises = ['peak', 'leaked'].map((name) => measure(name)).filter((row) => row && row.change > 0 && !row.within_spread && !row.within_noise);
	return (
		<p class={`verdict ${rises.length ? 'unclear' : 'freed'}`}>
			{changeWords('Peak', measure('peak'), verdict.peak_owner, verdict.peak_owner_change)}
			{changeWords('Not freed', measure('leaked'), verdict.not_freed_owner, verdict.not_freed_owner_change)}
		</p>
	);
}

function Stacks() {
	const asked = question.value;
	const answer = useAnswer<StacksResult>(canonical('sites', askParams(compared(state.value), 'sites', [['limit', '300']])));
	const data = answer.data;
	const rows = useMemo(
		() =>
			(data?.stacks ?? []).map((stack, i): SiteRow => ({
				id: `c${i}`,
				values: stack as unknown as Record<string, unknown>,
				stack: stack.stack,
				frames: data!.frames,
			})),
		[data],
	);
	const columns = useMemo(() => (data ? changedColumns(asked, data).filter((column) => !column.optional) : []), [data, asked]);
	const text = value('sort') ?? '';
	const sorting = { key: text.replace(/^-/, '') || 'change', down: text === '' || text.startsWith('-') };
	const sorted = useMemo(() => (text ? sortRows(rows, columns, sorting) : rows), [rows, text]);
	const chosen = sorted.findIndex((row) => row.id === value('site'));
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!data) return <Loading what="Matching stacks" />;
	if (data.unmatched) return <NoRows data={data} />;
	if (!rows.length)
		return (
			<Empty title="Nothing changed">
				<p>All stacks have the same {asked.label.toLowerCase()} in both recordings.</p>
			</Empty>
		);
	const row = sorted[chosen];
	return (
		<div class="split">
			<Table
				label="Stacks that changed"
				columns={columns}
				rows={sorted}
				sorting={sorting}
				onSort={(by) => note({ sort: by.down ? `-${by.key}` : by.key })}
				chosen={chosen}
				onChoose={(index) => note({ site: sorted[index]?.id })}
				onKey={(event, index) => {
					if (event.key !== 'Escape') return onRowKey(event, sorted[index], 'site');
					note({ site: null });
					return true;
				}}
			/>
			{row && (
				<aside class="side" aria-label="The selected stack" tabIndex={0}>
					<header>
						<h2>Stack, innermost first</h2>
						<button type="button" class="plain" aria-label="Close" onClick={() => note({ site: null })}>
							×
						</button>
					</header>
					<section>
						<Stack stack={row.stack ?? []} frames={row.frames ?? []} />
					</section>
				</aside>
			)}
		</div>
	);
}

export function CompareView() {
	const params = askParams(compared(state.value), 'summary');
	const can = about.value?.compare ?? false;
	const answer = useAnswer<ChangesResult>(can ? canonical('summary', params) : null);
	useEffect(() => {
		if (can && value('compare') !== '1') note({ compare: '1' });
	}, [can]);
	useEffect(() => {
		asking.value = { view: 'sites', params: askParams(compared(state.value), 'sites') };
	}, [state.value]);
	if (!about.value)
		return (
			<div class="view">
				<Loading what="Loading the list of recordings" />
			</div>
		);
	if (!can)
		return (
			<div class="view">
				<Empty title="One recording alone">
					<p>To see what changed, name the older recording too:</p>
					<code>heapgauge view {base(about.value.files[0]?.path) || 'NEW.hg'} --against OLD.hg</code>
				</Empty>
			</div>
		);
	return (
		<div class="view fixed compare">
			<section class="changes-pane">
				<p>
					<b>{base(about.value.before)}</b> <span class="soft">before,</span> <b>{about.value.files[0]?.name}</b>{' '}
					<span class="soft">after. Stacks match by their functions and modules, not by addresses.</span>
				</p>
				<Answered answer={answer} what="Comparing">
					{(data) => (
						<>
							<ChangeVerdict data={data} />
							<Changes changes={data.changes} />
						</>
					)}
				</Answered>
			</section>
			<div class="toolbar">
				<h2>Stacks that changed most: {question.value.label.toLowerCase()}</h2>
				<span class="grow" />
				<button type="button" onClick={() => go('flame', { compare: '1' })}>
					As flame graph
				</button>
				<button type="button" onClick={() => go('sites', { compare: '1', by: 'function' })}>
					By function
				</button>
			</div>
			<Stacks />
		</div>
	);
}
