// SPDX-License-Identifier: Apache-2.0
// Tags, labels and pools: the program's own attribution of its memory. Selecting a tag shows all its numbers and filters every other view.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ask as askParams, canonical, type Params } from '../model/query';
import { useAnswer } from '../model/source';
import { comparing, differing, go, note, question, state, value, values, type ViewName } from '../model/state';
import { tagRows, type TagRow } from '../model/tags';
import type { GroupsResult, Pool, PoolsResult, Tag, TagsResult } from '../model/types';
import { percent, type Unit } from '../model/units';
import { axisOf } from '../model/words';
import { Amount, errorOf, hintOf } from '../parts/amount';
import { asking } from '../parts/copy';
import { ColumnPick } from '../parts/column-pick';
import { addFilter } from '../parts/filters';
import { numbers, onSort, sortingOf, widened } from '../parts/numbers';
import { escapeRegex } from '../parts/row-keys';
import { groupColumns, type SiteRow } from '../parts/site-columns';
import { Empty, Failed, Loading, NoRows } from '../parts/states';
import { indent, sortRows, Table, type Column } from '../parts/table';
import { chosenTab, Tabs } from '../parts/tabs';

function useAsked<T>(view: string, more: Params = []) {
	const params = askParams(state.value, view, more);
	const key = canonical(view, params);
	const answer = useAnswer<T>(key);
	useEffect(() => {
		asking.value = { view, params };
	}, [key]);
	return answer;
}

/* ---- tags ---- */

function tagColumns(data: TagsResult): Column<Tag>[] {
	const asked = question.value;
	const of = (key: keyof Tag & string, title: string, unit: Unit, help: string, optional = false) =>
		numbers<Tag>(key, title, unit, help, undefined, 100, optional);
	const most = Math.max(1, ...data.tags.map((tag) => Math.abs(tag.value)));
	return [
		numbers<Tag>('value', asked.title, asked.unit, `${asked.help} In the tag and in those inside it.`, most, 112),
		...(differing.value
			? []
			: [
					{
						key: 'share',
						title: '%',
						number: true,
						width: 74,
						sort: (row: Tag) => row.value,
						cell: (row: Tag) => <span class="soft">{percent(row.value, data.shown)}</span>,
					},
				]),
		of('self', 'Self', asked.unit, 'Self: allocated directly in this tag'),
		of('visits', 'Visits', 'count', 'How often the program entered it'),
		{ ...of('bytes_per_visit', 'Per visit', 'bytes', 'Bytes requested per visit'), width: 112 },
		of('self_bytes_per_visit', 'Self per visit', 'bytes', 'Self: bytes requested directly in this tag, per visit', true),
		of('total_bytes', 'Total', 'bytes', 'Bytes requested', asked.name === 'total'),
		of('self_total_bytes', 'Self total', 'bytes', 'Self: bytes requested directly in this tag', true),
		of('calls', 'Calls', 'count', 'Allocations', asked.name === 'calls'),
		of('self_calls', 'Self calls', 'count', 'Self: allocations directly in this tag', true),
		of('peak_bytes', 'At peak', 'bytes', 'Live when the heap was largest', asked.name === 'peak'),
		of('self_peak_bytes', 'Self at peak', 'bytes', 'Self: allocated directly in this tag and live at the peak', true),
		of('not_freed_bytes', 'At end', 'bytes', 'Not freed at exit', asked.name === 'leaked'),
		of('self_not_freed_bytes', 'Self at end', 'bytes', 'Self: allocated directly in this tag and not freed at exit', true),
		of('frees', 'Freed', 'count', 'Blocks freed, in any tag', true),
		of('freed_bytes', 'Freed bytes', 'bytes', 'Bytes freed, in any tag', true),
		of('realloc_calls', 'Reallocs', 'count', 'Calls of realloc on an existing block', true),
	];
}

function only(tag: Tag): { name: string; value: string } | undefined {
	return tag.tag === null ? undefined : { name: 'tag', value: `^${escapeRegex(tag.tag)}(/|$)` };
}

