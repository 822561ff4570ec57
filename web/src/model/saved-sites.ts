// SPDX-License-Identifier: Apache-2.0
// Answers queries from the sites that a saved page contains (src/cli/web/web_sites.c): selects by filters, and sums. Each view is the same as
// in src/analysis, where the rules are explained; a test compares the two.
import { AXES } from './words';
import type { FlameName } from './types';

interface SavedFrame {
	function: string;
	/** With all arguments, if that is not the same. */
	full?: string;
	file: string | null;
	line: number;
	module: string;
	inlined: boolean;
	runtime_frame: boolean;
	own: boolean;
	language: string | null;
}

export interface SavedSites {
	kinds: string[];
	processes: { pid: number; rank: number; command: string; leaks: boolean }[];
	texts: string[];
	frames: SavedFrame[];
	/** By node of the tree of all stacks: its caller + 1 (0: none), and its frame. Callers come first. */
	before: number[];
	frame: number[];
	/** By field, by site. */
	sites: Record<string, number[]>;
}

/** As it is in the page: these lists have the differences to the entry before. */
const DIFFERENCES = ['process', 'node', 'caller', 'own', 'type', 'tag', 'pool', 'labels', 'entry', 'site', 'kind', 'first_seen_ns'];

function addUp(list: number[]): void {
	for (let i = 1; i < list.length; i++) list[i]! += list[i - 1]!;
}

/** Restores the lists in place. */
export function restored(data: SavedSites): SavedSites {
	for (const field of DIFFERENCES) addUp(data.sites[field]!);
	addUp(data.before);
	addUp(data.frame);
	return data;
}

/** What the page knows of the recording and of unfiltered results. */
export interface Known {
	head: Record<string, unknown>;
	durationNs: number;
	momentOf: (cost: 'peak' | 'leaked') => string;
}

/** The saved page cannot answer the query. */
export class Unanswerable extends Error {}

/* ---- filters ---- */

const CLASSES: Record<string, string> = {
	alpha: 'A-Za-z',
	digit: '0-9',
	alnum: 'A-Za-z0-9',
	upper: 'A-Z',
	lower: 'a-z',
	space: '\\s',
	punct: '!-\\/:-@\\[-`{-~',
	xdigit: '0-9A-Fa-f',
	blank: ' \\t',
};

/** A POSIX extended regular expression, as the command takes it. */
export function posixRegex(text: string): RegExp {
	if (/\\[^\W_]/.test(text.replace(/\\[wWsSbB]/g, '')) || /\[[.=]/.test(text))
		throw new Unanswerable(`A saved page cannot match '${text}': it uses a form that browsers read differently.`);
	const source = text
		/* In a bracket a backslash is itself. */
		.replace(/\[\^?\]?(?:\[:\w+:\]|[^\]])*\]/g, (set) => set.replace(/\\/g, '\\\\').replace(/^\[(\^?)\]/, '[$1\\]').replace(/(?!^)\[(?!:)/g, '\\['))
		.replace(/\[:(\w+):\]/g, (_, name: string) => CLASSES[name] ?? '')
		.replace(/^\*/, '\\*');
	try {
		return new RegExp(source);
	} catch {
		throw new Unanswerable(`'${text}' is not a regular expression.`);
	}
}

/** "1.5 KiB" in bytes. */
export function parseBytes(text: string): number {
	const found = /^(\d+(?:\.\d+)?) ?(?:([kmgtpe])(ib|b)?|b)?$/i.exec(text);
	if (!found) throw new Unanswerable(`'${text}' is not a size.`);
	const base = found[3]?.toLowerCase() === 'b' ? 1000 : 1024;
	return Math.floor(Number(found[1]) * (found[2] ? base ** ('kmgtpe'.indexOf(found[2].toLowerCase()) + 1) : 1));
}

/** Filters that need more than the saved page has, and why. */
export const UNSAVED_FILTERS: Readonly<Record<string, string>> = {
	thread: 'A saved page has the sums over all threads.',
	frames: 'A saved page has the frames that it was saved with.',
	'fold-imports': 'A saved page has the frames that it was saved with.',
};

