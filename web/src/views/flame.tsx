// SPDX-License-Identifier: Apache-2.0
// Flame graph of the call tree; widths show the selected number. From main down, or inverted from the allocating functions; or with one
// function in the middle, its callers above and its callees below.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { byLife, colouringOf, onlyMatches, type ColourBy, type Colouring } from '../flame/colours';
import { FlameCanvas, nodeName } from '../flame/canvas';
import { Legend } from '../flame/legend';
import { findMatches, matcherOf, matchNames } from '../flame/search';
import { calleesOf, callersOf, outermost } from '../flame/pivot';
import { ratios } from '../flame/match';
import { usePlace, useSuccessor } from '../flame/place';
import { addressOf } from '../flame/steps';
import { errorAt, selfErrorAt, type FlameTree } from '../flame/tree';
import { useFlame } from '../flame/data';
import { placeOf, shortName } from '../model/frames';
import { comparing, differing, knownCosts, note, question, set, value } from '../model/state';
import { theme } from '../model/theme';
import type { FlameName, FlameResult } from '../model/types';
import { plural, quantity, share } from '../model/units';
import { amountText, hintOf } from '../parts/amount';
import { Folds } from '../parts/folds';
import { onSubjectKey } from '../parts/row-keys';
import { Empty, Failed, Loading, NoRows } from '../parts/states';

interface Hovered {
	tree: FlameTree;
	node: number;
	x: number;
	y: number;
}

function text(value: number, error = 0): string {
	return amountText(value, question.value.unit, error, differing.value);
}

/** "12.5 %" of the whole graph; empty if there is no whole. */
function partOf(part: number, tree: FlameTree): string {
	return differing.value ? '' : (share(part, tree.value[0]!) ?? '');
}

/** One line about a node, for the footer and the screen reader. */
function describe(tree: FlameTree, names: readonly FlameName[], node: number, rootLabel: string): string {
	if (node < 0 || node >= tree.count) return '';
	const name = names[tree.name[node]!];
	const where = name ? placeOf(name) : '';
	const self = tree.self[node]!;
	return [
		`${name?.inlined ? 'inlined ' : ''}${nodeName(tree, names, node, rootLabel)}${where ? `, ${where}` : ''}`,
		[text(tree.value[node]!, errorAt(tree, node)), partOf(tree.value[node]!, tree)].filter(Boolean).join(', '),
		...(tree.before ? [`before ${quantity(tree.before[node]!, question.value.unit)}`] : []),
		...(self && self !== tree.value[node] ? [`self ${text(self, selfErrorAt(tree, node))}`] : []),
	].join('; ');
}

function Foot({ tree, names, node, rootLabel }: { tree: FlameTree; names: readonly FlameName[]; node: number; rootLabel: string }) {
	const name = node > 0 ? names[tree.name[node]!] : undefined;
	const subject = name && { function: name.function, file: name.file, line: name.line };
	return (
		<div class="flame-foot">
			<span class="cut" title={name?.function}>
				{node >= 0 ? (
					<>
						<b class="code">{nodeName(tree, names, node, rootLabel)}</b>{' '}
						<span class="soft">
							{name ? placeOf(name) : ''}
							{name?.inlined ? ', inlined' : ''}
						</span>
					</>
				) : (
					<span class="soft">Click selects, double-click or Enter zooms in, Backspace goes back, Ctrl and the wheel or i and o zoom freely, dragging or Shift and an arrow moves.</span>
				)}
			</span>
			{node >= 0 && (
				<span class="numbers">
					<b title={hintOf(tree.value[node]!, question.value.unit, errorAt(tree, node))}>{text(tree.value[node]!, errorAt(tree, node))}</b>
					<span>{partOf(tree.value[node]!, tree)}</span>
					{tree.before && <span class="soft">before {quantity(tree.before[node]!, question.value.unit)}</span>}
					{tree.self[node] !== 0 && <span class="soft">self {text(tree.self[node]!, selfErrorAt(tree, node))}</span>}
				</span>
			)}
			{subject && (
				<span class="buttons">
					<button type="button" onClick={() => onSubjectKey('p', subject)} title="p">
						Callers, callees
					</button>
					{subject.file && (
						<button type="button" onClick={() => onSubjectKey('s', subject)} title="s">
							Source
						</button>
					)}
					<button type="button" onClick={() => onSubjectKey('+', subject)} title="+">
						Only this
					</button>
					<button type="button" onClick={() => onSubjectKey('-', subject)} title="-">
						Without
					</button>
				</span>
			)}
		</div>
	);
}

