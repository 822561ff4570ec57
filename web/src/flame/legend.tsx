// SPDX-License-Identifier: Apache-2.0
// What the colours of a flame graph mean.
import type { LegendEntry } from './colours';

export function Legend({ legend }: { legend: readonly LegendEntry[] }) {
	return (
		<ul class="legend" aria-label="Colours">
			{legend.map((entry) => (
				<li key={entry.label}>
					<i class={entry.wide ? 'wide' : undefined} style={{ background: entry.colour }} />
					{entry.label}
				</li>
			))}
		</ul>
	);
}
