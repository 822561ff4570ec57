// SPDX-License-Identifier: Apache-2.0
// Columns of the table of sites, of groups of sites, and of changes between two recordings.
import { base, ownerOf, placeOf, shortName } from '../model/frames';
import { knownMeasures, MEASURES, type MeasureWord } from '../model/measures';
import type { Answered, Frame, GroupsResult, Site, SitesResult } from '../model/types';
import { percent, quantity, type Unit } from '../model/units';
import { differing, knownCosts } from '../model/state';
import type { Axis, Question } from '../model/words';
import { Amount, ERROR_WIDTH, errorOf, hintOf, type Bound } from './amount';
import { Spark } from './bars';
import type { Column } from './table';

export interface SiteRow {
	/** Stable for the same recording. */
	id: string;
	values: Record<string, unknown>;
	stack?: readonly number[];
	frames?: readonly Frame[];
	site?: Site;
}

function numberOf(row: SiteRow, key: string): number | null {
	const value = row.values[key];
	return typeof value === 'number' ? value : null;
}

interface NumberColumn {
	key: string;
	title: string;
	unit: Unit;
	help?: string;
	width?: number;
	signed?: boolean;
	optional?: boolean;
	/** The value of a full bar. */
	whole?: number;
	/** Numbers are estimates: reserves width for their errors. */
	estimated?: boolean;
	bound?: Bound;
}

/** Several threads shared the site: its own maximum is then an upper bound. */
export function boundOf(measure: { key: string; bound?: Bound }, site: Readonly<Record<string, unknown>>): Bound {
	return measure.bound ?? (measure.key === 'max_bytes' && site.max_exact === false ? 'most' : undefined);
}

/** Extra pixels for "≤ ". */
const BOUND_WIDTH = 14;

export function numberColumn(options: NumberColumn): Column<SiteRow> {
	const { key, unit, whole } = options;
	return {
		key,
		title: options.title,
		number: true,
		width: (options.width ?? 86) + (options.bound ? BOUND_WIDTH : 0) + (options.estimated ? ERROR_WIDTH : 0),
		...(options.help ? { help: options.help } : {}),
		...(options.optional ? { optional: true } : {}),
		...(whole ? { fill: (row: SiteRow) => Math.abs(numberOf(row, key) ?? 0) / whole } : {}),
		sort: (row) => numberOf(row, key),
		hint: (row) => {
			const value = numberOf(row, key);
			return value === null ? undefined : hintOf(value, unit, errorOf(row.values, key), boundOf(options, row.values));
		},
		cell: (row) => {
			const value = numberOf(row, key);
			if (value === null) return <span class="soft">–</span>;
			const sign = options.signed ? (value > 0 ? 'grew' : value < 0 ? 'shrank' : 'soft') : value === 0 ? 'soft' : '';
			const error = errorOf(row.values, key);
			const amount = (
				<>
					<Amount value={value} unit={unit} error={error} signed={options.signed ?? false} bound={boundOf(options, row.values)} />
					{options.estimated && !error && <small class="error" />}
				</>
			);
			return sign ? <span class={sign}>{amount}</span> : amount;
		},
	};
}

/** `whole` is the sum of the number over all rows; undefined: unknown, and there is no column. */
function shareColumns(rows: readonly object[], key: string, whole: number | undefined, title: string): Column<SiteRow>[] {
	if (differing.value || rows.some((row) => Number((row as Record<string, unknown>)[key]) < 0)) return [];
	return [
		{
			key: `${key}_share`,
			title,
			number: true,
			width: 70,
			help: 'Share of what is shown',
			sort: (row) => numberOf(row, key),
			cell: (row) => {
				const value = numberOf(row, key);
				return <span class="soft">{value === null ? '–' : percent(value, whole)}</span>;
			},
		},
	];
}

export function ownerOfRow(row: SiteRow): Frame | undefined {
	return row.stack && row.frames ? ownerOf(row.stack, row.frames) : undefined;
}

/** Live bytes of a site over time; `courses` are by row id. */
function courseColumn(courses: Courses): Column<SiteRow> {
	return {
		key: 'course',
		title: 'Over time',
		help: 'Live bytes at every snapshot',
		width: 80,
		sort: (row) => Math.max(0, ...(courses.of.get(row.id) ?? [])),
		cell: (row) => {
			const course = courses.of.get(row.id);
			return course ? <Spark xs={courses.moments} ys={course} label={`held at most ${quantity(Math.max(...course), 'bytes')} at the snapshots`} /> : null;
		},
	};
}

