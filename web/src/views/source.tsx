// SPDX-License-Identifier: Apache-2.0
// Source: the lines of a file with the selected cost of each, inlined functions separately.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { base, shortName } from '../model/frames';
import { highlightLines } from '../model/highlight';
import { ask as askParams, canonical } from '../model/query';
import { narrow } from '../model/narrow';
import { useAnswer } from '../model/source';
import { comparing, go, hasCost, note, question, set, state, value, wordedQuestion } from '../model/state';
import type { GroupsResult, SourceFile } from '../model/types';
import { count, percent, quantity } from '../model/units';
import { Amount, ERROR_WIDTH, errorOf, hintOf } from '../parts/amount';
import type { Question } from '../model/words';
import { asking } from '../parts/copy';
import { escapeRegex } from '../parts/row-keys';
import { Empty, Failed, Loading, NoRows } from '../parts/states';
import { Table, type Column } from '../parts/table';

interface LineCost {
	self: number;
	total: number;
	self_error: number;
	total_error: number;
}

interface CodeLine {
	number: number;
	html: string;
	cost: LineCost | undefined;
}

interface Listed {
	key: string;
	label: string;
	place: string;
	path: string;
	line: number;
	self: number;
	total: number;
	self_error: number;
	total_error: number;
}

const LINES = '20000';
const LISTED = '2000';

function costKey(asked: Question): string {
	return asked.ofMoment ? (asked.unit === 'count' ? 'live_blocks' : 'live_bytes') : asked.key;
}

function rowsOf(result: GroupsResult, key: string): Record<string, unknown>[] {
	return (result[key] ?? []) as Record<string, unknown>[];
}

function costOf(row: Record<string, unknown>, asked: Question): LineCost {
	const key = costKey(asked);
	return { self: Number(row.self), total: Number(row[key]), self_error: errorOf(row, 'self'), total_error: errorOf(row, key) };
}

/** Costs by line of one file. */
export function lineCosts(result: GroupsResult, path: string, asked: Question): Map<number, LineCost> {
	const costs = new Map<number, LineCost>();
	for (const row of rowsOf(result, 'lines')) {
		if (row.source_file === path) costs.set(Number(row.source_line), costOf(row, asked));
	}
	return costs;
}

function listOf(result: GroupsResult, axis: 'function' | 'file', asked: Question): Listed[] {
	return rowsOf(result, `${axis}s`).flatMap((row) => {
		const path = String((axis === 'file' ? row.file : row.source_file) ?? '');
		if (!path.includes('/') && axis === 'file') return [];
		return path && path !== 'null'
			? [
					{
						key: `${row[axis]}${path}`,
						label: axis === 'file' ? base(path) : shortName(String(row.function)),
						place: axis === 'file' ? path.slice(0, path.lastIndexOf('/')) : base(path),
						path,
						line: Number(row.source_line ?? 0),
						...costOf(row, asked),
					},
				]
			: [];
	});
}

function text(cost: LineCost, key: 'self' | 'total', asked: Question): ComponentChildren {
	return <Amount value={cost[key]} unit={asked.unit} error={errorOf(cost, key)} signed={comparing.value || asked.name === 'grown'} />;
}

function listColumns(asked: Question, most: number, estimated: boolean): Column<Listed>[] {
	const more = estimated ? ERROR_WIDTH : 0;
	return [
		{
			key: 'total',
			title: 'With callees',
			number: true,
			width: 96 + more,
			fill: (row) => Math.abs(row.total) / most,
			cell: (row) => text(row, 'total', asked),
			hint: (row) => hintOf(row.total, asked.unit, row.total_error),
		},
		{
			key: 'name',
			title: 'Name',
			hint: (row) => `${row.label}\n${row.path}`,
			cell: (row) => (
				<>
					<span class="fn">{row.label}</span>
					<span class="where">{row.place}</span>
				</>
			),
		},
		{
			key: 'self',
			title: 'Self',
			number: true,
			width: 84 + more,
			cell: (row) => (row.self ? text(row, 'self', asked) : <span class="soft">{quantity(0, asked.unit)}</span>),
		},
	];
}

