// SPDX-License-Identifier: Apache-2.0
// Which processes the page is about. Other views add up all of them unless a filter says which; Start is about one moment of one
// process, the one that was started. Everything on the page takes the state to ask in from here, and so is about the same.
import { alone } from '../model/query';
import { state, type State } from '../model/state';
import { useSummary } from './badge';

export interface Scope {
	/** What to ask in; undefined: it is not known yet which processes there are. */
	state: State | undefined;
	/** The process that is meant without a filter that says so. */
	started: number | undefined;
	/** Processes of the recording. */
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
