// SPDX-License-Identifier: Apache-2.0
// "Copy as command": the command line that prints the current view in a terminal.
import { signal } from '@preact/signals';
import { command, type Params } from '../model/query';
import { about } from '../model/source';

const told = signal<string | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

/** The query of the current view; set by the view. */
export const asking = signal<{ view: string; params: Params }>({ view: 'summary', params: [] });

export function currentCommand(): string {
	const files = about.value?.files.map((file) => file.path) ?? [];
	return command(files, about.value?.before ?? undefined, asking.value.view, asking.value.params, about.value?.live_pid);
}

export async function copyText(text: string): Promise<void> {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		/* Without clipboard permission, as in a page opened from disk, use execCommand. */
		const area = document.createElement('textarea');
		area.value = text;
		document.body.append(area);
		area.select();
		document.execCommand('copy');
		area.remove();
	}
}

export function copyCommand(): void {
	const line = currentCommand();
	void copyText(line).then(() => {
		told.value = line;
		clearTimeout(timer);
		timer = setTimeout(() => {
			told.value = undefined;
		}, 4000);
	});
}

export function CopyButton() {
	return (
		<button type="button" id="copy" title={`${currentCommand()}\n\nc copies it`} onClick={copyCommand}>
			Copy as command
		</button>
	);
}

export function Toast() {
	return (
		<div role="status" aria-live="polite">
			{told.value && (
				<div class="toast">
					Copied<code>{told.value}</code>
				</div>
			)}
		</div>
	);
}