function List({ path }: { path: string | undefined }) {
	const asked = question.value;
	const axis = value('list') === 'file' ? 'file' : 'function';
	const answer = useAnswer<GroupsResult>(
		canonical(
			'functions',
			askParams(state.value, 'functions', [
				['by', axis],
				['limit', LISTED],
			]),
		),
	);
	const search = (value('search') ?? '').toLowerCase();
	const all = useMemo(() => (answer.data ? listOf(answer.data, axis, asked) : []), [answer.data, axis, asked]);
	const rows = useMemo(
		() =>
			all
				.filter((row) => !search || row.label.toLowerCase().includes(search) || row.path.toLowerCase().includes(search))
				.sort((a, b) => Math.abs(b.total) - Math.abs(a.total)),
		[all, search],
	);
	const most = Math.max(1, ...rows.slice(0, 50).map((row) => Math.abs(row.total)));
	const columns = useMemo(() => listColumns(asked, most, Boolean(answer.data?.sampling)), [asked, most, answer.data]);
	const open = (index: number) => {
		const row = rows[index];
		if (row)
			set({
				path: row.path,
				line: row.line ? String(row.line) : null,
				sel: axis === 'function' ? row.key.slice(0, -row.path.length) : null,
			});
	};
	return (
		<div class="source-list">
			<div class="toolbar">
				<div class="segments" role="group" aria-label="List">
					<button type="button" aria-pressed={axis === 'function'} onClick={() => set({ list: null })}>
						Functions
					</button>
					<button type="button" aria-pressed={axis === 'file'} onClick={() => set({ list: 'file' })}>
						Files
					</button>
				</div>
				<input
					id="search"
					type="search"
					class="grow"
					placeholder="Search"
					aria-label="Search functions and files"
					value={value('search') ?? ''}
					onInput={(event) => note({ search: event.currentTarget.value || null })}
				/>
			</div>
			{answer.status === 'error' && <Failed answer={answer} />}
			{!answer.data && answer.status !== 'error' && <Loading what="Adding up" />}
			{answer.data?.unmatched && <NoRows data={answer.data} />}
			{answer.data && !answer.data.unmatched && rows.length === 0 && (
				<Empty title="No source found">
					<p>No frame has a file and line. Build with -g, or let heapgauge find debug information:</p>
					<code>heapgauge doctor PROGRAM</code>
				</Empty>
			)}
			{rows.length > 0 && (
				<Table
					label="Functions with source"
					columns={columns}
					rows={rows}
					chosen={rows.findIndex(
						(row) =>
							row.path === path && (axis === 'file' || String(row.line) === value('line') || row.key === `${value('sel')}${row.path}`),
					)}
					onChoose={open}
					onOpen={open}
				/>
			)}
		</div>
	);
}

/** Pixels for the longest line: code is scrolled to and not cut. A line longer than all reason does not set the measure. */
function codeWidth(lines: readonly (string | null)[]): number {
	const longest = lines.reduce((most, line) => Math.max(most, (line ?? '').replaceAll('\t', '    ').length), 30);
	return Math.ceil(Math.min(longest, 240) * 7.3) + 16;
}

function codeColumns(asked: Question, most: number, estimated: boolean, codeWidth: number): Column<CodeLine>[] {
	const cell = (cost: LineCost | undefined, key: 'self' | 'total') => (cost?.[key] ? text(cost, key, asked) : '');
	const more = estimated ? ERROR_WIDTH : 0;
	const self: Column<CodeLine> = {
		key: 'self',
		title: 'Self',
		number: true,
		width: 88 + more,
		help: 'Self: requested directly on this line',
		fill: (row) => Math.abs(row.cost?.self ?? 0) / most,
		hint: (row) => (row.cost ? hintOf(row.cost.self, asked.unit, row.cost.self_error) : undefined),
		cell: (row) => cell(row.cost, 'self'),
	};
	const rest: Column<CodeLine>[] = [
		{
			key: 'total',
			title: 'With callees',
			number: true,
			width: 96 + more,
			help: 'Total: requested on this line and in its callees',
			fill: (row) => Math.abs(row.cost?.total ?? 0) / most,
			hint: (row) => (row.cost ? hintOf(row.cost.total, asked.unit, row.cost.total_error) : undefined),
			cell: (row) => cell(row.cost, 'total'),
		},
		{ key: 'number', title: 'Line', number: true, width: 48, cell: (row) => <span class="soft">{row.number}</span> },
		{ key: 'code', title: 'Source', width: codeWidth, cell: (row) => <code class="hljs" dangerouslySetInnerHTML={{ __html: row.html || ' ' }} /> },
	];
	return narrow.value ? [...rest, self] : [self, ...rest];
}

const MEASURED = ['peak', 'leaked', 'total', 'calls', 'temporary'] as const;

/** All numbers of one line. */
function LineNumbers({ path, line }: { path: string; line: number }) {
	return (
		<table class="plain line-numbers">
			<thead>
				<tr>
					<th>Line {line}</th>
					<th class="number">Self</th>
					<th class="number">With callees</th>
					<th class="number">of all</th>
				</tr>
			</thead>
			<tbody>
				{MEASURED.filter((name) => hasCost(name)).map((name) => (
					<LineNumber key={name} path={path} line={line} name={name} />
				))}
			</tbody>
		</table>
	);
}