type Fits = (site: number) => boolean;

/** By node: whether a frame of the stack matches. */
function onStack(data: SavedSites, regex: RegExp): Uint8Array {
	const hit = (text: string | null | undefined) => text !== null && text !== undefined && regex.test(text);
	const frames = data.frames.map((frame) => hit(frame.function) || hit(frame.full) || hit(frame.file));
	const nodes = new Uint8Array(data.before.length + 1);
	for (let i = 0; i < data.before.length; i++) nodes[i + 1] = frames[data.frame[i]!] || nodes[data.before[i]!] ? 1 : 0;
	return nodes;
}

function ofTexts(data: SavedSites, field: string, fits: (text: string) => boolean): Fits {
	const texts = data.texts.map(fits);
	return (site) => texts[data.sites[field]![site]!]!;
}

/** On the function that allocates. */
function ofCaller(data: SavedSites, fits: (frame: SavedFrame) => boolean): Fits {
	const frames = [false, ...data.frames.map(fits)];
	return (site) => frames[data.sites.caller![site]!]!;
}

function ofProcess(data: SavedSites, filter: string): Fits {
	const byName = !/^\d+$/.test(filter);
	const regex = byName ? posixRegex(filter) : undefined;
	const chosen = data.processes.map((one) =>
		regex ? regex.test(one.command) || (one.rank > 0 && regex.test(`rank ${one.rank - 1}`)) : one.pid === Number(filter),
	);
	if (!chosen.includes(true)) throw new Unanswerable(`No process has the number or matches '${filter}'.`);
	return (site) => chosen[data.sites.process![site]!]!;
}

function ofMeanSize(data: SavedSites, fits: (mean: number) => boolean): Fits {
	const { calls, total_bytes } = data.sites;
	return (site) => fits(calls![site] ? Math.floor(total_bytes![site]! / calls![site]!) : 0);
}

function filterOf(data: SavedSites, name: string, value: string): Fits | undefined {
	const missing = UNSAVED_FILTERS[name];
	if (missing) throw new Unanswerable(missing);
	const node = data.sites.node!;
	switch (name) {
		case 'focus': {
			const nodes = onStack(data, posixRegex(value));
			return (site) => nodes[node[site]!] === 1;
		}
		case 'ignore': {
			const nodes = onStack(data, posixRegex(value));
			return (site) => nodes[node[site]!] === 0;
		}
		case 'module': {
			const regex = posixRegex(value);
			return ofCaller(data, (frame) => regex.test(frame.module));
		}
		case 'not-module': {
			const module = filterOf(data, 'module', value)!;
			return (site) => !module(site);
		}
		case 'language':
			return ofCaller(data, (frame) => (frame.language ?? 'unknown') === value);
		case 'tag':
		case 'entry':
		case 'pool': {
			const regex = posixRegex(value);
			return ofTexts(data, name, (text) => regex.test(text));
		}
		case 'label': {
			const regex = posixRegex(value.includes('=') ? `^(${value})$` : `^(${value})=`);
			return ofTexts(data, 'labels', (text) => text !== '' && text.split('\n').some((label) => regex.test(label)));
		}
		case 'process':
			return ofProcess(data, value);
		case 'min-size': {
			const least = parseBytes(value);
			return ofMeanSize(data, (mean) => mean >= least);
		}
		case 'max-size': {
			const most = parseBytes(value);
			return ofMeanSize(data, (mean) => most === 0 || mean <= most);
		}
		default:
			return undefined;
	}
}

function kindsOf(data: SavedSites, params: URLSearchParams): Fits {
	const pools = params.get('by') === 'pool' || params.has('pool');
	const entries = params.get('by') === 'entry' || params.has('entry') || params.get('view') === 'sites';
	const asked = params.get('kind') ?? (pools ? 'pool' : entries ? 'all' : 'heap');
	const chosen = data.kinds.map((kind) => (asked === 'all' ? kind !== 'pool' : kind === asked));
	return (site) => chosen[data.sites.kind![site]!]!;
}

