// SPDX-License-Identifier: Apache-2.0
// Sites: every call stack that allocated, or groups of them, in a table of any length.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ask as askParams, canonical, filtersOf, FIRST_SITES, sumQuestion, type Params } from '../model/query';
import { UNSAVED_AXES } from '../model/saved-sites';
import { saved, useAnswer } from '../model/source';
import { comparing, hasCost, inWindow, knownCosts, note, peakUnknown, question, set, state, value, type State } from '../model/state';
import type { Answered, GroupsResult, HistoryResult, SitesResult, StacksResult } from '../model/types';
import { count } from '../model/units';
import { AXES, axisOf } from '../model/words';
import { asking } from '../parts/copy';
import { Failed, Loading, NoRows } from '../parts/states';
import { sortRows, Table, type Column, type Sorting } from '../parts/table';
import { ColumnPick } from '../parts/column-pick';
import { SiteDetail } from '../parts/site-detail';
import { changedColumns, groupColumns, siteColumns, type Courses, type SiteRow } from '../parts/site-columns';
import { MemoryMap } from '../parts/memory-map';
import { Pages, Retainers, sitePart, SiteParts } from '../parts/site-memory';
import { onRowKey } from '../parts/row-keys';
import { go } from '../model/state';

/** Limits of the successive queries. */
/** More rows would stop the page while they are read: each has its whole stack. */
const STEPS = [FIRST_SITES, '5000'];

function sortingOf(text: string | undefined, fallback: string): Sorting {
	if (!text) return { key: fallback, down: true };
	return text.startsWith('-') ? { key: text.slice(1), down: true } : { key: text, down: false };
}

/** The --cost that sorts by the column, for when only the heaviest rows are loaded. */
const ORDERS: Readonly<Record<string, string>> = {
	peak_bytes: 'peak',
	not_freed_bytes: 'leaked',
	total_bytes: 'total',
	calls: 'calls',
	calls_per_second: 'rate',
	temporary_calls: 'temporary',
	max_bytes: 'max',
	internal_fragmentation_bytes: 'waste',
	lifetime_ns: 'lifetime',
	copied_bytes: 'realloc',
	allocator_ns: 'time',
};

/** Orders that do not work for threads whose peak is unknown. */
const UNKNOWN_ORDERS = new Set(['peak', 'lifetime']);

/** Axes that a heap profile of another tool does not have. */
const UNKNOWN_AXES = new Set(['thread', 'size', 'process', 'entry', 'pool']);

/** The state to query: with the cost of the sorted column, if the rows still have the selected number. */
function orderedState(axis: string): State {
	const text = value('sort') ?? '';
	const cost = text.startsWith('-') ? ORDERS[text.slice(1)] : undefined;
	const name = question.value.name;
	if (cost && !hasCost(cost)) return state.value;
	if (cost && peakUnknown.value !== undefined && UNKNOWN_ORDERS.has(cost)) return state.value;
	if (!cost || axis !== 'site' || comparing.value || saved.value || name === 'live' || name === 'grown' || inWindow())
		return state.value;
	return { ...state.value, values: { ...state.value.values, cost: [cost], unit: [], at: [], minus: [] } };
}

interface Shown {
	rows: readonly SiteRow[];
	columns: readonly Column<SiteRow>[];
	/** Number of rows in all. */
	/** Undefined: the answer was cut, and does not say where. */
	total: number | undefined;
}

/** One of three tables with the same kind of rows: sites, groups of them, or changes. */
function shownOf(data: unknown, axis: string, whole: number | undefined, courses: Courses | undefined): Shown {
	const asked = question.value;
	if (comparing.value && axis === 'site') {
		const result = data as StacksResult;
		const rows = (result.stacks ?? []).map((stack, i): SiteRow => ({
			id: `c${i}`,
			values: stack as unknown as Record<string, unknown>,
			stack: stack.stack,
			frames: result.frames,
		}));
		return { rows, columns: changedColumns(asked, result), total: STEPS.includes(String(rows.length)) ? undefined : rows.length };
	}
	if (axis === 'site') {
		const result = data as SitesResult;
		const rows = (result.sites ?? []).map((site): SiteRow => ({
			id: `${site.pid}.${site.site}`,
			values: site,
			stack: site.stack,
			frames: result.frames,
			site,
		}));
		return { rows, columns: siteColumns(asked, result, whole, courses), total: result.site_count };
	}
	const result = data as GroupsResult;
	const list = (result[axisOf(axis).rows] ?? []) as Record<string, unknown>[];
	const rows = list.map((group): SiteRow => ({ id: String(group[axis]), values: group }));
	const cut = STEPS.includes(String(rows.length));
	return { rows, columns: groupColumns(asked, axisOf(axis), result, comparing.value), total: cut ? undefined : rows.length };
}

/** Histories of the heaviest rows; more of them would delay every result. */
function useCourses(wanted: boolean): Courses | undefined {
	const answer = useAnswer<HistoryResult>(
		wanted && !value('thread') && !knownCosts.value ? canonical('history', askParams(state.value, 'history', [['limit', STEPS[0]!]])) : null,
	);
	return useMemo(
		() =>
			answer.data && {
				moments: answer.data.snapshot_at_ns,
				of: new Map(answer.data.sites.map((site) => [`${site.pid}.${site.site}`, site.history])),
			},
		[answer.data],
	);
}

