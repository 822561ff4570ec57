// SPDX-License-Identifier: Apache-2.0
// From an address to a question, and back.
import { describe, expect, it } from 'vitest';
import { findMoment, momentsOf } from '../src/model/moments';
import { ask, canonical, command, costParams, ignoredFilters, peakQuestion, shellWord } from '../src/model/query';
import { parseFilter } from '../src/parts/filters';
import {
	address,
	changed,
	endForPeak,
	formatState,
	moved,
	parseState,
	peakUnknown,
	question,
	state as asked,
	withEnd,
} from '../src/model/state';
import type { TimelineResult } from '../src/model/types';

describe('the address holds the state', () => {
	it.each(['#/start', '#/sites?cost=leaked&focus=a%2Bb&focus=c&sort=-calls', '#/flame?cost=live&at=snap%3A3&minus=snap%3A1&zoom=0*12.3'])(
		'%s comes back as it went',
		(address) => expect(formatState(parseState(address))).toBe(address),
	);
	it('falls back to the start for what it does not know', () => {
		expect(parseState('#/nonsense').view).toBe('start');
		expect(parseState('').view).toBe('start');
	});
	it('keeps what all views share and drops the rest on the way to another view', () => {
		const from = parseState('#/sites?cost=calls&focus=x&sort=-calls&site=1.2');
		expect(formatState(moved(from, 'flame'))).toBe('#/flame?cost=calls&focus=x');
		expect(formatState(moved(from, 'sites', { sort: null }))).toBe('#/sites?cost=calls&focus=x&site=1.2');
	});
	it('takes a key away with null or with nothing in it', () => {
		const from = parseState('#/sites?focus=x&cost=calls');
		expect(changed(from, { focus: [], cost: null }).values).toEqual({});
	});
});

describe('the question of a view', () => {
	const state = parseState('#/sites?cost=grown&at=end&minus=snap%3A2&unit=blocks&thread=7&focus=f');
	it('becomes the options of the report', () => {
		expect(costParams(state, 'tree')).toEqual([
			['cost', 'blocks'],
			['at', 'end'],
			['minus', 'snap:2'],
		]);
		expect(costParams(parseState('#/flame'), 'flame')).toEqual([['cost', 'peak']]);
		expect(costParams(parseState('#/flame?unit=blocks'), 'flame')).toEqual([
			['cost', 'blocks'],
			['at', 'peak'],
		]);
		expect(costParams(parseState('#/flame?cost=calls&at=end'), 'flame')).toEqual([['cost', 'calls']]);
	});
	it('counts in a range of time what is counted, where the view can', () => {
		const range = '?cost=calls&at=snap%3A9&minus=snap%3A2';
		expect(costParams(parseState(`#/flame${range}`), 'flame')).toEqual([
			['cost', 'calls'],
			['at', 'snap:9'],
			['minus', 'snap:2'],
		]);
		expect(costParams(parseState('#/tree?cost=rate&minus=snap%3A2'), 'tree')).toEqual([
			['cost', 'rate'],
			['at', 'end'],
			['minus', 'snap:2'],
		]);
		expect(costParams(parseState(`#/sizes${range}`), 'sizes')).toEqual([['cost', 'calls']]);
		expect(costParams(parseState('#/tree?cost=max&at=end&minus=snap%3A2'), 'tree')).toEqual([['cost', 'max']]);
	});
	it('is left out where the view takes none', () => {
		expect(costParams(state, 'timeline')).toEqual([]);
		expect(costParams(parseState('#/sizes?cost=leaked'), 'sizes')).toEqual([]);
		expect(costParams(parseState('#/sizes?cost=waste'), 'sizes')).toEqual([['cost', 'waste']]);
	});
	it('has only the filters that the view takes, and says which it does not', () => {
		expect(ask(state, 'memory')).toEqual([]);
		expect(ignoredFilters(state, 'growth')).toEqual(['thread']);
		expect(ask(state, 'threads')).toEqual([['thread', '7']]);
	});
	it('asks sites about the heap alone unless told otherwise', () => {
		expect(ask(parseState('#/sites'), 'sites')).toEqual([
			['cost', 'peak'],
			['kind', 'heap'],
		]);
		expect(ask(parseState('#/sites?kind=all'), 'sites')).toEqual([
			['cost', 'peak'],
			['kind', 'all'],
		]);
	});
	it('is the same text however it was put together', () => {
		expect(
			canonical('sites', [
				['limit', '3'],
				['cost', 'peak'],
				['focus', 'a b'],
			]),
		).toBe('view=sites&cost=peak&focus=a+b&limit=3');
	});
});

