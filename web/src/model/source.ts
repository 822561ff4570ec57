// SPDX-License-Identifier: Apache-2.0
// Where answers come from: the page itself, or the server. Each question is asked once; an answer is never changed, so
// that it can be kept as long as there is room. Of a running process each state that is read is another one to ask about.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { About, Embedded } from './types';

export interface Answer<T> {
	status: 'loading' | 'ready' | 'error';
	/** The question that this is about, as `canonical` writes it. */
	of: string | null;
	/** What answers that question, never another one. While loading: the same with fewer rows. */
	data?: T;
	error?: string;
	/** The question is not answered in a saved page. */
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
/** Questions that are being answered now and that somebody waits for. */
export const waiting = signal(0);
/** Which state of a running process is asked about; 0: the one that came with the page, or a recording. */
export const reading = signal(0);

/** From now on another state is asked about. What is on screen stays until its answers are there. */
export function readAnew(number: number): void {
	if (number === reading.peek()) return;
	answers.clear();
	reading.value = number;
}

/** What was answered is asked anew: something in it could not be drawn. */
export function forgetAnswers(): void {
	answers.clear();
}

/** Whether something is being asked. */
export function busy(): boolean {
	return asked.size > 0;
}

function nameOf(path: string, key: string): string {
	const state = path === '/api/result' && reading.value ? `reading=${reading.value}` : '';
	const query = [key, state].filter(Boolean).join('&');
	return query ? `${path}?${query}` : path;
}

export function readEmbedded(text: string): void {
	embedded = (JSON.parse(text) as Embedded | null) ?? {};
	saved.value = embedded.saved === true;
	about.value = embedded.about;
}

const LIMIT = /(^|&)limit=\d+/;

/** A limit says how many rows are wanted, not of what. */
function withoutLimit(key: string | null): string | null {
	return key === null ? null : key.replace(LIMIT, '');
}

/** What the page itself holds: that very question, or the same with another limit. */
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
		throw new AskError('heapgauge view does not answer any more. Start it again to go on; what is on screen stays.');
	}
	const body = (await response.json().catch(() => undefined)) as { error?: string } | undefined;
	if (!response.ok || body === undefined) throw new AskError(body?.error ?? `The server answered with status ${response.status}.`);
	return body;
}

/** Answers that are at hand, without waiting. */
function atHand(path: string, key: string): unknown {
	return answers.get(nameOf(path, key)) ?? (path === '/api/result' && !reading.value ? inPage(key) : undefined);
}

/** `quiet`: something is on screen already, and nobody waits. */
export function load(path: string, key: string, quiet = false): Promise<unknown> {
	const name = nameOf(path, key);
	const known = atHand(path, key);
	if (known !== undefined) return Promise.resolve(known);
	if (saved.value) return Promise.reject(new AskError(NOT_SAVED, true));
	const running = asked.get(name);
	if (running) return running;
	if (!quiet) waiting.value++;
	const promise = fetchJson(name)
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
 * The answer to a question; null asks nothing. What arrives for an earlier question is kept for whoever asks that again, and
 * not shown. Of a running process the answer about the state before stays until the next one is there.
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
