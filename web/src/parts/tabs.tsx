// SPDX-License-Identifier: Apache-2.0
// The parts of a view, as adjacent buttons. The first is shown by default.
import { set, value } from '../model/state';

type Names = readonly (readonly [name: string, label: string])[];

export function chosenTab(tabs: Names): string {
	return value('tab') ?? tabs[0]![0];
}

/** `also`: keys to drop when the tab changes, besides sort order and selected row. */
export function Tabs(props: { tabs: Names; also?: string[] }) {
	const { tabs, also = [] } = props;
	const tab = chosenTab(tabs);
	const left = Object.fromEntries(['sort', 'row', ...also].map((name) => [name, null]));
	return (
		<div class="segments" role="group" aria-label="What">
			{tabs.map(([name, label], index) => (
				<button key={name} type="button" aria-pressed={tab === name} onClick={() => set({ ...left, tab: index === 0 ? null : name })}>
					{label}
				</button>
			))}
		</div>
	);
}