describe('the peak of threads', () => {
	it.each([
		['#/flame?thread=7&cost=calls&focus=f', 'view=sites&focus=f&kind=heap&limit=1&thread=7'],
		['#/sites?by=thread', 'view=functions&by=thread&limit=1'],
		['#/sites?by=thread&thread=7&file=1', 'view=functions&by=thread&file=1&limit=1&thread=7'],
		['#/compare?thread=7', 'view=sites&compare=1&kind=heap&limit=1&thread=7'],
	])('is asked about without a moment, so that the answer has what is known: %s', (from, question) =>
		expect(peakQuestion(parseState(from))).toBe(question),
	);
	it('is asked about only where threads are', () => {
		expect(peakQuestion(parseState('#/sites?by=function&focus=f'))).toBeNull();
		expect(peakQuestion(parseState('#/flame?by=thread'))).toBeNull();
	});
	it('is the end where it is not known, in the same unit, and the address stays', () => {
		const of = (hash: string) => costParams(withEnd(parseState(hash), true), 'sites');
		expect(of('#/sites?thread=7')).toEqual([['cost', 'leaked']]);
		expect(of('#/sites?thread=7&unit=blocks')).toEqual([
			['cost', 'blocks'],
			['at', 'end'],
		]);
		expect(of('#/sites?thread=7&cost=calls')).toEqual([['cost', 'calls']]);
		expect(of('#/sites')).toEqual([['cost', 'peak']]);
		address.value = parseState('#/sites?thread=7');
		expect([question.value.name, endForPeak.value]).toEqual(['peak', false]);
		peakUnknown.value = 'why';
		expect([question.value.name, endForPeak.value]).toEqual(['leaked', true]);
		expect(formatState(moved(address.value, 'flame'))).toBe('#/flame?thread=7');
		address.value = parseState('#/sites?cost=leaked&thread=7');
		expect([asked.value, endForPeak.value]).toEqual([address.value, false]);
		peakUnknown.value = undefined;
	});
});

describe('copy as command', () => {
	it('prints what is on screen', () => {
		expect(
			command(['/tmp/run 1.hg'], undefined, 'tree', [
				['cost', 'peak'],
				['callees', '1'],
				['focus', "it's"],
			]),
		).toBe(`heapgauge report '/tmp/run 1.hg' --view tree --cost peak --callees --focus 'it'\\''s'`);
	});
	it('names the older recording first', () => {
		expect(
			command(['new.hg'], 'old.hg', 'sites', [
				['compare', '1'],
				['cost', 'peak'],
			]),
		).toBe('heapgauge diff old.hg new.hg --view sites --cost peak');
	});
	it('names the chosen one of several', () =>
		expect(command(['a.hg', 'b.hg'], undefined, 'sites', [['file', '1']])).toBe('heapgauge report b.hg --view sites'));
	it('quotes what a shell would take apart', () => {
		expect(shellWord('a.hg')).toBe('a.hg');
		expect(shellWord('$(x)')).toBe("'$(x)'");
		expect(shellWord('')).toBe("''");
	});
});

describe('the filter box', () => {
	it.each([
		['Cache', 'focus', 'Cache'],
		['-Cache', 'ignore', 'Cache'],
		['module:libc', 'module', 'libc'],
		['-module: libc', 'not-module', 'libc'],
		['thread:w1', 'thread', 'w1'],
		['size>1k', 'min-size', '1k'],
		['size<64', 'max-size', '64'],
		['tag:a/b', 'tag', 'a/b'],
		['kind:all', 'kind', 'all'],
		['frames:python', 'frames', 'python'],
		['fold-imports:yes', 'fold-imports', 'yes'],
		[' a b ', 'focus', 'a b'],
	])('%s', (text, name, value) => expect(parseFilter(text)).toEqual({ name, value }));
	it('does nothing with nothing', () => {
		expect(parseFilter('  ')).toBeUndefined();
		expect(parseFilter('module:')).toBeUndefined();
	});
});

describe('a running process', () => {
	it('is named by its number in a command, and a comparison by the page alone', () => {
		expect(command(['process 47'], undefined, 'sites', [['cost', 'live']], 47)).toBe('heapgauge report --pid 47 --view sites --cost live');
		expect(command(['process 47'], 'old.hg', 'sites', [['compare', '1']], 47)).toBe('heapgauge view --pid 47 --against old.hg');
	});
	it('has moments by their time, since their numbers change when some are thinned out', () => {
		const timeline = {
			run: { duration_ns: 3e9 },
			timeline: [
				{ at_ns: 1.5e9, snapshot: 1, peak: false },
				{ at_ns: 2.5e9, snapshot: 2, peak: false },
			],
		} as unknown as TimelineResult;
		const words = (live: boolean) => momentsOf(timeline, live).map((moment) => moment.word);
		expect(words(true)).toEqual(['time:1.5s', 'time:2.5s', 'end']);
		expect(words(false)).toEqual(['snap:1', 'snap:2', 'end']);
		expect(findMoment(momentsOf(timeline, true), 'time:1.4s')?.at).toBe(1.5e9);
	});
});