const PAIRS: readonly [string, keyof Tag, keyof Tag, Unit][] = [
	['At peak', 'peak_bytes', 'self_peak_bytes', 'bytes'],
	['At end', 'not_freed_bytes', 'self_not_freed_bytes', 'bytes'],
	['Total', 'total_bytes', 'self_total_bytes', 'bytes'],
	['Per visit', 'bytes_per_visit', 'self_bytes_per_visit', 'bytes'],
	['Calls', 'calls', 'self_calls', 'count'],
	['Freed', 'frees', 'self_frees', 'count'],
	['Freed bytes', 'freed_bytes', 'self_freed_bytes', 'bytes'],
	['Reallocs', 'realloc_calls', 'self_realloc_calls', 'count'],
];

function Figure({ tag, name, unit }: { tag: Tag; name: keyof Tag; unit: Unit }) {
	const number = tag[name] as number | null;
	return (
		<td class="number" title={number === null ? undefined : hintOf(number, unit, errorOf(tag, name))}>
			{number === null ? '–' : <Amount value={number} unit={unit} error={errorOf(tag, name)} />}
		</td>
	);
}

function TagDetail({ tag }: { tag: Tag }) {
	const filter = only(tag);
	const look = (view: ViewName) => filter && go(view, { tag: filter.value });
	return (
		<aside class="side" aria-label="The selected tag" tabIndex={0}>
			<header>
				<h2 class="code" title={tag.tag ?? undefined}>
					{tag.tag ?? nameOf(tag)}
				</h2>
				<button type="button" class="plain" aria-label="Close" onClick={() => note({ row: null })}>
					×
				</button>
			</header>
			{filter && (
				<section class="buttons">
					<button type="button" onClick={() => look('flame')}>
						Flame graph of it
					</button>
					<button type="button" onClick={() => look('sites')}>
						Its sites
					</button>
					<button type="button" onClick={() => addFilter(filter)} title="+">
						Only this
					</button>
				</section>
			)}
			<section>
				<table class="plain">
					<thead>
						<tr>
							<th>{tag.visits === null ? '' : `${tag.kind}, entered ${tag.visits} times`}</th>
							<th class="number" title="The tag and those inside it">
								in all
							</th>
							<th class="number">itself</th>
						</tr>
					</thead>
					<tbody>
						{PAIRS.map(([title, total, self, unit]) => (
							<tr key={title}>
								<td>{title}</td>
								<Figure tag={tag} name={total} unit={unit} />
								<Figure tag={tag} name={self} unit={unit} />
							</tr>
						))}
					</tbody>
				</table>
			</section>
		</aside>
	);
}

function nameOf(tag: Tag): string {
	if (tag.name !== null) return tag.name;
	return tag.hidden ? `${tag.hidden} not shown` : 'outside of all tags';
}

