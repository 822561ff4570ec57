// SPDX-License-Identifier: Apache-2.0
// The result of --view flame as a tree. Flame, Tree and Source share it: it is queried and laid out once.
import { useEffect } from 'preact/hooks';
import { ask as askParams, canonical, type Params } from '../model/query';
import { saved, useAnswer, type Answer } from '../model/source';
import { state, value } from '../model/state';
import type { FlameResult } from '../model/types';
import { asking } from '../parts/copy';
import { inverted } from './pivot';
import { treeOf, type FlameTree } from './tree';

const trees = new WeakMap<FlameResult, { plain?: FlameTree; inverted?: FlameTree }>();

function treeFor(data: FlameResult, invert: boolean): FlameTree {
	let made = trees.get(data);
	if (!made) trees.set(data, (made = {}));
	made.plain ??= treeOf(data.nodes, data.shown);
	if (!invert) return made.plain;
	return (made.inverted ??= inverted(made.plain, data.names.length));
}

/** The options of --view tree that show the same frames. */
function commandOptions(callees: boolean): [string, string][] {
	const options: [string, string][] = [];
	if (callees) options.push(['callees', '1']);
	if (value('fold') === '1') options.push(['fold-recursion', '1']);
	if (value('fold-libraries') !== '1') options.push(['no-own', '1']);
	return options;
}

/** `shown`: it is the main query of the view, which its command prints. `cost` replaces the query's; null sends no query. */
export function useFlame(
	callees: boolean,
	shown = true,
	cost?: string | null,
): { answer: Answer<FlameResult>; tree: FlameTree | undefined } {
	/* A saved page has only one direction, and few nodes: invert it here. */
	const invert = callees && saved.value;
	const more: [string, string][] = [];
	if (callees && !invert) more.push(['callees', '1']);
	if (value('fold') === '1') more.push(['fold-recursion', '1']);
	const libraries = value('fold-libraries') === '1';
	if (libraries && !saved.value) more.push(['fold-libraries', '1']);
	const asked = cost ? { ...state.value, values: { ...state.value.values, cost: [cost], unit: [], at: [], minus: [] } } : state.value;
	const params: Params = askParams(asked, 'flame', more);
	const key = cost === null ? null : canonical('flame', params);
	const answer = useAnswer<FlameResult>(key);
	useEffect(() => {
		if (shown)
			asking.value = {
				view: 'tree',
				params: askParams(state.value, 'tree', commandOptions(callees)),
			};
	}, [key]);
	return { answer, tree: answer.data && treeFor(answer.data, invert) };
}
