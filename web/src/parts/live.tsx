// SPDX-License-Identifier: Apache-2.0
// The time of the reading on screen, while the process runs.
import { isLive, lost, newest, paused, switchPause } from '../model/live';

function clock(ns: number): string {
	const at = new Date(ns / 1e6);
	return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

export function Live() {
	const state = newest.value;
	if (!isLive.value || !state) return null;
	const words = state.ended
		? 'ended, last state'
		: lost.value
			? 'heapgauge view has stopped, last state'
			: state.problem
				? 'cannot be read now, last state'
				: paused.value
					? 'paused'
					: 'live';
	const going = words === 'live';
	return (
		<span class={`live ${going ? 'going' : ''}`}>
			<span class="dot" aria-hidden="true" />
			<span role="status" aria-live="off" title={state.problem ?? undefined}>
				{words}, as of <time>{clock(state.read_real_ns)}</time>
			</span>
			{!state.ended && !lost.value && (
				<button type="button" onClick={switchPause} title="l" aria-pressed={paused.value}>
					{paused.value ? 'Go on' : 'Pause'}
				</button>
			)}
		</span>
	);
}