function viewOf(axis: string): string {
	return axis === 'site' ? 'sites' : 'functions';
}

/** Why a saved page cannot group by the axis; undefined: it can. */
function unsavedAxis(axis: string): string | undefined {
	const has = axis === 'thread' ? ['peak', 'leaked'] : ['calls'];
	const whole = filtersOf(state.value).length === 0 && has.includes(question.value.name) && !value('unit');
	return saved.value && !whole ? UNSAVED_AXES[axis] : undefined;
}

function AllSites() {
	const axis = value('by') ?? 'site';
	const view = viewOf(axis);
	const [step, setStep] = useState(0);
	const more: Params = axis === 'site' ? [] : [['by', axis]];
	const params = askParams(orderedState(axis), view, more);
	const question_ = canonical(view, params);
	useEffect(() => setStep(0), [question_]);
	useEffect(() => {
		asking.value = { view, params };
	}, [question_]);
	const answer = useAnswer<unknown>(canonical(view, [...params, ['limit', STEPS[step]!]]));

	/* Rows may be sorted by another number; shares refer to the sum of the selected one. */
	const whole = useAnswer<Answered>(axis === 'site' ? sumQuestion(state.value) : null).data
		?.shown;
	const courses = useCourses(axis === 'site' && !comparing.value);
	const shown = useMemo(
		() => (answer.data ? shownOf(answer.data, axis, whole, courses) : undefined),
		[answer.data, axis, whole, question.value, comparing.value, courses],
	);
	const wanted = value('cols')?.split(',');
	const columns = useMemo(
		() => shown?.columns.filter((column) => (wanted ? wanted.includes(column.key) || column.key === 'name' : !column.optional)) ?? [],
		[shown, value('cols')],
	);
	const first = shown?.columns.find((column) => column.number)?.key ?? 'name';
	const sorting = sortingOf(value('sort'), first);
	const rows = useMemo(
		() => (shown && value('sort') ? sortRows(shown.rows, shown.columns, sorting) : (shown?.rows ?? [])),
		[shown, value('sort')],
	);
	const chosen = rows.findIndex((row) => row.id === value('site'));
	const row = rows[chosen];

	if (answer.status === 'error')
		return (
			<div class="view">
				<Failed answer={answer} />
			</div>
		);
	const all = !shown || (shown.total !== undefined && rows.length >= shown.total);
	const sortedByAll = orderedState(axis) !== state.value;
	return (
		<div class="view fixed">
			<div class="toolbar">
				<SiteParts />
				<label>
					Group by{' '}
					<select
						value={axis}
						onChange={(event) =>
							set({ by: event.currentTarget.value === 'site' ? null : event.currentTarget.value, sort: null, site: null, cols: null })
						}
					>
						{AXES.filter((one) => !knownCosts.value || !UNKNOWN_AXES.has(one.name)).map((one) => (
							<option key={one.name} value={one.name} disabled={unsavedAxis(one.name) !== undefined} title={unsavedAxis(one.name)}>
								{one.label}
								{unsavedAxis(one.name) ? ' (not in a saved page)' : ''}
							</option>
						))}
					</select>
				</label>
				<span class="soft">
					{shown &&
						(all
							? `${count(rows.length)} rows`
							: `${count(rows.length)}${shown.total === undefined ? ' and more' : ` of ${count(shown.total)}`}, the heaviest${value('sort') && !sortedByAll ? '; sorted among these' : ''}${step + 1 < STEPS.length ? '' : '; filters show the others'}`)}
				</span>
				<span class="grow" />
				{shown && <ColumnPick columns={shown.columns} shown={columns.map((column) => column.key)} />}
			</div>
			{!shown && <Loading what="Adding up sites" />}
			{shown && rows.length === 0 && <NoRows data={answer.data as Answered} />}
			{shown && rows.length > 0 && (
				<div class="split">
					<Table
						label="Sites"
						columns={columns}
						rows={rows}
						{...(shown.total === undefined ? {} : { total: shown.total })}
						sorting={sorting}
						onSort={(by) => note({ sort: by.down ? `-${by.key}` : by.key })}
						chosen={chosen}
						onChoose={(index) => note({ site: rows[index]?.id })}
						onOpen={(index) => rows[index] && note({ site: rows[index].id })}
						onEnd={() => {
							if (!all && step + 1 < STEPS.length && answer.status === 'ready') setStep(step + 1);
						}}
						onKey={(event, index) => {
							if (event.key === 'Escape') {
								note({ site: null });
								return true;
							}
							return onRowKey(event, rows[index], axis);
						}}
					/>
					{row?.site && <SiteDetail row={row} onClose={() => note({ site: null })} onFlame={(name) => go('flame', { pivot: name })} />}
				</div>
			)}
		</div>
	);
}

export function SitesView() {
	switch (sitePart()) {
		case 'pages':
			return <Pages />;
		case 'map':
			return <MemoryMap />;
		case 'retainers':
			return <Retainers />;
		default:
			return <AllSites />;
	}
}
