// SPDX-License-Identifier: Apache-2.0
// A table of sites from one view of the report, with its own columns and something beside it.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { go, note, value } from '../model/state';
import type { SitesResult } from '../model/types';
import { onSort, sortingOf } from './numbers';
import { onRowKey } from './row-keys';
import type { SiteRow } from './site-columns';
import { SiteDetail } from './site-detail';
import { sortRows, Table, type Column } from './table';

function siteRows(data: SitesResult): SiteRow[] {
	return data.sites.map((site) => ({ id: `${site.pid}.${site.site}`, values: site, stack: site.stack, frames: data.frames, site }));
}

/** `details`: the selected site takes the place of `side`. */
export function SiteTable({
	data,
	columns,
	label,
	fallback,
	side,
	details = false,
}: {
	data: SitesResult;
	columns: Column<SiteRow>[];
	label: string;
	fallback: string;
	side?: ComponentChildren;
	details?: boolean;
}) {
	const all = useMemo(() => siteRows(data), [data]);
	const sorting = sortingOf(fallback);
	const rows = useMemo(() => (value('sort') ? sortRows(all, columns, sorting) : all), [all, columns, value('sort')]);
	const chosen = rows.findIndex((row) => row.id === value('site'));
	const row = details ? rows[chosen] : undefined;
	const close = () => note({ site: null });
	return (
		<div class="split">
			<Table
				label={label}
				columns={columns}
				rows={rows}
				total={data.site_count}
				sorting={sorting}
				onSort={onSort}
				chosen={chosen}
				onChoose={(index) => note({ site: rows[index]?.id })}
				onKey={(event, index) => {
					if (!row || event.key !== 'Escape') return onRowKey(event, rows[index], 'site');
					close();
					return true;
				}}
			/>
			{row && <SiteDetail row={row} onClose={close} onFlame={(name) => go('flame', { pivot: name })} />}
			{!row && side && (
				<aside class="side" aria-label="Over all sites" tabIndex={0}>
					{side}
				</aside>
			)}
		</div>
	);
}
