// SPDX-License-Identifier: Apache-2.0
// The call tree of a number as a small picture: the heaviest nodes, without the frames of libraries around own code.
import { useMemo, useState } from 'preact/hooks';
import { placeOf } from '../model/frames';
import { ask as askParams, canonical } from '../model/query';
import { saved, useAnswer } from '../model/source';
import { go, type Changes, type State } from '../model/state';
import { theme } from '../model/theme';
import type { FlameResult } from '../model/types';
import { bytes, share } from '../model/units';
import { Answered } from '../parts/states';
import { FlameCanvas, nodeName, ROW } from './canvas';
import { colouringOf } from './colours';
import { addressOf } from './steps';
import { treeOf } from './tree';

const NODES = '300';
const MOST_ROWS = 10;
const ROOT = 'all';

function Picture({ data, open }: { data: FlameResult; open: Changes }) {
	const tree = useMemo(() => treeOf(data.nodes, data.shown), [data]);
	const [chosen, setChosen] = useState(-1);
	const [hovered, setHovered] = useState(-1);
	const hasOwn = data.names.some((name) => name.own);
	const paint = useMemo(() => colouringOf(hasOwn ? 'own' : 'module', tree, data.names).painterOf(tree), [tree, data, hasOwn]);
	const describe = (node: number): string => {
		if (node < 0 || node >= tree.count) return '';
		const name = data.names[tree.name[node]!];
		const where = name ? placeOf(name) : '';
		return [`${nodeName(tree, data.names, node, ROOT)}${where ? ` (${where})` : ''}`, bytes(tree.value[node]!), share(tree.value[node]!, tree.value[0]!)]
			.filter(Boolean)
			.join(', ');
	};
	/* A saved page has the whole graph with all frames alone, where a node has another address. */
	const zoom = (node: number) =>
		go('flame', saved.value ? open : { ...open, 'fold-libraries': '1', zoom: node ? addressOf(tree, node) : null, node: addressOf(tree, node) || null });
	const shown = hovered >= 0 ? hovered : chosen;
	return (
		<>
			<div class="flame icicle" style={{ height: `${Math.min(tree.deepest + 1, MOST_ROWS) * ROW}px` }}>
				<FlameCanvas
					label="Call tree of the peak. Arrows move, Enter opens the flame graph."
					tree={tree}
					names={data.names}
					rootLabel={ROOT}
					paint={paint}
					dark={theme.value === 'dark'}
					zoom={0}
					chosen={chosen}
					chosenText={describe(chosen)}
					onZoom={zoom}
					onChoose={setChosen}
					onHover={setHovered}
					onKey={() => false}
				/>
			</div>
			<p class="soft cut icicle-foot">{describe(shown) || 'Double-click or Enter opens a function in the flame graph.'}</p>
		</>
	);
}

/** `scope` asks for the number; `open` are the changes that the flame graph needs to show the same. */
export function Icicle({ scope, open }: { scope: State; open: Changes }) {
	const more = [
		['fold-libraries', '1'],
		['limit', NODES],
	] as const;
	const answer = useAnswer<FlameResult>(canonical('flame', askParams(scope, 'flame', more)));
	return (
		<Answered answer={answer} what="Building the call tree">
			{(data) => (data.shown > 0 ? <Picture data={data} open={open} /> : <p class="soft">{data.note ?? 'none'}</p>)}
		</Answered>
	);
}
