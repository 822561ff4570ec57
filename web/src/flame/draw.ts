// SPDX-License-Identifier: Apache-2.0
// Draws a tree into pixels. Each row is drawn as one line of pixels that is then repeated, so the cost depends on the pixels and not on the
// number of nodes: nodes narrower than half a pixel are never visited.
import { firstChildAfter, type FlameTree } from './tree';

export interface Frame {
	/** The visible part of the root's weight. */
	from: number;
	to: number;
	/** Pixels. */
	width: number;
	rowHeight: number;
	/** Visible depths. */
	firstRow: number;
	rows: number;
}

/** A node that is wide enough for a label. */
export interface Label {
	node: number;
	x: number;
	width: number;
	row: number;
}

export interface Scanlines {
	/** rows x width colours, little endian RGBA. */
	pixels: Uint32Array;
	labels: Label[];
	/** Number of nodes visited, for benchmarks. */
	visited: number;
}

const LABEL_PIXELS = 28;

/** Colours by node as 0xAABBGGRR. */
export type Painter = (node: number) => number;

interface Work {
	tree: FlameTree;
	frame: Frame;
	scale: number;
	paint: Painter;
	small: number;
	out: Scanlines;
}

function fill(work: Work, row: number, left: number, right: number, colour: number): void {
	const from = Math.max(0, Math.round(left));
	const to = Math.min(work.frame.width, Math.round(right));
	/* One pixel of background separates neighbours, where there is room. */
	const gap = to - from > 3 ? 1 : 0;
	const line = row * work.frame.width;
	work.out.pixels.fill(colour, line + from, line + Math.max(to - gap, from));
}

function drawNode(work: Work, node: number): void {
	const { tree, frame, scale } = work;
	const row = tree.depth[node]! - frame.firstRow;
	if (row < 0) return;
	const left = (tree.start[node]! - frame.from) * scale;
	const right = left + tree.weight[node]! * scale;
	fill(work, row, left, right, work.paint(node));
	const x = Math.max(0, left);
	const width = Math.min(frame.width, right) - x;
	if (width >= LABEL_PIXELS) work.out.labels.push({ node, x, width, row });
}

/** Visits the visible children; those below half a pixel become one mark per pixel. */
function visitChildren(work: Work, node: number, todo: number[]): void {
	const { tree, frame, scale } = work;
	const last = tree.childFrom[node + 1]!;
	const row = tree.depth[node]! + 1 - frame.firstRow;
	let at = firstChildAfter(tree, node, frame.from);
	while (at < last) {
		const child = tree.children[at]!;
		const start = tree.start[child]!;
		if (start >= frame.to) return;
		work.out.visited++;
		if (tree.weight[child]! * scale >= 0.5) {
			todo.push(child);
			at++;
			continue;
		}
		const left = Math.max(0, (start - frame.from) * scale);
		if (row >= 0 && left < frame.width) work.out.pixels[row * frame.width + Math.floor(left)] = work.small;
		/* Skip everything else in this pixel. */
		at = Math.max(at + 1, skipTo(work, at, last, frame.from + (Math.floor(left) + 1) / scale));
	}
}

/** The first child from `low` on that starts at or after x, or is wide enough to be drawn. */
function skipTo(work: Work, low: number, high: number, x: number): number {
	const { tree } = work;
	while (low < high) {
		const middle = (low + high) >>> 1;
		const child = tree.children[middle]!;
		if (tree.start[child]! + tree.weight[child]! > x) high = middle;
		else low = middle + 1;
	}
	return low;
}

export function drawScanlines(
	tree: FlameTree,
	frame: Frame,
	paint: Painter,
	background: number,
	small: number,
	reuse?: Uint32Array,
): Scanlines {
	const size = frame.width * frame.rows;
	const pixels = reuse && reuse.length === size ? reuse : new Uint32Array(size);
	const out: Scanlines = { pixels, labels: [], visited: 0 };
	const span = frame.to - frame.from;
	pixels.fill(background);
	if (span <= 0 || frame.width <= 0) return out;
	const work: Work = { tree, frame, scale: frame.width / span, paint, small, out };
	const todo = [0];
	while (todo.length) {
		const node = todo.pop()!;
		drawNode(work, node);
		if (tree.depth[node]! + 1 < frame.firstRow + frame.rows) visitChildren(work, node, todo);
	}
	return out;
}

/** Repeats each line for the height of its row, with a line of background between rows. */
export function expandRows(
	lines: Uint32Array,
	frame: Frame,
	background: number,
	target: Uint32Array,
	height: number,
	topOf: (row: number) => number,
): void {
	const { width, rows, rowHeight } = frame;
	target.fill(background);
	for (let row = 0; row < rows; row++) {
		const top = topOf(row);
		const line = lines.subarray(row * width, (row + 1) * width);
		for (let y = Math.max(0, top); y < Math.min(height, top + rowHeight - 1); y++) target.set(line, y * width);
	}
}
