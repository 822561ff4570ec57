// SPDX-License-Identifier: Apache-2.0
// Errors of the page itself: an error in one part of the page is shown in place of that part, with a text for a bug report. Other parts,
// other views and the next query still work.
import { signal } from '@preact/signals';
import { Component, type ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { about, forgetAnswers } from '../model/source';
import { formatState, state } from '../model/state';
import { copyText } from './copy';

/** Everything needed to find the cause. */
function reportOf(error: Error, what: string): string {
	return [
		`heapgauge ${about.value?.version ?? '(version not known)'}, in ${what}`,
		`address: ${formatState(state.peek())}`,
		`command: ${about.value?.command ?? 'not known'}`,
		`browser: ${navigator.userAgent}`,
		error.stack?.includes(error.message) ? error.stack : `${error.name}: ${error.message}\n${error.stack ?? ''}`,
	].join('\n');
}

function Broken({ title, error, what, onAgain, again }: { title: string; error: Error; what: string; onAgain: () => void; again: string }) {
	const [copied, setCopied] = useState(false);
	const report = reportOf(error, what);
	return (
		<div class="state broken" role="alert">
			<h2>{title}</h2>
			<p>
				{error.message}. This is a bug in heapgauge; the recording is not affected, and other views work. To report it, copy the text below
				into a bug report.
			</p>
			<pre tabIndex={0}>{report}</pre>
			<button type="button" onClick={() => void copyText(report).then(() => setCopied(true))}>
				{copied ? 'Copied' : 'Copy the text'}
			</button>{' '}
			<button type="button" onClick={onAgain}>
				{again}
			</button>
		</div>
	);
}

interface Props {
	/** What the children show, as used in a sentence. */
	what: string;
	children: ComponentChildren;
}

/** An error is tied to the address where it happened: another query is tried again. */
export class Guard extends Component<Props, { error?: Error | undefined; address?: string }> {
	override componentDidCatch(error: unknown): void {
		console.error(error);
		forgetAnswers();
		this.setState({ error: error instanceof Error ? error : new Error(String(error)), address: formatState(state.peek()) });
	}

	override render({ what, children }: Props) {
		const { error, address } = this.state;
		return error && address === formatState(state.value) ? (
			<Broken
				title={`The page failed to draw ${what}`}
				error={error}
				what={what}
				again="Try again"
				onAgain={() => this.setState({ error: undefined })}
			/>
		) : (
			children
		);
	}
}

const unexpected = signal<Error | undefined>(undefined);

/** Errors outside rendering: in event handlers and unawaited promises. */
export function startGuard(): void {
	addEventListener('error', (event) => {
		if (event.error instanceof Error) unexpected.value = event.error;
	});
	addEventListener('unhandledrejection', (event) => {
		unexpected.value = event.reason instanceof Error ? event.reason : new Error(String(event.reason));
	});
}

export function Unexpected() {
	if (!unexpected.value) return null;
	return (
		<div class="toast unexpected">
			<Broken
				title="Something failed in the background"
				error={unexpected.value}
				what="the background"
				again="Close"
				onAgain={() => {
					unexpected.value = undefined;
				}}
			/>
		</div>
	);
}