function Tip({ hovered, names, rootLabel }: { hovered: Hovered; names: readonly FlameName[]; rootLabel: string }) {
	const { tree, node, x, y } = hovered;
	const left = Math.min(x + 14, innerWidth - 340);
	const top = y + 84 > innerHeight ? y - 72 : y + 16;
	const name = names[tree.name[node]!];
	const self = tree.self[node]!;
	return (
		<div class="tip" style={{ left: `${left}px`, top: `${top}px` }} aria-hidden="true">
			<div class="code cut">{nodeName(tree, names, node, rootLabel)}</div>
			{name && (
				<div class="soft cut">
					{placeOf(name)}
					{name.inlined ? ', inlined' : ''}
				</div>
			)}
			<div>
				{text(tree.value[node]!, errorAt(tree, node))} <span class="soft">{partOf(tree.value[node]!, tree)}</span>
				{self !== 0 && self !== tree.value[node] && <span class="soft">, self {text(self, selfErrorAt(tree, node))}</span>}
			</div>
		</div>
	);
}

function useMatches(tree: FlameTree | undefined, names: readonly FlameName[] | undefined, search: string) {
	return useMemo(() => {
		const matcher = matcherOf(search);
		return tree && names && matcher ? findMatches(tree, matchNames(names, matcher)) : undefined;
	}, [tree, names, search]);
}

/** One canvas with its own selected node. */
function Half({
	data,
	of,
	tree,
	rootLabel,
	label,
	upwards,
	colouring,
	matches,
	onHover,
	main,
}: {
	data: FlameResult;
	of: string | null | undefined;
	tree: FlameTree;
	rootLabel: string;
	label: string;
	upwards?: boolean;
	colouring: Colouring;
	matches: Uint8Array | undefined;
	onHover: (hovered: Hovered | undefined) => void;
	main: boolean;
}) {
	const dark = theme.value === 'dark';
	const drawn = { tree, names: data.names, of };
	const successor = useSuccessor(drawn);
	const zoomed = usePlace(drawn, 'zoom', successor);
	const noted = usePlace(drawn, 'node', successor);
	const [kept, setOwn] = useState({ zoom: 0, chosen: -1 });
	const own = successor && !main ? { zoom: successor(kept.zoom), chosen: successor(kept.chosen) } : kept;
	useEffect(() => {
		if (own !== kept) setOwn(own);
	}, [tree]);
	const zoom = main ? Math.max(0, zoomed) : Math.min(own.zoom, tree.count - 1);
	const chosen = main ? noted : own.chosen;
	const paint = useMemo(() => (matches ? onlyMatches(tree, matches, dark) : colouring.painterOf(tree)), [tree, colouring, matches, dark]);
	const choose = (node: number) =>
		main ? note({ node: node < 0 ? null : addressOf(tree, node) || '0*0' }) : setOwn({ ...own, chosen: node });
	const zoomTo = (node: number) =>
		main ? set({ zoom: node ? addressOf(tree, node) : null, node: addressOf(tree, node) || null }) : setOwn({ zoom: node, chosen: node });
	const subject = chosen > 0 ? data.names[tree.name[chosen]!] : undefined;
	return (
		<>
			<FlameCanvas
				label={label}
				tree={tree}
				names={data.names}
				rootLabel={rootLabel}
				paint={paint}
				dark={dark}
				{...(upwards ? { upwards } : {})}
				zoom={zoom}
				keepPart={successor !== undefined}
				chosen={chosen}
				chosenText={describe(tree, data.names, chosen, rootLabel)}
				onZoom={zoomTo}
				onChoose={choose}
				onHover={(node, x, y) => onHover(node < 0 ? undefined : { tree, node, x, y })}
				onKey={(event) => subject !== undefined && onSubjectKey(event.key, subject)}
			/>
			{main && <Foot tree={tree} names={data.names} node={chosen} rootLabel={rootLabel} />}
		</>
	);
}

function pivotTrees(data: FlameResult, tree: FlameTree, pivot: string) {
	const wanted = Uint8Array.from(data.names, (name) => (name.function === pivot ? 1 : 0));
	const nodes = outermost(tree, wanted);
	return nodes.length
		? { places: nodes.length, callers: callersOf(tree, nodes, data.names.length), callees: calleesOf(tree, nodes, data.names.length) }
		: undefined;
}

/** Lifetime of freed blocks per allocation, by node: two more queries, sent only for colouring by lifetime. */
function useLives(
	wanted: boolean,
	callees: boolean,
	tree: FlameTree | undefined,
	data: FlameResult | undefined,
): Float64Array | undefined {
	const lifetime = useFlame(callees, false, wanted ? 'lifetime' : null);
	const calls = useFlame(callees, false, wanted ? 'calls' : null);
	return useMemo(() => {
		if (!wanted || !tree || !data || !lifetime.tree || !calls.tree) return undefined;
		return ratios(
			tree,
			data.names,
			{ tree: lifetime.tree, names: lifetime.answer.data!.names },
			{ tree: calls.tree, names: calls.answer.data!.names },
		);
	}, [wanted, tree, data, lifetime.tree, calls.tree]);
}

