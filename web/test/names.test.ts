// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { base, ownerOf, placeOf, shortName } from '../src/model/frames';
import { highlightLines, languageOf, splitLines } from '../src/model/highlight';
import { packageOf } from '../src/flame/colours';
import type { Frame } from '../src/model/types';

function frame(name: string, runtime_frame = false): Frame {
	return { function: name, file: null, line: 0, module: '/bin/x', offset: 0, inlined: false, address_exact: false, runtime_frame };
}

describe('short names', () => {
	it.each([
		['main', 'main'],
		['Cache::insert(Key const&, unsigned long)', 'Cache::insert'],
		['void Box<int>::each<int>(int&&)', 'Box<…>::each<…>'],
		['std::vector<int, std::allocator<int> >::push_back(int const&)', 'std::vector<…>::push_back'],
		['operator new(unsigned long)', 'operator new'],
		['Foo::operator<<(int)', 'Foo::operator<<'],
		['Foo::operator()(int) const', 'Foo::operator()'],
		['(anonymous namespace)::run(int)', '(anonymous namespace)::run'],
		['libfoo.so+0x1c30', 'libfoo.so+0x1c30'],
		['[cut]', '[cut]'],
	])('%s', (full, short) => expect(shortName(full)).toBe(short));
});

describe('the frame that a stack is called after', () => {
	const frames = [frame('malloc', true), frame('libx.so+0x12'), frame('[cut]'), frame('parse'), frame('main')];
	it('is the innermost one that says something', () => expect(ownerOf([0, 1, 2, 3, 4], frames)?.function).toBe('parse'));
	it('has no name if none has', () => expect(ownerOf([0, 1, 2], frames)?.function).toBe('libx.so+0x12'));
	it('is the innermost of all if all are runtime_frame', () => expect(ownerOf([0], frames)?.function).toBe('malloc'));
	it('is own code, if there is some', () => {
		const own = [...frames, { ...frame('mine'), own: true }, { ...frame('caller'), own: true }];
		expect(ownerOf([0, 3, 5, 6], own)?.function).toBe('mine');
	});
	it('is not skipped into another module', () =>
		expect(ownerOf([1, 5], [...frames, { ...frame('python'), module: '/bin/python' }])?.function).toBe('libx.so+0x12'));
	it('is nothing of an empty stack', () => expect(ownerOf([], frames)).toBeUndefined());
});

it('places are short', () => {
	expect(base('/usr/lib/libc.so.6')).toBe('libc.so.6');
	expect(placeOf({ file: '/src/a.c', line: 3, module: '/bin/x' })).toBe('a.c:3');
	expect(placeOf({ file: null, line: 0, module: '/bin/x' })).toBe('x');
});

it('what belongs together has one colour', () => {
	expect(packageOf({ ...frame('std::vector<int>::resize(unsigned long)') })).toBe('std');
	expect(packageOf({ ...frame('sqlite3_step') })).toBe('sqlite3');
	expect(packageOf({ ...frame('Cache::insert(int)') })).toBe('Cache');
});

describe('coloured source', () => {
	it('closes marks at the end of each line', () => {
		expect(splitLines('<span class="a">x\ny</span>z')).toEqual(['<span class="a">x</span>', '<span class="a">y</span>z']);
	});
	it('keeps every line, and every sign that looks like a mark', () => {
		const lines = ['/* a', 'b */', 'if (a < b && c > d) "<script>";', ''];
		const html = highlightLines('x.c', lines);
		expect(html).toHaveLength(4);
		expect(html.join('')).not.toContain('<script>');
		expect(html[0]).toContain('hljs-comment');
		expect(highlightLines('x.unknown', ['<b>', null])).toEqual(['&lt;b&gt;', '']);
	});
	it('knows languages by their endings', () => {
		expect(languageOf('/usr/include/c++/12/vector')).toBe('cpp');
		expect(languageOf('a.rs')).toBe('rust');
		expect(languageOf('a.txt')).toBeUndefined();
	});
});
