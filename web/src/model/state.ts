// SPDX-License-Identifier: Apache-2.0
// The state of the page is its address: #/view?key=value&... It holds all choices of the user, so that an address can be shared and "back"
// works. Keys of one view are dropped when the user leaves it.
import { computed, signal } from '@preact/signals';
import { about } from './source';
import type { About } from './types';
import { FILTERS, questionOf, type Question } from './words';

export type ViewName = 'start' | 'flame' | 'sites' | 'tree' | 'source' | 'time' | 'sizes' | 'threads' | 'tags' | 'compare' | 'run';

/** The first ten have a key. */
export const VIEW_NAMES: readonly ViewName[] = [
	'start',
	'flame',
	'sites',
	'tree',
	'source',
	'time',
	'sizes',
	'threads',
	'compare',
	'run',
	'tags',
];

export interface State {
	view: ViewName;
	/** Values by key, in the order they were given; no key has an empty list. */
	values: Readonly<Record<string, readonly string[]>>;
}

/** Keys that are kept when the view changes. */
const SHARED = new Set(['file', 'compare', 'cost', 'unit', 'at', 'minus', 'sel', ...FILTERS.map((f) => f.name)]);

export function parseState(hash: string): State {
	const text = hash.replace(/^#\/?/, '');
	const [name = '', query = ''] = text.split(/\?(.*)/s);
	const view = VIEW_NAMES.find((known) => known === name) ?? 'start';
	const values: Record<string, string[]> = {};
	for (const [key, value] of new URLSearchParams(query)) {
		if (value !== '') (values[key] ??= []).push(value);
	}
	return { view, values };
}

export function formatState(state: State): string {
	const query = new URLSearchParams();
	for (const [key, list] of Object.entries(state.values)) {
		for (const value of list) query.append(key, value);
	}
	const text = query.toString();
	return `#/${state.view}${text ? `?${text}` : ''}`;
}

export type Changes = Record<string, string | readonly string[] | null | undefined>;

/** The state with some keys changed; null removes a key. */
export function changed(state: State, changes: Changes): State {
	const values: Record<string, readonly string[]> = { ...state.values };
	for (const [key, value] of Object.entries(changes)) {
		if (value === undefined) continue;
		const list = value === null ? [] : typeof value === 'string' ? [value] : value;
		const kept = list.filter((one) => one !== '');
		if (kept.length) values[key] = kept;
		else delete values[key];
	}
	return { view: state.view, values };
}

export function moved(state: State, view: ViewName, changes: Changes = {}): State {
	const values = view === state.view ? state.values : Object.fromEntries(Object.entries(state.values).filter(([key]) => SHARED.has(key)));
	return changed({ view, values }, changes);
}

/** The state in the address. */
export const address = signal<State>({ view: 'start', values: {} });

/** Why the live bytes of the selected threads at the peak are unknown; undefined: they are known, or no threads are selected. */
export const peakUnknown = signal<string | undefined>(undefined);

/** Whether the query is about certain threads, or grouped by thread. */
export function asksThreads(of: State): boolean {
	return of.values.thread !== undefined || (of.view === 'sites' && of.values.by?.[0] === 'thread');
}

/** Replaces the peak by the end where the peak is unknown. */
export function withEnd(of: State, unknown: boolean): State {
	const peak = (of.values.cost?.[0] ?? 'peak') === 'peak';
	return unknown && peak && asksThreads(of) ? changed(of, { cost: 'leaked' }) : of;
}

/** The recording that is shown. */
export const file = computed<About['files'][number] | undefined>(() => about.value?.files[Number(address.value.values.file?.[0] ?? 0)]);

/**
 * The costs that a heap profile of another tool has; undefined: a recording, which has all. The only moment of such a profile is the end,
 * so that "live" would be a second name for "leaked".
 */
export const knownCosts = computed<readonly string[] | undefined>(() => file.value?.known_costs?.filter((cost) => cost !== 'live'));

/** Whether the recording has this number. */
export function hasCost(name: string): boolean {
	return knownCosts.value?.includes(name) ?? (name !== 'time' || file.value?.timed === true);
}

/** Replaces a cost that is not known by live memory. */
export function withKnown(of: State, known: readonly string[] | undefined): State {
	if (!known) return of;
	const cost = of.values.cost?.[0] ?? 'peak';
	return changed(of, { cost: known.includes(cost) ? cost : 'leaked', at: null, minus: null });
}

/** Replaces the time of calls by the peak where no calls were timed. */
export function withTimed(of: State, timed: boolean): State {
	return !timed && of.values.cost?.[0] === 'time' ? changed(of, { cost: null }) : of;
}

const ended = computed<State>(() => withEnd(withTimed(address.value, hasCost('time')), peakUnknown.value !== undefined));

/** The state to query: the address, with what is not known replaced. */
export const state = computed<State>(() => withKnown(ended.value, knownCosts.value));

/** The end is shown instead of the peak. */
export const endForPeak = computed<boolean>(() => ended.value !== withTimed(address.value, hasCost('time')));

export function value(key: string): string | undefined {
	return state.value.values[key]?.[0];
}

export function values(key: string): readonly string[] {
	return state.value.values[key] ?? [];
}

function show(next: State, keep: boolean): void {
	const text = formatState(next);
	if (text === formatState(address.peek())) return;
	if (keep) history.pushState(null, '', text);
	else history.replaceState(null, '', text);
	address.value = next;
}

/** Adds a step that "back" undoes. */
export function go(view: ViewName, changes: Changes = {}): void {
	show(moved(address.peek(), view, changes), true);
}

export function set(changes: Changes): void {
	show(changed(address.peek(), changes), true);
}

/** The value of `cost` that selects a number. The peak needs none, except in Compare, which opens on the number that changed most. */
export function costOf(name: string): string | null {
	return name === 'peak' && address.peek().view !== 'compare' ? null : name;
}

/** Changes what is not worth a history entry: a selected row, a sorted column. */
export function note(changes: Changes): void {
	show(changed(address.peek(), changes), false);
}

export function startState(): void {
	const read = () => {
		address.value = parseState(location.hash);
	};
	read();
	addEventListener('popstate', read);
	addEventListener('hashchange', read);
}

/** What "leaked" means in a heap profile of another tool, which may have been written at any time. */
const LIVE = { label: 'Live', title: 'Live', help: 'Bytes allocated and not freed when the heap profile was written.' };

/** A question in the words for this file. */
export function wordedQuestion(name: string): Question {
	const asked = questionOf(name);
	return knownCosts.value && asked.name === 'leaked' ? { ...asked, ...LIVE } : asked;
}

export const question = computed<Question>(() => {
	const asked = wordedQuestion(value('cost') ?? 'peak');
	if (!asked.ofMoment || value('unit') !== 'blocks') return asked;
	return { ...asked, unit: 'count', key: asked.key.replace('_bytes', '_blocks') };
});

/** Start always shows the newer recording, whatever the switch says. */
export const comparing = computed<boolean>(() => value('compare') === '1' && state.value.view !== 'start');

/** Numbers are differences: positive and negative ones are not parts of a whole. */
export const differing = computed<boolean>(() => comparing.value || question.value.name === 'grown');

/** Whether the number is what was counted in a selected range of time. */
export function inWindow(): boolean {
	return Boolean(question.value.ofWindow && value('minus'));
}