function LineNumber({ path, line, name }: { path: string; line: number; name: string }) {
	const asked = wordedQuestion(name);
	const of = { ...state.value, values: { ...state.value.values, cost: [name], unit: [], at: [], minus: [] } };
	const answer = useAnswer<GroupsResult>(
		canonical(
			'functions',
			askParams(of, 'functions', [
				['by', 'line'],
				['limit', LINES],
			]),
		),
	);
	const known = answer.data && lineCosts(answer.data, path, asked).get(line);
	/* Lines that cost nothing have no row. */
	const listed = answer.data ? rowsOf(answer.data, 'lines').length : 0;
	const cost = known ?? (answer.data && listed < Number(LINES) ? { self: 0, total: 0, self_error: 0, total_error: 0 } : undefined);
	return (
		<tr>
			<td>{asked.label}</td>
			<td class="number">{cost ? text(cost, 'self', asked) : answer.data ? '–' : '…'}</td>
			<td class="number">{cost ? text(cost, 'total', asked) : answer.data ? '–' : '…'}</td>
			<td class="number soft">{cost && answer.data && !comparing.value ? percent(cost.total, answer.data.total) : ''}</td>
		</tr>
	);
}

function Code({ path }: { path: string }) {
	const asked = question.value;
	const file = useAnswer<SourceFile>(new URLSearchParams({ file: path }).toString(), '/api/source');
	const answer = useAnswer<GroupsResult>(
		canonical(
			'functions',
			askParams(state.value, 'functions', [
				['by', 'line'],
				['limit', LINES],
			]),
		),
	);
	const costs = useMemo(
		() => (answer.data ? lineCosts(answer.data, path, asked) : new Map<number, LineCost>()),
		[answer.data, path, asked],
	);
	const html = useMemo(() => (file.data ? highlightLines(path, file.data.lines) : []), [file.data, path]);
	const rows = useMemo(() => html.map((line, i): CodeLine => ({ number: i + 1, html: line, cost: costs.get(i + 1) })), [html, costs]);
	const wide = useMemo(() => codeWidth(file.data?.lines ?? []), [file.data]);
	const most = Math.max(1, ...[...costs.values()].map((cost) => Math.max(Math.abs(cost.total), Math.abs(cost.self))));
	const columns = useMemo(() => codeColumns(asked, most, Boolean(answer.data?.sampling), wide), [asked, most, answer.data, wide, narrow.value]);
	const heaviest = [...costs.entries()].sort((a, b) => Math.abs(b[1].total) - Math.abs(a[1].total))[0]?.[0] ?? 1;
	const line = Number(value('line') ?? heaviest);
	const missing = file.status === 'error';
	const only = [...costs.entries()].sort((a, b) => a[0] - b[0]);
	return (
		<div class="source-code">
			<div class="toolbar">
				<b class="code cut" title={path}>
					{path}
				</b>
				<span class="soft">
					{costs.size ? `${count(costs.size)} lines with a cost` : ''}
					{file.data?.from === 'bundle' ? ', from the bundle' : ''}
				</span>
				<span class="grow" />
				<button type="button" onClick={() => go('sites', { focus: `^${escapeRegex(path)}$` })}>
					Stacks through this file
				</button>
				<a href={`vscode://file${path}:${line}`} title={`${path}:${line}`}>
					Open in the editor
				</a>
			</div>
			{!file.data && !missing && <Loading what="Reading the source" />}
			{missing && (
				<>
					<Empty title="The source is not available">
						<p>
							{file.absent ? 'A saved page holds no source.' : file.error} The cost of each line is listed below. <code>heapgauge bundle</code>{' '}
							includes source lines for other machines.
						</p>
					</Empty>
					<table class="plain missing">
						<tbody>
							{only.map(([number, cost]) => (
								<tr key={number}>
									<td class="number">line {number}</td>
									<td class="number">{text(cost, 'self', asked)}</td>
									<td class="number">{text(cost, 'total', asked)}</td>
								</tr>
							))}
						</tbody>
					</table>
				</>
			)}
			{file.data && (
				<Table
					key={path}
					label={`Source of ${base(path)}`}
					rowHeight={20}
					align="center"
					columns={columns}
					rows={rows}
					chosen={line - 1}
					onChoose={(index) => note({ line: String(index + 1) })}
				/>
			)}
			{file.data && costs.has(line) && <LineNumbers path={path} line={line} />}
		</div>
	);
}

export function SourceView() {
	const path = value('path');
	const params = askParams(state.value, 'functions', [['by', 'line']]);
	useEffect(() => {
		asking.value = { view: 'functions', params };
	}, [state.value]);
	return (
		<div class="view fixed source">
			<List path={path} />
			{path ? (
				<Code path={path} />
			) : (
				<div class="source-code">
					<Empty title="Choose a function">
						<p>Its file opens with the bytes requested on each line. Functions without debug information are not listed.</p>
					</Empty>
				</div>
			)}
		</div>
	);
}
