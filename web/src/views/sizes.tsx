// SPDX-License-Identifier: Apache-2.0
// Sizes, lifetimes, reallocs: how large allocations are, how long they live, and what growing step by step costs.
import { useEffect, useMemo } from 'preact/hooks';
import { classRange, courseGrid, lifeGrid, momentGrid, pairGrid, sizeClasses } from '../model/distributions';
import { alone, ask as askParams, canonical } from '../model/query';
import { measureOf } from '../model/measures';
import { narrow } from '../model/narrow';
import { useAnswer } from '../model/source';
import { note, question, state, value } from '../model/state';
import type { HistoryResult, ReallocNumbers, Site, SitesResult, SizeRow, SizesResult } from '../model/types';
import { bytes, count, exact, percent, plural, quantity } from '../model/units';
import { Amount, ERROR_WIDTH, errorOf, hintOf } from '../parts/amount';
import { Bars, sizeLabel, TimeBars } from '../parts/bars';
import { asking } from '../parts/copy';
import { CourseMap, LifeMap, ReallocMap } from '../parts/heat';
import { onSort, sortingOf } from '../parts/numbers';
import { numberColumn, stackName, type SiteRow } from '../parts/site-columns';
import { SiteTable } from '../parts/site-table';
import { Empty, Failed, Loading, NoRows } from '../parts/states';
import { sortRows, Table, type Column } from '../parts/table';
import { chosenTab, Tabs } from '../parts/tabs';

const TABS = [
	['sizes', 'Sizes'],
	['lifetimes', 'Lifetimes'],
	['both', 'Size × lifetime'],
	['course', 'Size × time'],
	['reallocs', 'Reallocs'],
] as const;

function sizeColumns(data: SizesResult): Column<SizeRow>[] {
	const most = Math.max(1, ...data.sizes.map((row) => row.calls));
	const mostBytes = Math.max(1, ...data.sizes.map((row) => row.total_bytes));
	const more = data.sampling ? ERROR_WIDTH : 0;
	return [
		{
			key: 'size',
			title: 'Size',
			number: true,
			width: narrow.value ? 220 : 160,
			help: 'Sites with at most eight sizes have them exactly, the others as a class, from the smallest to the largest of it',
			sort: (row) => row.low_bytes,
			cell: (row) => sizeLabel(row),
			hint: (row) => (row.exact ? exact(row.low_bytes, 'bytes') : 'a class: of sites that request more than eight sizes'),
		},
		{
			key: 'calls',
			title: 'Calls',
			number: true,
			width: 104 + more,
			sort: (row) => row.calls,
			fill: (row) => row.calls / most,
			hint: (row) => hintOf(row.calls, 'count', errorOf(row, 'calls')),
			cell: (row) => <Amount value={row.calls} unit="count" error={errorOf(row, 'calls')} />,
		},
		{ key: 'calls_share', title: '%', number: true, width: 66, cell: (row) => <span class="soft">{percent(row.calls, data.calls)}</span> },
		{
			key: 'total',
			title: 'Total',
			number: true,
			width: 96 + more,
			sort: (row) => row.total_bytes,
			fill: (row) => row.total_bytes / mostBytes,
			hint: (row) => hintOf(row.total_bytes, 'bytes', errorOf(row, 'total_bytes')),
			cell: (row) => <Amount value={row.total_bytes} unit="bytes" error={errorOf(row, 'total_bytes')} />,
		},
		{
			key: 'total_share',
			title: '% ',
			number: true,
			width: 66,
			cell: (row) => <span class="soft">{percent(row.total_bytes, data.total_bytes)}</span>,
		},
		{
			key: 'each',
			title: 'Waste each',
			number: true,
			width: 86,
			help: 'What the allocator adds to one block; known where a site requests only this size',
			sort: (row) => row.mean_internal_fragmentation_bytes,
			cell: (row) => (row.mean_internal_fragmentation_bytes === null ? <span class="soft">–</span> : bytes(row.mean_internal_fragmentation_bytes)),
		},
		{
			key: 'waste',
			title: 'Waste',
			number: true,
			width: 86 + more,
			help: 'What the allocator added to the blocks of sites that request only this size; –: there are none',
			sort: (row) => row.internal_fragmentation_bytes,
			cell: (row) =>
				row.mean_internal_fragmentation_bytes === null ? (
					<span class="soft">–</span>
				) : (
					<Amount value={row.internal_fragmentation_bytes} unit="bytes" error={errorOf(row, 'internal_fragmentation_bytes')} />
				),
		},
	];
}

