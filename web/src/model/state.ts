// SPDX-License-Identifier: Apache-2.0
// The state of the page is its address: #/view?key=value&... Everything that a person chose is there, so that an address
// can be sent to somebody, and going back works. What belongs to one view alone is dropped on leaving it.
import { computed, signal } from '@preact/signals';
import { FILTERS, questionOf, type Question } from './words';

export type ViewName = 'start' | 'flame' | 'sites' | 'tree' | 'source' | 'time' | 'sizes' | 'threads' | 'tags' | 'compare' | 'run';

/** The first ten by their keys. */
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

/** What stays when the view changes. */
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

/** A state with some keys changed; null takes a key away. */
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

/** What the address says. */
export const address = signal<State>({ view: 'start', values: {} });

/** Why nobody knows what the threads in question held at the peak; undefined: it is known, or no threads are in question. */
export const peakUnknown = signal<string | undefined>(undefined);

/** Whether numbers of some threads are asked for, or of each. */
export function asksThreads(of: State): boolean {
	return of.values.thread !== undefined || (of.view === 'sites' && of.values.by?.[0] === 'thread');
}

/** The end is asked for where the peak is not known. */
export function withEnd(of: State, unknown: boolean): State {
	const peak = (of.values.cost?.[0] ?? 'peak') === 'peak';
	return unknown && peak && asksThreads(of) ? changed(of, { cost: 'leaked' }) : of;
}

/** What the page asks: the address, as far as it can be answered. */
export const state = computed<State>(() => withEnd(address.value, peakUnknown.value !== undefined));

/** It would have been the peak. */
export const endForPeak = computed<boolean>(() => state.value !== address.value);

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

/** A step that "back" undoes. */
export function go(view: ViewName, changes: Changes = {}): void {
	show(moved(address.peek(), view, changes), true);
}

export function set(changes: Changes): void {
	show(changed(address.peek(), changes), true);
}

/** What is not worth a step back: a selected row, a sorted column. */
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

export const question = computed<Question>(() => {
	const asked = questionOf(value('cost') ?? 'peak');
	if (!asked.ofMoment || value('unit') !== 'blocks') return asked;
	return { ...asked, unit: 'count', key: asked.key.replace('_bytes', '_blocks') };
});

/** Start is of the newer recording, whatever the switch says. */
export const comparing = computed<boolean>(() => value('compare') === '1' && state.value.view !== 'start');

/** Numbers are differences: what grew and what shrank are no parts of a whole. */
export const differing = computed<boolean>(() => comparing.value || question.value.name === 'grown');
