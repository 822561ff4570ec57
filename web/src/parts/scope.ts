// SPDX-License-Identifier: Apache-2.0
// Which processes the page shows. Other views add up all of them unless a filter selects some; Start shows one process, the one that was
// started. Every part of Start takes the state to query from here, so that all refer to the same processes.
import { alone } from '../model/query';
import { state, type State } from '../model/state';
import { useSummary } from './badge';

export interface Scope {
	/** The state to query; undefined: the processes are not known yet. */
	state: State | undefined;
	/** The process shown if no filter selects one. */
	started: number | undefined;
	/** Number of processes in the recording. */
	count: number;
}

export function useScope(): Scope {
	const processes = useSummary().data?.processes;
	const shown = state.value.view === 'start' ? alone(state.value) : state.value;
	const count = processes?.length ?? 0;
	if (shown.view !== 'start' || shown.values.process || count === 1) return { state: shown, started: undefined, count };
	const started = processes?.[0]?.pid;
	if (started === undefined) return { state: undefined, started, count };
	return { state: { ...shown, values: { ...shown.values, process: [String(started)] } }, started, count };
}
