// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { bytes, change, count, countShort, duration, exact, percent, relative, share, spread } from '../src/model/units';

describe('quantities are written as the terminal writes them', () => {
	it.each([
		[0, '0 B'],
		[1023, '1023 B'],
		[1024, '1.0 KiB'],
		[1536, '1.5 KiB'],
		[1048524, '1023.9 KiB'],
		[1048575, '1.0 MiB'],
		[224395264, '214.0 MiB'],
		[2 ** 40, '1.0 TiB'],
		[-2048, '−2.0 KiB'],
	])('%d bytes are %s', (value, text) => expect(bytes(value)).toBe(text));
	it.each([
		[0, '0 ns'],
		[999, '999 ns'],
		[1000, '1.0 us'],
		[282900000, '282.9 ms'],
		[9100000000, '9.1 s'],
		[59.94e9, '59.9 s'],
		[59.96e9, '1 min 00 s'],
		[3661e9, '1 h 01 min'],
		[90061e9, '1 d 01 h'],
	])('%d ns are %s', (value, text) => expect(duration(value)).toBe(text));
	it('groups digits by thousands', () => {
		expect(count(1204118)).toBe('1,204,118');
		expect(count(-1000)).toBe('−1,000');
		expect(count(999)).toBe('999');
	});
	it('shortens counts', () => {
		expect(countShort(1900000)).toBe('1.9 M');
		expect(countShort(999)).toBe('999');
		expect(countShort(2000)).toBe('2 k');
	});
	it('rounds shares half up, and has none of nothing', () => {
		expect(percent(612, 1000)).toBe('61.2 %');
		expect(percent(5, 10000)).toBe('0.1 %');
		expect(percent(1, 0)).toBe('–');
		expect(share(4, 4)).toBe('100.0 %');
	});
	it('has no share of what is no part of the whole (P1, P5)', () => {
		expect(share(5, 4)).toBeUndefined();
		expect(share(-1, 4)).toBeUndefined();
		expect(share(1, -4)).toBeUndefined();
		expect(share(-1, -4)).toBeUndefined();
		expect(share(1, undefined)).toBeUndefined();
		expect(percent(5, 4)).toBe('–');
	});
	it('relates a change to what there was, which it may exceed', () => {
		expect(relative(6, 4)).toBe('+150.0 %');
		expect(relative(-1, 4)).toBe('−25.0 %');
		expect(relative(0, 4)).toBe('0.0 %');
		expect(relative(1, 0)).toBe('–');
	});
	it('puts a sign before what changed', () => {
		expect(change(1024, 'bytes')).toBe('+1.0 KiB');
		expect(change(-3, 'count')).toBe('−3');
		expect(change(0, 'bytes')).toBe('0 B');
	});
	it('says how far an estimate may be off, and nothing of what was counted', () => {
		expect(spread(113512, 10787488)).toBe('±1.1 %');
		expect(spread(2365, 16406)).toBe('±14 %');
		expect(spread(128, 0)).toBe('±128');
		expect(spread(128000, 2048, 'bytes')).toBe('±125.0 KiB');
		expect(spread(0, 5)).toBe('');
		expect(spread(undefined, 5)).toBe('');
	});
	it('has all digits on demand', () => expect(exact(13598029, 'bytes')).toBe('13,598,029 B'));
});
