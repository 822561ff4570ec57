// SPDX-License-Identifier: Apache-2.0
// Formats quantities as the terminal does (src/util/text/units.c): one decimal in the largest unit that gives at least 1.0, rounded half up
// before the unit is chosen, so that page and terminal show the same text for the same number.

const BYTES = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const COUNTS = ['k', 'M', 'G', 'T', 'P', 'E'];
const TIMES = ['us', 'ms', 's'];
const SECOND = 1e9;

export type Unit = 'bytes' | 'count' | 'ns' | 'rate' | 'bytes-rate' | 'text' | 'id' | 'percent';

function tenthsOf(value: number, unit: number): number {
	const whole = Math.floor(value / unit);
	return whole * 10 + Math.floor(((value - whole * unit) * 10 + unit / 2) / unit);
}

function scaled(value: number, step: number, plain: string, names: string[]): string {
	if (value < step) return `${value}${plain}`;
	let unit = step;
	let i = 0;
	while (i + 1 < names.length && tenthsOf(value, unit) >= step * 10) {
		unit *= step;
		i++;
	}
	const tenths = tenthsOf(value, unit);
	return `${Math.floor(tenths / 10)}.${tenths % 10} ${names[i]}`;
}

function signed(value: number, text: (size: number) => string): string {
	return value < 0 ? `\u2212${text(-value)}` : text(value);
}

export function bytes(value: number): string {
	return signed(value, (size) => scaled(Math.round(size), 1024, ' B', BYTES));
}

export function count(value: number): string {
	return signed(value, (size) => String(Math.round(size)).replace(/\B(?=(\d{3})+$)/g, ','));
}

/** For axes and other narrow places. */
export function countShort(value: number): string {
	return signed(value, (size) => scaled(Math.round(size), 1000, '', COUNTS).replace('.0 ', ' '));
}

function two(value: number): string {
	return String(value).padStart(2, '0');
}

function longTime(ns: number): string {
	const seconds = Math.floor(ns / SECOND + 0.5);
	if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
	if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
	return `${Math.floor(seconds / 86400)} d ${two(Math.floor(seconds / 3600) % 24)} h`;
}

export function duration(ns: number): string {
	return signed(ns, (size) => (tenthsOf(size, SECOND) < 600 ? scaled(Math.round(size), 1000, ' ns', TIMES) : longTime(size)));
}

function tenthsOfPercent(part: number, whole: number): string {
	const tenths = Math.floor((part * 1000 + whole / 2) / whole);
	return `${Math.floor(tenths / 10)}.${tenths % 10} %`;
}

/** "12.5 %". A negative part, or one larger than the whole, gets no percentage. */
export function share(part: number, whole: number | undefined): string | undefined {
	return whole === undefined || whole <= 0 || part < 0 || part > whole ? undefined : tenthsOfPercent(part, whole);
}

/** Like share, but never empty, for a table cell. */
export function percent(part: number, whole: number | undefined): string {
	return share(part, whole) ?? '\u2013';
}

/** "+150.0 %": a change relative to the old value; it may exceed 100 %. */
export function relative(difference: number, before: number): string {
	const sign = difference > 0 ? '+' : difference < 0 ? '\u2212' : '';
	return before > 0 ? sign + tenthsOfPercent(Math.abs(difference), before) : '\u2013';
}

/** "±3.1 %" for an estimate; for a difference, the absolute error; empty for an exact number. Same format as the terminal. */
export function spread(error: number | undefined, value: number, unit?: Unit): string {
	if (!error) return '';
	if (unit || !value) return `±${quantity(Math.round(error), unit ?? 'count')}`;
	const part = (100 * error) / Math.abs(value);
	return `±${part.toFixed(part < 10 ? 1 : 0)} %`;
}

export function quantity(value: number, unit: Unit): string {
	switch (unit) {
		case 'bytes':
			return bytes(value);
		case 'ns':
			return duration(value);
		case 'rate':
			return `${countShort(value)}/s`;
		case 'bytes-rate':
			return `${bytes(value)}/s`;
		case 'percent':
			return percent(value, 1);
		case 'id':
		case 'text':
			return String(value);
		default:
			return count(value);
	}
}

/** With a plus sign if it grew. */
export function change(value: number, unit: Unit): string {
	return value > 0 ? `+${quantity(value, unit)}` : quantity(value, unit);
}

/** The exact number, for tooltips and for copying. */
export function exact(value: number, unit: Unit): string {
	const digits = count(value);
	switch (unit) {
		case 'bytes':
			return `${digits} B`;
		case 'ns':
			return `${digits} ns`;
		case 'rate':
			return `${digits} per second`;
		case 'bytes-rate':
			return `${digits} B per second`;
		default:
			return digits;
	}
}

export function plural(value: number, one: string, many = `${one}s`): string {
	return `${count(value)} ${value === 1 ? one : many}`;
}
