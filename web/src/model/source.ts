// SPDX-License-Identifier: Apache-2.0
// Where results come from: the page itself, or the server. Each query is sent once. A result never changes, so that it is cached while
// there is memory. For a running process, each reading makes new queries.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { answerFrom, restored, Unanswerable, type Known, type SavedSites } from './saved-sites';
import type { About, Embedded, Head } from './types';

export interface Answer<T> {
	status: 'loading' | 'ready' | 'error';
	/** The query that this result belongs to, as `canonical` writes it. */
	of: string | null;
	/** The result of that query, never of another. While loading: the same with fewer rows. */
	data?: T;
	error?: string;
	/** The saved page does not contain this result. */
	absent?: boolean;
}

export class AskError extends Error {
	constructor(
		message: string,
		readonly absent = false,
	) {
		super(message);
	}
}

const KEPT = 48;
const NOT_SAVED = 'This is not in the saved page.';

const answers = new Map<string, unknown>();
const asked = new Map<string, Promise<unknown>>();
let embedded: Embedded = {};

export const about = signal<About | undefined>(undefined);
export const saved = signal(false);
/** Why a saved page cannot filter; undefined: it can, or the server does. */
export const unfilterable = signal<string | undefined>(undefined);
/** Number of queries in flight that the user waits for. */
export const waiting = signal(0);
/** The reading of a running process to query; 0: the one embedded in the page, or a recording. */
export const reading = signal(0);

/** Switches to another reading. The old results stay on screen until the new ones arrive. */
export function readAnew(number: number): void {
	if (number === reading.peek()) return;
	answers.clear();
	reading.value = number;
}

/** Drops all cached results, because one of them could not be drawn. */
export function forgetAnswers(): void {
	answers.clear();
}

/** Whether a query is in flight. */
export function busy(): boolean {
	return asked.size > 0;
}

function nameOf(path: string, key: string): string {
	const state = path === '/api/result' && reading.value ? `reading=${reading.value}` : '';
	const query = [key, state].filter(Boolean).join('&');
	return query ? `${path}?${query}` : path;
}

async function unpacked<T>(base64: string): Promise<T> {
	const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
	return (await new Response(stream).json()) as T;
}

let sites: Promise<SavedSites> | undefined;

/** The sites of a saved page, which are unpacked when they are first needed. */
function savedSites(): Promise<SavedSites> {
	if (!embedded.sites_zlib) return Promise.reject(new AskError(unfilterable.peek() ?? NOT_SAVED, true));
	return (sites ??= unpacked<SavedSites>(embedded.sites_zlib).then(restored));
}

function knownOf(results: Record<string, unknown>): Known {
	const { file, run, peak_bytes, peak_at_ns, warnings, sampling } = results['view=summary'] as Head;
	return {
		head: { file, run, peak_bytes, peak_at_ns, warnings, sampling },
		durationNs: run.duration_ns,
		momentOf: (cost) => (results[`view=functions&by=own&cost=${cost}&limit=20`] as { moment?: string } | undefined)?.moment ?? '',
	};
}

/** Sums up the sites of a saved page. */
async function askSites(key: string): Promise<unknown> {
	const data = await savedSites();
	try {
		return answerFrom(data, key, knownOf(embedded.results ?? {}));
	} catch (error) {
		throw error instanceof Unanswerable ? new AskError(error.message, true) : error;
	}
}

export async function readEmbedded(text: string): Promise<void> {
	embedded = (JSON.parse(text) as Embedded | null) ?? {};
	if (embedded.results_zlib) embedded.results = await unpacked<Record<string, unknown>>(embedded.results_zlib);
	saved.value = embedded.saved === true;
	if (saved.value && !embedded.sites_zlib) unfilterable.value = `This saved page cannot filter: ${embedded.sites_missing ?? 'it has no stacks'}.`;
	about.value = embedded.about;
}

const LIMIT = /(^|&)limit=\d+/;

