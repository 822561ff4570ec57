// SPDX-License-Identifier: Apache-2.0
// Start here: what happened, in one glance, and where to look next.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { base, ownerOf, placeOf, shortName } from '../model/frames';
import { ask as askParams, canonical } from '../model/query';
import { useAnswer } from '../model/source';
import { go, state } from '../model/state';
import type { AdviceResult, GrowthResult, MemoryResult, Process, ProcessesResult, SitesResult } from '../model/types';
import { bytes, count, duration, exact, percent, plural, quantity, spread } from '../model/units';
import { questionOf, type QuestionName } from '../model/words';
import { asking } from '../parts/copy';
import { useSummary } from '../parts/badge';
import { Answered, Empty, Loading } from '../parts/states';
import { BalanceSheet } from '../parts/balance';
import { savingsOf } from '../model/advice';
import { escapeRegex } from '../parts/row-keys';
import { Amount, errorOf, hintOf } from '../parts/amount';

export const TOP_ROWS = '300';
const LISTED = 7;

export function largest(processes: readonly Process[]): Process | undefined {
	return processes.reduce<Process | undefined>((best, p) => (!best || p.peak_bytes > best.peak_bytes ? p : best), undefined);
}

function endText(process: Process): string {
	if (process.end === 'running') return 'was still running';
	if (process.exit_code !== null && process.end.startsWith('exit')) return `ended with status ${process.exit_code}`;
	return process.exit_code !== null ? `${process.end} by signal ${process.exit_code}` : process.end;
}

/** Without the folder of the program: cc1plus -quiet main.c */
function shortCommand(command: string): string {
	const [program = '', ...rest] = command.split(' ');
	return [base(program), ...rest].join(' ');
}

function Headline({ processes, process }: { processes: readonly Process[]; process: Process }) {
	return (
		<p class="headline">
			<b class="code command cut" title={process.command}>
				{shortCommand(process.command)}
			</b>{' '}
			(pid {process.pid}) {endText(process)} after {duration(process.duration_ns)}.
			{processes.length > 1 && <> {plural(processes.length, 'process', 'processes')} in all; the numbers below are of the largest.</>}
		</p>
	);
}

function Card({
	title,
	value,
	hint,
	error,
	children,
	onOpen,
}: {
	title: string;
	value: string;
	hint?: string;
	error?: string;
	children?: ComponentChildren;
	onOpen: () => void;
}) {
	return (
		<section class="card" aria-label={title}>
			<h2>
				<button type="button" class="link" onClick={onOpen}>
					{title}
				</button>
			</h2>
			<div class="figure" title={hint}>
				{value}
				{error && (
					<small class="error" title="Standard error: 95 times of 100 the true number is within twice this">
						{' '}
						{error}
					</small>
				)}
			</div>
			<div class="soft">{children}</div>
		</section>
	);
}

function growthWords(growth: GrowthResult): ComponentChildren {
	if (growth.growing_sites)
		return (
			<>
				in {plural(growth.growing_sites, 'site')} that {growth.growing_sites === 1 ? 'keeps' : 'keep'} growing
			</>
		);
	if (growth.heap_verdict === 'growing') return 'the heap as a whole; no single site is sure to';
	return growth.bounded_sites ? 'no site keeps growing' : 'too few kept moments to tell: record for longer';
}

function growthFigure(growth: GrowthResult): string {
	if (growth.growing_sites) return quantity(growth.growing_bytes_per_second, 'bytes-rate');
	if (growth.heap_verdict === 'growing') return quantity(growth.heap_bytes_per_second, 'bytes-rate');
	return growth.bounded_sites ? 'none' : 'not known';
}