/* ---- the number that is asked for ---- */

interface Cost {
	name: string;
	/** The key of sums. */
	key: string;
	/** By site: what is added up. */
	raw: number[];
	/** Blocks at the moment of the cost, or at the end. */
	bytes: number[];
	blocks: number[];
	moment: string;
	/** From a sum to what is shown. */
	shown: (sum: number) => number;
}

const WHOLE_RUN: Readonly<Record<string, readonly [field: string, key: string]>> = {
	total: ['total_bytes', 'total_bytes'],
	calls: ['calls', 'calls'],
	temporary: ['temporary_calls', 'temporary_calls'],
	max: ['max_bytes', 'max_bytes'],
	waste: ['internal_fragmentation_bytes', 'internal_fragmentation_bytes'],
	lifetime: ['lifetime_ms', 'lifetime_ns'],
	realloc: ['copied_bytes', 'copied_bytes'],
	rate: ['calls', 'calls_per_second'],
};

export const UNSAVED_MOMENTS = 'A saved page has the peak and the end, no other moments.';

function costOf(data: SavedSites, params: URLSearchParams, known: Known): Cost {
	const name = params.get('cost') ?? 'peak';
	const at = name === 'peak' ? 'peak' : (params.get('at') ?? 'end');
	const whole = WHOLE_RUN[name];
	if (name === 'time') throw new Unanswerable('A saved page has the time in the allocator by site, function and thread, without filters.');
	if (params.has('minus') || (!whole && at !== 'peak' && at !== 'end')) throw new Unanswerable(UNSAVED_MOMENTS);
	const when = !whole && at === 'peak' ? 'peak' : 'not_freed';
	const bytes = data.sites[`${when}_bytes`]!;
	const blocks = data.sites[`${when}_blocks`]!;
	if (whole) {
		const per = name === 'rate' ? 1e9 / known.durationNs : name === 'lifetime' ? 1e6 : 1;
		const shown = (sum: number) => Math.floor(sum * per);
		return { name, key: whole[1], raw: data.sites[whole[0]]!, bytes, blocks, moment: 'over the whole run', shown };
	}
	const counts = name === 'blocks';
	return {
		name: counts ? 'blocks' : 'live',
		key: counts ? 'live_blocks' : 'live_bytes',
		raw: counts ? blocks : bytes,
		bytes,
		blocks,
		moment: known.momentOf(when === 'peak' ? 'peak' : 'leaked'),
		shown: (sum) => sum,
	};
}

/* ---- views ---- */

interface Work {
	data: SavedSites;
	params: URLSearchParams;
	cost: Cost;
	durationNs: number;
	/** The selected sites. */
	chosen: number[];
	limit: number;
}

/** Innermost first. */
function stackOf(data: SavedSites, site: number): number[] {
	const stack: number[] = [];
	for (let at = data.sites.node![site]!; at; at = data.before[at - 1]!) stack.push(data.frame[at - 1]!);
	return stack;
}

function rowOf({ data, cost, durationNs }: Work, site: number): Record<string, unknown> {
	const row: Record<string, number> = {};
	for (const [field, list] of Object.entries(data.sites)) row[field] = list[site]!;
	const process = data.processes[row.process!]!;
	const text = (field: string) => data.texts[row[field]!]!;
	return {
		...row,
		pid: process.pid,
		kind: data.kinds[row.kind!]!,
		state: !row.not_freed_blocks ? 'freed' : process.leaks ? 'not freed at exit' : 'live',
		live_bytes: cost.bytes[site],
		live_blocks: cost.blocks[site],
		calls_per_second: Math.floor((row.calls! * 1e9) / durationNs),
		operations: row.calls! + row.frees!,
		mean_bytes: row.calls ? Math.floor(row.total_bytes! / row.calls) : null,
		mean_not_freed_bytes: row.not_freed_blocks ? Math.floor(row.not_freed_bytes! / row.not_freed_blocks) : null,
		lifetime_ns: row.frees && !row.aged_frees ? null : row.lifetime_ms! * 1e6,
		allocator_ns: null,
		mean_lifetime_ns: row.aged_frees ? Math.floor((row.lifetime_ms! * 1e6) / row.aged_frees) : null,
		tag: text('tag') || null,
		pool: text('pool') || null,
		entry: text('entry') || null,
		labels: Object.fromEntries(
			text('labels')
				.split('\n')
				.filter(Boolean)
				.map((label) => [label.slice(0, label.indexOf('=')), label.slice(label.indexOf('=') + 1)]),
		),
		stack: stackOf(data, site),
	};
}

