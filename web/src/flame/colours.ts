// SPDX-License-Identifier: Apache-2.0
// Colour schemes of nodes. Few colours with a legend: they are distinguishable with any kind of colour vision, and the text on them is
// readable in both themes.
import { shortName } from '../model/frames';
import type { FlameName } from '../model/types';
import { errorAt, ROOT_NAME, type FlameTree } from './tree';
import type { Painter } from './draw';

export type ColourBy = 'own' | 'module' | 'package' | 'language' | 'life' | 'change' | 'error';

export interface LegendEntry {
	label: string;
	/** Or a gradient, of several colours. */
	colour: string;
	wide?: boolean;
	value: number;
}

export interface Colouring {
	/** For this tree, or for another with the same names. */
	painterOf: (tree: FlameTree) => Painter;
	legend: LegendEntry[];
}

/* Tints of the Okabe-Ito palette; the last is for all other groups. */
const TINTS = ['#8fc3ea', '#f2bf6c', '#86cfb0', '#e8a3c4', '#ece08a', '#f0a184', '#b3b0ea'];
const OTHER = '#c4c7c5';
const ROOT = '#d9dbd8';
/* From little to much: away from the background, and always readable below dark text. */
const CHANGES = {
	light: { grew: ['#f7e3d3', '#f3c29b', '#ec9a5c', '#d97528'], shrank: ['#dbe8f4', '#aecdea', '#79abdc', '#4388c6'], same: '#d7d9d6' },
	dark: { grew: ['#96806f', '#b98a62', '#dd924f', '#fb9a40'], shrank: ['#76848f', '#7199bb', '#66a8df', '#5cb6ff'], same: '#80878c' },
};

export function rgba(hex: string, factor = 1): number {
	const number = parseInt(hex.slice(1), 16);
	const part = (shift: number) => Math.max(0, Math.min(255, Math.round(((number >> shift) & 255) * factor)));
	return ((255 << 24) | (part(0) << 16) | (part(8) << 8) | part(16)) >>> 0;
}

function hashOf(text: string): number {
	let hash = 2166136261;
	for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
	return hash >>> 0;
}

/** Two shades of each, so that neighbours of one group differ slightly. */
function shadesOf(hex: string): number[] {
	return [rgba(hex), rgba(hex, 0.955), rgba(hex, 0.91)];
}

/** Colours by group of names: the groups with the largest cost get a colour each; the group `muted` gets none. */
function byGroup(
	tree: FlameTree,
	names: readonly FlameName[],
	groupOf: (name: FlameName) => string,
	muted: string | null = null,
): Colouring {
	const groups = new Map<string, number>();
	const labels: string[] = [];
	const number = new Int32Array(names.length);
	names.forEach((name, i) => {
		const label = groupOf(name);
		let group = groups.get(label);
		if (group === undefined) {
			group = labels.push(label) - 1;
			groups.set(label, group);
		}
		number[i] = group;
	});
	const weight = new Float64Array(labels.length);
	for (let node = 1; node < tree.count; node++) {
		const name = tree.name[node]!;
		if (name >= 0) weight[number[name]!]! += tree.weight[node]!;
	}
	const order = labels
		.map((_, i) => i)
		.filter((i) => labels[i] !== muted)
		.sort((a, b) => weight[b]! - weight[a]!);
	const shades = labels.map(() => shadesOf(OTHER));
	const legend: LegendEntry[] = [];
	order.slice(0, TINTS.length).forEach((group, rank) => {
		shades[group] = shadesOf(TINTS[rank]!);
		legend.push({ label: labels[group]!, colour: TINTS[rank]!, value: weight[group]! });
	});
	if (order.length > TINTS.length) legend.push({ label: `${order.length - TINTS.length} others`, colour: OTHER, value: 0 });
	if (muted !== null && order.length < labels.length) legend.push({ label: muted, colour: OTHER, value: 0 });
	const colours = Uint32Array.from(names, (name, i) => shades[number[i]!]![hashOf(name.function) % 3]!);
	const other = rgba(OTHER);
	const root = rgba(ROOT);
	return {
		legend,
		painterOf: (drawn) => (node) => {
			const name = drawn.name[node]!;
			return name >= 0 ? colours[name]! : name === ROOT_NAME ? root : other;
		},
	};
}

function shortModule(name: FlameName): string {
	const module = name.module ?? '';
	return module.slice(module.lastIndexOf('/') + 1).replace(/\.so(\.[\d.]+)?$/, '.so') || '[no module]';
}