export interface Courses {
	moments: readonly number[];
	of: ReadonlyMap<string, readonly number[]>;
}

const STACK_NAME: Column<SiteRow> = {
	key: 'name',
	title: 'Requested by',
	help: 'The innermost frame outside libc, the runtime and containers',
	sort: (row) => ownerOfRow(row)?.function ?? '',
	hint: (row) =>
		row.stack
			?.slice(0, 24)
			.map((number) => row.frames?.[number]?.function)
			.join('\n'),
	cell: (row) => {
		const owner = ownerOfRow(row);
		return (
			<>
				<span class="fn">{owner ? shortName(owner.function) : '[no stack]'}</span>
				<span class="where">{owner ? placeOf(owner) : ''}</span>
			</>
		);
	},
};

/** The column that names a row by its stack. */
export function stackName(): Column<SiteRow> {
	return STACK_NAME;
}

const PROCESS: Column<SiteRow> = {
	key: 'pid',
	title: 'PID',
	width: 64,
	number: true,
	sort: (row) => numberOf(row, 'pid'),
	cell: (row) => String(row.values.pid),
};

/** The column of the process, where rows are of several. */
export function processColumn(data: SitesResult): Column<SiteRow>[] {
	return new Set(data.sites.map((site) => site.pid)).size > 1 ? [PROCESS] : [];
}

/** Total over own maximum; null: not known, or nothing was ever live. */
function recyclingOf(row: SiteRow): number | null {
	const most = numberOf(row, 'max_bytes');
	const total = numberOf(row, 'total_bytes');
	return most && total !== null ? total / most : null;
}

const RECYCLED: Column<SiteRow> = {
	key: 'recycled',
	title: 'Recycling',
	number: true,
	optional: true,
	width: 84,
	help: 'Total over own max: how many times as much was requested as was ever live. If it is large, blocks can be kept and used again',
	sort: recyclingOf,
	cell: (row) => {
		const times = recyclingOf(row);
		return times === null ? <span class="soft">–</span> : `${boundOf({ key: 'max_bytes' }, row.values) ? '≥ ' : ''}${times.toFixed(1)}×`;
	},
};

/** Whether any value of a column has an error. */
function estimatedIn(rows: readonly object[]): (key: string) => boolean {
	return (key) => rows.some((row) => errorOf(row, key) > 0);
}

/** The same of a result: exact recordings have no estimates but the time of calls. */
function estimatedOf(result: Answered, rows: readonly object[]): (key: string) => boolean {
	return result.sampling || result.cost === 'time' ? estimatedIn(rows) : () => false;
}

/**
 * The selected number first, with its share of `whole`; then all other numbers. `result` may be sorted by another number, and its own sum
 * is then of that one.
 */
export function siteColumns(
	asked: Question,
	result: SitesResult,
	whole: number | undefined,
	courses: Courses | undefined,
): Column<SiteRow>[] {
	const most = Math.max(1, ...result.sites.map((site) => Math.abs(Number(site[asked.key]) || 0)));
	const estimated = estimatedOf(result, result.sites);
	const main = numberColumn({
		estimated: estimated(asked.key),
		key: asked.key,
		title: asked.title,
		unit: asked.unit,
		help: asked.help,
		width: 104,
		whole: most,
		signed: asked.name === 'grown',
	});
	const kind = {
		key: 'kind',
		title: 'Kind',
		width: 56,
		optional: true,
		sort: (row: SiteRow) => String(row.values.kind),
		cell: (row: SiteRow) => String(row.values.kind),
	};
	/* Names given by the program, if there are any. */
	const named = (key: 'tag' | 'pool', title: string): Column<SiteRow>[] =>
		result.sites.some((site) => site[key])
			? [
					{
						key,
						title,
						width: 140,
						sort: (row) => String(row.values[key] ?? ''),
						hint: (row) => (row.values[key] as string | null) ?? undefined,
						cell: (row) => <span class="fn">{(row.values[key] as string | null) ?? ''}</span>,
					},
				]
			: [];
	/* Live memory of a heap profile of another tool has two keys. */
	const same = asked.key.replace('not_freed', 'live');
	const measures = knownCosts.value ? knownMeasures(result.sites).filter((measure) => measure.key !== same) : MEASURES;
	return [
		main,
		...shareColumns(result.sites, asked.key, whole, '%'),
		...(courses ? [courseColumn(courses)] : []),
		STACK_NAME,
		...named('tag', 'Tag'),
		...named('pool', 'Pool'),
		...measures.filter((measure) => measure.key !== asked.key).map((measure: MeasureWord) =>
			numberColumn({ ...measure, optional: !measure.shown, estimated: estimated(measure.key) }),
		),
		...(differing.value ? [] : [RECYCLED]),
		{ ...PROCESS, optional: true },
		kind,
	];
}