export function FlameView() {
	const pivot = value('pivot');
	const callees = value('dir') === 'callees' && !pivot;
	const { answer, tree } = useFlame(callees);
	const [hovered, setHovered] = useState<Hovered | undefined>(undefined);
	const search = value('search') ?? '';
	const data = answer.data;
	const matches = useMatches(tree, data?.names, search);
	const hasOwn = data?.names.some((name) => name.own) ?? false;
	const colourBy = (value('colour') ?? (comparing.value ? 'change' : hasOwn ? 'own' : 'module')) as ColourBy;
	const dark = theme.value === 'dark';
	const lives = useLives(colourBy === 'life' && !knownCosts.value, callees, tree, data);
	const colouring = useMemo(
		() => (tree && data ? (colourBy === 'life' && lives ? byLife(lives) : colouringOf(colourBy, tree, data.names, dark)) : undefined),
		[tree, data, colourBy, lives, dark],
	);
	const sandwich = useMemo(() => (tree && data && pivot ? pivotTrees(data, tree, pivot) : undefined), [tree, data, pivot]);
	useEffect(() => setHovered(undefined), [tree]);

	if (answer.status === 'error')
		return (
			<div class="view">
				<Failed answer={answer} />
			</div>
		);
	return (
		<div class="view fixed">
			<div class="toolbar">
				<div class="segments" role="group" aria-label="Direction">
					<button type="button" aria-pressed={!callees && !pivot} onClick={() => set({ dir: null, pivot: null, zoom: null, node: null })}>
						From main
					</button>
					<button type="button" aria-pressed={callees} onClick={() => set({ dir: 'callees', pivot: null, zoom: null, node: null })}>
						From allocations
					</button>
				</div>
				<label>
					Colour{' '}
					<select value={colourBy} onChange={(event) => note({ colour: event.currentTarget.value })}>
						{hasOwn && <option value="own">own code</option>}
						<option value="module">module</option>
						<option value="package">name</option>
						<option value="language">language</option>
						{!comparing.value && !pivot && !knownCosts.value && <option value="life">lifetime</option>}
						{tree?.variance && <option value="error">standard error</option>}
						{comparing.value && <option value="change">change</option>}
					</select>
				</label>
				<Folds names={data?.names ?? []} />
				<input
					id="search"
					type="search"
					placeholder="Search (regex)"
					aria-label="Search functions and files"
					value={search}
					onInput={(event) => note({ search: event.currentTarget.value || null })}
				/>
				<span class="soft" role="status">
					{matches &&
						tree &&
						`${[partOf(matches.value, tree), text(matches.value)].filter(Boolean).join(', ')} in ${plural(matches.count, 'place')}`}
				</span>
				{(value('zoom') || pivot) && (
					<button type="button" onClick={() => set({ zoom: null, node: null, pivot: null })}>
						{pivot ? 'Leave callers, callees' : 'Whole graph'}
					</button>
				)}
				<Legend legend={colouring?.legend ?? []} />
			</div>
			{!tree && <Loading what="Building the call tree" />}
			{tree && tree.weight[0] === 0 && <NoRows data={data} title="Nothing to draw" />}
			{tree && data && colouring && tree.weight[0]! > 0 && !pivot && (
				<div class="flame">
					<Half
						main
						data={data}
						of={answer.of}
						tree={tree}
						rootLabel="all"
						label={`Flame graph ${callees ? 'from the allocating functions' : 'from main'}. Arrows move, Enter zooms.`}
						colouring={colouring}
						matches={matches?.names}
						onHover={setHovered}
					/>
				</div>
			)}
			{tree && data && pivot && !sandwich && (
				<Empty title="Not here">
					<p>
						<code>{shortName(pivot)}</code> is on no matching stack.
					</p>
				</Empty>
			)}
			{data && sandwich && pivot && colouring && (
				<div class="flame sandwich">
					<Half
						main={false}
						upwards
						data={data}
						of={`${answer.of ?? ''} ${pivot}`}
						tree={sandwich.callers}
						rootLabel={shortName(pivot)}
						label="Callers. Arrows move, Enter zooms."
						colouring={colouring}
						matches={matches?.names}
						onHover={setHovered}
					/>
					<div class="pivot">
						<b class="code cut" title={pivot}>
							{shortName(pivot)}
						</b>
						<span>
							<b>{text(sandwich.callees.value[0]!, errorAt(sandwich.callees, 0))}</b> {partOf(sandwich.callees.value[0]!, tree!)}{' '}
							<span class="soft">in {plural(sandwich.places, 'place')}; callers above, callees below</span>
						</span>
					</div>
					<Half
						main={false}
						data={data}
						of={`${answer.of ?? ''} ${pivot}`}
						tree={sandwich.callees}
						rootLabel={shortName(pivot)}
						label="Callees. Arrows move, Enter zooms."
						colouring={colouring}
						matches={matches?.names}
						onHover={setHovered}
					/>
				</div>
			)}
			{hovered && data && <Tip hovered={hovered} names={data.names} rootLabel={pivot ? shortName(pivot) : 'all'} />}
		</div>
	);
}
