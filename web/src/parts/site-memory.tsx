// SPDX-License-Identifier: Apache-2.0
// The parts of Sites that only some recordings have: whose the resident pages are (record --pages-on), and what still refers to the blocks
// (heapgauge image).
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { ownerOf, shortName } from '../model/frames';
import { pathWords } from '../model/paths';
import { ask as askParams, canonical, type Params } from '../model/query';
import { useAnswer } from '../model/source';
import { file, note, state, value } from '../model/state';
import type { PageSums, PathStep, Site, SitesResult } from '../model/types';
import { bytes, count, duration, plural } from '../model/units';
import { Sheet, type SheetLine } from './balance';
import { asking } from './copy';
import { numberColumn, processColumn, stackName, type SiteRow } from './site-columns';
import { SiteTable } from './site-table';
import { Failed, Loading, NoRows } from './states';
import type { Column } from './table';
import { Tabs } from './tabs';

type PartName = 'sites' | 'pages' | 'map' | 'retainers';

function parts(): [PartName, string][] {
	return [
		['sites', 'Sites'],
		...(file.value?.pages ? ([['pages', 'Pages'], ['map', 'Map']] as [PartName, string][]) : []),
		...(file.value?.image ? [['retainers', 'Retainers'] as [PartName, string]] : []),
	];
}

/** The part to show; one that this recording does not have is not shown. */
export function sitePart(): PartName {
	return parts().find(([name]) => name === value('tab'))?.[0] ?? 'sites';
}

/** Nothing if the recording has sites only. */
export function SiteParts() {
	const all = parts();
	return all.length > 1 ? <Tabs tabs={all} also={['site', 'by', 'cols', 'zoom', 'colour']} /> : null;
}

/** Rows are sorted on the page, by any column: as many as it can read. */
const MOST: Params = [['limit', '5000']];

/** Rows of a view of the report, beside what they add up to. */
function Part({
	view,
	label,
	what,
	about,
	columnsOf,
	side,
}: {
	view: string;
	label: string;
	what: string;
	about: string;
	columnsOf: (data: SitesResult) => Column<SiteRow>[];
	side: (data: SitesResult) => ComponentChildren;
}) {
	const params = askParams(state.value, view);
	const key = canonical(view, [...params, ...MOST]);
	const answer = useAnswer<SitesResult>(key);
	const data = answer.data;
	useEffect(() => {
		asking.value = { view, params };
	}, [key]);
	const columns = useMemo(() => (data ? columnsOf(data) : []), [data]);
	return (
		<div class="view fixed">
			<div class="toolbar">
				<SiteParts />
				<span class="soft">
					{data &&
						(data.sites.length < data.site_count
							? `${count(data.sites.length)} of ${count(data.site_count)} rows, the heaviest`
							: `${plural(data.site_count, 'row')}; ${about}`)}
				</span>
			</div>
			{answer.status === 'error' && <Failed answer={answer} />}
			{answer.status !== 'error' && !data && <Loading what={what} />}
			{data && data.sites.length === 0 && <NoRows data={data} title={`No ${label.toLowerCase()}`} />}
			{data && data.sites.length > 0 && (
				<SiteTable data={data} columns={columns} label={label} fallback={columns[0]!.key} side={side(data)} details />
			)}
		</div>
	);
}

/* ---- pages ---- */

const PAGE_COLUMNS: readonly (readonly [key: string, title: string, help: string])[] = [
	['pages_live_bytes', 'Live', 'Bytes of its live blocks and mappings when pages were read'],
	['sole_bytes', 'If freed', 'Pages with blocks of no other site: empty if these blocks are freed'],
	['pinned_bytes', 'Pins', 'Bytes in no block, of the pages where a block of this site is expected to live longest'],
	['arena_bytes', 'If in an arena', 'What would come back if its blocks were together on pages of their own'],
	['untouched_bytes', 'Not resident', 'Of its blocks: in pages that are neither in memory nor swapped out'],
	['swapped_bytes', 'Swapped', 'Of its blocks, swapped out'],
	['huge_bytes', 'Huge', 'Of its blocks, in huge pages'],
	['zero_bytes', 'Zero', 'Of its blocks, on resident pages with nothing but zeros'],
];
/** Left out if no site has any. */
const RARE = new Set(['untouched_bytes', 'swapped_bytes', 'huge_bytes', 'zero_bytes']);

function mostOf(data: SitesResult, key: string): number {
	return Math.max(1, ...data.sites.map((site) => Number(site[key]) || 0));
}

