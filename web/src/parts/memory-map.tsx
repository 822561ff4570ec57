// SPDX-License-Identifier: Apache-2.0
// Map in Sites: where the resident memory is, as squares from the lowest address to the highest, and the same as a table of regions.
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { LegendEntry } from '../flame/colours';
import { Legend } from '../flame/legend';
import { ownerOf, shortName } from '../model/frames';
import { pageMapOf, rangeOf, squareAt, type PageMap, type Square } from '../model/page-map';
import { ask as askParams, canonical } from '../model/query';
import { useAnswer } from '../model/source';
import { note, set, state, value } from '../model/state';
import { theme } from '../model/theme';
import type { MapRegion, MapResult, SitesResult } from '../model/types';
import { bytes, duration, percent, plural } from '../model/units';
import { asking } from './copy';
import { MapCanvas, type Paint } from './map-canvas';
import { numbers, onSort, sortingOf } from './numbers';
import { momentOf, SiteParts } from './site-memory';
import { Failed, Loading, NoRows } from './states';
import { sortRows, Table, type Column } from './table';

/** Regions are few; sites are those that the page can read. */
const LIMIT = ['limit', '5000'] as const;
const COLOURED_SITES = 7;

const KINDS: Readonly<Record<string, string>> = {
	heap: 'heap',
	arena: 'heap of an arena',
	mapped: 'mappings',
	other: 'not recorded',
	static: 'static data',
	stack: 'stack',
	shared: 'shared',
	files: 'files',
	recorder: 'recorder',
};

const COLOURS = [
	['site', 'Site'],
	['age', 'Age'],
	['occupancy', 'Occupancy'],
] as const;

/** From little to much; the same steps as elsewhere on the page, and distinct with any kind of colour vision. */
const STEPS = ['#f4e3a1', '#bfdc9e', '#84c9ac', '#63aebe', '#7e97c8', '#a58fc4'];
const AGES: readonly (readonly [below: number, label: string])[] = [
	[1e3, 'below 1 s'],
	[1e4, '10 s'],
	[6e4, '1 min'],
	[6e5, '10 min'],
	[3.6e6, '1 h'],
	[Infinity, 'older'],
];
const SHARES: readonly (readonly [below: number, label: string])[] = [
	[0.1, 'below 10 % in blocks'],
	[0.25, '25 %'],
	[0.5, '50 %'],
	[0.75, '75 %'],
	[0.95, '95 %'],
	[Infinity, 'full'],
];

interface Names {
	nameOf: (site: number) => string;
	/** By site: its rank among those with a colour. */
	rank: ReadonlyMap<number, number>;
	top: readonly number[];
	/** Whether others have memory too. */
	others: boolean;
}

/** The sites that the filters leave, the largest first. */
function namesOf(map: PageMap, data: SitesResult | undefined): Names {
	const names = new Map<number, string>();
	for (const site of data?.sites ?? []) {
		if (site.pid !== map.pid) continue;
		const owner = ownerOf(site.stack, data!.frames);
		names.set(site.site, owner ? shortName(owner.function) : '[no stack]');
	}
	const used = new Map<number, number>();
	for (const region of map.regions)
		region.tiles.site.forEach((site, i) => site && used.set(site, (used.get(site) ?? 0) + region.tiles.used_bytes[i]!));
	const known = [...used].filter(([site]) => names.has(site)).sort((a, b) => b[1] - a[1]);
	const top = known.slice(0, COLOURED_SITES).map(([site]) => site);
	/* Several stacks may end in one function. */
	const plain = top.map((site) => names.get(site)!);
	top.forEach((site, i) => {
		if (plain.filter((name) => name === plain[i]).length > 1) names.set(site, `${plain[i]} (site ${site})`);
	});
	return {
		nameOf: (site) => names.get(site) ?? 'another site',
		rank: new Map(top.map((site, i) => [site, i])),
		top,
		others: used.size > top.length,
	};
}

interface Colouring {
	paint: (square: Square) => Paint;
	legend: LegendEntry[];
	strong: string;
}