function sitesView(work: Work): Record<string, unknown> {
	const { data, cost, chosen } = work;
	const total = data.sites.total_bytes!;
	const order = [...chosen].sort(
		(a, b) => cost.raw[b]! - cost.raw[a]! || cost.bytes[b]! - cost.bytes[a]! || total[b]! - total[a]! || a - b,
	);
	return { site_count: chosen.length, sites: order.slice(0, work.limit).map((site) => rowOf(work, site)), frames: data.frames };
}

/** A row of an axis, being summed up. */
interface Group {
	names: Record<string, unknown>;
	self: number;
	total: number;
	blocks: number;
	calls: number;
	selfBlocks: number;
	selfCalls: number;
	line: number;
}

function newGroup(names: Record<string, unknown>, line = 0): Group {
	return { names, self: 0, total: 0, blocks: 0, calls: 0, selfBlocks: 0, selfCalls: 0, line };
}

/** Text that identifies a frame on an axis of frames, and its name there. */
function frameOn(axis: string, frame: SavedFrame): [key: string, name: string] {
	const { file, module } = frame;
	switch (axis) {
		case 'module':
			return [module, module || frame.function];
		case 'file':
			return [file ?? `\0${module}`, file ?? module];
		case 'line':
			return file === null ? [`${frame.function}\0${module}`, frame.function] : [`${file}:${frame.line}`, `${file}:${frame.line}`];
		default:
			return [`${frame.function}\0${file ?? ''}\0${module}`, frame.function];
	}
}

/** By frame: a number that is the same for frames with the same name on the axis. */
function numbersOn(axis: string, frames: readonly SavedFrame[]): { of: Int32Array; names: string[]; examples: SavedFrame[] } {
	const known = new Map<string, number>();
	const names: string[] = [];
	const examples: SavedFrame[] = [];
	const of = Int32Array.from(frames, (frame) => {
		const [key, name] = frameOn(axis, frame);
		let number = known.get(key);
		if (number === undefined) {
			known.set(key, (number = names.push(name) - 1));
			examples.push(frame);
		}
		return number;
	});
	return { of, names, examples };
}

/** Sums over functions, lines, files or modules: one that is on a stack twice counts once. */
function groupsOfFrames({ data, cost, chosen }: Work, axis: string): Group[] {
	const numbers = numbersOn(axis, data.frames);
	const groups = numbers.names.map((name, i) => {
		const example = numbers.examples[i]!;
		const names: Record<string, unknown> = { [axis]: name };
		if (axis === 'function' || axis === 'line') names.source_file = example.file;
		if (axis !== 'module') names.module = example.module;
		return newGroup(names, -1);
	});
	/* The site that last counted for a group. */
	const counted = new Int32Array(groups.length).fill(-1);
	const calls = data.sites.calls!;
	for (const site of chosen) {
		let innermost = true;
		for (let at = data.sites.node![site]!; at; at = data.before[at - 1]!) {
			const frame = data.frame[at - 1]!;
			const number = numbers.of[frame]!;
			const group = groups[number]!;
			const line = data.frames[frame]!.line;
			group.line = group.line < 0 || group.line === line ? line : 0;
			if (innermost) {
				group.self += cost.raw[site]!;
				group.selfBlocks += cost.blocks[site]!;
				group.selfCalls += calls[site]!;
				innermost = false;
			}
			if (counted[number] === site) continue;
			counted[number] = site;
			group.total += cost.raw[site]!;
			group.blocks += cost.blocks[site]!;
			group.calls += calls[site]!;
		}
	}
	return groups;
}

