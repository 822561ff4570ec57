// SPDX-License-Identifier: Apache-2.0
// Heat maps as tables: the background of a cell shows its value, which is printed where there is room.
import { classRange, type Grid } from '../model/distributions';
import { bytes, countShort, duration, percent, type Unit } from '../model/units';
import { hintOf } from './amount';

function sizeTitle(index: number): string {
	return bytes(classRange(index).low).replace('.0 ', ' ');
}

function sizeRange(index: number): string {
	const { low, high } = classRange(index);
	return `${bytes(low)} – ${bytes(high)}`;
}

function timeTitle(index: number): string {
	if (index === 0) return 'below 1 ms';
	const { low, high } = classRange(index);
	return `${duration(low * 1e6)} – ${duration((high + 1) * 1e6)}`.replaceAll('.0 ', ' ');
}

function HeatTable({
	grid,
	label,
	corner,
	columnTitle,
	rowTitle,
	text,
	hint,
	unit,
	depth = Math.sqrt,
}: {
	grid: Grid;
	label: string;
	corner: string;
	columnTitle: (column: number) => string;
	rowTitle: (row: number) => string;
	text: (value: number) => string;
	hint: (value: string, part: string, column: number, row: number) => string;
	unit: Unit;
	/** Intensity of the background for a value relative to the maximum: a power function if values differ by orders of magnitude. */
	depth?: (part: number) => number;
}) {
	const ground = (value: number) => (value < 1 ? 0 : 0.12 + 0.88 * depth(value / grid.most));
	return (
		<div class="heat" tabIndex={0} role="region" aria-label={label}>
			<table>
				<thead>
					<tr>
						<th>{corner}</th>
						{grid.columns.map((column) => (
							<th key={column} class="number">
								{columnTitle(column)}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{grid.rows.map((row, i) => (
						<tr key={row}>
							<th class="number">{rowTitle(row)}</th>
							{grid.cells[i]!.map((value, j) => {
								const strength = ground(value);
								const error = grid.errors[i]![j]!;
								return (
									<td
										key={j}
										class={strength ? 'full' : ''}
										style={{ '--s': strength.toFixed(3) }}
										title={hint(hintOf(Math.round(value), unit, Math.round(error)), percent(value, grid.total), grid.columns[j]!, row)}
									>
										{value >= 1 ? text(value) : ''}
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

/** Freed blocks by size and lifetime. */
export function LifeMap({ grid }: { grid: Grid }) {
	return (
		<HeatTable
			grid={grid}
			unit="count"
			depth={(part) => Math.log(1 + part * grid.most) / Math.log(1 + grid.most)}
			label="Freed blocks by size and lifetime"
			corner="lived \ size"
			columnTitle={sizeTitle}
			rowTitle={timeTitle}
			text={countShort}
			hint={(blocks, part, size, time) => `${blocks} blocks, ${part}: ${sizeRange(size)}, lived ${timeTitle(time)}`}
		/>
	);
}

/** Live bytes by block size, at moments of the run. */
export function CourseMap({ grid, corner }: { grid: Grid; corner: string }) {
	return (
		<HeatTable
			grid={grid}
			label="Live bytes by size over time"
			corner={`${corner} \\ at`}
			columnTitle={(at) => duration(at).replace('.0 ', ' ')}
			rowTitle={sizeTitle}
			text={(value) => bytes(value).replace('.0 ', ' ')}
			unit="bytes"
			hint={(held, _, at, size) => `${held} live at ${duration(at)} in blocks of ${sizeRange(size)}`}
		/>
	);
}

/** Calls of realloc by the size before and after. */
export function ReallocMap({ grid }: { grid: Grid }) {
	return (
		<HeatTable
			grid={grid}
			label="Reallocs by old and new size"
			corner="old \ new"
			columnTitle={sizeTitle}
			rowTitle={sizeTitle}
			text={countShort}
			unit="count"
			hint={(calls, part, now, old) => `${calls} reallocs, ${part}: from ${sizeRange(old)} to ${sizeRange(now)}`}
		/>
	);
}
