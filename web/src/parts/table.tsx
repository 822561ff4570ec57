// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the visible rows are in the DOM. It is a single tab stop; arrow keys move inside it.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer, type VirtualItem } from '@tanstack/virtual-core';
import type { ComponentChildren, TargetedKeyboardEvent } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { narrow } from '../model/narrow';

export interface Column<Row> {
	/** "name": says what the row is about. */
	key: string;
	title: string;
	/** Hidden until the user selects it. */
	optional?: boolean;
	/** What the number means; shown on hover. */
	help?: string;
	/** Pixels; undefined: takes the remaining width. */
	width?: number;
	number?: boolean;
	/** The sort key; undefined: not sortable. */
	sort?: (row: Row) => number | string | null;
	/** Fraction of the cell to fill, 0 to 1. */
	fill?: (row: Row) => number;
	/** Tooltip. */
	hint?: (row: Row) => string | undefined;
	cell: (row: Row) => ComponentChildren;
}

export interface Sorting {
	key: string;
	down: boolean;
}

export interface TableProps<Row> {
	label: string;
	columns: readonly Column<Row>[];
	rows: readonly Row[];
	/** Number of rows in all, if not all are loaded. */
	total?: number;
	sorting?: Sorting | undefined;
	onSort?: (sorting: Sorting) => void;
	/** Index of the selected row. */
	chosen?: number;
	onChoose?: (index: number) => void;
	/** Enter or a double click. */
	onOpen?: (index: number) => void;
	/** Handles other keys for the selected row. Returns true if it did. */
	onKey?: (event: KeyboardEvent, index: number) => boolean;
	/** The last rows became visible. */
	onEnd?: () => void;
	/** Pixels. */
	rowHeight?: number;
	/** Where to scroll the selected row to if it is not visible. */
	align?: 'auto' | 'center';
	tree?: { level: (row: Row) => number; open: (row: Row) => boolean | undefined };
}

const ROW = 24;
/** At least, as in parts.css. */
const NAME_WIDTH = 220;
const NAME_LEAST = 160;
const PAGE = 20;

/** On a narrow screen the name of a row is its second cell, as wide as the numbers to either side leave it: no number is cut. */
function inOrder<Row>(columns: readonly Column<Row>[]): readonly Column<Row>[] {
	const at = columns.findIndex((column) => column.key === 'name');
	if (!narrow.value || at < 1) return columns;
	const [first, ...others] = columns.filter((_, i) => i !== at);
	const room = document.documentElement.clientWidth - (first?.width ?? 0) - (others[0]?.width ?? 0);
	return [first!, { ...columns[at]!, width: Math.max(NAME_LEAST, room) }, ...others];
}

function useVirtual(count: number, height: number, element: { current: HTMLElement | null }) {
	const [, redraw] = useState(0);
	const kept = useRef<Virtualizer<HTMLElement, HTMLElement> | undefined>(undefined);
	const options = {
		count,
		getScrollElement: () => element.current,
		estimateSize: () => height,
		overscan: 8,
		scrollPaddingStart: 28,
		scrollPaddingEnd: height,
		initialRect: { width: 1000, height: 600 },
		observeElementRect,
		observeElementOffset,
		scrollToFn: elementScroll,
		onChange: () => redraw((n) => n + 1),
	};
	kept.current ??= new Virtualizer<HTMLElement, HTMLElement>(options);
	kept.current.setOptions(options);
	useLayoutEffect(() => kept.current!._didMount(), []);
	useLayoutEffect(() => kept.current!._willUpdate());
	return kept.current;
}

function target(event: KeyboardEvent, at: number, last: number): number | undefined {
	switch (event.key) {
		case 'ArrowDown':
		case 'j':
			return Math.min(last, at + 1);
		case 'ArrowUp':
		case 'k':
			return Math.max(0, at - 1);
		case 'PageDown':
			return Math.min(last, at + PAGE);
		case 'PageUp':
			return Math.max(0, at - PAGE);
		case 'Home':
			return 0;
		case 'End':
			return last;
		default:
			return undefined;
	}
}

/** < and >: by the column before or after; r: by the same one in reverse. */
function resorted<Row>(columns: readonly Column<Row>[], sorting: Sorting | undefined, key: string): Sorting | undefined {
	const sortable = columns.filter((column) => column.sort);
	const at = sortable.findIndex((column) => column.key === sorting?.key);
	if (key === 'r') return sorting && { key: sorting.key, down: !sorting.down };
	const next = sortable[(Math.max(0, at) + (key === '>' ? 1 : -1) + sortable.length) % sortable.length];
	return next && { key: next.key, down: next.number ?? false };
}

