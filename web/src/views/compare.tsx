// SPDX-License-Identifier: Apache-2.0
// Compare: what changed between two recordings, over time, by function, in numbers and by stack; of more recordings, their spread. Every
// other view can compare too, with the switch beside the filters.
import { useEffect, useMemo } from 'preact/hooks';
import { Icicle } from '../flame/icicle';
import { changeEdge, mostChanged } from '../model/changes';
import { base } from '../model/frames';
import { ask as askParams, canonical } from '../model/query';
import { about, useAnswer } from '../model/source';
import { address, costOf, go, knownCosts, note, question, set, state, value, type State } from '../model/state';
import type { ChangesResult, Measure, StacksResult } from '../model/types';
import { bytes, percent, relative, type Unit } from '../model/units';
import { Amount, errorOf, hintOf } from '../parts/amount';
import { asking } from '../parts/copy';
import { Overlaid } from '../parts/overlaid';
import { onRowKey } from '../parts/row-keys';
import { changedColumns, type SiteRow } from '../parts/site-columns';
import { Stack } from '../parts/stack';
import { Answered, Empty, Failed, Loading, NoRows } from '../parts/states';
import { sortRows, Table } from '../parts/table';
import { hasTrend, Trend } from '../parts/trend';

/** Deep stacks are hundreds of bytes each, and the first ones are what matters. */
const STACKS = '100';

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
									onClick={() => set({ cost: costOf(asked.cost), unit: asked.unit ?? null, at: null, minus: null })}
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

/** "Peak +2.7 MiB, 98.0 % of it in T::grow (t.cc:9): the same number of blocks, 2.0 times their size." */
function changeWords(what: string, measure: Measure | undefined, owner: string | null, part: number, how: string | null): string {
	if (!measure) return `${what}: not known. `;
	if (measure.change === 0) return `${what} unchanged. `;
	const does = how ? `: ${how}` : '';
	const of = owner ? `, ${percent(Math.min(Math.abs(part), Math.abs(measure.change)), Math.abs(measure.change))} of it in ${owner}${does}` : '';
	const chance = measure.within_spread ? ', within the spread of the runs' : measure.within_noise ? ', within the noise of sampling' : '';
	return `${what} ${measure.change > 0 ? '+' : '−'}${bytes(Math.abs(measure.change))}${chance || of}. `;
}

function ChangeVerdict({ data }: { data: ChangesResult }) {
	const measure = (name: string) => data.changes.find((row) => row.measure === name);
	const verdict = data.verdict;
	if (!verdict) return null;
	return (
		<p class={`verdict ${changeEdge(['peak', 'leaked'].map(measure))}`}>
			{measure('peak') && changeWords('Peak', measure('peak'), verdict.peak_owner, verdict.peak_owner_change, verdict.peak_owner_how)}
			{changeWords(knownCosts.value ? 'Live' : 'Not freed', measure('leaked'), verdict.not_freed_owner, verdict.not_freed_owner_change, verdict.not_freed_owner_how)}
		</p>
	);
}

function Stacks() {
	const asked = question.value;
	const answer = useAnswer<StacksResult>(canonical('sites', askParams(compared(state.value), 'sites', [['limit', STACKS]])));
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

function ByFunction() {
	const open = { compare: '1' };
	const { label, unit } = question.value;
	return (
		<section class="panel" aria-labelledby="by-function-title">
			<h2 id="by-function-title">
				<button type="button" class="link" onClick={() => go('flame', open)}>
					The change by function
				</button>{' '}
				<span class="soft">{label.toLowerCase()}; as wide as the larger of before and after</span>
			</h2>
			<Icicle scope={compared(state.value)} open={open} label={`Call tree of the change: ${label.toLowerCase()}`} unit={unit} />
		</section>
	);
}

function Alone() {
	const all = about.value!;
	return (
		<>
			{hasTrend() && <Trend />}
			<Empty title={hasTrend() ? 'No older recording' : 'One recording alone'}>
				<p>To see what changed, name the older recording too:</p>
				<code>heapgauge view {all.files.map((file) => base(file.path)).join(' ') || 'NEW.hg'} --against OLD.hg</code>
			</Empty>
		</>
	);
}

function Comparison({ data }: { data: ChangesResult }) {
	const file = about.value!.files[Number(value('file') ?? 0)]?.name;
	return (
		<>
			<p>
				<b>{base(about.value!.before)}</b> <span class="soft">before,</span> <b>{file}</b>{' '}
				<span class="soft">after. Stacks match by their functions and modules, not by addresses.</span>
			</p>
			<ChangeVerdict data={data} />
			{!knownCosts.value && <Overlaid />}
			<ByFunction />
			{hasTrend() && <Trend />}
			<section class="panel changes-pane" aria-label="What changed">
				<Changes changes={data.changes} />
			</section>
			<section class="panel changed-stacks" aria-labelledby="changed-stacks-title">
				<div class="toolbar">
					<h2 id="changed-stacks-title">Stacks that changed most: {question.value.label.toLowerCase()}</h2>
					<span class="grow" />
					<button type="button" onClick={() => go('sites', { compare: '1', by: 'function' })}>
						By function
					</button>
				</div>
				<Stacks />
			</section>
		</>
	);
}

export function CompareView() {
	const params = askParams(compared(state.value), 'summary');
	const can = about.value?.compare ?? false;
	const answer = useAnswer<ChangesResult>(can ? canonical('summary', params) : null);
	const asked = address.value.values.cost !== undefined;
	useEffect(() => {
		if (can && value('compare') !== '1') note({ compare: '1' });
	}, [can]);
	useEffect(() => {
		if (answer.data && !asked) note({ cost: mostChanged(answer.data.changes) });
	}, [answer.data, asked]);
	useEffect(() => {
		asking.value = { view: 'sites', params: askParams(compared(state.value), 'sites') };
	}, [state.value]);
	if (!about.value)
		return (
			<div class="view">
				<Loading what="Loading the list of recordings" />
			</div>
		);
	return (
		<div class="view start compare" tabIndex={0} role="region" aria-label="Compare">
			{can ? (
				<Answered answer={answer} what="Comparing">
					{(data) => (asked ? <Comparison data={data} /> : null)}
				</Answered>
			) : (
				<Alone />
			)}
		</div>
	);
}
