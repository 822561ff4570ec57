// SPDX-License-Identifier: Apache-2.0
// The terms of a query, and what each view accepts. They are those of the command line, so that every query of the page can be typed.
import type { Unit } from './units';

export type QuestionName =
	'peak' | 'leaked' | 'live' | 'grown' | 'total' | 'calls' | 'temporary' | 'max' | 'waste' | 'lifetime' | 'realloc' | 'rate' | 'time';

export interface Question {
	name: QuestionName;
	label: string;
	/** One sentence that defines the number. */
	help: string;
	/** Refers to one moment, so that --at applies; else to the whole run, ... */
	ofMoment: boolean;
	/** ... or to what was counted between --minus and --at, if they are given. */
	ofWindow?: true;
	unit: Unit;
	/** The key of the number in rows of sites and in trees. */
	key: string;
	/** Short heading for a column. */
	title: string;
}

export const QUESTIONS: readonly Question[] = [
	{
		name: 'peak',
		label: 'At the peak',
		help: 'Bytes that were live when the heap was largest.',
		ofMoment: true,
		unit: 'bytes',
		key: 'peak_bytes',
		title: 'At peak',
	},
	{
		name: 'leaked',
		label: 'Not freed at exit',
		help: 'Bytes not freed at exit; of a program that runs, live at the end of the recording.',
		ofMoment: true,
		unit: 'bytes',
		key: 'not_freed_bytes',
		title: 'At end',
	},
	{
		name: 'live',
		label: 'Live at a moment',
		help: 'Bytes allocated and not freed at the chosen moment.',
		ofMoment: true,
		unit: 'bytes',
		key: 'live_bytes',
		title: 'Live',
	},
	{
		name: 'grown',
		label: 'Grown between two moments',
		help: 'What is live at the second moment less what was at the first.',
		ofMoment: true,
		unit: 'bytes',
		key: 'live_bytes',
		title: 'Grown',
	},
	{
		name: 'total',
		label: 'Total requested',
		help: 'Bytes requested, freed or not, over the whole run or in the selected range of time.',
		ofMoment: false,
		ofWindow: true,
		unit: 'bytes',
		key: 'total_bytes',
		title: 'Total',
	},
	{
		name: 'calls',
		label: 'Allocations',
		help: 'Calls that allocated, over the whole run or in the selected range of time.',
		ofMoment: false,
		ofWindow: true,
		unit: 'count',
		key: 'calls',
		title: 'Calls',
	},
	{
		name: 'temporary',
		label: 'Temporary allocations',
		help: 'Allocations freed before the same thread made its next one.',
		ofMoment: false,
		ofWindow: true,
		unit: 'count',
		key: 'temporary_calls',
		title: 'Temporary',
	},
	{
		name: 'max',
		label: 'Own maximum',
		help: 'Largest live size that a site ever had; an upper bound for groups.',
		ofMoment: false,
		unit: 'bytes',
		key: 'max_bytes',
		title: 'Own max',
	},
	{
		name: 'waste',
		label: 'Rounding waste',
		help: 'Internal fragmentation: bytes that the allocator added by rounding up.',
		ofMoment: false,
		ofWindow: true,
		unit: 'bytes',
		key: 'internal_fragmentation_bytes',
		title: 'Waste',
	},
	{
		name: 'lifetime',
		label: 'Total lifetime',
		help: 'Total lifetime of freed blocks.',
		ofMoment: false,
		unit: 'ns',
		key: 'lifetime_ns',
		title: 'Lifetime',
	},
	{
		name: 'realloc',
		label: 'Copied by realloc',
		help: 'Bytes copied because realloc had to move the block.',
		ofMoment: false,
		unit: 'bytes',
		key: 'copied_bytes',
		title: 'Copied',
	},
	{
		name: 'rate',
		label: 'Allocations per second',
		help: 'Calls that allocated, per second of the run or of the selected range of time.',
		ofMoment: false,
		ofWindow: true,
		unit: 'rate',
		key: 'calls_per_second',
		title: 'Rate',
	},
	{
		name: 'time',
		label: 'Time in the allocator',
		help: 'Time in the allocator, for allocating and freeing: an estimate from timed calls.',
		ofMoment: false,
		unit: 'ns',
		key: 'allocator_ns',
		title: 'Time',
	},
];

export function questionOf(name: string): Question {
	return QUESTIONS.find((q) => q.name === name) ?? QUESTIONS[0]!;
}

export interface FilterWord {
	name: string;
	label: string;
	help: string;
	/** May be given more than once. */
	many: boolean;
	/** The prefix that selects this filter in the filter box. */
	typed: string;
}