/** What it means that numbers are estimates: no number alone can say it. */
function Sampled({ data }: { data: ProcessesResult }) {
	const sampling = data.sampling;
	if (!sampling) return null;
	return (
		<p class="line-of-words soft" role="note">
			Estimates from {plural(sampling.samples, 'sample')}, one for each {bytes(sampling.interval_bytes)} on average. Behind ± is the
			standard error: 95 times of 100 the truth is within twice that.
			{sampling.peak_bias_bytes > 0 && (
				<> The peak is the largest of many estimates and thereby too high on average, by {bytes(sampling.peak_bias_bytes)} at most.</>
			)}
		</p>
	);
}

function Cards({ process, growth }: { process: Process; growth: GrowthResult | undefined }) {
	const rss = process.memory.rss_bytes;
	const ended = process.end !== 'running';
	return (
		<div class="card-row">
			<Card
				title="Peak"
				value={bytes(process.peak_bytes)}
				hint={exact(process.peak_bytes, 'bytes')}
				error={spread(errorOf(process, 'peak_bytes'), process.peak_bytes)}
				onOpen={() => go('flame', { cost: null })}
			>
				<Amount value={process.peak_blocks} unit="count" error={errorOf(process, 'peak_blocks')} />{' '}
				{process.peak_blocks === 1 ? 'block' : 'blocks'}
				{process.peak_at_ns ? ` at ${duration(process.peak_at_ns)}` : ' within the first tick'}
			</Card>
			<Card
				title={ended ? 'Leaked' : 'Live at the end'}
				value={bytes(process.leaked_bytes)}
				hint={exact(process.leaked_bytes, 'bytes')}
				error={spread(errorOf(process, 'leaked_bytes'), process.leaked_bytes)}
				onOpen={() => go('sites', { cost: 'leaked' })}
			>
				<Amount value={process.leaked_blocks} unit="count" error={errorOf(process, 'leaked_blocks')} />{' '}
				{process.leaked_blocks === 1 ? 'block' : 'blocks'}, {percent(process.leaked_bytes, process.peak_bytes)} of the peak
			</Card>
			<Card
				title="Churn"
				value={`${count(process.calls)} calls`}
				error={spread(errorOf(process, 'calls'), process.calls)}
				onOpen={() => go('sites', { cost: 'calls' })}
			>
				<Amount value={process.bytes} unit="bytes" error={errorOf(process, 'bytes')} /> asked for,{' '}
				{percent(process.temporary_calls, process.calls)} temporary
			</Card>
			<Card title="Growth" value={growth ? growthFigure(growth) : '…'} onOpen={() => go('time')}>
				{growth ? growthWords(growth) : ''}
			</Card>
			<Card
				title="RSS"
				value={process.peak_rss_bytes ? bytes(process.peak_rss_bytes) : 'not known'}
				hint={exact(process.peak_rss_bytes ?? 0, 'bytes')}
				onOpen={() => go('time')}
			>
				{rss ? (
					<>
						at most; {bytes(rss)} at the end, of it {percent(Math.min(process.leaked_bytes, rss), rss)} live heap
					</>
				) : (
					'it ended before it was looked at'
				)}
				{process.mmap_calls > 0 && <>; {bytes(process.mmap_peak_bytes)} mapped by the program itself</>}
			</Card>
		</div>
	);
}

