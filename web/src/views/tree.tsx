// SPDX-License-Identifier: Apache-2.0
// Tree: the call tree as an expandable table, with the callers and callees of the selected function beside it.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useFlame } from '../flame/data';
import { nodeName } from '../flame/canvas';
import { firstOpen, neighboursOf, openRows, withPath, type Neighbour } from '../flame/rows';
import { usePlace, useSuccessor } from '../flame/place';
import { addressOf } from '../flame/steps';
import { errorAt, OTHERS_NAME, selfErrorAt, type FlameTree } from '../flame/tree';
import { placeOf, shortName } from '../model/frames';
import { comparing, differing, note, question, set, value } from '../model/state';
import type { FlameName, FlameResult } from '../model/types';
import { count, percent, quantity } from '../model/units';
import { Amount, ERROR_WIDTH, hintOf } from '../parts/amount';
import { Folds } from '../parts/folds';
import { onSubjectKey } from '../parts/row-keys';
import { Failed, Loading, NoRows } from '../parts/states';
import { indent, Table, type Column } from '../parts/table';

const FIRST_SHARE = 0.08;
const FIRST_ROWS = 400;

function text(number: number, error = 0): ComponentChildren {
	const asked = question.value;
	return <Amount value={number} unit={asked.unit} error={error} signed={differing.value} />;
}

function tone(number: number): string {
	return comparing.value ? (number > 0 ? 'grew' : number < 0 ? 'shrank' : 'soft') : number === 0 ? 'soft' : '';
}

function columnsOf(
	tree: FlameTree,
	names: readonly FlameName[],
	open: ReadonlySet<number>,
	toggle: (node: number) => void,
): Column<number>[] {
	const asked = question.value;
	const whole = tree.value[0]!;
	const more = tree.variance ? ERROR_WIDTH : 0;
	const columns: Column<number>[] = [
		{
			key: 'total',
			title: asked.title,
			number: true,
			width: 110 + more,
			help: `${asked.help} Here and in callees.`,
			fill: (node) => tree.weight[node]! / tree.weight[0]!,
			hint: (node) => hintOf(tree.value[node]!, asked.unit, errorAt(tree, node)),
			cell: (node) => <span class={tone(tree.value[node]!)}>{text(tree.value[node]!, errorAt(tree, node))}</span>,
		},
		...(comparing.value
			? [
					{
						key: 'before',
						title: 'Before',
						number: true,
						width: 100,
						cell: (node: number) => quantity(tree.before?.[node] ?? 0, asked.unit),
					},
				]
			: []),
		...(differing.value
			? []
			: [
					{
						key: 'share',
						title: '%',
						number: true,
						width: 74,
						cell: (node: number) => <span class="soft">{percent(tree.value[node]!, whole)}</span>,
					},
				]),
		{
			key: 'self',
			title: 'Self',
			number: true,
			width: 100 + more,
			help: 'Self: requested directly in this function',
			hint: (node) => hintOf(tree.self[node]!, asked.unit, selfErrorAt(tree, node)),
			cell: (node) => (tree.self[node] ? text(tree.self[node]!, selfErrorAt(tree, node)) : <span class="soft">{quantity(0, asked.unit)}</span>),
		},
		{
			key: 'name',
			title: 'Function',
			hint: (node) => names[tree.name[node]!]?.function,
			cell: (node) => {
				const name = names[tree.name[node]!];
				const leaf = tree.childFrom[node] === tree.childFrom[node + 1];
				return (
					<span style={{ paddingLeft: indent(tree.depth[node]! - 1) }}>
						<span
							class="twisty"
							aria-hidden="true"
							onClick={(event) => {
								event.stopPropagation();
								if (!leaf) toggle(node);
							}}
						>
							{leaf ? '' : open.has(node) ? '▾' : '▸'}
						</span>
						<span class="fn">{tree.name[node] === OTHERS_NAME ? '(others, too small to list)' : nodeName(tree, names, node, 'all')}</span>
						<span class="where">
							{name ? placeOf(name) : ''}
							{name?.inlined ? ', inlined' : ''}
						</span>
					</span>
				);
			},
		},
	];
	return columns;
}

function NeighbourList({
	title,
	list,
	names,
	whole,
}: {
	title: string;
	list: readonly Neighbour[];
	names: readonly FlameName[];
	whole: number;
}) {
	return (
		<section>
			<h2>{title}</h2>
			{list.length === 0 && <p class="soft">none</p>}
			<table class="plain layers">
				<tbody>
					{list.slice(0, 40).map((one) => {
						const name = names[one.name];
						return (
							<tr key={one.name}>
								<td class={`number ${tone(one.value)}`}>{text(one.value, Math.sqrt(one.variance))}</td>
								{!differing.value && <td class="number soft">{percent(one.value, whole)}</td>}
								<td class="name" title={name?.function}>
									{name ? (
										<button type="button" class="link code" onClick={() => note({ sel: name.function })}>
											{shortName(name.function)}
										</button>
									) : (
										<span class="soft">others</span>
									)}
								</td>
							</tr>
						);
					})}
				</tbody>
			</table>
			{list.length > 40 && <p class="soft">and {count(list.length - 40)} more</p>}
		</section>
	);
}

