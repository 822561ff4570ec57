// SPDX-License-Identifier: Apache-2.0
// Turns the state into a query, in two forms: the URL that the server answers and that saved pages are keyed by, and the command that
// prints the same in a terminal.
import { asksThreads, type State } from './state';
import { FILTERS, REPORT_VIEWS, questionOf } from './words';

export type Params = readonly (readonly [string, string])[];

function first(state: State, key: string): string | undefined {
	return state.values[key]?.[0];
}

/** The range of time in which a number is counted; empty: the whole run. */
export function windowParams(state: State): Params {
	const since = first(state, 'minus');
	if (!since || !questionOf(first(state, 'cost') ?? 'peak').ofWindow) return [];
	return [
		['at', first(state, 'at') ?? 'end'],
		['minus', since],
	];
}

/** --cost, --at and --minus of the query; empty if the view accepts none. */
export function costParams(state: State, view: string): Params {
	const takes = REPORT_VIEWS[view]?.costs ?? 'none';
	const question = questionOf(first(state, 'cost') ?? 'peak');
	const moment = first(state, 'at');
	if (takes === 'none' || (takes !== 'all' && !takes.includes(question.name))) return [];
	if (!question.ofMoment) return [['cost', question.name], ...(REPORT_VIEWS[view]?.wholeRun ? [] : windowParams(state))];
	const blocks = first(state, 'unit') === 'blocks';
	if (question.name === 'peak')
		return blocks
			? [
					['cost', 'blocks'],
					['at', 'peak'],
				]
			: [['cost', 'peak']];
	if (question.name === 'leaked')
		return blocks
			? [
					['cost', 'blocks'],
					['at', 'end'],
				]
			: [['cost', 'leaked']];
	const params: [string, string][] = [
		['cost', blocks ? 'blocks' : 'live'],
		['at', moment ?? 'end'],
	];
	if (question.name === 'grown') params.push(['minus', first(state, 'minus') ?? 'peak']);
	return params;
}

/** Whether the view shows the number that was selected. */
export function answersQuestion(state: State, view: string): boolean {
	return costParams(state, view).length > 0;
}

export function filterParams(state: State, view: string): Params {
	const takes = REPORT_VIEWS[view]?.filters ?? [];
	const params = FILTERS.flatMap((filter) =>
		takes === 'all' || takes.includes(filter.name) ? (state.values[filter.name] ?? []).map((value) => [filter.name, value] as const) : [],
	);
	/* Only the view sites adds mappings to the heap unless --kind says otherwise. A pool is neither. */
	return view === 'sites' && !state.values.kind && !state.values.pool ? [...params, ['kind', 'heap']] : params;
}

/** Names of the active filters. */
export function filtersOf(state: State): string[] {
	return FILTERS.map((filter) => filter.name).filter((name) => state.values[name]);
}

/** Active filters that the view does not accept. */
export function ignoredFilters(state: State, view: string): string[] {
	const takes = REPORT_VIEWS[view]?.filters ?? [];
	return FILTERS.filter((f) => state.values[f.name] && takes !== 'all' && !takes.includes(f.name)).map((f) => f.label);
}

function scopeParams(state: State, view: string): Params {
	const params: [string, string][] = [];
	if (first(state, 'compare') === '1' && REPORT_VIEWS[view]?.compares) params.push(['compare', '1']);
	const file = first(state, 'file');
	if (file && file !== '0') params.push(['file', file]);
	return params;
}

/** The same state for the newer recording alone, for parts without differences. */
export function alone(state: State): State {
	return { ...state, values: { ...state.values, compare: [] } };
}

/** The parameters of a view of the report in this state. */
export function ask(state: State, view: string, more: Params = []): Params {
	return [...scopeParams(state, view), ...costParams(state, view), ...filterParams(state, view), ...more];
}

/** The query whose result says whether the peak of the selected threads is known; null: no threads are selected. */
export function peakQuestion(state: State): string | null {
	if (!asksThreads(state)) return null;
	const view = first(state, 'by') === 'thread' && state.view === 'sites' ? 'functions' : 'sites';
	const more: Params = view === 'functions' ? [['by', 'thread']] : [];
	const of = state.view === 'compare' ? { ...state, values: { ...state.values, compare: ['1'] } } : state;
	return canonical(view, [...scopeParams(of, view), ...filterParams(of, view), ...more, ['limit', '1']]);
}

/** Number of rows that Sites shows first. */
export const FIRST_SITES = '300';

/** The query for the sum of all matching sites. Rows are many times as large, and only Sites shows them, from the same result. */
export function sumQuestion(state: State): string {
	const shows = state.view === 'sites' && (first(state, 'by') ?? 'site') === 'site';
	return canonical('sites', ask(state, 'sites', [['limit', shows ? FIRST_SITES : '1']]));
}

/** view=V first, then sorted by name: equal queries are equal texts. */
export function canonical(view: string, params: Params): string {
	const sorted = [...params].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
	return new URLSearchParams([['view', view], ...sorted.map(([key, value]) => [key, value])]).toString();
}

const PLAIN_WORD = /^[A-Za-z0-9_@%+=:,./-]+$/;

export function shellWord(word: string): string {
	return PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const FLAGS = new Set(['callees', 'fold-recursion', 'fold-imports', 'fold-libraries', 'no-own']);

/** The line that prints the same numbers. `before` is the older recording of a comparison. */
export function command(files: readonly string[], before: string | undefined, view: string, params: Params, livePid = 0): string {
	const compares = params.some(([key]) => key === 'compare');
	const index = Number(params.find(([key]) => key === 'file')?.[1] ?? 0);
	const file = files[index] ?? files[0] ?? 'FILE';
	const named = compares ? [before ?? 'OLD', file] : [file];
	/* Only the page compares a running process. */
	if (livePid && compares) return ['heapgauge view --pid', livePid, '--against', shellWord(before ?? 'OLD')].join(' ');
	const whose = livePid ? ['--pid', String(livePid)] : named.map(shellWord);
	const words = ['heapgauge', compares ? 'diff' : 'report', ...whose, '--view', view];
	for (const [key, value] of params) {
		if (key === 'compare' || key === 'file') continue;
		if (!FLAGS.has(key)) words.push(`--${key}`, shellWord(value));
		else words.push(value === '1' || value === 'yes' ? `--${key}` : `--${key}=${shellWord(value)}`);
	}
	return words.join(' ');
}
