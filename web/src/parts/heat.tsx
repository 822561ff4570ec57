// SPDX-License-Identifier: Apache-2.0
// A heat map as a table: each cell's ground says how many, and its number stands in it where there is room.
import { classRange, type Heat } from '../model/distributions';
import { bytes, count, countShort, duration, percent } from '../model/units';

function sizeTitle(index: number): string {
	return bytes(classRange(index).low).replace('.0 ', ' ');
}

function timeTitle(index: number): string {
	if (index === 0) return 'below 1 ms';
	const { low, high } = classRange(index);
	return `${duration(low * 1e6)} – ${duration((high + 1) * 1e6)}`.replaceAll('.0 ', ' ');
}

export function HeatMap({ heat }: { heat: Heat }) {
	/* By powers: one cell is often a thousand times another. */
	const depth = (value: number) => (value < 1 ? 0 : 0.12 + 0.88 * (Math.log(1 + value) / Math.log(1 + heat.most)));
	return (
		<div class="heat" tabIndex={0} role="region" aria-label="Freed blocks by size and lifetime">
			<table>
				<thead>
					<tr>
						<th>lived \ size</th>
						{heat.sizes.map((size) => (
							<th key={size} class="number">
								{sizeTitle(size)}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{heat.times.map((time, row) => (
						<tr key={time}>
							<th class="number">{timeTitle(time)}</th>
							{heat.cells[row]!.map((value, column) => {
								const strength = depth(value);
								const size = classRange(heat.sizes[column]!);
								return (
									<td
										key={column}
										class={strength ? 'full' : ''}
										style={{ '--s': strength.toFixed(3) }}
										title={`${count(value)} blocks, ${percent(value, heat.total)}: ${bytes(size.low)} – ${bytes(size.high)}, lived ${timeTitle(time)}`}
									>
										{value >= 1 ? countShort(value) : ''}
									</td>
								);
							})}
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}