function Tags() {
	const answer = useAsked<TagsResult>('tags');
	const [shut, setShut] = useState<ReadonlySet<string>>(new Set());
	const data = answer.data;
	const all = useMemo(() => (data ? widened(tagColumns(data), data.tags) : []), [data, question.value]);
	const wanted = value('cols')?.split(',');
	const shown = all.filter((column) => (wanted ? wanted.includes(column.key) : !column.optional));
	const text = value('sort');
	const sorting = text ? sortingOf('') : undefined;
	const rows = useMemo(() => {
		const by = sorting && all.find((column) => column.key === sorting.key)?.sort;
		return data ? tagRows(data.tags, shut, by, sorting?.down) : [];
	}, [data, shut, text, all]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!data) return <Loading what="Adding up tags" />;
	if (data.unmatched) return <NoRows data={data} />;
	if (!data.tags.some((tag) => tag.tag !== null))
		return (
			<Empty title="The program sets no tags">
				<p>
					Tags say what a program was doing when it allocated. HG_SCOPE("name") of heapgauge/heapgauge.h sets one for a block of
					code.
				</p>
			</Empty>
		);
	const toggle = (key: string, open?: boolean) => {
		const next = new Set(shut);
		if (open ?? next.has(key)) next.delete(key);
		else next.add(key);
		setShut(next);
	};
	const numbered = shown.map((column): Column<TagRow> => ({
		...(column as unknown as Column<TagRow>),
		...(column.sort ? { sort: (row: TagRow) => column.sort!(row.tag) } : {}),
		...(column.fill ? { fill: (row: TagRow) => column.fill!(row.tag) } : {}),
		hint: (row) => column.hint?.(row.tag),
		cell: (row) => column.cell(row.tag),
	}));
	/* After the selected number, so that it stays visible. */
	const before = numbered.filter((column) => ['value', 'share', 'self'].includes(column.key)).length;
	const columns: Column<TagRow>[] = [
		...numbered.slice(0, before),
		{
			key: 'name',
			title: 'Tag',
			hint: (row) => row.tag.tag ?? undefined,
			cell: (row) => <TagName row={row} toggle={toggle} />,
		},
		...numbered.slice(before),
	];
	const chosen = rows.findIndex((row) => row.key === value('row'));
	return (
		<>
			<div class="toolbar thin">
				<span class="soft">← → close and open; a click shows all numbers, Enter or + filters all views to the tag</span>
				<span class="grow" />
				<ColumnPick columns={all} shown={shown.map((column) => column.key)} />
			</div>
			<div class="split">
				<Table
					label="Tags"
					columns={columns}
					rows={rows}
					sorting={sorting}
					onSort={onSort}
					chosen={chosen}
					onChoose={(index) => note({ row: rows[index]?.key })}
					onOpen={(index) => filterTo(rows[index]?.tag)}
					onKey={(event, index) => onTagKey(event, rows[index], toggle)}
					tree={{ level: (row) => row.tag.depth, open: (row) => row.open }}
				/>
				{rows[chosen] && <TagDetail tag={rows[chosen].tag} />}
			</div>
		</>
	);
}

function filterTo(tag: Tag | undefined): void {
	const filter = tag && only(tag);
	if (filter) addFilter(filter);
}

function onTagKey(event: KeyboardEvent, row: TagRow | undefined, toggle: (key: string, open?: boolean) => void): boolean {
	if (!row) return false;
	switch (event.key) {
		case 'ArrowRight':
		case 'ArrowLeft':
			if (row.open !== undefined) toggle(row.key, event.key === 'ArrowRight');
			return true;
		case '+':
			filterTo(row.tag);
			return true;
		case 'Escape':
			note({ row: null });
			return true;
		default:
			return false;
	}
}

function TagName({ row, toggle }: { row: TagRow; toggle: (key: string) => void }) {
	return (
		<span style={{ paddingLeft: indent(row.tag.depth - 1) }}>
			<span
				class="twisty"
				aria-hidden="true"
				onClick={(event) => {
					event.stopPropagation();
					if (row.open !== undefined) toggle(row.key);
				}}
			>
				{row.open === undefined ? '' : row.open ? '▾' : '▸'}
			</span>
			<span class={row.tag.name === null ? 'soft' : 'fn'}>{nameOf(row.tag)}</span>
			{row.tag.kind && row.tag.kind !== 'scope' && <span class="where">{row.tag.kind}</span>}
		</span>
	);
}

/* ---- labels ---- */

function Labels() {
	const axis = axisOf('label');
	const answer = useAsked<GroupsResult>('functions', [['by', 'label']]);
	const data = answer.data;
	const columns = useMemo(
		() => (data ? groupColumns(question.value, axis, data, comparing.value) : []),
		[data, question.value, comparing.value],
	);
	const rows = useMemo(
		() => ((data?.[axis.rows] ?? []) as Record<string, unknown>[]).map((row): SiteRow => ({ id: String(row.label), values: row })),
		[data],
	);
	const text = value('sort');
	const sorted = useMemo(() => (text ? sortRows(rows, columns, sortingOf('')) : rows), [rows, columns, text]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!data) return <Loading what="Adding up labels" />;
	if (data.unmatched) return <NoRows data={data} />;
	if (!rows.some((row) => row.id.includes('=')))
		return (
			<Empty title="The program sets no labels">
				<p>Labels say on whose behalf it allocated: hg_label("tenant", "acme") of heapgauge/heapgauge.h sets one.</p>
			</Empty>
		);
	const filter = (index: number) => {
		const [key, ...rest] = (sorted[index]?.id ?? '').split('=');
		if (rest.length) addFilter({ name: 'label', value: `${key}=${escapeRegex(rest.join('='))}` });
	};
	return (
		<Plain
			label="Labels"
			columns={columns}
			rows={sorted}
			chosen={sorted.findIndex((row) => row.id === value('row'))}
			onChoose={(index) => note({ row: sorted[index]?.id })}
			onFilter={filter}
		/>
	);
}