function pageColumns(data: SitesResult): Column<SiteRow>[] {
	return [
		numberColumn({
			key: 'resident_bytes',
			title: 'Resident',
			unit: 'bytes',
			width: 104,
			whole: mostOf(data, 'resident_bytes'),
			help: 'Its share of the resident pages: a page is divided in proportion to the bytes of the blocks on it',
		}),
		...processColumn(data),
		stackName(),
		...PAGE_COLUMNS.filter(([key]) => !RARE.has(key) || data.sites.some((site) => Number(site[key]) > 0)).map(([key, title, help]) =>
			numberColumn({ key, title, unit: 'bytes', help, width: title.length > 10 ? 104 : 86 }),
		),
		numberColumn({ key: 'pages_blocks', title: 'Blocks', unit: 'count', help: 'Live blocks and mappings when pages were read' }),
	];
}

/** The lines of the view pages. */
function pageLines(sums: PageSums): SheetLine[] {
	const lines: (SheetLine & { always?: boolean })[] = [
		{ sign: '', label: 'sites', value: sums.sites_bytes, meaning: `pages with live blocks, and mappings; of it ${bytes(sums.waste_bytes)} in no block`, always: true },
		{ sign: '+', label: 'free', value: sums.free_bytes, meaning: 'pages of the allocator without a live block, and its own data', always: true },
		{ sign: '+', label: 'not recorded', value: sums.unrecorded_bytes, meaning: 'other anonymous memory', always: true },
		{ sign: '+', label: 'static data', value: sums.static_bytes, meaning: '.bss (zero-initialized variables)' },
		{ sign: '+', label: 'stacks', value: sums.stack_bytes, meaning: 'of all threads', always: true },
		{ sign: '+', label: 'files', value: sums.file_bytes, meaning: 'programs, libraries, mapped files', always: true },
		{ sign: '+', label: 'shared', value: sums.shared_bytes, meaning: 'with other processes' },
		{ sign: '+', label: 'recorder', value: sums.recorder_bytes, meaning: 'what recording costs', always: true },
		{ sign: '+', label: 'changed', value: sums.changed_bytes, meaning: 'became resident while pages were read' },
		{ sign: '=', label: 'RSS', value: sums.rss_bytes, meaning: 'resident, as the kernel counts it', always: true },
	];
	return lines.filter((line) => line.always || line.value);
}

/** The site whose blocks keep the end of a heap, as a link to its row. */
function Holder({ site, data }: { site: Site; data: SitesResult }) {
	const owner = ownerOf(site.stack, data.frames);
	return (
		<button type="button" class="link code" onClick={() => note({ site: `${site.pid}.${site.site}` })}>
			{owner ? shortName(owner.function) : '[no stack]'}
		</button>
	);
}

/** The lines of the view pins. */
function WhatIf({ sums, data }: { sums: PageSums; data: SitesResult }) {
	const holder = data.sites.find((site) => site.pid === sums.pid && site.site === sums.holder_site);
	const { trim_bytes: trim, held_bytes: held, holder_blocks: holders, holder_bytes: heldBy } = sums;
	return (
		<section>
			<h2>What would come back</h2>
			<p>
				{bytes(sums.free_bytes)} are on pages without a live block{sums.unknown_blocks && ' that is known'}
				{trim !== null && trim > 0 && `; malloc_trim(0) returns about ${bytes(trim)}`}.
			</p>
			{sums.unknown_blocks && (
				<p>
					{sums.unknown_blocks === 'inherited'
						? 'There may be live blocks from before the fork that began the process'
						: 'There may be live blocks that were not recorded'}
					: their pages count as free, or with the blocks beside them.
				</p>
			)}
			<p>{bytes(sums.waste_bytes)} on pages with live blocks are in no block: the column Pins says who keeps them.</p>
			{held !== null && held > 0 && holders !== null && heldBy !== null && (
				<p>
					At the end of a heap {plural(holders, 'block')} of {holders === 1 ? '' : 'together '}
					{bytes(heldBy)} {holders === 1 ? 'keeps' : 'keep'} {bytes(held)} of free pages from being returned
					{holder && (
						<>
							: <Holder site={holder} data={data} />
						</>
					)}
					.
				</p>
			)}
		</section>
	);
}

/** "process 4711, when it exited, 3.2 s after its start" */
export function momentOf(sums: PageSums): string {
	return `process ${sums.pid}, ${sums.at_exit ? 'when it exited, ' : ''}${duration(sums.at_ns)} after its start`;
}

function PageSheet({ data }: { data: SitesResult }) {
	const sums = data.pages;
	if (!sums) return null;
	const processes = new Set(data.sites.map((site) => site.pid)).size;
	return (
		<>
			<section>
				<h2>Resident memory{processes > 1 && ` of the largest of ${count(processes)} processes`}</h2>
				<Sheet caption={momentOf(sums)} lines={pageLines(sums)} most={Math.max(1, sums.rss_bytes)} />
				{sums.changed_blocks > 0 && <p class="soft">{plural(sums.changed_blocks, 'block')} changed while pages were read and are not attributed.</p>}
			</section>
			<WhatIf sums={sums} data={data} />
		</>
	);
}

