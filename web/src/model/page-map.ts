// SPDX-License-Identifier: Apache-2.0
// The map of resident memory: which bytes a square of the drawing covers, and what is in them.
//
// Positions count the bytes of tiles only, one after the other by address, so that the gaps of the address space take no room. A tile
// that is larger than a square is divided by its blocks, if these are known.
import type { MapRegion, MapResult } from './types';

export interface Square {
	region: number;
	/** Of its first byte. */
	address: number;
	resident: number;
	swapped: number;
	used: number;
	/** With the most bytes; 0: none. */
	site: number;
	/** Mean, in milliseconds; -1: unknown. */
	age: number;
	/** The only block in it: its index in the region; -1: none, or several. */
	block: number;
	/** A region begins in it. */
	first: boolean;
}

export interface PageMap {
	pid: number;
	/** By address, those with tiles. */
	regions: readonly MapRegion[];
	total: number;
	tileBytes: number;
	knowsBlocks: boolean;
	/** By tile: its region, its number there, and its position; one more position at the end. */
	region: Int32Array;
	inRegion: Int32Array;
	position: Float64Array;
}

/** The least bytes of a square: the alignment of blocks. */
export const LEAST_UNIT = 16;

/** Of the process with the most resident memory. */
export function pageMapOf(data: MapResult): PageMap | undefined {
	const sums = new Map<number, number>();
	for (const region of data.regions) sums.set(region.pid, (sums.get(region.pid) ?? 0) + region.resident_bytes);
	const pid = [...sums].sort((a, b) => b[1] - a[1])[0]?.[0];
	const regions = data.regions.filter((one) => one.pid === pid && one.tiles.offset.length > 0).sort((a, b) => a.start - b.start);
	const first = regions[0];
	if (pid === undefined || !first) return undefined;
	const count = regions.reduce((sum, one) => sum + one.tiles.offset.length, 0);
	const map = {
		pid,
		regions,
		total: 0,
		tileBytes: first.tile_bytes,
		knowsBlocks: first.block_list !== null,
		region: new Int32Array(count),
		inRegion: new Int32Array(count),
		position: new Float64Array(count + 1),
	};
	let tile = 0;
	regions.forEach((one, number) => {
		one.tiles.offset.forEach((offset, i) => {
			map.region[tile] = number;
			map.inRegion[tile] = i;
			map.position[tile++] = map.total;
			map.total += spanOf(one, offset);
		});
	});
	map.position[count] = map.total;
	return map;
}

/** The bytes of a tile, which ends at a multiple of its size or with its region. */
function spanOf(region: MapRegion, offset: number): number {
	const into = (region.start + offset) % region.tile_bytes;
	return Math.min(region.tile_bytes - into, region.size_bytes - offset);
}

/** The last index whose value is not above. */
function lastAtMost(values: ArrayLike<number>, value: number, count: number): number {
	let low = 0;
	let high = count;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (values[middle]! <= value) low = middle + 1;
		else high = middle;
	}
	return low - 1;
}

export function tileAt(map: PageMap, position: number): number {
	return Math.max(0, lastAtMost(map.position, position, map.region.length));
}

/** The positions of a region. */
export function rangeOf(map: PageMap, region: number): [number, number] {
	const first = map.region.indexOf(region);
	return [map.position[first]!, map.position[map.region.lastIndexOf(region) + 1]!];
}

/** Bytes of a square: a power of two with which the range needs at most so many squares. */
export function unitOf(map: PageMap, from: number, to: number, squares: number): number {
	let unit = map.knowsBlocks ? LEAST_UNIT : map.tileBytes;
	while ((to - from) / unit > squares) unit *= 2;
	return unit;
}

class Filling {
	private readonly sites = new Map<number, number>();
	private aged = 0;
	private ages = 0;
	private blocks = 0;
	readonly square: Square;

	constructor(region: number, address: number) {
		this.square = { region, address, resident: 0, swapped: 0, used: 0, site: 0, age: -1, block: -1, first: false };
	}

	add(site: number, used: number, age: number): void {
		if (used <= 0) return;
		this.square.used += used;
		this.sites.set(site, (this.sites.get(site) ?? 0) + used);
		if (age < 0) return;
		this.aged += used;
		this.ages += used * age;
	}

	block(index: number): void {
		this.square.block = this.blocks++ === 0 ? index : -1;
	}

	end(): Square {
		let most = 0;
		for (const [site, used] of this.sites)
			if (used > most) {
				most = used;
				this.square.site = site;
			}
		if (this.aged > 0) this.square.age = this.ages / this.aged;
		return this.square;
	}
}

/** Adds the blocks of a resident part of a region, from and to being offsets in it. */
function addBlocks(filling: Filling, region: MapRegion, from: number, to: number): boolean {
	const list = region.block_list;
	if (!list || region.blocks === 0) return false;
	for (let i = Math.max(0, lastAtMost(list.offset, from, list.offset.length)); i < list.offset.length && list.offset[i]! < to; i++) {
		const used = Math.min(to, list.offset[i]! + list.bytes[i]!) - Math.max(from, list.offset[i]!);
		if (used <= 0) continue;
		filling.add(list.site[i]!, used, list.age_ms[i]!);
		filling.block(i);
	}
	return true;
}

/** What the square from this position on covers. */
export function squareAt(map: PageMap, position: number, unit: number): Square {
	const end = Math.min(map.total, position + unit);
	let tile = tileAt(map, position);
	const start = map.regions[map.region[tile]!]!;
	const filling = new Filling(map.region[tile]!, start.start + start.tiles.offset[map.inRegion[tile]!]! + position - map.position[tile]!);
	for (; tile < map.region.length && map.position[tile]! < end; tile++) {
		const region = map.regions[map.region[tile]!]!;
		const i = map.inRegion[tile]!;
		const begin = Math.max(position, map.position[tile]!);
		const span = map.position[tile + 1]! - map.position[tile]!;
		const part = (Math.min(end, map.position[tile + 1]!) - begin) / span;
		const { square } = filling;
		square.first ||= i === 0 && begin === map.position[tile];
		square.resident += part * region.tiles.resident_bytes[i]!;
		square.swapped += part * region.tiles.swapped_bytes[i]!;
		const from = region.tiles.offset[i]! + begin - map.position[tile]!;
		if (part < 1 && region.tiles.resident_bytes[i]! > 0 && addBlocks(filling, region, from, from + part * span)) continue;
		filling.add(region.tiles.site[i]!, part * region.tiles.used_bytes[i]!, region.tiles.age_ms[i]!);
	}
	return filling.end();
}

/** All squares of a range. */
export function squaresOf(map: PageMap, from: number, to: number, unit: number): Square[] {
	const squares: Square[] = [];
	for (let at = from; at < to; at += unit) squares.push(squareAt(map, at, unit));
	return squares;
}

/** A part of the range around a position, `factor` times as large; never beyond the whole nor smaller than `least`. */
export function zoomed(map: PageMap, from: number, to: number, at: number, factor: number, least: number): [number, number] {
	const span = Math.min(map.total, Math.max(least, (to - from) * factor));
	const begin = Math.max(0, Math.min(map.total - span, at - ((at - from) / (to - from)) * span));
	const aligned = Math.floor(begin / LEAST_UNIT) * LEAST_UNIT;
	return [aligned, Math.min(map.total, aligned + Math.ceil(span))];
}