/** std::vector -> std, Cache::insert -> Cache, sqlite3_step -> sqlite3: groups names by prefix. */
export function packageOf(name: FlameName): string {
	if (name.function.startsWith('[')) return 'marks';
	const short = shortName(name.function);
	const scope = /^([^:<(]+)::/.exec(short);
	if (scope) return scope[1]!;
	const prefix = /^_*([A-Za-z0-9]+?)(?:_|[A-Z]|$)/.exec(short);
	return prefix?.[1] || short;
}

const LIBRARIES = 'libraries';

/** Own code by source file. */
function ownFileOf(name: FlameName): string {
	if (!name.own) return LIBRARIES;
	return name.file ? name.file.slice(name.file.lastIndexOf('/') + 1) : shortModule(name);
}

function languageOf(name: FlameName): string {
	return name.language ?? 'not known';
}

function rampOf(colours: readonly string[]): string {
	return `linear-gradient(to right, ${colours.map((colour, i) => `${colour} ${25 * i}% ${25 * (i + 1)}%`).join(', ')})`;
}

/** Orange grew, blue shrank; the stronger the colour, the more, relative to the largest change. */
function byChange(tree: FlameTree, dark: boolean): Colouring {
	let most = 1;
	for (let node = 1; node < tree.count; node++) most = Math.max(most, Math.abs(tree.value[node]!));
	const ramp = CHANGES[dark ? 'dark' : 'light'];
	const grew = ramp.grew.map((hex) => rgba(hex));
	const shrank = ramp.shrank.map((hex) => rgba(hex));
	const same = rgba(ramp.same);
	return {
		legend: [
			{ label: 'shrank a little … much', colour: rampOf(ramp.shrank), wide: true, value: 0 },
			{ label: 'the same', colour: ramp.same, value: 0 },
			{ label: 'grew a little … much', colour: rampOf(ramp.grew), wide: true, value: 0 },
		],
		painterOf: (drawn) => (node) => {
			const value = drawn.value[node]!;
			if (value === 0) return same;
			const step = Math.min(3, Math.floor(4 * Math.sqrt(Math.abs(value) / most)));
			return (value > 0 ? grew : shrank)[step]!;
		},
	};
}

const LIVES: readonly { below: number; label: string; colour: string }[] = [
	{ below: 1e6, label: 'per allocation: below 1 ms', colour: '#f4e3a1' },
	{ below: 1e7, label: '10 ms', colour: '#bfdc9e' },
	{ below: 1e8, label: '100 ms', colour: '#84c9ac' },
	{ below: 1e9, label: '1 s', colour: '#63aebe' },
	{ below: 1e10, label: '10 s', colour: '#7e97c8' },
	{ below: Infinity, label: 'longer', colour: '#a58fc4' },
];

/** By the lifetime of freed blocks, per allocation; `lives` is by node, -1: unknown. */
export function byLife(lives: Float64Array): Colouring {
	const colours = LIVES.map((life) => rgba(life.colour));
	const unknown = rgba(OTHER);
	return {
		legend: [
			...LIVES.map((life) => ({ label: life.label, colour: life.colour, value: 0 })),
			{ label: 'not known', colour: OTHER, value: 0 },
		],
		painterOf: () => (node) => {
			const life = lives[node] ?? -1;
			return life < 0 ? unknown : colours[LIVES.findIndex((one) => life < one.below)]!;
		},
	};
}

const SURE: readonly { below: number; label: string; colour: string }[] = [
	{ below: 0.02, label: 'below ±2 %', colour: '#63aebe' },
	{ below: 0.05, label: '±5 %', colour: '#84c9ac' },
	{ below: 0.1, label: '±10 %', colour: '#bfdc9e' },
	{ below: 0.25, label: '±25 %', colour: '#f4e3a1' },
	{ below: 0.5, label: '±50 %', colour: '#f0c39a' },
	{ below: Infinity, label: 'a guess', colour: '#d9a5a0' },
];

/** By the relative error of an estimate. */
function byError(): Colouring {
	const colours = SURE.map((one) => rgba(one.colour));
	return {
		legend: SURE.map((one) => ({ label: one.label, colour: one.colour, value: 0 })),
		painterOf: (drawn) => (node) => {
			const error = errorAt(drawn, node);
			const part = error ? error / Math.abs(drawn.value[node]!) : 0;
			return colours[SURE.findIndex((one) => part < one.below)] ?? colours[colours.length - 1]!;
		},
	};
}

export function colouringOf(by: ColourBy, tree: FlameTree, names: readonly FlameName[], dark = false): Colouring {
	if (by === 'change' && tree.before) return byChange(tree, dark);
	if (by === 'error' && tree.variance) return byError();
	if (by === 'own') return byGroup(tree, names, ownFileOf, LIBRARIES);
	return byGroup(tree, names, by === 'package' ? packageOf : by === 'language' ? languageOf : shortModule);
}

/** Nodes that do not match a search are grey. */
export function onlyMatches(tree: FlameTree, matches: Uint8Array, dark: boolean): Painter {
	const grey = rgba(dark ? '#3a4046' : '#e4e5e3');
	const found = rgba('#f2bf6c');
	return (node) => {
		const name = tree.name[node]!;
		return name >= 0 && matches[name] ? found : grey;
	};
}
