// SPDX-License-Identifier: Apache-2.0
// Run: what was recorded and how, how reliable it is, and where names came from.
import { useEffect } from 'preact/hooks';
import { base } from '../model/frames';
import { startedOf, totalsOf } from '../model/processes';
import { ask as askParams, canonical } from '../model/query';
import { about, useAnswer } from '../model/source';
import { state } from '../model/state';
import type { GlobalsResult, HealthResult, ModulesResult, Process, ProcessesResult } from '../model/types';
import { bytes, count, duration, exact, percent, plural, share } from '../model/units';
import { useSummary } from '../parts/badge';
import { asking } from '../parts/copy';
import { Answered } from '../parts/states';

function when(ns: number): string {
	return ns ? new Date(ns / 1e6).toLocaleString() : 'not known';
}

/** "exact", or the sampling interval. */
function countedBy(data: ProcessesResult, process: Process): string {
	const sampling = data.sampling;
	if (!sampling || !process.sampling_interval_bytes) return process.mode;
	const bias = process.peak_bias_bytes ? `; the peak is too high on average, by ${bytes(process.peak_bias_bytes)} at most` : '';
	return `${process.mode}, one block for each ${bytes(process.sampling_interval_bytes)} on average, ${plural(process.samples ?? 0, 'sample')}${bias}`;
}

function extremes(process: Process | undefined): [string, string][] {
	const facts: [string, string][] = [];
	if (process?.smallest_bytes != null && process.largest_bytes != null && process.mean_bytes != null)
		facts.push(['Sizes', `${bytes(process.smallest_bytes)} to ${bytes(process.largest_bytes)}, ${bytes(process.mean_bytes)} on average`]);
	if (process?.max_live_blocks) facts.push(['Live at most', plural(process.max_live_blocks, 'block')]);
	if (process?.max_calls_per_second) facts.push(['Highest rate', `${count(process.max_calls_per_second)} allocations/s`]);
	return facts;
}

