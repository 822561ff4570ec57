// SPDX-License-Identifier: Apache-2.0
// Keys that work in every view, and the list of all keys.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { switchPause } from '../model/live';
import { costOf, go, hasCost, set, value, VIEW_NAMES, type ViewName } from '../model/state';
import { switchTheme } from '../model/theme';
import { QUESTIONS } from '../model/words';
import { copyCommand } from './copy';

export const keysShown = signal(false);

const LIST: readonly [string, string][] = [
	['1 … 9, 0', 'Start, Flame, Sites, Tree, Source, Time, Sizes, Threads, Compare, Run'],
	['g', 'Tags'],
	['q  Q', 'next, previous question'],
	['/', 'type a filter'],
	['f', 'search in this view'],
	['t', 'to the time strip; ← → then step through the snapshots, with Shift a range'],
	['c', 'copy as command'],
	['l', 'pause or continue a live view'],
	['d', 'dark or light'],
	['Esc', 'leave an input; close what is open'],
	['↑ ↓  j k', 'move in a table or in the flame graph'],
	['<  >', 'sort a table by the column before, after'],
	['r', 'reverse the order of a table'],
	['← →', 'close, open in a tree; to a neighbour in the flame graph'],
	['Shift ← →', 'move a flame graph that is zoomed in, as dragging does'],
	['i  o', 'zoom a flame graph in and out freely, as Ctrl and the wheel do'],
	['Enter', 'zoom in, or open the selection'],
	['Backspace', 'zoom out in the flame graph or the map'],
	['p', 'callers and callees of the selection'],
	['s', 'source of the selection'],
	['+  −', 'filter to the selection, or exclude it'],
	['?', 'this list'],
];

function nextQuestion(step: number): void {
	const at = QUESTIONS.findIndex((q) => q.name === (value('cost') ?? 'peak'));
	const plain = QUESTIONS.filter((q) => q.name !== 'live' && q.name !== 'grown' && hasCost(q.name));
	const from = plain.indexOf(QUESTIONS[at]!);
	const next = plain[(from + step + plain.length) % plain.length]!;
	set({ cost: costOf(next.name), at: null, minus: null });
}

function typing(target: EventTarget | null): boolean {
	return (
		target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) && (target as HTMLInputElement).type !== 'checkbox'
	);
}

function focus(selector: string): boolean {
	const element = document.querySelector<HTMLElement>(selector);
	element?.focus();
	if (element instanceof HTMLInputElement) element.select();
	return element !== null;
}

/** Returns true if the key was handled. */
function onKey(event: KeyboardEvent): boolean {
	if (event.key >= '0' && event.key <= '9') {
		go(VIEW_NAMES[(Number(event.key) + 9) % 10] as ViewName);
		return true;
	}
	switch (event.key) {
		case '?':
			keysShown.value = !keysShown.value;
			return true;
		case 'q':
			nextQuestion(1);
			return true;
		case 'Q':
			nextQuestion(-1);
			return true;
		case '/':
			return focus('#filter');
		case 'f':
			return focus('#search');
		case 't':
			return focus('.strip[tabindex]');
		case 'g':
			go('tags');
			return true;
		case 'c':
			copyCommand();
			return true;
		case 'l':
			switchPause();
			return true;
		case 'd':
			switchTheme();
			return true;
		default:
			return false;
	}
}

export function startKeys(): void {
	addEventListener('keydown', (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
		if (typing(event.target)) {
			if (event.key === 'Escape') (event.target as HTMLElement).blur();
			return;
		}
		if (keysShown.value && event.key !== '?' && event.key !== 'Escape') return;
		if (onKey(event)) event.preventDefault();
	});
}

export function Keys() {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => {
		if (keysShown.value) dialog.current?.showModal();
		else dialog.current?.close();
	}, [keysShown.value]);
	return (
		<dialog
			ref={dialog}
			aria-labelledby="keys-title"
			onClose={() => {
				keysShown.value = false;
			}}
		>
			<header>
				<h2 id="keys-title">Keys</h2>
				<button
					type="button"
					class="plain"
					onClick={() => {
						keysShown.value = false;
					}}
				>
					Close
				</button>
			</header>
			<div class="body" tabIndex={0}>
				<dl class="keys">
					{LIST.map(([keys, what]) => (
						<div key={keys}>
							<dt>
								{keys.split(/\s{2}/).map((key) => (
									<>
										<kbd key={key}>{key}</kbd>{' '}
									</>
								))}
							</dt>
							<dd>{what}</dd>
						</div>
					))}
				</dl>
			</div>
		</dialog>
	);
}
