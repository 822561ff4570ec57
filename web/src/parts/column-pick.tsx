// SPDX-License-Identifier: Apache-2.0
// Selects the columns of a table.
import { useEffect, useRef, useState } from 'preact/hooks';
import { note } from '../model/state';
import type { Column } from './table';

export function ColumnPick<Row>({ columns, shown }: { columns: readonly Column<Row>[]; shown: readonly string[] }) {
	const [open, setOpen] = useState(false);
	const element = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (!open) return;
		const close = (event: Event) => {
			if (event instanceof KeyboardEvent ? event.key === 'Escape' : !element.current?.contains(event.target as Node)) setOpen(false);
		};
		addEventListener('pointerdown', close);
		addEventListener('keydown', close);
		return () => {
			removeEventListener('pointerdown', close);
			removeEventListener('keydown', close);
		};
	}, [open]);
	const choices = columns.filter((column) => column.title.trim() && column.key !== 'name');
	const toggle = (key: string) => {
		const next = shown.includes(key) ? shown.filter((one) => one !== key) : [...shown, key];
		note({
			cols: columns
				.map((column) => column.key)
				.filter((one) => next.includes(one))
				.join(','),
		});
	};
	return (
		<div class="pop" ref={element}>
			<button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
				Columns
			</button>
			{open && (
				<div class="card" role="group" aria-label="Columns">
					{choices.map((column) => (
						<div key={column.key}>
							<label class="check" title={column.help}>
								<input type="checkbox" checked={shown.includes(column.key)} onChange={() => toggle(column.key)} />
								{column.title.trim() === '%' ? 'Share' : column.title}
							</label>
						</div>
					))}
					<button type="button" class="link" onClick={() => note({ cols: null })}>
						Reset
					</button>
				</div>
			)}
		</div>
	);
}