/** Axes that need more than the saved page has, and why. */
export const UNSAVED_AXES: Readonly<Record<string, string>> = {
	thread: 'A saved page has threads only for the peak and the end, without filters.',
	size: 'A saved page has sizes only for allocations, without filters.',
};

const NAMELESS: Readonly<Record<string, string>> = { pool: '(no pool)', label: '(no label)', language: '(not known)', entry: '(not known)', tag: '(no tag)', own: '(no tag)' };

function wordsOf(data: SavedSites, axis: string): (site: number) => string {
	const { sites, texts, frames } = data;
	const name = (text: string) => text || (NAMELESS[axis] ?? '');
	switch (axis) {
		case 'label':
			return (site) => name(texts[sites.labels![site]!]!.replaceAll('\n', ' '));
		case 'language':
			return (site) => name(frames[sites.caller![site]! - 1]?.language ?? '');
		case 'process':
			return (site) => String(sites.process![site]!);
		case 'own':
		case 'type':
		case 'tag':
		case 'pool':
		case 'entry':
			return (site) => name(texts[sites[axis]![site]!]!);
		default:
			throw new Unanswerable(UNSAVED_AXES[axis] ?? 'A saved page does not group by this.');
	}
}

function groupsOfSites({ data, cost, chosen }: Work, axis: string): Group[] {
	const groups = new Map<string, Group>();
	const words = wordsOf(data, axis);
	for (const site of chosen) {
		const word = words(site);
		let group = groups.get(word);
		if (!group) {
			const process = axis === 'process' ? data.processes[Number(word)]! : undefined;
			const rank = process?.rank ? ` rank ${process.rank - 1}:` : '';
			const names = process ? { process: `${process.pid}${rank} ${process.command}`, pid: process.pid } : { [axis]: word };
			groups.set(word, (group = newGroup(names)));
		}
		group.self += cost.raw[site]!;
		group.blocks += cost.blocks[site]!;
		group.calls += data.sites.calls![site]!;
	}
	for (const group of groups.values()) group.total = group.self;
	return [...groups.values()];
}

function groupsView(work: Work): Record<string, unknown> {
	const { cost, params } = work;
	const by = params.get('by') ?? (params.get('view') === 'types' ? 'type' : 'function');
	const axis = AXES.find((one) => one.name === by);
	if (!axis || by === 'site') throw new Unanswerable('A saved page does not group by this.');
	const groups = axis.ofFrames ? groupsOfFrames(work, by) : groupsOfSites(work, by);
	const rows = groups
		.filter((group) => cost.shown(group.total) || cost.shown(group.self))
		.sort((a, b) => b.self - a.self || b.total - a.total)
		.slice(0, work.limit)
		.map((group) => ({
			...(axis.ofFrames
				? { self: cost.shown(group.self), self_live_blocks: group.selfBlocks, self_calls: group.selfCalls, source_line: Math.max(0, group.line) }
				: {}),
			live_blocks: group.blocks,
			calls: group.calls,
			[cost.key]: cost.shown(group.total),
			...group.names,
		}));
	return { [axis.rows]: rows };
}

/** The tree of all stacks with one node for each path of functions, callers first. */
function mergedTree({ data, cost, chosen, params }: Work, nameOf: Int32Array) {
	const fold = params.get('fold-recursion') === '1';
	const count = data.before.length + 1;
	const own = new Float64Array(count);
	for (const site of chosen) own[data.sites.node![site]!]! += cost.raw[site]!;
	const through = own.slice();
	for (let i = count - 1; i > 0; i--) through[data.before[i - 1]!]! += through[i]!;
	const name = [-1];
	const parent = [-1];
	const value = [through[0]!];
	const self = [own[0]!];
	const merged = new Int32Array(count);
	const children = new Map<number, number>();
	for (let i = 1; i < count; i++) {
		if (!through[i]) continue;
		const above = merged[data.before[i - 1]!]!;
		const number = nameOf[data.frame[i - 1]!]!;
		const again = fold && above > 0 && name[above] === number;
		const key = above * (nameOf.length + 1) + number;
		let at = again ? above : children.get(key);
		if (at === undefined) {
			at = name.push(number) - 1;
			parent.push(above);
			value.push(0);
			self.push(0);
			children.set(key, at);
		}
		merged[i] = at;
		if (!again) value[at]! += through[i]!;
		self[at]! += own[i]!;
	}
	return { name, parent, value, self, merged };
}