function Facts({ data, process }: { data: ProcessesResult; process: Process | undefined }) {
	const run = data.run;
	const facts: [string, string][] = [
		['Command', run.command],
		['Recording', data.file],
		['Started', when(run.started_real_ns)],
		['Ran for', duration(run.duration_ns)],
		['Ended', process ? `${process.end}${process.exit_code === null ? '' : ` ${process.exit_code}`}` : 'not known'],
		['Processes', count(data.processes.length)],
		['Threads', count(data.processes.reduce((sum, one) => sum + one.threads, 0))],
		['Stacks', count(data.processes.reduce((sum, one) => sum + one.stacks, 0))],
		['Counted', process ? countedBy(data, process) : 'not known'],
		...(process?.depth_limit ? [['Stacks kept', `${count(process.depth_limit)} frames at most`] as [string, string]] : []),
		...extremes(process),
		['Allocator', process?.allocator || 'not known'],
		['Host', run.host],
		['Kernel', run.kernel],
		['Recorded by', `heapgauge ${run.version}`],
		...(run.options ? [['Options', run.options] as [string, string]] : []),
		['Shown by', `heapgauge ${about.value?.version ?? ''}`],
	];
	return (
		<table class="plain run-table">
			<tbody>
				{facts.map(([name, text]) => (
					<tr key={name}>
						<th scope="row">{name}</th>
						<td class={name === 'Command' || name === 'Recording' ? 'code' : ''}>{text}</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

function Cost({ data, health }: { data: ProcessesResult; health: HealthResult | undefined }) {
	const { recorder_bytes: own, peak_rss_bytes: rss, without_rss: without } = totalsOf(data.processes);
	const stacks = data.processes.reduce((sum, one) => sum + one.stacks, 0);
	const part = rss === null || without ? undefined : share(own, rss);
	return (
		<p>
			The recorder took <b title={exact(own, 'bytes')}>{bytes(own)}</b> of memory for {plural(stacks, 'stack')}
			{part ? `, ${part} of the ${bytes(rss!)} of RSS at most` : ''}. {health && (health.nothing_lost ? 'Nothing was lost.' : '')}
		</p>
	);
}

function Health({ data }: { data: HealthResult }) {
	if (!data.health.length)
		return (
			<p class="soft">
				{data.sampling ? 'No sample was lost' : 'No recorded allocation was lost'}, every stack is whole, and every frame has a name.
			</p>
		);
	const several = data.health.some((row) => row.pid !== null);
	return (
		<table class="plain">
			<thead>
				<tr>
					<th>About</th>
					{several && <th class="number">PID</th>}
					<th class="number">Count</th>
					<th>What it means</th>
				</tr>
			</thead>
			<tbody>
				{data.health.map((row, i) => (
					<tr key={i}>
						<td>{row.about}</td>
						{several && <td class="number">{row.pid ?? ''}</td>}
						<td class="number">{count(row.count)}</td>
						<td>
							{row.meaning} <span class="soft code">{row.name}</span>
						</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

function Modules({ data }: { data: ModulesResult }) {
	return (
		<table class="plain modules">
			<thead>
				<tr>
					<th>Module</th>
					<th class="number">Frames</th>
					<th class="number">Named</th>
					<th class="number">With lines</th>
					<th>Names from</th>
					<th>Build-id</th>
				</tr>
			</thead>
			<tbody>
				{data.modules.map((row) => (
					<tr key={row.module + row.build_id}>
						<td class="code" title={row.module}>
							<span class="folder">{row.module.slice(0, row.module.lastIndexOf('/') + 1)}</span>
							{base(row.module)}
						</td>
						<td class="number">{count(row.frames)}</td>
						<td class="number">{percent(row.named_frames, row.frames)}</td>
						<td class="number">{percent(row.frames_with_lines, row.frames)}</td>
						<td class={row.names_from === 'nothing' ? 'warn' : ''}>{row.names_from}</td>
						<td class="code build-id" title={row.build_id}>
							{row.build_id || '–'}
						</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

const GLOBALS_SHOWN = 100;

function Globals({ data }: { data: GlobalsResult }) {
	if (!data.variables.length) return <p class="soft">The process ended before its variables were read, or the recording is an older one.</p>;
	const several = new Set(data.variables.map((row) => row.pid)).size > 1;
	return (
		<>
			<p class="soft">
				{data.bytes === null ? 'Sum not known' : `${bytes(data.bytes)} in all`},{' '}
				{data.resident_bytes === null ? 'resident part not known' : `${bytes(data.resident_bytes)} of it resident when last read`}
				{data.variables.length >= GLOBALS_SHOWN && `; the ${GLOBALS_SHOWN} largest`}
			</p>
			<table class="plain globals">
				<thead>
					<tr>
						<th>Variable</th>
						{several && <th class="number">PID</th>}
						<th class="number">Bytes</th>
						<th class="number">Resident</th>
						<th class="number">Copies</th>
						<th>Section</th>
						<th>Defined in</th>
						<th>Module</th>
					</tr>
				</thead>
				<tbody>
					{data.variables.map((row, i) => (
						<tr key={i}>
							<td class="code">{row.variable ?? '[no symbols]'}</td>
							{several && <td class="number">{row.pid}</td>}
							<td class="number" title={exact(row.bytes, 'bytes')}>
								{bytes(row.bytes)}
							</td>
							<td class="number" title={row.resident_bytes === null ? 'not known' : exact(row.resident_bytes, 'bytes')}>
								{row.resident_bytes === null ? '–' : bytes(row.resident_bytes)}
							</td>
							<td class="number">{count(row.copies)}</td>
							<td>{row.section}</td>
							<td class="code" title={row.file ?? ''}>
								{row.file ? base(row.file) + (row.line === null ? '' : `:${row.line}`) : '–'}
							</td>
							<td class="code" title={row.module}>
								{base(row.module)}
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</>
	);
}

export function RunView() {
	const summary = useSummary();
	const healthParams = askParams(state.value, 'health');
	const health = useAnswer<HealthResult>(canonical('health', healthParams));
	const modules = useAnswer<ModulesResult>(canonical('modules', askParams(state.value, 'modules')));
	const globals = useAnswer<GlobalsResult>(canonical('globals', askParams(state.value, 'globals', [['limit', String(GLOBALS_SHOWN)]])));
	useEffect(() => {
		asking.value = { view: 'health', params: healthParams };
	}, [canonical('health', healthParams)]);
	return (
		<div class="view start" tabIndex={0} role="region" aria-label="Run">
			<div class="columns">
				<div>
					<section class="panel">
						<h2>Run</h2>
						<Answered answer={summary} what="Reading the recording">
							{(data) => <Facts data={data} process={startedOf(data.processes)} />}
						</Answered>
					</section>
				</div>
				<div>
					<section class="panel">
						<h2>What recording cost</h2>
						<Answered answer={summary} what="Reading the recording">
							{(data) => <Cost data={data} health={health.data} />}
						</Answered>
					</section>
					<section class="panel">
						<h2>Health</h2>
						<Answered answer={health} what="Looking at every stack">
							{(data) => <Health data={data} />}
						</Answered>
					</section>
				</div>
			</div>
			<section class="panel">
				<h2>Modules</h2>
				<Answered answer={modules} what="Looking at every frame">
					{(data) => (
						<div class="scrolled" tabIndex={0} role="region" aria-label="Modules">
							<Modules data={data} />
						</div>
					)}
				</Answered>
			</section>
			<section class="panel">
				<h2>Global variables</h2>
				<Answered answer={globals} what="Reading symbols">
					{(data) => (
						<div class="scrolled" tabIndex={0} role="region" aria-label="Global variables">
							<Globals data={data} />
						</div>
					)}
				</Answered>
			</section>
		</div>
	);
}