function colouringOf(by: string, map: PageMap, names: Names): Colouring {
	const style = getComputedStyle(document.documentElement);
	const colour = (name: string) => style.getPropertyValue(name).trim();
	const free = colour('--layer-rest');
	const others = colour('--layer-others');
	const bare = colour('--faint');
	const entry = (label: string, of: string): LegendEntry => ({ label, colour: of, value: 0 });
	const stepped = (steps: readonly (readonly [number, string])[]) => steps.map(([, label], i) => entry(label, STEPS[i]!));
	const stepOf = (steps: readonly (readonly [number, string])[], of: number) => STEPS[steps.findIndex(([below]) => of < below)]!;
	const part = (square: Square) => (square.resident > 0 ? square.used / square.resident : 0);
	const plain = (square: Square) => square.used === 0 && !map.regions[square.region]!.blocks && map.regions[square.region]!.used_bytes === null;
	const rest = [entry('free', free), entry('not in blocks', `linear-gradient(135deg, ${bare} 50%, transparent 50%)`)];
	const strong = colour('--text');
	const painted = (square: Square, full: string): Paint => (plain(square) ? { full: bare, part: 0, rest: bare, half: true } : { full, part: part(square), rest: free });

	if (by === 'occupancy')
		return {
			strong,
			legend: [...stepped(SHARES), ...rest],
			paint: (square) => (square.used === 0 ? painted(square, free) : { full: stepOf(SHARES, part(square)), part: 1, rest: free }),
		};
	if (by === 'age')
		return {
			strong,
			legend: [...stepped(AGES), entry('unknown', others), ...rest],
			paint: (square) => painted(square, square.age < 0 ? others : stepOf(AGES, square.age)),
		};
	const layers = names.top.map((_, i) => colour(`--layer-${i + 1}`));
	return {
		strong,
		legend: [...names.top.map((site, i) => entry(names.nameOf(site), layers[i]!)), ...(names.others ? [entry('other sites', others)] : []), ...rest],
		paint: (square) => painted(square, layers[names.rank.get(square.site) ?? -1] ?? others),
	};
}

function hex(address: number): string {
	return `0x${address.toString(16)}`;
}

/** "heap at 0x55…: 3.0 KiB of 4.0 KiB in blocks, mostly parse, 3.1 s old" */
function wordsOf(map: PageMap, names: Names, square: Square): string[] {
	const region = map.regions[square.region]!;
	const list = region.block_list;
	const place = `${KINDS[region.kind] ?? region.kind}, ${hex(square.address)}`;
	const age = square.age >= 0 ? `, ${duration(square.age * 1e6)} old` : '';
	if (square.block >= 0 && list)
		return [names.nameOf(square.site), `block of ${bytes(list.bytes[square.block]!)} at ${hex(region.start + list.offset[square.block]!)}${age}`, place];
	const resident = square.resident > 0 ? `${bytes(square.resident)} resident` : '';
	const swapped = square.swapped > 0 ? `${bytes(square.swapped)} swapped out` : '';
	const pages = [resident, swapped].filter(Boolean).join(', ');
	if (square.used === 0) return [region.used_bytes === null ? 'no blocks' : 'free', pages, place];
	return [names.nameOf(square.site), `${pages}, ${percent(Math.min(square.used, square.resident), square.resident)} of it in blocks${age}`, place];
}

function Tip({ words, x, y }: { words: string[]; x: number; y: number }) {
	const top = y + 84 > innerHeight ? y - 72 : y + 16;
	return (
		<div class="tip" style={{ left: `${Math.min(x + 14, innerWidth - 340)}px`, top: `${top}px` }} aria-hidden="true">
			<div class="code cut">{words[0]}</div>
			{words.slice(1).map((one) => (
				<div key={one} class="cut">
					{one}
				</div>
			))}
		</div>
	);
}

function regionColumns(all: readonly MapRegion[], names: Names | undefined): Column<MapRegion>[] {
	const most = Math.max(1, ...all.map((one) => one.resident_bytes));
	return [
		numbers<MapRegion>('resident_bytes', 'Resident', 'bytes', 'Bytes of its pages that are resident', most, 104),
		{
			key: 'name',
			title: 'Region',
			help: 'What it is, and where it begins',
			sort: (row) => row.start,
			hint: (row) => `${hex(row.start)} – ${hex(row.start + row.size_bytes)}`,
			cell: (row) => (
				<>
					{KINDS[row.kind] ?? row.kind} <span class="soft code">{hex(row.start)}</span>
				</>
			),
		},
		numbers<MapRegion>('used_bytes', 'Used', 'bytes', 'Resident and in blocks, or in mappings of the program'),
		{
			key: 'occupancy',
			title: 'Occupancy',
			help: 'Used of the resident bytes',
			number: true,
			width: 90,
			sort: (row) => (row.used_bytes === null ? null : row.used_bytes / Math.max(1, row.resident_bytes)),
			cell: (row) => (row.used_bytes === null ? <span class="soft">–</span> : percent(row.used_bytes, row.resident_bytes)),
		},
		numbers<MapRegion>('size_bytes', 'Size', 'bytes', 'Bytes of address space'),
		numbers<MapRegion>('blocks', 'Blocks', 'count', 'Blocks that begin in it'),
		{
			key: 'site',
			title: 'Mostly',
			help: 'The site with the most bytes in it',
			width: 180,
			sort: (row) => (row.site ? (names?.nameOf(row.site) ?? '') : ''),
			cell: (row) => <span class="fn">{row.site ? names?.nameOf(row.site) : ''}</span>,
		},
	];
}