function OfAll({ part, tree }: { part: number; tree: FlameTree }) {
	return (
		<>
			<dt>of all</dt>
			<dd>{percent(part, tree.value[0]!)}</dd>
		</>
	);
}

function Neighbours({ tree, data, wanted }: { tree: FlameTree; data: FlameResult; wanted: string }) {
	const found = useMemo(() => neighboursOf(tree, data.names, wanted), [tree, data, wanted]);
	const name = data.names.find((one) => one.function === wanted);
	return (
		<aside class="side" aria-label="Callers and callees" tabIndex={0}>
			<header>
				<h2 class="code" title={wanted}>
					{shortName(wanted)}
				</h2>
				<button type="button" onClick={() => onSubjectKey('p', { function: wanted })} title="p">
					In the flame graph
				</button>
				{name?.file && (
					<button type="button" onClick={() => onSubjectKey('s', name)} title="s">
						Source
					</button>
				)}
			</header>
			{found ? (
				<>
					<section>
						<dl class="facts">
							<dt>With callees</dt>
							<dd>{text(found.total, Math.sqrt(found.variance))}</dd>
							{!differing.value && <OfAll part={found.total} tree={tree} />}
							<dt>Self</dt>
							<dd>{text(found.self, Math.sqrt(found.selfVariance))}</dd>
							{!differing.value && <OfAll part={found.self} tree={tree} />}
						</dl>
					</section>
					<NeighbourList title="Called by" list={found.callers} names={data.names} whole={found.total} />
					<NeighbourList title="Calls" list={found.callees} names={data.names} whole={found.total} />
				</>
			) : (
				<section class="soft">No matching stacks.</section>
			)}
		</aside>
	);
}

/** Always uses the tree from main: in the inverted one callers are below. */
function Beside({ wanted }: { wanted: string }) {
	const { answer, tree } = useFlame(false, false);
	return tree && answer.data ? <Neighbours tree={tree} data={answer.data} wanted={wanted} /> : null;
}

function Opened({ tree, data, of }: { tree: FlameTree; data: FlameResult; of: string | null | undefined }) {
	const drawn = { tree, names: data.names, of };
	const successor = useSuccessor(drawn);
	const [kept, setOpen] = useState<ReadonlySet<number>>(() => firstOpen(tree, FIRST_SHARE, FIRST_ROWS));
	const open = useMemo(() => (successor ? new Set([...kept].map(successor)) : kept), [tree, kept]);
	useEffect(() => {
		if (open !== kept) setOpen(open);
	}, [tree]);
	const chosen = usePlace(drawn, 'node', successor);
	useEffect(() => {
		if (chosen > 0) setOpen(withPath(tree, open, chosen));
	}, [chosen]);
	const rows = useMemo(() => openRows(tree, open), [tree, open]);
	const toggle = (node: number, to?: boolean) => {
		const next = new Set(open);
		if (to ?? !next.has(node)) next.add(node);
		else next.delete(node);
		setOpen(next);
	};
	const columns = useMemo(() => columnsOf(tree, data.names, open, toggle), [tree, data, open, question.value, comparing.value]);
	const leaf = (node: number) => tree.childFrom[node] === tree.childFrom[node + 1];
	const choose = (node: number) => note({ node: addressOf(tree, node), sel: data.names[tree.name[node]!]?.function ?? null });
	const onKey = (event: KeyboardEvent, index: number): boolean => {
		const node = rows[index];
		if (node === undefined) return false;
		if (event.key === 'ArrowRight') {
			if (!leaf(node) && !open.has(node)) toggle(node, true);
			else if (!leaf(node)) choose(tree.children[tree.childFrom[node]!]!);
			return true;
		}
		if (event.key === 'ArrowLeft') {
			if (open.has(node)) toggle(node, false);
			else if (tree.parent[node]! > 0) choose(tree.parent[node]!);
			return true;
		}
		const name = data.names[tree.name[node]!];
		return name !== undefined && onSubjectKey(event.key, name);
	};
	const wanted = value('sel');
	return (
		<div class="split">
			<Table
				label="Call tree"
				columns={columns}
				rows={rows}
				chosen={rows.indexOf(chosen)}
				onChoose={(index) => rows[index] !== undefined && choose(rows[index])}
				onOpen={(index) => rows[index] !== undefined && !leaf(rows[index]) && toggle(rows[index])}
				onKey={onKey}
				tree={{ level: (node) => tree.depth[node]!, open: (node) => (leaf(node) ? undefined : open.has(node)) }}
			/>
			{wanted && <Beside wanted={wanted} />}
		</div>
	);
}

export function TreeView() {
	const callees = value('dir') === 'callees';
	const { answer, tree } = useFlame(callees);
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
					<button type="button" aria-pressed={!callees} onClick={() => set({ dir: null, node: null })}>
						From main
					</button>
					<button type="button" aria-pressed={callees} onClick={() => set({ dir: 'callees', node: null })}>
						From allocations
					</button>
				</div>
				<Folds names={answer.data?.names ?? []} />
				<span class="soft">← → close and open, a click shows callers and callees</span>
			</div>
			{!tree && <Loading what="Building the call tree" />}
			{tree && tree.count === 1 && <NoRows data={answer.data} title="Nothing to show" />}
			{tree && answer.data && tree.count > 1 && <Opened key={answer.of} tree={tree} data={answer.data} of={answer.of} />}
		</div>
	);
}