function Heading<Row>({
	column,
	sorting,
	onSort,
}: {
	column: Column<Row>;
	sorting: Sorting | undefined;
	onSort: ((sorting: Sorting) => void) | undefined;
}) {
	const sorted = sorting?.key === column.key ? (sorting.down ? 'descending' : 'ascending') : undefined;
	const arrow = sorted === 'descending' ? ' ↓' : sorted === 'ascending' ? ' ↑' : '';
	const can = column.sort && onSort;
	return (
		<div
			role="columnheader"
			class={`title ${column.number ? 'number' : ''} ${column.width ? '' : 'grow'}`}
			aria-sort={sorted ?? (can ? 'none' : undefined)}
			title={column.help}
			style={column.width ? { width: `${column.width}px` } : undefined}
		>
			{can ? (
				<button
					type="button"
					tabIndex={-1}
					onClick={() => onSort({ key: column.key, down: sorted ? sorted === 'ascending' : (column.number ?? false) })}
				>
					{column.title}
					{arrow}
				</button>
			) : (
				column.title
			)}
		</div>
	);
}

function Cell<Row>({ column, row }: { column: Column<Row>; row: Row }) {
	const fill = column.fill?.(row) ?? 0;
	return (
		<div
			role="gridcell"
			class={`cell ${column.number ? 'number' : ''} ${column.width ? '' : 'grow'}`}
			title={column.hint?.(row)}
			style={column.width ? { width: `${column.width}px` } : undefined}
		>
			{fill > 0 && <i class="fill" style={{ width: `${Math.min(1, fill) * 100}%` }} />}
			{column.fill ? <span class="over">{column.cell(row)}</span> : column.cell(row)}
		</div>
	);
}

/** The indentation of a level; where there is little room, deep levels are all indented alike. */
export function indent(level: number): string {
	return `min(${level} * var(--indent), 35%)`;
}

export function Table<Row>(props: TableProps<Row>) {
	const { rows, chosen = -1 } = props;
	const columns = inOrder(props.columns);
	const element = useRef<HTMLDivElement>(null);
	const height = props.rowHeight ?? ROW;
	const virtual = useVirtual(rows.length, height, element);
	const items = virtual.getVirtualItems();
	const lastShown = items[items.length - 1]?.index ?? 0;
	const width = columns.reduce((sum, column) => sum + (column.width ?? NAME_WIDTH), 0);

	useEffect(() => {
		if (rows.length && lastShown >= rows.length - 1) props.onEnd?.();
	}, [lastShown, rows.length]);
	useEffect(() => {
		if (chosen >= 0 && chosen < rows.length) virtual.scrollToIndex(chosen, { align: props.align ?? 'auto' });
	}, [chosen, rows.length]);

	const onKeyDown = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
		if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
		const next = target(event, chosen, rows.length - 1);
		const by = props.onSort && /^[<>r]$/.test(event.key) ? resorted(columns, props.sorting, event.key) : undefined;
		if (next !== undefined) props.onChoose?.(next);
		else if (event.key === 'Enter' && chosen >= 0) props.onOpen?.(chosen);
		else if (by) props.onSort?.(by);
		else if (!props.onKey?.(event, chosen)) return;
		event.preventDefault();
		event.stopPropagation();
	};

	const line = (item: VirtualItem) => {
		const row = rows[item.index];
		if (row === undefined) return null;
		const open = props.tree?.open(row);
		return (
			<div
				key={item.key}
				id={`row-${item.index}`}
				role="row"
				class="line"
				aria-rowindex={item.index + 2}
				aria-selected={item.index === chosen}
				aria-level={props.tree?.level(row)}
				aria-expanded={open}
				style={{ transform: `translateY(${item.start}px)` }}
				onClick={() => props.onChoose?.(item.index)}
				onDblClick={() => props.onOpen?.(item.index)}
			>
				{columns.map((column) => (
					<Cell key={column.key} column={column} row={row} />
				))}
			</div>
		);
	};

	return (
		<div
			ref={element}
			class="grid"
			role={props.tree ? 'treegrid' : 'grid'}
			tabIndex={0}
			aria-label={props.label}
			aria-rowcount={(props.total ?? rows.length) + 1}
			aria-colcount={columns.length}
			style={{ '--row': `${height}px` }}
			aria-activedescendant={chosen >= 0 && chosen < rows.length ? `row-${chosen}` : undefined}
			onKeyDown={onKeyDown}
		>
			<div class="head" role="row" aria-rowindex={1} style={{ minWidth: `${width}px` }}>
				{columns.map((column) => (
					<Heading key={column.key} column={column} sorting={props.sorting} onSort={props.onSort} />
				))}
			</div>
			<div class="rows" role="rowgroup" style={{ height: `${virtual.getTotalSize()}px`, minWidth: `${width}px` }}>
				{items.map(line)}
			</div>
		</div>
	);
}

/** Stable sort of the rows in the given order. */
export function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sorting: Sorting | undefined): readonly Row[] {
	const by = sorting && columns.find((column) => column.key === sorting.key)?.sort;
	if (!by) return rows;
	const sign = sorting.down ? -1 : 1;
	return [...rows].sort((a, b) => {
		const x = by(a);
		const y = by(b);
		if (x === y) return 0;
		if (x === null) return 1;
		if (y === null) return -1;
		return sign * (x < y ? -1 : 1);
	});
}
