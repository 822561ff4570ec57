// SPDX-License-Identifier: Apache-2.0
// The call tree of a number, or of its change, as a small picture: the heaviest nodes, without the frames of libraries around own code.
import { useMemo, useState } from 'preact/hooks';
import { placeOf } from '../model/frames';
import { ask as askParams, canonical } from '../model/query';
import { saved, useAnswer } from '../model/source';
import { go, type Changes, type State } from '../model/state';
import { theme } from '../model/theme';
import type { FlameResult } from '../model/types';
import { quantity, share, type Unit } from '../model/units';
import { amountText, hintOf } from '../parts/amount';
import { Answered } from '../parts/states';
import { FlameCanvas, nodeName, ROW } from './canvas';
import { colouringOf } from './colours';
import { Legend } from './legend';
import { addressOf } from './steps';
import { errorAt, treeOf } from './tree';

const NODES = '300';
const MOST_ROWS = 10;
const ROOT = 'all';

interface IcicleProps {
	/** Asks for the number. */
	scope: State;
	/** The changes that the flame graph needs to show the same. */
	open: Changes;
	label: string;
	unit?: Unit;
}

function Picture({ data, open, label, unit = 'bytes' }: { data: FlameResult } & Omit<IcicleProps, 'scope'>) {
	const tree = useMemo(() => treeOf(data.nodes, data.shown), [data]);
	const [chosen, setChosen] = useState(-1);
	const [hovered, setHovered] = useState(-1);
	const hasOwn = data.names.some((name) => name.own);
	const dark = theme.value === 'dark';
	const colouring = useMemo(
		() => colouringOf(tree.before ? 'change' : hasOwn ? 'own' : 'module', tree, data.names, dark),
		[tree, data, hasOwn, dark],
	);
	const paint = useMemo(() => colouring.painterOf(tree), [tree, colouring]);
	const describe = (node: number): string => {
		if (node < 0 || node >= tree.count) return '';
		const name = data.names[tree.name[node]!];
		const where = name ? placeOf(name) : '';
		const value = tree.value[node]!;
		return [
			`${nodeName(tree, data.names, node, ROOT)}${where ? ` (${where})` : ''}`,
			amountText(value, unit, errorAt(tree, node), tree.before !== undefined),
			tree.before ? `before ${quantity(tree.before[node]!, unit)}` : share(value, tree.value[0]!),
		]
			.filter(Boolean)
			.join(', ');
	};
	/* A saved page has the whole graph with all frames alone, where a node has another address. */
	const zoom = (node: number) =>
		go('flame', saved.value ? open : { ...open, 'fold-libraries': '1', zoom: node ? addressOf(tree, node) : null, node: addressOf(tree, node) || null });
	const shown = hovered >= 0 ? hovered : chosen;
	const text = describe(shown);
	return (
		<>
			{tree.before && <Legend legend={colouring.legend} />}
			<div class="flame icicle" style={{ height: `${Math.min(tree.deepest + 1, MOST_ROWS) * ROW}px` }}>
				<FlameCanvas
					label={`${label}. Arrows move, Enter opens the flame graph.`}
					tree={tree}
					names={data.names}
					rootLabel={ROOT}
					paint={paint}
					dark={dark}
					zoom={0}
					chosen={chosen}
					chosenText={describe(chosen)}
					onZoom={zoom}
					onChoose={setChosen}
					onHover={setHovered}
					onKey={() => false}
				/>
			</div>
			<p class="soft cut icicle-foot" title={text ? hintOf(tree.value[shown]!, unit, errorAt(tree, shown)) : undefined}>
				{text || 'Double-click or Enter opens a function in the flame graph.'}
			</p>
		</>
	);
}

export function Icicle({ scope, ...rest }: IcicleProps) {
	const more = [
		['fold-libraries', '1'],
		['limit', NODES],
	] as const;
	const answer = useAnswer<FlameResult>(canonical('flame', askParams(scope, 'flame', more)));
	return (
		<Answered answer={answer} what="Building the call tree">
			{(data) =>
				/* Changes may add up to nothing. */
				(data.nodes.before ? data.nodes.name.length : data.shown) > 0 ? (
					<Picture key={answer.of} data={data} {...rest} />
				) : (
					<p class="soft">{data.note ?? 'none'}</p>
				)
			}
		</Answered>
	);
}