function Regions({ data, map, names, onZoom }: { data: MapResult; map: PageMap | undefined; names: Names | undefined; onZoom: (from: number, to: number) => void }) {
	const all = useMemo(() => data.regions.filter((one) => !map || one.pid === map.pid), [data, map]);
	const columns = useMemo(() => regionColumns(all, names), [all, names]);
	const sorting = sortingOf('resident_bytes');
	const rows = useMemo(() => (value('sort') ? sortRows(all, columns, sorting) : all), [all, columns, value('sort')]);
	const open = (index: number) => {
		const number = map?.regions.indexOf(rows[index]!) ?? -1;
		if (map && number >= 0) onZoom(...rangeOf(map, number));
	};
	return (
		<Table
			label="Regions"
			columns={columns}
			rows={rows}
			sorting={sorting}
			onSort={onSort}
			chosen={rows.findIndex((row) => String(row.start) === value('row'))}
			onChoose={(index) => note({ row: rows[index] && String(rows[index].start) })}
			onOpen={open}
		/>
	);
}

/** The range in the address, if it lies on the map. */
function shownRange(map: PageMap): [number, number] {
	const [from, to] = (value('zoom') ?? '').split('-').map(Number);
	return from !== undefined && to !== undefined && from >= 0 && from < to && to <= map.total ? [from, to] : [0, map.total];
}

function Drawn({ map, names, onZoom }: { map: PageMap; names: Names; onZoom: (from: number, to: number) => void }) {
	const by = value('colour') ?? 'site';
	const [hovered, setHovered] = useState<{ at: number; x: number; y: number }>({ at: -1, x: 0, y: 0 });
	const [chosen, setChosen] = useState(-1);
	const [unit, setUnit] = useState(1);
	const [from, to] = shownRange(map);
	const colouring = useMemo(() => colouringOf(by, map, names), [by, map, names, theme.value]);
	const words = (at: number) => wordsOf(map, names, squareAt(map, at, Math.min(unit, to - at)));
	const chosenSquare = chosen >= from && chosen < to ? squareAt(map, chosen, unit) : undefined;
	return (
		<>
			<MapCanvas
				label="Resident memory by address"
				map={map}
				from={from}
				to={to}
				chosen={chosen}
				chosenText={chosenSquare ? words(chosen).join(', ') : ''}
				paint={colouring.paint}
				strong={colouring.strong}
				onUnit={setUnit}
				onZoom={onZoom}
				onChoose={setChosen}
				onHover={(at, x, y) => setHovered({ at, x, y })}
			/>
			{hovered.at >= from && hovered.at < to && <Tip words={words(hovered.at)} x={hovered.x} y={hovered.y} />}
			<div class="flame-foot">
				<span class="cut">
					{chosenSquare ? words(chosen).join(', ') : `A square is ${bytes(unit)}, filled as far as it is in blocks.`}
					{!map.knowsBlocks && ` Blocks are too many to show: the map ends at ${bytes(map.tileBytes)}.`}
				</span>
				<span class="buttons">
					{chosenSquare !== undefined && chosenSquare.site > 0 && (
						<button type="button" onClick={() => set({ tab: 'pages', zoom: null, colour: null, sort: null, row: null, site: `${map.pid}.${chosenSquare.site}` })}>
							Show its site
						</button>
					)}
				</span>
				<Legend legend={colouring.legend} />
			</div>
		</>
	);
}

export function MemoryMap() {
	const params = askParams(state.value, 'map');
	const key = canonical('map', [...params, LIMIT]);
	const answer = useAnswer<MapResult>(key);
	const sites = useAnswer<SitesResult>(canonical('pages', [...askParams(state.value, 'pages'), LIMIT])).data;
	const data = answer.data;
	useEffect(() => {
		asking.value = { view: 'map', params };
	}, [key]);
	const map = useMemo(() => data && pageMapOf(data), [data]);
	const names = useMemo(() => map && namesOf(map, sites), [map, sites]);
	const sums = sites?.pages;
	const zoom = (from: number, to: number) => note({ zoom: map && to - from < map.total ? `${from}-${to}` : null });
	return (
		<div class="view fixed">
			<div class="toolbar">
				<SiteParts />
				<label>
					Colour by{' '}
					<select value={value('colour') ?? 'site'} onChange={(event) => note({ colour: event.currentTarget.value === 'site' ? null : event.currentTarget.value })}>
						{COLOURS.map(([name, label]) => (
							<option key={name} value={name}>
								{label}
							</option>
						))}
					</select>
				</label>
				<button type="button" disabled={!value('zoom')} onClick={() => note({ zoom: null })}>
					Whole map
				</button>
				<span class="soft">{map && `${sums?.pid === map.pid ? momentOf(sums) : `process ${map.pid}`}: ${plural(map.regions.length, 'region')}, by address; without files and the recorder`}</span>
			</div>
			{answer.status === 'error' && <Failed answer={answer} />}
			{answer.status !== 'error' && !data && <Loading what="Drawing the map" />}
			{data && data.regions.length === 0 && <NoRows data={undefined} title="No map: recorded by an earlier version" />}
			{data && data.regions.length > 0 && (
				<div class="map">
					{map && names && <Drawn map={map} names={names} onZoom={zoom} />}
					<Regions data={data} map={map} names={names} onZoom={zoom} />
				</div>
			)}
		</div>
	);
}
