// SPDX-License-Identifier: Apache-2.0
// Time: live, resident and requested bytes over the run, with the owners of the most as layers. A drag selects a range for all views that
// accept one.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { growthFigure, growthWords } from '../model/growth';
import { isLive } from '../model/live';
import { eventsOf, momentsOf, type Event, type Moment } from '../model/moments';
import { ratesOf, type Rates } from '../model/rates';
import { ask as askParams, canonical } from '../model/query';
import { useAnswer } from '../model/source';
import { go, note, set, state, value } from '../model/state';
import type { GrowthResult, Memory, MemoryResult, OwnersHistoryResult, Point, TimelineResult } from '../model/types';
import { bytes, count, duration, exact, plural, type Unit } from '../model/units';
import { Amount, errorOf, hintOf } from '../parts/amount';
import { asking } from '../parts/copy';
import { Chart, type Line } from '../parts/chart';
import { betweenWords, column, errorsOf, LayerTable, MemoryChart, memoryLines, peakOf, useChart, useHistory, useLayers } from '../parts/layered';
import { ownerLabel } from '../model/frames';
import { Answered, Empty, Failed, Loading } from '../parts/states';
import { useNamed, useTimeline } from '../parts/strip';

/** The title of a chart, with the colours of its lines if there are several; layers have a table. */
function ChartTitle({ title, lines, hint }: { title: string; lines: readonly Line[]; hint?: string }) {
	const named = lines.filter((line) => line.fill !== 'solid' && line.fill !== 'hatched');
	return (
		<h2 title={hint}>
			{title}
			{named.length > 1 &&
				named.map((line) => (
					<span key={line.label} class="line-key">
						<i style={{ borderTop: `2px ${line.dash ? 'dashed' : 'solid'} var(--${line.colour})` }} /> {line.label}
					</span>
				))}
		</h2>
	);
}

function Reading({ points, of, rates, at }: { points: readonly Point[]; of: string; rates: Rates; at: number }) {
	const shown = points[at]!;
	const rate = (rates: readonly (number | null)[]) => (rates[at] == null ? null : Math.round(rates[at]!));
	const facts: [string, number | null, Unit, number][] = [
		['live', shown.live_bytes, 'bytes', errorOf(shown, 'live_bytes')],
		['blocks', shown.live_blocks, 'count', errorOf(shown, 'live_blocks')],
		['RSS', shown.rss_bytes, 'bytes', 0],
		['allocations', rate(rates.calls), 'rate', rates.errors.calls[at] ?? 0],
		['frees', rate(rates.frees), 'rate', rates.errors.frees[at] ?? 0],
		['requested', rate(rates.bytes), 'bytes-rate', rates.errors.bytes[at] ?? 0],
		['threads', shown.threads, 'count', 0],
	];
	return (
		<dl class="reading" aria-label={`Numbers ${of}`}>
			<div>
				<dt>{of === 'at the peak' ? 'peak' : 'at'}</dt>
				<dd title={exact(shown.at_ns, 'ns')}>{duration(shown.at_ns)}</dd>
			</div>
			{facts.map(([name, number, unit, error]) => (
				<div key={name}>
					<dt>{name}</dt>
					<dd title={number === null ? 'not known' : hintOf(number, unit, error)}>
						{number === null ? '–' : <Amount value={number} unit={unit} error={error} />}
					</dd>
				</div>
			))}
		</dl>
	);
}

/** Moments named by the program or the user. A snapshot has the numbers of every site. */
function Named({ moments, events }: { moments: readonly Moment[]; events: readonly Event[] }) {
	const snapshots = moments.filter((moment) => moment.name !== undefined);
	const rows = [
		...snapshots.map((moment) => ({ at: moment.at, name: moment.name!, moment })),
		...events.map((event) => ({ ...event, moment: undefined })),
	];
	if (!rows.length) return null;
	return (
		<section>
			<h2>Named moments</h2>
			<table class="plain layers named">
				<tbody>
					{rows
						.sort((a, b) => a.at - b.at)
						.map(({ at, name, moment }) => (
							<tr key={`${at} ${name}`}>
								<td class="number" title={exact(at, 'ns')}>
									{duration(at)}
								</td>
								<td class="name">
									{moment ? (
										<button type="button" class="link" onClick={() => set({ cost: 'live', at: moment.word, minus: null })}>
											{name}
										</button>
									) : (
										<span title="Only the time was kept">{name}</span>
									)}
								</td>
							</tr>
						))}
				</tbody>
			</table>
		</section>
	);
}

