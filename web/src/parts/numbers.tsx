// SPDX-License-Identifier: Apache-2.0
// Columns of tables whose rows are plain records of the report: threads, processes, tags, pools.
import { note, value } from '../model/state';
import { quantity, type Unit } from '../model/units';
import { Amount, ERROR_WIDTH, errorOf, hintOf } from './amount';
import type { Column, Sorting } from './table';

/** The sort order of a table, from the address. */
export function sortingOf(fallback: string): Sorting {
	const text = value('sort');
	return text ? { key: text.replace(/^-/, ''), down: text.startsWith('-') } : { key: fallback, down: true };
}

export function onSort(by: Sorting): void {
	note({ sort: by.down ? `-${by.key}` : by.key });
}

/** A column of one number, with its error. */
export function numbers<Row extends object>(
	key: keyof Row & string,
	title: string,
	unit: Unit,
	help: string,
	whole?: number,
	width = 100,
	optional = false,
): Column<Row> {
	const of = (row: Row) => row[key] as unknown as number | null;
	return {
		key,
		title,
		help,
		number: true,
		width,
		...(optional ? { optional } : {}),
		sort: of,
		...(whole ? { fill: (row: Row) => (of(row) ?? 0) / whole } : {}),
		hint: (row) => {
			const number = of(row);
			return number === null || number === undefined ? undefined : hintOf(number, unit, errorOf(row, key));
		},
		cell: (row) => {
			const number = of(row);
			return number === null || number === undefined ? (
				<span class="soft">–</span>
			) : number === 0 ? (
				<span class="soft">{quantity(0, unit)}</span>
			) : (
				<Amount value={number} unit={unit} error={errorOf(row, key)} />
			);
		},
	};
}

/** Widens the columns whose values have errors. */
export function widened<Row extends object>(columns: Column<Row>[], rows: readonly Row[]): Column<Row>[] {
	return columns.map((column) =>
		column.width && rows.some((row) => errorOf(row, column.key))
			? {
					...column,
					width: column.width + ERROR_WIDTH,
					cell: (row: Row) => (errorOf(row, column.key) ? column.cell(row) : [column.cell(row), <small class="error" />]),
				}
			: column,
	);
}