/* ---- pools ---- */

function poolColumns(data: PoolsResult): Column<Pool>[] {
	const several = new Set(data.pools.map((pool) => pool.pid)).size > 1;
	const most = Math.max(1, ...data.pools.map((pool) => pool.live_bytes));
	return [
		numbers<Pool>('live_bytes', 'Live at the end', 'bytes', 'Allocated and not freed', most, 124),
		numbers<Pool>('live_blocks', 'Blocks', 'count', 'Allocated and not freed'),
		numbers<Pool>('max_bytes', 'Most', 'bytes', 'Largest live size that it ever had'),
		numbers<Pool>('peak_bytes', 'At peak', 'bytes', 'Live when the heap was largest'),
		numbers<Pool>('total_bytes', 'Total', 'bytes', 'Bytes allocated over the whole run'),
		numbers<Pool>('calls', 'Calls', 'count', 'Allocated blocks'),
		numbers<Pool>('frees', 'Freed', 'count', 'Freed blocks'),
		numbers<Pool>('pools', 'Pools', 'count', 'Pools of that name', undefined, 72),
		...(several ? [numbers<Pool>('pid', 'PID', 'id', 'Process', undefined, 72)] : []),
		{ key: 'name', title: 'Pool', sort: (row) => row.pool, cell: (row) => <span class="fn">{row.pool}</span> },
	];
}

function Pools() {
	const answer = useAsked<PoolsResult>('pools');
	const data = answer.data;
	const columns = useMemo(() => (data ? widened(poolColumns(data), data.pools) : []), [data]);
	const text = value('sort');
	const rows = useMemo(() => (data ? (text ? sortRows(data.pools, columns, sortingOf('')) : data.pools) : []), [data, columns, text]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!data) return <Loading what="Adding up pools" />;
	if (data.unmatched && values('pool').length) return <NoRows data={data} />;
	if (!rows.length)
		return (
			<Empty title="No pools">
				<p>
					The program has reported no custom allocator. It does so by hg_pool_new of heapgauge/heapgauge.h. Without changing the program:
				</p>
				<code>heapgauge record --wrap 'malloc:my_alloc,free:my_free' PROGRAM</code>
			</Empty>
		);
	return (
		<Plain
			label="Pools"
			columns={columns}
			rows={rows}
			chosen={Number(value('row') ?? -1)}
			onChoose={(index) => note({ row: String(index) })}
			onFilter={(index) => rows[index] && addFilter({ name: 'pool', value: `^${escapeRegex(rows[index].pool)}$` })}
		/>
	);
}

/** A table whose rows set a filter for all views. */
function Plain<Row>(props: {
	label: string;
	columns: Column<Row>[];
	rows: readonly Row[];
	chosen: number;
	onChoose: (index: number) => void;
	onFilter: (index: number) => void;
}): ComponentChildren {
	return (
		<>
			<div class="toolbar thin">
				<span class="soft">Enter or + filters all views to the selection</span>
			</div>
			<Table
				label={props.label}
				columns={props.columns}
				rows={props.rows}
				{...(value('sort') ? { sorting: sortingOf('') } : {})}
				onSort={onSort}
				chosen={props.chosen}
				onChoose={props.onChoose}
				onOpen={props.onFilter}
				onKey={(event, index) => {
					if (event.key !== '+') return false;
					props.onFilter(index);
					return true;
				}}
			/>
		</>
	);
}

const TABS = [
	['tags', 'Tags'],
	['labels', 'Labels'],
	['pools', 'Pools'],
] as const;

export function TagsView() {
	const tab = chosenTab(TABS);
	return (
		<div class="view fixed">
			<div class="toolbar">
				<Tabs tabs={TABS} also={['cols']} />
			</div>
			{tab === 'labels' ? <Labels /> : tab === 'pools' ? <Pools /> : <Tags />}
		</div>
	);
}