function Growing() {
	const answer = useAnswer<GrowthResult>(canonical('growth', askParams(state.value, 'growth', [['limit', '300']])));
	return (
		<section>
			<h2>What grows</h2>
			<Answered answer={answer} what="Judging trends">
				{(growth) => {
					const rows = growth.sites.filter((site) => site.verdict === 'growing').slice(0, 12);
					return (
						<>
							<p class="soft">
								Growth: {growthFigure(growth)}, {growthWords(growth)}.{' '}
								{plural(growth.bounded_sites, 'site is', 'sites are')} bounded,{' '}
								{count(growth.unknown_sites)} unknown.
							</p>
							<table class="plain layers">
								<tbody>
									{rows.map((site) => (
										<tr key={`${site.pid}.${site.site}`}>
											<td class="number grew">
												{site.bytes_per_second === null ? (
													'not known'
												) : (
													<Amount value={site.bytes_per_second} unit="bytes-rate" error={errorOf(site, 'bytes_per_second')} signed />
												)}
											</td>
											<td class="name">
												<button
													type="button"
													class="link code"
													onClick={() => go('sites', { cost: 'leaked', site: `${site.pid}.${site.site}` })}
												>
													{ownerLabel(site.stack, growth.frames)}
												</button>
											</td>
										</tr>
									))}
								</tbody>
							</table>
						</>
					);
				}}
			</Answered>
		</section>
	);
}

/** Observations of the machine, by time: those of all processes are of the same machine. */
function machineOf(rows: readonly Memory[]): Memory[] {
	const known = rows.filter((row) => typeof row.system_available_bytes === 'number').sort((a, b) => a.at_ns - b.at_ns);
	return known.filter((row, i) => row.at_ns !== known[i - 1]?.at_ns);
}

/** Memory of the whole machine, from and to the same times as the other charts; nothing if it was not observed twice. */
function Machine({ from, to }: { from: number; to: number }) {
	const answer = useAnswer<MemoryResult>(canonical('memory', askParams(state.value, 'memory')));
	const rows = useMemo(() => machineOf(answer.data?.memory ?? []), [answer.data]);
	if (rows.length < 2) return null;
	const times = [Math.min(from, rows[0]!.at_ns - 1), ...rows.map((row) => row.at_ns), Math.max(to, rows[rows.length - 1]!.at_ns + 1)];
	const line = (label: string, colour: string, key: keyof Memory): Line => ({
		label,
		colour,
		values: [null, ...rows.map((row) => row[key] ?? null), null],
		width: 1,
	});
	const swapped = rows.some((row) => row.system_swap_bytes);
	const lines = [
		line('available', 'series-b', 'system_available_bytes'),
		line('cached files', 'series-rss', 'system_cached_bytes'),
		...(swapped ? [line('swapped out', 'series-a', 'system_swap_bytes')] : []),
	];
	const least = Math.min(...rows.map((row) => row.system_available_bytes!));
	const all = rows[0]!.system_bytes;
	const of = typeof all === 'number';
	return (
		<>
			<ChartTitle
				title={`The machine: at least ${bytes(least)}${of ? ` of ${bytes(all)}` : ''} available`}
				lines={lines}
				hint={exact(least, 'bytes') + (of ? ` of ${exact(all, 'bytes')}` : '')}
			/>
			<Chart label="Memory of the machine over time" unit="bytes" height={104} times={times} lines={lines} />
		</>
	);
}