function Findings() {
	const answer = useAnswer<AdviceResult>(canonical('advice', askParams(state.value, 'advice')));
	return (
		<section class="panel" aria-labelledby="findings-title">
			<h2 id="findings-title">Advice {answer.data && <span class="soft">{plural(answer.data.finding_count, 'finding')}</span>}</h2>
			<Answered answer={answer} what="Looking for what could be better">
				{(advice) =>
					advice.findings.length === 0 ? (
						<p class="soft">No rule holds for what was recorded: nothing stands out.</p>
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
												onClick={() => go('sites', { focus: owner ? `^${escapeRegex(owner.function)}$` : null, sel: owner?.function })}
											>
												{owner ? shortName(owner.function) : '[no stack]'}
											</button>
											<span class="soft cut">{owner ? placeOf(owner) : ''}</span>
											<b>{savingsOf(finding)}</b>
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

/** The heaviest sites by one number. Their whole list is behind the title. */
function TopList({ name, title }: { name: QuestionName; title: string }) {
	const asked = questionOf(name);
	const shown = { ...state.value, values: { ...state.value.values, cost: [name], unit: [], at: [], minus: [], compare: [] } };
	const answer = useAnswer<SitesResult>(canonical('sites', askParams(shown, 'sites', [['limit', TOP_ROWS]])));
	const open = () => go('sites', { cost: name === 'peak' ? null : name, at: null, minus: null });
	return (
		<section class="panel top" aria-label={title}>
			<h2>
				<button type="button" class="link" onClick={open}>
					{title}
				</button>
			</h2>
			<Answered answer={answer} what="Adding up">
				{(data) => {
					const rows = data.sites.slice(0, LISTED).filter((site) => Number(site[asked.key]) > 0);
					return rows.length === 0 ? (
						<p class="soft">none</p>
					) : (
						<table class="plain">
							<tbody>
								{rows.map((site) => {
									const owner = ownerOf(site.stack, data.frames);
									const value = Number(site[asked.key]);
									return (
										<tr key={`${site.process}.${site.site}`}>
											<td class="number" title={hintOf(value, asked.unit, errorOf(site, asked.key))}>
												<Amount value={value} unit={asked.unit} error={errorOf(site, asked.key)} />
											</td>
											<td class="number soft">{percent(value, data.whole)}</td>
											<td class="name" title={owner?.function}>
												<button
													type="button"
													class="link code"
													onClick={() =>
														go('sites', {
															cost: name === 'peak' ? null : name,
															at: null,
															minus: null,
															site: `${site.process}.${site.site}`,
														})
													}
												>
													{owner ? shortName(owner.function) : '[no stack]'}
												</button>
												<span class="soft"> {owner ? placeOf(owner) : ''}</span>
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

function Balance() {
	const answer = useAnswer<MemoryResult>(canonical('memory', askParams(state.value, 'memory')));
	return (
		<section class="panel" aria-labelledby="balance-title">
			<h2 id="balance-title">Where the memory was</h2>
			<Answered answer={answer} what="Reading the balance sheet">
				{(data) => <BalanceSheet rows={data.memory} />}
			</Answered>
		</section>
	);
}

export function StartView() {
	useEffect(() => {
		asking.value = { view: 'summary', params: askParams(state.value, 'summary').filter(([key]) => key !== 'compare') };
	}, [state.value]);
	const summary = useSummary();
	const growth = useAnswer<GrowthResult>(canonical('growth', askParams(state.value, 'growth', [['limit', TOP_ROWS]])));
	const data = summary.data;
	const process = data && largest(data.processes);
	if (summary.status === 'error')
		return (
			<div class="view">
				<Answered answer={summary} what="">
					{() => null}
				</Answered>
			</div>
		);
	if (!data)
		return (
			<div class="view">
				<Loading what="Reading the recording" />
			</div>
		);
	if (!process || !process.calls)
		return (
			<div class="view">
				<Empty title="Nothing was allocated">
					<p>
						The program asked for no memory while it was recorded. If it is statically linked or brings an allocator of its own, this says
						why:
					</p>
					<code>heapgauge doctor PROGRAM</code>
				</Empty>
			</div>
		);
	return (
		<div class="view start" tabIndex={0} role="region" aria-label="Start here">
			<Headline processes={data.processes} process={process} />
			<Sampled data={data} />
			<Cards process={process} growth={growth.data} />
			<div class="columns">
				<div>
					<Findings />
					<TopList name="peak" title="Most at the peak" />
					<TopList name="calls" title="Most allocations" />
				</div>
				<div>
					<Balance />
					<TopList name="leaked" title="Most left at the end" />
					<TopList name="temporary" title="Most temporary allocations" />
				</div>
			</div>
		</div>
	);
}