function Sizes() {
	const asked = ['calls', 'total', 'waste'].includes(question.value.name);
	const params = askParams(state.value, 'sizes', asked ? [] : [['cost', 'calls']]);
	const answer = useAnswer<SizesResult>(canonical('sizes', params));
	useEffect(() => {
		asking.value = { view: 'sizes', params };
	}, [canonical('sizes', params)]);
	const sorting = sortingOf('calls');
	const columns = useMemo(() => (answer.data ? sizeColumns(answer.data) : []), [answer.data, narrow.value]);
	const rows = useMemo(
		() => (answer.data ? sortRows(answer.data.sizes, columns, value('sort') ? sorting : undefined) : []),
		[answer.data, columns, value('sort')],
	);
	const classes = useMemo(() => (answer.data ? sizeClasses(answer.data.sizes) : []), [answer.data]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	const data = answer.data;
	if (!data) return <Loading what="Counting sizes" />;
	if (data.unmatched) return <NoRows data={data} />;
	return (
		<div class="split">
			<Table
				label="Sizes"
				columns={columns}
				rows={rows}
				sorting={sorting}
				onSort={onSort}
				chosen={Number(value('row') ?? -1)}
				onChoose={(index) => note({ row: String(index) })}
			/>
			<aside class="side" aria-label="By classes" tabIndex={0}>
				<section>
					<p>
						<Amount value={data.internal_fragmentation_bytes} unit="bytes" error={errorOf(data, 'internal_fragmentation_bytes')} /> of rounding,{' '}
						{percent(data.internal_fragmentation_bytes, data.total_bytes + data.internal_fragmentation_bytes)} of what the allocator gave for the{' '}
						<Amount value={data.total_bytes} unit="bytes" error={errorOf(data, 'total_bytes')} /> requested.
					</p>
				</section>
				<section>
					<h2>Calls by power of two</h2>
					<Bars
						label="Calls by power of two"
						bars={classes.map((one) => ({
							label: `${bytes(classRange(one.index).low)}`.replace('.0 ', ' '),
							value: one.calls,
							error: Math.sqrt(one.callsVariance),
							text: <Amount value={one.calls} unit="count" error={Math.sqrt(one.callsVariance)} />,
							share: percent(one.calls, data.calls),
						}))}
					/>
				</section>
				<section>
					<h2>Bytes by power of two</h2>
					<Bars
						label="Bytes by power of two"
						bars={classes.map((one) => ({
							label: `${bytes(classRange(one.index).low)}`.replace('.0 ', ' '),
							value: one.bytes,
							error: Math.sqrt(one.bytesVariance),
							text: <Amount value={one.bytes} unit="bytes" error={Math.sqrt(one.bytesVariance)} />,
							share: percent(one.bytes, data.total_bytes),
						}))}
					/>
				</section>
			</aside>
		</div>
	);
}

function Lifetimes() {
	const params = askParams(state.value, 'lifetimes', [['limit', '300']]);
	const answer = useAnswer<SitesResult>(canonical('lifetimes', params));
	useEffect(() => {
		asking.value = { view: 'lifetimes', params: params.filter(([key]) => key !== 'limit') };
	}, [canonical('lifetimes', params)]);
	const columns = useMemo((): Column<SiteRow>[] => {
		const estimated = Boolean(answer.data?.sampling);
		const most = Math.max(1, ...(answer.data?.sites ?? []).map((site) => Number(site.short_lived_frees)));
		return [
			numberColumn({
				key: 'short_lived_frees',
				title: 'Within 1 ms',
				unit: 'count',
				whole: most,
				width: 112,
				help: 'Blocks freed within a millisecond',
				estimated,
			}),
			numberColumn({ key: 'frees', title: 'Freed', unit: 'count', estimated }),
			numberColumn({ key: 'mean_lifetime_ns', title: 'Mean life', unit: 'ns', estimated }),
			numberColumn(measureOf('median_lifetime_ns')!),
			numberColumn(measureOf('max_lifetime_ns')!),
			numberColumn({ key: 'not_freed_blocks', title: 'Left', unit: 'count', help: 'Blocks not freed at exit', estimated }),
			stackName(),
		];
	}, [answer.data]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	const data = answer.data;
	if (!data) return <Loading what="Adding up lifetimes" />;
	if (data.unmatched) return <NoRows data={data} />;
	if (!data.sites.length)
		return (
			<Empty title="No lifetimes">
				<p>{data.sampling ? 'None of the sampled blocks that match was freed.' : 'No matching block was freed.'}</p>
			</Empty>
		);
	const freed = (data.lifetimes ?? []).reduce((sum, bar) => sum + bar.count, 0);
	return (
		<SiteTable
			data={data}
			columns={columns}
			label="Sites by short lives"
			fallback="short_lived_frees"
			side={
				<section>
					<h2>How long {count(freed)} freed blocks lived</h2>
					<TimeBars label="Lifetimes of all freed blocks" bars={data.lifetimes ?? []} />
				</section>
			}
		/>
	);
}

function Both() {
	const params = askParams(state.value, 'lifetimes', [['limit', '300']]);
	const answer = useAnswer<SitesResult>(canonical('lifetimes', params));
	useEffect(() => {
		asking.value = { view: 'lifetimes', params: params.filter(([key]) => key !== 'limit') };
	}, [canonical('lifetimes', params)]);
	const pairs = answer.data?.lifetimes_by_size;
	const grid = useMemo(() => (pairs ? lifeGrid(pairs) : undefined), [pairs]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!answer.data) return <Loading what="Computing the size distribution" />;
	if (answer.data.unmatched) return <NoRows data={answer.data} />;
	if (!answer.data.sites.length)
		return (
			<Empty title="No lifetimes">
				<p>{answer.data.sampling ? 'None of the sampled blocks was freed.' : 'No block was freed.'}</p>
			</Empty>
		);
	if (!grid)
		return (
			<Empty title="Not known">
				<p>Sizes against lifetimes are counted for whole processes, not for single sites or threads, and not in older recordings.</p>
			</Empty>
		);
	return (
		<div class="both">
			<p class="soft">{count(grid.total)} freed blocks.</p>
			<LifeMap grid={grid} />
		</div>
	);
}

/** The heaviest sites are enough for a chart, and they have a history. */
const DRAWN = '300';

/** By the sizes of blocks where snapshots were asked for, else by the mean sizes of sites. */
function Course() {
	const sizes = useAnswer<SizesResult>(canonical('sizes', askParams(alone(state.value), 'sizes', [['cost', 'live']])));
	const moments = sizes.data?.live_bytes_by_time_and_size;
	const grid = useMemo(() => (moments ? momentGrid(moments) : undefined), [moments]);
	if (sizes.status !== 'error' && !sizes.data) return <Loading what="Adding up what was live" />;
	if (!grid) return <CourseOfSites />;
	const known = Object.keys(moments!).length;
	return (
		<div class="both">
			<p class="soft">
				What was live at {grid.columns.length < known ? `${count(grid.columns.length)} of ` : ''}
				{plural(known, 'snapshot')}, by the size of the blocks. Snapshots at which sizes were not read are left out.
			</p>
			<CourseMap grid={grid} corner="size" />
		</div>
	);
}

function CourseOfSites() {
	const params = askParams(state.value, 'history', [['limit', DRAWN]]);
	const history = useAnswer<HistoryResult>(canonical('history', params));
	const sites = useAnswer<SitesResult>(canonical('sites', askParams(alone(state.value), 'sites', [['limit', DRAWN]])));
	useEffect(() => {
		asking.value = { view: 'history', params };
	}, [canonical('history', params)]);
	const grid = useMemo(
		() => (history.data && sites.data ? courseGrid(history.data, sites.data.sites) : undefined),
		[history.data, sites.data],
	);
	if (history.status === 'error') return <Failed answer={history} />;
	if (sites.status === 'error') return <Failed answer={sites} />;
	if (!grid || !history.data) return <Loading what="Adding up what was live" />;
	if (history.data.unmatched) return <NoRows data={history.data} />;
	if (!grid.total)
		return (
			<Empty title="Nothing was live">
				<p>No matching site held memory at a snapshot.</p>
			</Empty>
		);
	return (
		<div class="both">
			<p class="soft">What the {count(history.data.sites.length)} heaviest sites held at snapshots, by the mean size of their blocks.</p>
			<CourseMap grid={grid} corner="mean size" />
		</div>
	);
}

function reallocOf(row: SiteRow): ReallocNumbers | undefined {
	return (row.values as Site).realloc;
}

function reallocColumn(key: keyof ReallocNumbers, title: string, help: string, estimated: boolean): Column<SiteRow> {
	return {
		key,
		title,
		number: true,
		width: 92 + (estimated ? ERROR_WIDTH : 0),
		help,
		sort: (row) => reallocOf(row)?.[key] ?? null,
		cell: (row) => {
			const value = reallocOf(row)?.[key];
			return value === undefined ? '–' : <Amount value={value} unit="count" error={errorOf(reallocOf(row), key)} />;
		},
	};
}

function Reallocs() {
	const params = askParams(state.value, 'reallocs', [['limit', '300']]);
	const answer = useAnswer<SitesResult>(canonical('reallocs', params));
	useEffect(() => {
		asking.value = { view: 'reallocs', params: params.filter(([key]) => key !== 'limit') };
	}, [canonical('reallocs', params)]);
	const columns = useMemo((): Column<SiteRow>[] => {
		const estimated = Boolean(answer.data?.sampling);
		const most = Math.max(1, ...(answer.data?.sites ?? []).map((site) => Number(site.copied_bytes)));
		return [
			numberColumn({
				key: 'copied_bytes',
				title: 'Copied',
				unit: 'bytes',
				whole: most,
				width: 112,
				help: 'Bytes copied because the block had to move',
				estimated,
			}),
			stackName(),
			reallocColumn('calls', 'Reallocs', 'Calls of realloc that changed a block', estimated),
			{
				key: 'moved',
				title: 'Moved',
				number: true,
				width: 82,
				help: 'Share of reallocs that moved the block',
				sort: (row) => {
					const r = reallocOf(row);
					return r?.calls ? r.moved_calls / r.calls : null;
				},
				cell: (row) => {
					const r = reallocOf(row);
					return r ? percent(r.moved_calls, r.calls) : '–';
				},
			},
			reallocColumn('grown_calls', 'Grown', 'Reallocs to a larger size', estimated),
			reallocColumn('shrunk_calls', 'Shrunk', 'Reallocs to a smaller size', estimated),
			{
				key: 'factor',
				title: 'New/old',
				number: true,
				width: 78,
				help: 'All new sizes over all old ones: near 1 means many small steps',
				sort: (row) => {
					const r = reallocOf(row);
					return r?.old_bytes ? r.new_bytes / r.old_bytes : null;
				},
				cell: (row) => {
					const r = reallocOf(row);
					return r?.old_bytes ? `${(r.new_bytes / r.old_bytes).toFixed(2)}×` : '–';
				},
			},
			{
				key: 'step',
				title: 'Mean step',
				number: true,
				width: 92,
				help: 'Bytes that one realloc adds on average',
				sort: (row) => {
					const r = reallocOf(row);
					return r?.calls ? (r.new_bytes - r.old_bytes) / r.calls : null;
				},
				cell: (row) => {
					const r = reallocOf(row);
					return r?.calls ? quantity(Math.round((r.new_bytes - r.old_bytes) / r.calls), 'bytes') : '–';
				},
			},
			numberColumn({ key: 'max_bytes', title: 'Own max', unit: 'bytes', estimated }),
		];
	}, [answer.data]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	const data = answer.data;
	if (!data) return <Loading what="Adding up reallocs" />;
	if (data.unmatched) return <NoRows data={data} />;
	if (!data.sites.length)
		return (
			<Empty title="No realloc">
				<p>No matching block was resized.</p>
			</Empty>
		);
	return (
		<SiteTable
			data={data}
			columns={columns}
			label="Sites by copied bytes"
			fallback="copied_bytes"
			side={
				<section>
					<h2>Old size × new size</h2>
					{data.steps ? (
						<ReallocMap grid={pairGrid(data.steps)} />
					) : (
						<p class="soft">Counted for whole processes, not for single sites or threads, and not in older recordings.</p>
					)}
				</section>
			}
		/>
	);
}

export function SizesView() {
	const tab = chosenTab(TABS);
	const moment = question.value.ofMoment;
	return (
		<div class="view fixed">
			<div class="toolbar">
				<Tabs tabs={TABS} also={['site']} />
				{moment && tab !== 'course' && <span class="soft">over the whole run: sizes and lifetimes are not kept by moment</span>}
			</div>
			{tab === 'lifetimes' ? (
				<Lifetimes />
			) : tab === 'both' ? (
				<Both />
			) : tab === 'course' ? (
				<Course />
			) : tab === 'reallocs' ? (
				<Reallocs />
			) : (
				<Sizes />
			)}
		</div>
	);
}