export const FILTERS: readonly FilterWord[] = [
	{ name: 'focus', label: 'function or file', help: 'only stacks with a function or file that matches', many: true, typed: '' },
	{ name: 'ignore', label: 'not function or file', help: 'no stacks with a function or file that matches', many: true, typed: '-' },
	{ name: 'module', label: 'module', help: 'only allocations by a matching module', many: true, typed: 'module:' },
	{ name: 'not-module', label: 'not module', help: 'no allocations by a matching module', many: true, typed: '-module:' },
	{ name: 'pool', label: 'pool', help: 'only blocks from a matching pool', many: true, typed: 'pool:' },
	{ name: 'tag', label: 'tag', help: 'only allocations under a matching tag', many: true, typed: 'tag:' },
	{ name: 'label', label: 'label', help: 'only allocations under a matching label: tenant=acme', many: true, typed: 'label:' },
	{ name: 'language', label: 'language', help: 'c, c++, fortran, python, rust or unknown', many: false, typed: 'language:' },
	{ name: 'entry', label: 'called', help: 'malloc, calloc, realloc, memalign, new, new\\[] or mmap', many: true, typed: 'entry:' },
	{ name: 'thread', label: 'thread', help: 'only threads with this number or a matching name', many: false, typed: 'thread:' },
	{ name: 'process', label: 'process', help: 'only processes with this number or a matching command', many: false, typed: 'process:' },
	{ name: 'min-size', label: 'at least', help: 'only sites whose mean allocation is at least this large', many: false, typed: 'size>' },
	{ name: 'max-size', label: 'at most', help: 'only sites whose mean allocation is at most this large', many: false, typed: 'size<' },
	{ name: 'kind', label: 'kind', help: 'heap, mmap, pool or all', many: false, typed: 'kind:' },
	{ name: 'frames', label: 'frames', help: 'of Python programs: program, all or python', many: false, typed: 'frames:' },
	{
		name: 'fold-imports',
		label: 'fold imports',
		help: 'yes: without the Python functions that import modules',
		many: false,
		typed: 'fold-imports:',
	},
];

export interface Axis {
	name: string;
	label: string;
	/** The key of the rows in --view functions. */
	rows: string;
	/** Has self and total. */
	ofFrames: boolean;
}

export const AXES: readonly Axis[] = [
	{ name: 'site', label: 'Call stack', rows: 'sites', ofFrames: false },
	{ name: 'own', label: 'Own code', rows: 'owners', ofFrames: false },
	{ name: 'function', label: 'Function', rows: 'functions', ofFrames: true },
	{ name: 'line', label: 'Source line', rows: 'lines', ofFrames: true },
	{ name: 'file', label: 'Source file', rows: 'files', ofFrames: true },
	{ name: 'module', label: 'Module', rows: 'modules', ofFrames: true },
	{ name: 'type', label: 'Type', rows: 'types', ofFrames: false },
	{ name: 'language', label: 'Language', rows: 'languages', ofFrames: false },
	{ name: 'entry', label: 'Called function', rows: 'entries', ofFrames: false },
	{ name: 'tag', label: 'Tag', rows: 'tags', ofFrames: false },
	{ name: 'label', label: 'Label', rows: 'labels', ofFrames: false },
	{ name: 'pool', label: 'Pool', rows: 'pools', ofFrames: false },
	{ name: 'thread', label: 'Thread', rows: 'threads', ofFrames: false },
	{ name: 'size', label: 'Requested size', rows: 'sizes', ofFrames: false },
	{ name: 'process', label: 'Process', rows: 'processes', ofFrames: false },
];

export function axisOf(name: string): Axis {
	return AXES.find((axis) => axis.name === name) ?? AXES[0]!;
}

/** Which parts of the query and which filters a view of the report accepts. */
interface Takes {
	costs: 'all' | 'none' | readonly string[];
	filters: 'all' | readonly string[];
	/** Also accepts two recordings. */
	compares: boolean;
	/** Its numbers are of the whole run, whatever range of time is selected. */
	wholeRun?: true;
}

const ALL: Takes = { costs: 'all', filters: 'all', compares: true };
const NO_THREADS = FILTERS.map((f) => f.name).filter((name) => name !== 'thread');

export const REPORT_VIEWS: Readonly<Record<string, Takes>> = {
	summary: { costs: 'none', filters: ['process'], compares: true },
	sites: ALL,
	functions: ALL,
	types: ALL,
	tree: ALL,
	flame: ALL,
	tags: { ...ALL, compares: false },
	pools: { costs: 'none', filters: 'all', compares: false },
	history: { costs: 'all', filters: NO_THREADS, compares: false, wholeRun: true },
	sizes: { costs: ['calls', 'total', 'waste'], filters: 'all', compares: false, wholeRun: true },
	lifetimes: { costs: 'none', filters: 'all', compares: false },
	reallocs: { costs: 'none', filters: 'all', compares: false },
	pages: { costs: 'none', filters: NO_THREADS, compares: false },
	map: { costs: 'none', filters: ['process'], compares: false },
	leaks: { costs: 'none', filters: NO_THREADS, compares: false },
	threads: { costs: ['calls', 'total', 'time'], filters: ['thread', 'process'], compares: false, wholeRun: true },
	advice: { costs: 'none', filters: NO_THREADS, compares: false },
	growth: { costs: 'none', filters: NO_THREADS, compares: false },
	memory: { costs: 'none', filters: ['process'], compares: false },
	processes: { costs: 'none', filters: ['process'], compares: false },
	globals: { costs: 'none', filters: ['process'], compares: false },
	modules: { costs: 'none', filters: ['process'], compares: false },
	health: { costs: 'none', filters: ['process'], compares: false },
	timeline: { costs: 'none', filters: ['process'], compares: false },
	snapshots: { costs: 'none', filters: ['process'], compares: false },
};