function flameView(work: Work): Record<string, unknown> {
	const { data, cost, params } = work;
	if (params.get('fold-libraries') === '1') throw new Unanswerable('A saved page folds no libraries.');
	const numbers = numbersOn('function', data.frames);
	const tree = mergedTree(work, numbers.of);
	const below: number[][] = tree.name.map(() => []);
	for (let i = 1; i < tree.name.length; i++) below[tree.parent[i]!]!.push(i);
	for (const list of below) list.sort((a, b) => tree.value[b]! - tree.value[a]!);
	const nodes = { name: [] as number[], parent: [] as number[], value: [] as number[], self: [] as number[] };
	const todo = below[0]!.map((node): [number, number] => [node, -1]).reverse();
	while (todo.length) {
		const [node, parent] = todo.pop()!;
		const at = nodes.name.push(tree.name[node]!) - 1;
		nodes.parent.push(parent);
		nodes.value.push(cost.shown(tree.value[node]!));
		nodes.self.push(cost.shown(tree.self[node]!));
		for (const child of below[node]!.slice().reverse()) todo.push([child, at]);
	}
	const lines = new Map<number, number>();
	for (let i = 0; i < data.frame.length; i++) {
		if (!tree.merged[i + 1]) continue;
		const number = numbers.of[data.frame[i]!]!;
		const line = data.frames[data.frame[i]!]!.line;
		lines.set(number, (lines.get(number) ?? line) === line ? line : 0);
	}
	const names = numbers.examples.map(
		({ function: name, module, file, inlined, own, language }, i): FlameName => ({
			function: name,
			module,
			file,
			line: lines.get(i) ?? 0,
			inlined,
			own,
			language,
		}),
	);
	return { unit: '', names, nodes };
}

const VIEWS: Readonly<Record<string, (work: Work) => Record<string, unknown>>> = {
	sites: sitesView,
	functions: groupsView,
	types: groupsView,
	flame: flameView,
};

/** The result of the query `key`, as the server would send it. Throws Unanswerable. */
export function answerFrom(data: SavedSites, key: string, known: Known): Record<string, unknown> {
	const params = new URLSearchParams(key);
	const view = params.get('view') ?? '';
	const run = VIEWS[view];
	if (!run || params.has('compare')) throw new Unanswerable('A saved page has this only without filters.');
	const cost = costOf(data, params, known);
	const ofKind = kindsOf(data, params);
	const filters: Fits[] = [];
	for (const [name, value] of params) {
		const fits = filterOf(data, name, value);
		if (fits) filters.push(fits);
	}
	const chosen: number[] = [];
	let shown = 0;
	let total = 0;
	for (let site = 0; site < data.sites.node!.length; site++) {
		if (!ofKind(site)) continue;
		total += cost.raw[site]!;
		if (!filters.every((fits) => fits(site))) continue;
		shown += cost.raw[site]!;
		chosen.push(site);
	}
	const unmatched = filters.length > 0 && chosen.length === 0;
	const note = unmatched
		? 'Nothing matches the filters.'
		: cost.name === 'max'
			? 'each site had its maximum at its own time: sums of them are upper bounds'
			: undefined;
	const limit = Number(params.get('limit') ?? Infinity);
	return {
		...known.head,
		view,
		cost: cost.name,
		moment: cost.moment,
		shown: cost.shown(shown),
		total: cost.shown(total),
		suppressed: 0,
		suppressed_sites: 0,
		...(note ? { note } : {}),
		...(unmatched ? { unmatched } : {}),
		...run({ data, params, cost, durationNs: known.durationNs, chosen, limit }),
	};
}