export function Pages() {
	return (
		<Part
			view="pages"
			label="Pages"
			what="Dividing pages"
			about="when pages were read"
			columnsOf={pageColumns}
			side={(data) => <PageSheet data={data} />}
		/>
	);
}

/* ---- retainers ---- */

/** Of a site with unreachable blocks, only the rest is held. */
function heldBy(row: SiteRow): string {
	const words = pathWords(row.values.path as PathStep[] | null);
	return words && Number(row.values.unreachable_blocks) > 0 ? `the rest: ${words}` : words;
}

function retainerColumns(data: SitesResult): Column<SiteRow>[] {
	const held: Column<SiteRow> = {
		key: 'held_by',
		title: 'Held by',
		width: 230,
		help: 'The shortest path from a global variable, or other root, to the block that retains most: where each one was allocated, and where in it the pointer is',
		sort: (row) => String(row.values.held_by ?? ''),
		hint: (row) => heldBy(row) || undefined,
		cell: (row) => <span class="fn">{heldBy(row)}</span>,
	};
	const type: Column<SiteRow> = {
		key: 'type',
		title: 'Type',
		width: 140,
		help: 'The C++ class of most of its bytes, if it has virtual functions',
		sort: (row) => String(row.values.type ?? ''),
		hint: (row) => (row.values.type as string | null) ?? undefined,
		cell: (row) => <span class="fn">{(row.values.type as string | null) ?? ''}</span>,
	};
	const typed = data.sites.some((site) => site.type);
	return [
		numberColumn({
			key: 'unreachable_bytes',
			title: 'Unreachable',
			unit: 'bytes',
			width: 124,
			whole: mostOf(data, 'unreachable_bytes'),
			help: 'Bytes of blocks to which no reference was found',
		}),
		numberColumn({
			key: 'retained_bytes',
			title: 'Retains',
			unit: 'bytes',
			width: 104,
			whole: mostOf(data, 'retained_bytes'),
			help: 'What would be freed if all its blocks were: they and what only they lead to',
		}),
		...processColumn(data),
		stackName(),
		...(typed ? [type] : []),
		held,
		numberColumn({ key: 'not_freed_bytes', title: 'Live', unit: 'bytes', help: 'Bytes of its live blocks' }),
		numberColumn({ key: 'not_freed_blocks', title: 'Blocks', unit: 'count', help: 'Live blocks' }),
		numberColumn({ key: 'unreachable_blocks', title: 'Unreachable blocks', unit: 'count', width: 132, help: 'Blocks to which no reference was found' }),
		numberColumn({ key: 'median_age_ns', title: 'Median age', unit: 'ns', bound: 'least', help: 'Half of its live blocks are at least this old' }),
	];
}

const CLASSES: readonly (readonly [name: string, label: string, meaning: string])[] = [
	['global', 'global', 'from global variables'],
	['tls', 'thread-local', 'from thread-local variables'],
	['unknown', 'mappings', 'from other memory of the process'],
	['stack', 'stacks', 'only from stacks and registers'],
	['direct', 'lost', 'unreachable: nothing refers to it'],
	['indirect', 'indirectly lost', 'unreachable: only unreachable blocks refer to it'],
	['ring', 'cycles', 'unreachable: in reference cycles'],
];

function ReachSheet({ data }: { data: SitesResult }) {
	const reach = data.reach;
	if (!reach) return null;
	const processes = new Set(data.sites.filter((site) => site.reach).map((site) => site.pid)).size;
	const of = (name: string) => reach[`${name}_bytes`] ?? null;
	const sum = CLASSES.reduce((all, [name]) => all + (of(name) ?? 0), 0);
	const lines: SheetLine[] = CLASSES.map(([name, label, meaning], i) => ({
		sign: i === 0 ? '' : '+',
		label,
		value: of(name),
		meaning: `${meaning}, ${plural(reach[`${name}_blocks`] ?? 0, 'block')}`,
	}));
	return (
		<section>
			<h2>What live blocks are reached from</h2>
			<Sheet caption={processes > 1 ? `of ${count(processes)} processes, when their images were made` : 'when the image was made'} lines={[...lines, { sign: '=', label: 'live', value: sum, meaning: 'requested bytes' }]} most={Math.max(1, sum)} />
		</section>
	);
}

export function Retainers() {
	return (
		<Part
			view="leaks"
			label="Retainers"
			what="Adding up references"
			about="unreachable ones first"
			columnsOf={retainerColumns}
			side={(data) => <ReachSheet data={data} />}
		/>
	);
}
