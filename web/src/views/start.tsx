// SPDX-License-Identifier: Apache-2.0
// Start: what happened, at a glance, and where to look next.
import { useEffect, useState } from 'preact/hooks';
import { Icicle } from '../flame/icicle';
import { savingsOf } from '../model/advice';
import { base, ownerOf, placeOf, shortName, splitOwner } from '../model/frames';
import { unjudgedWords } from '../model/growth';
import { listedOf, pidsOf, startedOf } from '../model/processes';
import { ask as askParams, canonical, filtersOf, ignoredFilters, sumQuestion } from '../model/query';
import { useAnswer, type Answer } from '../model/source';
import { go, knownCosts, peakUnknown, set, value, wordedQuestion, type Changes, type State } from '../model/state';
import type { Answered as Sums, AdviceResult, GroupsResult, GrowthResult, MemoryResult, Process, ProcessesResult, TimelineResult } from '../model/types';
import { bytes, duration, percent, plural } from '../model/units';
import type { QuestionName } from '../model/words';
import { Amount, errorOf, hintOf } from '../parts/amount';
import { useSummary } from '../parts/badge';
import { BalanceLines, BalanceSheet, lastSheet } from '../parts/balance';
import { Cards, ImportedCards } from '../parts/cards';
import { betweenWords, LayerTable, MemoryChart, peakOf, useChart, useHistory, useLayers } from '../parts/layered';
import { asking } from '../parts/copy';
import { escapeRegex } from '../parts/row-keys';
import { useScope, type Scope } from '../parts/scope';
import { groupKey } from '../parts/site-columns';
import { Answered, Empty, Failed, Loading } from '../parts/states';
import { useTimeline } from '../parts/strip';
import { VerdictText } from '../parts/verdict';

const TOP_ROWS = '300';
const TOP_OWNERS = '20';
const LISTED = 7;
/** A filter that matches every command. */
const ALL = '.';

/** The process filter of this page, for views opened from here. */
function only(scope: State): Changes {
	return { process: scope.values.process ?? null };
}

function Ignored({ scope, view }: { scope: State; view: string }) {
	const ignored = ignoredFilters(scope, view);
	return ignored.length ? <span class="soft">{ignored.join(', ')}: not for this</span> : null;
}

function endText(process: Process): string {
	if (process.end === 'running') return 'was still running';
	if (process.exit_code !== null && process.end.startsWith('exit')) return `ended with status ${process.exit_code}`;
	return process.exit_code !== null ? `${process.end} by signal ${process.exit_code}` : process.end;
}

/** Without the directory of the program: cc1plus -quiet main.c */
function shortCommand(command: string): string {
	const [program = '', ...rest] = command.split(' ');
	return [base(program), ...rest].join(' ');
}

/** Selecting another process changes the query, and so the address. */
function ProcessPick({ all, scope }: { all: readonly Process[]; scope: Scope }) {
	const chosen = value('process') ?? '';
	const pids = pidsOf(all);
	const known = chosen === '' || chosen === ALL || pids.map(String).includes(chosen);
	return (
		<select aria-label="Process" value={chosen || String(scope.started)} onChange={(event) => set({ process: event.currentTarget.value })}>
			{!known && <option value={chosen}>{chosen}</option>}
			{pids.map((pid, i) => (
				<option key={pid} value={String(pid)}>
					{pid} {shortCommand(all.filter((process) => process.pid === pid).at(-1)!.command).slice(0, 60)}
					{i === 0 ? ', the one that was started' : ''}
				</option>
			))}
			<option value={ALL}>all {all.length}, each at its own peak</option>
		</select>
	);
}