/** The key of the selected number in groups. */
export function groupKey(asked: Question): string {
	if (asked.ofMoment) return asked.unit === 'count' ? 'live_blocks' : 'live_bytes';
	return asked.key;
}

function groupName(row: SiteRow, axis: Axis): string {
	const name = String(row.values[axis.name] ?? '');
	switch (axis.name) {
		case 'function':
		case 'type':
			return shortName(name);
		case 'module':
		case 'line':
			return base(name) || name;
		default:
			return name;
	}
}

export function groupColumns(asked: Question, axis: Axis, result: GroupsResult, compared: boolean): Column<SiteRow>[] {
	const key = groupKey(asked);
	const signed = asked.name === 'grown' || compared;
	const rows = (result[axis.rows] ?? []) as Record<string, number>[];
	const whole = Math.max(1, ...rows.map((row) => Math.abs(row[key] ?? 0)));
	const columns: Column<SiteRow>[] = [];
	const has = estimatedOf(result, rows);
	const estimated = has(key);
	const share = (of: string, title: string) => shareColumns(rows, of, result.shown, title);
	if (axis.ofFrames) {
		columns.push(
			numberColumn({
				key: 'self',
				title: 'Self',
				unit: asked.unit,
				help: 'Self: requested directly there',
				width: 104,
				whole,
				signed,
				estimated: has('self'),
			}),
			...share('self', '%'),
		);
		columns.push(
			numberColumn({
				key,
				title: 'With callees',
				unit: asked.unit,
				help: 'Total: requested there and in callees',
				width: 104,
				whole,
				signed,
				estimated,
			}),
			...share(key, '% '),
		);
	} else {
		columns.push(
			numberColumn({ key, title: asked.title, unit: asked.unit, help: asked.help, width: 104, whole, signed, estimated }),
			...share(key, '%'),
		);
	}
	if (asked.ofMoment && asked.unit === 'bytes')
		columns.push(numberColumn({ key: 'live_blocks', title: 'Blocks', unit: 'count', signed, estimated: has('live_blocks') }));
	if (asked.name !== 'calls' && (knownCosts.value?.includes('calls') ?? true))
		columns.push(numberColumn({ key: 'calls', title: 'Calls', unit: 'count', signed: compared, estimated: has('calls') }));
	columns.push({
		key: 'name',
		title: axis.label,
		sort: (row) => groupName(row, axis),
		hint: (row) => String(row.values[axis.name]),
		cell: (row) => {
			const file = row.values.source_file as string | null | undefined;
			const where =
				axis.name === 'function'
					? file
						? base(file)
						: base(row.values.module as string)
					: axis.name === 'line' || axis.name === 'file'
						? base(row.values.module as string)
						: '';
			return (
				<>
					<span class="fn">{groupName(row, axis)}</span>
					<span class="where">{where}</span>
				</>
			);
		},
	});
	return columns;
}

export function changedColumns(asked: Question, result: Answered): Column<SiteRow>[] {
	const stacks = (result as unknown as { stacks: { change: number }[] }).stacks;
	const most = Math.abs(stacks[0]?.change ?? 1) || 1;
	const has = estimatedIn(stacks);
	return [
		numberColumn({
			estimated: has('change'),
			key: 'change',
			title: 'Change',
			unit: asked.unit,
			help: 'After minus before',
			width: 112,
			signed: true,
			whole: most,
		}),
		numberColumn({ key: 'before', title: 'Before', unit: asked.unit, width: 104, estimated: has('before') }),
		numberColumn({ key: 'after', title: 'After', unit: asked.unit, width: 104, estimated: has('after') }),
		numberColumn({ key: 'spread', title: 'Spread', unit: asked.unit, width: 96, optional: true, help: 'Of several runs on a side' }),
		numberColumn({
			estimated: has('calls_change'),
			key: 'calls_change',
			title: 'Calls',
			unit: 'count',
			width: 104,
			signed: true,
			help: 'Allocations, after minus before',
		}),
		{
			key: 'verdict',
			title: 'Note',
			width: 96,
			cell: (row) => (
				<span class="soft">
					{row.values.within_spread
						? 'within spread'
						: row.values.within_noise
							? 'within noise'
							: row.values.before === 0
								? 'new'
								: row.values.after === 0
									? 'gone'
									: ''}
				</span>
			),
		},
		STACK_NAME,
	];
}