function Charts({ data, history }: { data: TimelineResult; history: OwnersHistoryResult | undefined }) {
	const [index, setIndex] = useState<number | null>(null);
	const points = data.timeline;
	const peak = peakOf(points);
	const rates = useMemo(() => ratesOf(points), [points]);
	const layered = value('layers') !== '0';
	const layers = useLayers(history, points, layered);
	const most = useMemo(() => Math.max(...points.map((point) => point.live_bytes)), [points]);
	const mostRss = useMemo(() => Math.max(...points.map((point) => Math.max(point.rss_bytes ?? 0, point.mmap_live_bytes ?? 0))), [points]);
	const withRss = value('rss') ? value('rss') === '1' : mostRss < 4 * most;
	const named = useNamed();
	const moments = useMemo(() => momentsOf(data, isLive.value, named), [data, named]);
	const events = useMemo(() => eventsOf(named), [named]);
	const common = useChart(data, setIndex);
	/* The selected moment is for those who have no pointer. */
	const chosen = common.range ? points.findIndex((point) => point.at_ns >= common.range!.to) : -1;
	const at = index ?? (chosen < 0 ? peak : chosen);
	const of = index !== null ? 'at the pointer' : at === peak ? 'at the peak' : 'at the selected moment';
	const ratesOfCalls: Line[] = [
		{ label: 'frees', colour: 'series-a', values: rates.frees, width: 1, steps: true },
		{ label: 'allocations', colour: 'series-live', values: rates.calls, fill: 'pale', width: 1, steps: true },
	];
	return (
		<>
			<div class="toolbar">
				<label class="check">
					<input type="checkbox" checked={layered} onChange={(event) => note({ layers: event.currentTarget.checked ? null : '0' })} />
					Layers by owner
				</label>
				<label class="check" title={`${bytes(mostRss)} at most`}>
					<input type="checkbox" checked={withRss} onChange={(event) => note({ rss: event.currentTarget.checked ? '1' : '0' })} />
					RSS and mappings
				</label>
				<Reading points={points} of={of} rates={rates} at={at} />
			</div>
			<div class="split">
				<div class="charts" tabIndex={0} role="region" aria-label="Charts over time">
					<ChartTitle title="Memory" lines={memoryLines(points, layers, withRss)} />
					<MemoryChart common={common} points={points} layers={layers} withRss={withRss} height={236} />
					<ChartTitle title="Allocations and frees per second" lines={ratesOfCalls} />
					<Chart
						{...common}
						label="Allocations and frees per second"
						unit="rate"
						height={116}
						lines={ratesOfCalls}
					/>
					<h2>Requested per second</h2>
					<Chart
						{...common}
						label="Bytes requested per second"
						unit="bytes"
						height={104}
						lines={[{ label: 'requested', colour: 'series-b', values: rates.bytes, fill: 'pale', steps: true }]}
					/>
					<h2>Live blocks</h2>
					<Chart
						{...common}
						label="Live blocks over time"
						unit="count"
						height={104}
						lines={[
							{
								label: 'blocks',
								colour: 'series-live',
								values: column(points, 'live_blocks'),
								errors: errorsOf(points, 'live_blocks'),
								fill: 'pale',
							},
						]}
					/>
					<h2>Threads started</h2>
					<Chart
						{...common}
						label="Threads started"
						unit="count"
						height={80}
						lines={[{ label: 'threads', colour: 'series-rss', values: column(points, 'threads'), steps: true }]}
					/>
					<Machine from={points[0]!.at_ns} to={points[points.length - 1]!.at_ns} />
				</div>
				<aside class="side narrow" aria-label="Owners over time" tabIndex={0}>
					{layers.length > 0 && (
						<section>
							<h2>
								Owners of the most {of}
								{betweenWords(history, points[at]!)}
							</h2>
							<LayerTable layers={layers} at={at} />
						</section>
					)}
					<Named moments={moments} events={events} />
					<Growing />
				</aside>
			</div>
		</>
	);
}

export function TimeView() {
	const answer = useTimeline();
	const history = useHistory(state.value);
	useEffect(() => {
		asking.value = { view: 'timeline', params: askParams(state.value, 'timeline') };
	}, [state.value]);
	if (answer.status === 'error')
		return (
			<div class="view">
				<Failed answer={answer} />
			</div>
		);
	if (!answer.data)
		return (
			<div class="view">
				<Loading what="Reading the timeline" />
			</div>
		);
	if (answer.data.timeline.length < 2)
		return (
			<div class="view">
				<Empty title="Too short for a timeline">
					<p>The run ended before it was observed twice. Record a longer run, or see the peak.</p>
				</Empty>
			</div>
		);
	return (
		<div class="view fixed">
			<Charts data={answer.data} history={history.data} />
		</div>
	);
}
