// SPDX-License-Identifier: Apache-2.0
// Placeholders for missing or pending results, each with what to do about it.
import type { ComponentChildren } from 'preact';
import type { Answer } from '../model/source';
import { about, saved } from '../model/source';
import { shellWord } from '../model/query';

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
	return (
		<div class="state">
			<h2>{title}</h2>
			{children}
		</div>
	);
}

/** No rows. If no rows match the filters, shows the same text as the command line. */
export function NoRows({ data, title = 'No rows' }: { data: { unmatched?: boolean; note?: string } | undefined; title?: string }) {
	return (
		<Empty title={data?.unmatched ? 'Nothing matches' : title}>
			<p>{(data?.unmatched && data.note) || 'No matching data. Change the query.'}</p>
		</Empty>
	);
}

export function Loading({ what }: { what: string }) {
	return (
		<div class="state" role="status">
			{what}…
		</div>
	);
}

export function Failed({ answer }: { answer: Answer<unknown> }) {
	if (answer.absent || saved.value) {
		const path = about.value?.files[0]?.path;
		return (
			<div class="state" role="status">
				<h2>Not in this file</h2>
				<p>{answer.error} Open the recording:</p>
				<code>heapgauge view {path ? shellWord(path) : 'FILE'}</code>
			</div>
		);
	}
	return (
		<div class="state" role="alert">
			<h2>No answer</h2>
			<p>{answer.error}</p>
		</div>
	);
}

/** Shows the result when it arrives. `instead`: why it is not queried. */
export function Answered<T>({
	answer,
	what,
	instead,
	children,
}: {
	answer: Answer<T>;
	what: string;
	instead?: string;
	children: (data: T) => ComponentChildren;
}) {
	if (instead) return <p class="soft">{instead}</p>;
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (answer.data === undefined) return <Loading what={what} />;
	return <>{children(answer.data)}</>;
}
