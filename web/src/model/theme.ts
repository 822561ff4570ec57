// SPDX-License-Identifier: Apache-2.0
// Light or dark: the system's setting, until the user chooses. Stored in the browser if it permits.
import { computed, effect, signal } from '@preact/signals';

export type Theme = 'light' | 'dark';
const KEY = 'heapgauge-theme';

const asked = matchMedia('(prefers-color-scheme: dark)');
const system = signal<Theme>(asked.matches ? 'dark' : 'light');
const wanted = signal<Theme | undefined>(undefined);

export const theme = computed<Theme>(() => wanted.value ?? system.value);

export function switchTheme(): void {
	wanted.value = theme.peek() === 'dark' ? 'light' : 'dark';
	try {
		localStorage.setItem(KEY, wanted.value);
	} catch {
		/* A page opened from disk may have no storage: the choice lasts until it is closed. */
	}
}

export function startTheme(): void {
	try {
		const kept = localStorage.getItem(KEY);
		wanted.value = kept === 'dark' || kept === 'light' ? kept : undefined;
	} catch {
		wanted.value = undefined;
	}
	asked.addEventListener('change', (event) => {
		system.value = event.matches ? 'dark' : 'light';
	});
	effect(() => {
		document.documentElement.dataset.theme = theme.value;
	});
}