function Headline({ all, shown, scope }: { all: readonly Process[]; shown: readonly Process[]; scope: Scope }) {
	const process = startedOf(shown)!;
	return (
		<p class="headline">
			{all.length > 1 && <ProcessPick all={all} scope={scope} />}{' '}
			{pidsOf(shown).length > 1 ? (
				<>All numbers are sums over {plural(shown.length, 'process', 'processes')}.</>
			) : (
				<>
					<b class="code command cut" title={process.command}>
						{shortCommand(process.command)}
					</b>{' '}
					(pid {process.pid}) {endText(process)} after {duration(process.duration_ns)}.
					{shown.length > 1 && <> It was {plural(shown.length, 'program')}, one after the other; numbers are sums over them.</>}
				</>
			)}
		</p>
	);
}

/** All processes of the recording: their totals, and a list to choose from. */
function Together({ data, shown }: { data: ProcessesResult; shown: readonly Process[] }) {
	const rows = listedOf(data.processes, LISTED);
	const chosen = new Set(pidsOf(shown));
	return (
		<section class="panel" aria-labelledby="processes-title">
			<h2 id="processes-title">
				<button type="button" class="link" onClick={() => go('threads', { tab: 'processes' })}>
					{plural(data.processes.length, 'process', 'processes')}
				</button>{' '}
				<span class="soft">
					together at most <Amount value={data.peak_bytes} unit="bytes" error={errorOf(data, 'peak_bytes')} /> of heap at one
					moment, at {duration(data.peak_at_ns)}
					{data.run.peak_bound_bytes > 0 && <>, or up to {bytes(data.run.peak_bound_bytes)} more</>}
				</span>
			</h2>
			<table class="plain together">
				<thead>
					<tr>
						<th class="number">PID</th>
						<th class="number">Peak</th>
						<th class="number">At end</th>
						<th class="number">Mapped</th>
						<th class="number">Max RSS</th>
						<th>Command</th>
					</tr>
				</thead>
				<tbody>
					{rows.map((process, i) => (
						<tr key={i} class={chosen.has(process.pid) ? 'chosen' : ''}>
							<td class="number">
								<button type="button" class="link" onClick={() => set({ process: String(process.pid) })}>
									{process.pid}
								</button>
							</td>
							<td class="number">
								<Amount value={process.peak_bytes} unit="bytes" error={errorOf(process, 'peak_bytes')} />
							</td>
							<td class="number">
								<Amount value={process.not_freed_bytes} unit="bytes" error={errorOf(process, 'not_freed_bytes')} />
							</td>
							<td class="number">{bytes(process.mmap_peak_bytes)}</td>
							<td class="number">{process.peak_rss_bytes ? bytes(process.peak_rss_bytes) : 'not known'}</td>
							<td class="code cut" title={process.command}>
								{shortCommand(process.command)}
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

/** Explains that the numbers are estimates. */
function Sampled({ data }: { data: ProcessesResult }) {
	const sampling = data.sampling;
	if (!sampling) return null;
	return (
		<p class="line-of-words soft" role="note">
			Estimates from {plural(sampling.samples, 'sample')}, one for each {bytes(sampling.interval_bytes)} on average. ± is the
			standard error; the 95 % interval is 2 standard errors either way for 30 samples or more, 3 for 5, 6 for 2, 13 for 1.
			{sampling.peak_bias_bytes > 0 && (
				<> The peak is the largest of many estimates and therefore too high on average, by {bytes(sampling.peak_bias_bytes)} at most.</>
			)}
		</p>
	);
}

function Findings({ scope }: { scope: State }) {
	const answer = useAnswer<AdviceResult>(canonical('advice', askParams(scope, 'advice')));
	return (
		<section class="panel" aria-labelledby="findings-title">
			<h2 id="findings-title">
				Advice {answer.data && <span class="soft">{plural(answer.data.finding_count, 'finding')}</span>}
				<Ignored scope={scope} view="advice" />
			</h2>
			<Answered answer={answer} what="Looking for possible improvements">
				{(advice) =>
					advice.findings.length === 0 ? (
						<p class="soft">No findings: no rule matches the recorded sites{unjudgedWords(advice)}.</p>
					) : (
						<ol class="findings">
							{advice.findings.map((finding, i) => {
								const owner = ownerOf(finding.stack, advice.frames);
								return (
									<li key={i}>
										<div class="finding-head">
											<button
												type="button"
												class="link code cut"
												title={owner?.function}
												onClick={() =>
													go('sites', { ...only(scope), focus: owner ? `^${escapeRegex(owner.function)}$` : null, sel: owner?.function })
												}
											>
												{owner ? shortName(owner.function) : '[no stack]'}
											</button>
											<span class="soft cut">{owner ? placeOf(owner) : ''}</span>
											<b>
												{savingsOf(finding)}
												{finding.processes > 1 && ` in ${plural(finding.processes, 'process', 'processes')}`}
											</b>
										</div>
										<div>
											{finding.title}. <span class="soft">{finding.todo}</span>
										</div>
									</li>
								);
							})}
						</ol>
					)
				}
			</Answered>
		</section>
	);
}

/** The state that asks for one number of the selected processes. */
function questioned(scope: State, name: QuestionName, kind?: string): State {
	const values = { ...scope.values, cost: [name], unit: [], at: [], minus: [], compare: [] };
	return { ...scope, values: kind ? { ...values, kind: [kind] } : values };
}

/** The sum of one number over the selected processes. */
function useSum(scope: State | undefined, name: QuestionName) {
	return useAnswer<Sums>(scope ? sumQuestion(questioned(scope, name)) : null);
}

/** A row of --by own. */
interface Owner {
	/** "Cache::insert (store.cc:35)" */
	own: string;
	[key: string]: unknown;
}

/** The owners of the most by one number. The title links to the full list. */
function TopList({ scope, name, title, kind }: { scope: State; name: QuestionName; title: string; kind?: string }) {
	const asked = wordedQuestion(name);
	const unknown = name === 'peak' ? peakUnknown.value : undefined;
	const of = questioned(scope, name, kind);
	const params = askParams(of, 'functions', [
		['by', 'own'],
		['limit', TOP_OWNERS],
	]);
	const answer = useAnswer<GroupsResult>(unknown === undefined ? canonical('functions', params) : null);
	const there = {
		...only(scope),
		cost: name === 'peak' ? null : name,
		unit: null,
		at: null,
		minus: null,
		compare: null,
		...(kind ? { kind } : {}),
	};
	return (
		<section class="panel top" aria-label={title}>
			<h2>
				<button type="button" class="link" onClick={() => go('sites', { ...there, by: 'own' })}>
					{title}
				</button>
			</h2>
			<Answered answer={answer} what="Adding up" {...(unknown === undefined ? {} : { instead: 'not known of these threads' })}>
				{(data) => {
					const key = groupKey(asked);
					const rows = (data.owners as Owner[]).slice(0, LISTED).filter((row) => Number(row[key]) > 0);
					return rows.length === 0 ? (
						<p class="soft">{data.unmatched ? data.note : 'none'}</p>
					) : (
						<table class="plain">
							<tbody>
								{rows.map((row) => {
									const owner = splitOwner(row.own);
									const value = Number(row[key]);
									return (
										<tr key={row.own}>
											<td class="number" title={hintOf(value, asked.unit, errorOf(row, key))}>
												<Amount value={value} unit={asked.unit} error={errorOf(row, key)} />
											</td>
											<td class="number soft">{percent(value, data.shown)}</td>
											<td class="name" title={row.own}>
												<button
													type="button"
													class="link code"
													onClick={() => go('sites', { ...there, by: null, focus: `^${escapeRegex(owner.name)}$` })}
												>
													{shortName(owner.name)}
												</button>
												<span class="soft"> {owner.place}</span>
											</td>
										</tr>
									);
								})}
							</tbody>
						</table>
					);
				}}
			</Answered>
		</section>
	);
}

function Balance({
	scope,
	answer,
	pids,
	several,
}: {
	scope: State;
	answer: Answer<MemoryResult>;
	pids: readonly number[];
	several: boolean;
}) {
	return (
		<section class="panel" aria-labelledby="balance-title">
			<h2 id="balance-title">
				Where the memory was
				<Ignored scope={scope} view="memory" />
			</h2>
			<Answered answer={answer} what="Reading the balance sheet">
				{(data) =>
					pids.length > 1 ? (
						<BalanceLines rows={data.memory} pids={pids} />
					) : (
						<BalanceSheet rows={data.memory} pid={pids[0]!} several={several} />
					)
				}
			</Answered>
		</section>
	);
}

/** The timeline by owner. A click selects a moment for all views, as on the strip above. */
function OverTime({ scope, timeline }: { scope: State; timeline: TimelineResult }) {
	const [index, setIndex] = useState<number | null>(null);
	const history = useHistory(questioned(scope, 'peak')).data;
	const layers = useLayers(history, timeline.timeline);
	const common = useChart(timeline, setIndex);
	const peak = peakOf(timeline.timeline);
	return (
		<section class="panel over-time" aria-labelledby="over-time-title">
			<h2 id="over-time-title">
				<button type="button" class="link" onClick={() => go('time', only(scope))}>
					Over time
				</button>{' '}
				<span class="soft">
					{index === null ? 'at the peak' : `at ${duration(timeline.timeline[index]!.at_ns)}`}
					{betweenWords(history, timeline.timeline[index ?? peak]!)}
				</span>
			</h2>
			<div class="over-time-parts">
				<MemoryChart common={common} points={timeline.timeline} layers={layers} withRss={false} height={220} />
				<LayerTable layers={layers} at={index ?? peak} scope={only(scope)} />
			</div>
		</section>
	);
}

/** Who holds the peak, or what is live, by caller and callee. */
function MemoryTree({ scope, name, what }: { scope: State; name: 'peak' | 'leaked'; what: string }) {
	if (name === 'peak' && peakUnknown.value !== undefined) return null;
	const open = { ...only(scope), cost: name === 'peak' ? null : name, unit: null, at: null, minus: null, compare: null };
	return (
		<section class="panel" aria-labelledby="peak-tree-title">
			<h2 id="peak-tree-title">
				<button type="button" class="link" onClick={() => go('flame', open)}>
					{what} by function
				</button>
			</h2>
			<Icicle scope={questioned(scope, name)} open={open} label={`Call tree of ${what.toLowerCase()}`} />
		</section>
	);
}

/** A heap profile of another tool: live memory at one moment, and often totals. */
function Imported({ of, data }: { of: State; data: ProcessesResult }) {
	const process = startedOf(data.processes)!;
	const totals = knownCosts.value!.includes('calls');
	const live = useSum(of, 'leaked').data;
	const calls = useSum(totals ? of : undefined, 'calls').data;
	return (
		<>
			<p class="headline">
				<b class="code command cut" title={process.command}>
					{shortCommand(process.command) || base(data.file)}
				</b>{' '}
				in a heap profile of another tool: live memory at one moment{totals ? ', and totals' : ''}. The peak, times, sizes, lifetimes and
				threads are not known.
			</p>
			<Sampled data={data} />
			<ImportedCards process={process} live={live} calls={totals ? calls : null} open={(view, changes) => go(view, changes)} />
			<MemoryTree scope={of} name="leaked" what="Live memory" />
			<div class="columns">
				<TopList scope={of} name="leaked" title="Most live memory" />
				{totals && <TopList scope={of} name="calls" title="Most allocations" />}
			</div>
		</>
	);
}

/** Cards and lists of the selected processes; `all` are those of the recording. */
function Chosen({ scope, all, chosen }: { scope: Scope & { state: State }; all: ProcessesResult; chosen: ProcessesResult }) {
	const shown = chosen.processes;
	/* One number may have been several programs, one after the other. */
	const judged = startedOf(shown.filter((process) => process.pid === chosen.verdict?.pid));
	const of = scope.state;
	const finer = filtersOf(of).some((name) => name !== 'process');
	const sums = finer ? of : undefined;
	const filtered = {
		peak: useSum(peakUnknown.value === undefined ? sums : undefined, 'peak').data,
		peakUnknown: peakUnknown.value !== undefined,
		leaked: useSum(sums, 'leaked').data,
		calls: useSum(sums, 'calls').data,
		whole: !of.values.kind && !of.values.pool,
	};
	const growth = useAnswer<GrowthResult>(canonical('growth', askParams(of, 'growth', [['limit', TOP_ROWS]])));
	const memory = useAnswer<MemoryResult>(canonical('memory', askParams(of, 'memory')));
	const timeline = useTimeline().data;
	const pids = pidsOf(shown);
	const several = all.processes.length > 1;
	const maps = shown.some((process) => process.mmap_calls > 0);
	return (
		<>
			<Headline all={all.processes} shown={shown} scope={scope} />
			{chosen.verdict && judged && !finer && (
				<VerdictText
					verdict={chosen.verdict}
					process={judged}
					among={pids.length > 1}
					open={(view, changes) => go(view, { ...only(of), at: null, minus: null, unit: null, ...changes })}
				/>
			)}
			<Sampled data={all} />
			<Cards
				processes={shown}
				growth={growth.data}
				timeline={timeline}
				sheet={memory.data && pids.length === 1 ? lastSheet(memory.data.memory, pids[0]!) : undefined}
				{...(finer ? { filtered } : {})}
				open={(view, changes) => go(view, { ...only(of), at: null, minus: null, unit: null, ...changes })}
			/>
			{timeline && timeline.timeline.length > 1 && <OverTime scope={of} timeline={timeline} />}
			<MemoryTree scope={of} name="peak" what="The peak" />
			<div class="columns">
				<div>
					<Findings scope={of} />
					<TopList scope={of} name="peak" title="Most at the peak" />
					<TopList scope={of} name="calls" title="Most allocations" />
				</div>
				<div>
					{several && <Together data={all} shown={shown} />}
					<Balance scope={of} answer={memory} pids={pids} several={several} />
					{maps && !of.values.kind && <TopList scope={of} name="max" title="Most mapped" kind="mmap" />}
					<TopList scope={of} name="leaked" title="Most not freed at exit" />
					<TopList scope={of} name="temporary" title="Most temporary allocations" />
				</div>
			</div>
		</>
	);
}

function Nothing() {
	return (
		<Empty title="Nothing was allocated">
			<p>
				The program allocated nothing while it was recorded. If it is statically linked or has its own allocator, this shows why:
			</p>
			<code>heapgauge doctor PROGRAM</code>
		</Empty>
	);
}

export function StartView() {
	const scope = useScope();
	const all = useSummary();
	const key = scope.state ? canonical('summary', askParams(scope.state, 'summary')) : null;
	const chosen = useAnswer<ProcessesResult>(key);
	useEffect(() => {
		if (scope.state) asking.value = { view: 'summary', params: askParams(scope.state, 'summary') };
	}, [key]);
	const of = scope.state;
	const failed = all.status === 'error' ? all : chosen;
	if (failed.status === 'error')
		return (
			<div class="view">
				<Failed answer={failed} />
			</div>
		);
	if (!all.data || !chosen.data || !of)
		return (
			<div class="view">
				<Loading what="Reading the recording" />
			</div>
		);
	const { processes } = all.data;
	if (knownCosts.value)
		return (
			<div class="view start" tabIndex={0} role="region" aria-label="Start here">
				<Imported of={of} data={all.data} />
			</div>
		);
	if (!processes.some((process) => process.calls || process.mmap_calls))
		return (
			<div class="view">
				<Nothing />
			</div>
		);
	return (
		<div class="view start" tabIndex={0} role="region" aria-label="Start here">
			<Chosen scope={{ ...scope, state: of }} all={all.data} chosen={chosen.data} />
		</div>
	);
}