/** The key without its limit, which only says how many rows are wanted. */
function withoutLimit(key: string | null): string | null {
	return key === null ? null : key.replace(LIMIT, '');
}

/** The result embedded in the page, for this query or for the same with another limit. */
function inPage(key: string): unknown {
	const results = embedded.results;
	if (!results) return undefined;
	if (results[key] !== undefined || !saved.value) return results[key];
	const bare = withoutLimit(key);
	const near = Object.keys(results).find((name) => withoutLimit(name) === bare);
	return near === undefined ? undefined : results[near];
}

function keep(key: string, answer: unknown): void {
	answers.delete(key);
	answers.set(key, answer);
	for (const oldest of answers.keys()) {
		if (answers.size <= KEPT) break;
		answers.delete(oldest);
	}
}

export async function fetchJson(path: string): Promise<unknown> {
	let response: Response;
	try {
		response = await fetch(path, { credentials: 'same-origin', headers: { accept: 'application/json' } });
	} catch {
		throw new AskError('heapgauge view has stopped. Restart it to continue; the page keeps its data.');
	}
	const body = (await response.json().catch(() => undefined)) as { error?: string } | undefined;
	if (!response.ok || body === undefined) throw new AskError(body?.error ?? `The server answered with status ${response.status}.`);
	return body;
}

/** A result that is available without waiting. */
function atHand(path: string, key: string): unknown {
	return answers.get(nameOf(path, key)) ?? (path === '/api/result' && !reading.value ? inPage(key) : undefined);
}

/** `quiet`: something is already on screen, so the user does not wait. */
export function load(path: string, key: string, quiet = false): Promise<unknown> {
	const name = nameOf(path, key);
	const known = atHand(path, key);
	if (known !== undefined) return Promise.resolve(known);
	if (saved.value && path !== '/api/result') return Promise.reject(new AskError(NOT_SAVED, true));
	const running = asked.get(name);
	if (running) return running;
	if (!quiet) waiting.value++;
	const promise = (saved.value ? askSites(key) : fetchJson(name))
		.then((answer) => {
			keep(name, answer);
			return answer;
		})
		.finally(() => {
			asked.delete(name);
			if (!quiet) waiting.value--;
		});
	asked.set(name, promise);
	return promise;
}

export function ask<T>(key: string): Promise<T> {
	return load('/api/result', key) as Promise<T>;
}

export async function loadAbout(): Promise<void> {
	if (about.peek()) return;
	about.value = (await load('/api/about', '')) as About;
}

function failed<T>(of: string, error: Error): Answer<T> {
	return { status: 'error', of, error: error.message, absent: error instanceof AskError && error.absent };
}

/**
 * The result of a query; null sends none. A result that arrives for an earlier query is cached but not shown. For a running process, the
 * result of the previous reading stays until the next one arrives.
 */
export function useAnswer<T>(key: string | null, path = '/api/result'): Answer<T> {
	const [arrived, setArrived] = useState<Answer<T>>({ status: 'loading', of: null });
	const last = useRef<Answer<T>>({ status: 'loading', of: null });
	const known = key === null ? undefined : (atHand(path, key) as T | undefined);
	if (known !== undefined) last.current = { status: 'ready', of: key, data: known };

	useEffect(() => {
		if (key === null || known !== undefined) return undefined;
		let wanted = true;
		const again = last.current.of === key;
		load(path, key, again).then(
			(data) => wanted && setArrived({ status: 'ready', of: key, data: data as T }),
			(error: Error) => wanted && !again && setArrived(failed(key, error)),
		);
		return () => {
			wanted = false;
		};
	}, [key, path, nameOf(path, key ?? ''), known === undefined]);

	if (key === null) return { status: 'loading', of: null };
	if (last.current.of === key) return last.current;
	if (arrived.of === key) return arrived;
	const fewer = withoutLimit(last.current.of) === withoutLimit(key) ? last.current.data : undefined;
	return { status: 'loading', of: key, ...(fewer === undefined ? {} : { data: fewer }) };
}
