// SPDX-License-Identifier: Apache-2.0
// How reliable the numbers are, always visible: exact or sampled, what was lost, what recording cost.
import { base } from '../model/frames';
import { useAnswer, about } from '../model/source';
import { go, knownCosts, set, state, value } from '../model/state';
import { ask as askParams, canonical } from '../model/query';
import { startedOf, totalsOf } from '../model/processes';
import type { ProcessesResult } from '../model/types';
import { bytes, duration, plural, share, spread } from '../model/units';
import { errorOf } from './amount';

/** The summary of all processes, whatever the filters. */
export function useSummary() {
	const params = askParams({ ...state.value, values: { file: state.value.values.file ?? [] } }, 'summary');
	return useAnswer<ProcessesResult>(
		canonical(
			'summary',
			params.filter(([key]) => key !== 'compare'),
		),
	);
}

export interface Trust {
	/** "exact", or the sampling interval and the error of the peak, or of what is live if the peak is not known. */
	mode: string;
	/** Number of kinds of losses. */
	losses: number;
	ownBytes: number;
	/** null: not known of all processes. */
	rssBytes: number | null;
}

export function trustOf(summary: ProcessesResult): Trust {
	const names = new Set(Object.keys(summary.warnings));
	for (const process of summary.processes) for (const name of Object.keys(process.health)) names.add(name);
	const totals = totalsOf(summary.processes);
	const first = startedOf(summary.processes);
	/* A heap profile of another tool has no peak. */
	const key = first?.peak_bytes === null ? 'not_freed_bytes' : 'peak_bytes';
	const sampled = first?.sampling_interval_bytes
		? `${first.mode} 1 in ${bytes(first.sampling_interval_bytes).replace('.0 ', ' ')}, ${spread(errorOf(first, key), first[key])}`
		: (first?.mode ?? 'empty');
	return {
		mode: sampled,
		losses: names.size,
		ownBytes: totals.recorder_bytes,
		rssBytes: totals.without_rss ? null : totals.peak_rss_bytes,
	};
}

export function Badge() {
	const summary = useSummary().data;
	if (!summary) return <span class="badge soft">…</span>;
	const trust = trustOf(summary);
	if (knownCosts.value)
		return (
			<span class="badge unknown" title="What was lost, and what recording cost, is not known of a heap profile of another tool.">
				<span class="dot" aria-hidden="true" />
				<span class="cut">{trust.mode}</span>
			</span>
		);
	const lost = trust.losses ? plural(trust.losses, 'thing to know', 'things to know') : 'nothing lost';
	const part = trust.rssBytes === null ? undefined : share(trust.ownBytes, trust.rssBytes);
	const cost = `The recorder took ${bytes(trust.ownBytes)}${part ? `, ${part} of the largest RSS` : ''}.`;
	return (
		<button
			type="button"
			class={`badge ${trust.losses ? 'warn' : ''}`}
			title={`${cost} Click for the health of the recording.`}
			onClick={() => go('run')}
		>
			<span class="dot" aria-hidden="true" />
			<span class="cut">
				{trust.mode}, {lost}
			</span>
		</button>
	);
}

export function RunFacts() {
	const summary = useSummary().data;
	const files = about.value?.files ?? [];
	const several = files.length > 1;
	return (
		<div class="run-facts">
			{several ? (
				<select
					aria-label="Recording"
					value={value('file') ?? '0'}
					onChange={(event) => set({ file: event.currentTarget.value === '0' ? null : event.currentTarget.value })}
				>
					{files.map((file) => (
						<option key={file.index} value={String(file.index)}>
							{file.name}
						</option>
					))}
				</select>
			) : (
				<div class="name cut" title={summary?.run.command}>
					{summary ? base(summary.run.command.split(' ')[0]) : 'heapgauge'}{' '}
					<small class="soft">
						{summary ? base(summary.file) : ''}
						{summary && !knownCosts.value ? `, ${duration(summary.run.duration_ns)}` : ''}
					</small>
				</div>
			)}
			<Badge />
		</div>
	);
}
