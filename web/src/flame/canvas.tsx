// SPDX-License-Identifier: Apache-2.0
// The flame graph on its canvas: draws the visible part, animates zooming, and maps pointer and keys to nodes. The canvas stays in place
// while the element around it scrolls over all rows.
import type { TargetedKeyboardEvent, TargetedMouseEvent } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { shortName } from '../model/frames';
import type { FlameName } from '../model/types';
import { drawScanlines, expandRows, type Frame, type Painter } from './draw';
import { rgba } from './colours';
import { nodeAt, ROOT_NAME, type FlameTree } from './tree';
import { step } from './steps';

export const ROW = 18;
const GLIDE_MS = 140;
const DRAG_PIXELS = 4;
/** The part that stays in sight. */
const KEY_ZOOM = 0.7;
const PAN_PART = 0.2;
const TEXT = '#14181b';

export interface FlameCanvasProps {
	label: string;
	tree: FlameTree;
	names: readonly FlameName[];
	rootLabel: string;
	paint: Painter;
	dark: boolean;
	/** Callers above, as in the upper half of a sandwich view. */
	upwards?: boolean;
	/** The node that fills the width. */
	zoom: number;
	/** The new tree is an update of the last: keep the visible part of the zoomed node. */
	keepPart?: boolean;
	chosen: number;
	/** Describes the selected node for screen readers. */
	chosenText: string;
	onZoom: (node: number) => void;
	onChoose: (node: number) => void;
	onHover: (node: number, x: number, y: number) => void;
	/** Handles other keys. Returns true if it did. */
	onKey: (event: KeyboardEvent) => boolean;
}

export function nodeName(tree: FlameTree, names: readonly FlameName[], node: number, rootLabel: string): string {
	const name = tree.name[node]!;
	if (name === ROOT_NAME) return rootLabel;
	return name < 0 ? '(others)' : shortName(names[name]!.function);
}

class Painting {
	from = 0;
	to = 1;
	private lines: Uint32Array | undefined;
	private image: ImageData | undefined;
	private animation = 0;
	private hovered = -1;
	/** Duration of the last frame and the nodes that it visited, for benchmarks. */
	lastMs = 0;
	visited = 0;

	constructor(
		readonly canvas: HTMLCanvasElement,
		readonly scroll: HTMLElement,
		public props: FlameCanvasProps,
	) {
		this.from = this.zoomFrom();
		this.to = this.zoomTo();
	}

	private zoomFrom(): number {
		return this.props.tree.start[this.props.zoom] ?? 0;
	}

	private zoomTo(): number {
		const { tree, zoom } = this.props;
		return (tree.start[zoom] ?? 0) + (tree.weight[zoom] ?? tree.weight[0] ?? 1);
	}

	/** The visible part of the zoomed node: [0, 1] is all of it. */
	part(): [number, number] {
		const width = this.zoomTo() - this.zoomFrom() || 1;
		return [(this.from - this.zoomFrom()) / width, (this.to - this.zoomFrom()) / width];
	}

	/** The height of all rows, at least that of the viewport. */
	contentHeight(): number {
		return Math.max((this.props.tree.deepest + 1) * ROW, this.scroll.clientHeight);
	}

	/** The top of a row in the viewport, in CSS pixels. */
	private top(depth: number): number {
		const y = this.props.upwards ? this.contentHeight() - (depth + 1) * ROW : depth * ROW;
		return y - this.scroll.scrollTop;
	}

	private frame(width: number, ratio: number): Frame {
		const height = this.scroll.clientHeight;
		const rows = Math.ceil(height / ROW) + 1;
		const first = this.props.upwards
			? Math.max(0, Math.floor((this.contentHeight() - this.scroll.scrollTop - height) / ROW))
			: Math.floor(this.scroll.scrollTop / ROW);
		return { from: this.from, to: this.to, width, rowHeight: Math.round(ROW * ratio), firstRow: first, rows };
	}

	draw(): void {
		const began = performance.now();
		const ratio = devicePixelRatio || 1;
		const width = Math.max(1, Math.round(this.scroll.clientWidth * ratio));
		const height = Math.max(1, Math.round(this.scroll.clientHeight * ratio));
		const { canvas } = this;
		if (canvas.width !== width || canvas.height !== height) {
			canvas.width = width;
			canvas.height = height;
			canvas.style.width = `${width / ratio}px`;
			canvas.style.height = `${height / ratio}px`;
			this.image = undefined;
		}
		const context = canvas.getContext('2d', { alpha: false })!;
		this.image ??= context.createImageData(width, height);
		const frame = this.frame(width, ratio);
		const background = rgba(this.props.dark ? '#191d21' : '#ffffff');
		const small = rgba(this.props.dark ? '#5b646c' : '#b4babf');
		const made = drawScanlines(this.props.tree, frame, this.props.paint, background, small, this.lines);
		this.lines = made.pixels;
		this.visited = made.visited;
		expandRows(made.pixels, frame, background, new Uint32Array(this.image.data.buffer), height, (row) =>
			Math.round(this.top(frame.firstRow + row) * ratio),
		);
		context.putImageData(this.image, 0, 0);
		this.write(context, frame, made.labels, ratio);
		this.outline(context, ratio);
		this.lastMs = performance.now() - began;
	}

	private write(
		context: CanvasRenderingContext2D,
		frame: Frame,
		labels: { node: number; x: number; width: number; row: number }[],
		ratio: number,
	): void {
		const { tree, names, rootLabel } = this.props;
		context.font = `${11 * ratio}px "DejaVu Sans Mono", ui-monospace, monospace`;
		context.fillStyle = TEXT;
		context.textBaseline = 'middle';
		const letter = context.measureText('M').width || 7;
		for (const label of labels) {
			const letters = Math.floor((label.width - 8 * ratio) / letter);
			if (letters < 2) continue;
			const text = nodeName(tree, names, label.node, rootLabel);
			const cut = text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
			context.fillText(cut, label.x + 4 * ratio, (this.top(frame.firstRow + label.row) + (ROW - 1) / 2) * ratio + 0.5);
		}
	}

	private outline(context: CanvasRenderingContext2D, ratio: number): void {
		const mark = (node: number, colour: string, line: number) => {
			const { tree } = this.props;
			if (node < 0 || node >= tree.count) return;
			const scale = this.canvas.width / (this.to - this.from);
			const left = Math.max(0, (tree.start[node]! - this.from) * scale);
			const right = Math.min(this.canvas.width, (tree.start[node]! + tree.weight[node]! - this.from) * scale);
			if (right <= left) return;
			context.strokeStyle = colour;
			context.lineWidth = line * ratio;
			context.strokeRect(
				left + ratio,
				this.top(tree.depth[node]!) * ratio + ratio / 2,
				Math.max(1, right - left - 2 * ratio),
				(ROW - 2) * ratio,
			);
		};
		const strong = this.props.dark ? '#ffffff' : '#14181b';
		mark(this.hovered, strong, 1);
		mark(this.props.chosen, strong, 2);
	}

	/** Animates to the zoomed node in a few frames. */
	glide(): void {
		cancelAnimationFrame(this.animation);
		const [from, to, began] = [this.from, this.to, performance.now()];
		const [goalFrom, goalTo] = [this.zoomFrom(), this.zoomTo()];
		const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
		const next = (now: number) => {
			const t = still ? 1 : Math.min(1, (now - began) / GLIDE_MS);
			const eased = 1 - (1 - t) ** 3;
			this.from = from + (goalFrom - from) * eased;
			this.to = to + (goalTo - to) * eased;
			this.draw();
			if (t < 1) this.animation = requestAnimationFrame(next);
		};
		this.animation = requestAnimationFrame(next);
	}

	/** Zooms with the wheel, around the pointer, never out beyond the whole. */
	zoomAround(x: number, factor: number): void {
		const whole = this.props.tree.weight[0] ?? 1;
		const at = this.from + (x / this.scroll.clientWidth) * (this.to - this.from);
		const span = Math.min(whole, Math.max((this.to - this.from) * factor, whole * 1e-7));
		const from = at - (x / this.scroll.clientWidth) * span;
		this.from = Math.max(0, Math.min(whole - span, from));
		this.to = this.from + span;
		this.drawSoon();
	}

	/** Shows what is to the right by a part of the width, without leaving the whole. */
	pan(part: number): void {
		const whole = this.props.tree.weight[0] ?? 1;
		const span = this.to - this.from;
		this.from = Math.max(0, Math.min(whole - span, this.from + part * span));
		this.to = this.from + span;
		this.drawSoon();
	}

	drawSoon(): void {
		cancelAnimationFrame(this.animation);
		this.animation = requestAnimationFrame(() => this.draw());
	}

	stop(): void {
		cancelAnimationFrame(this.animation);
	}

	under(event: { clientX: number; clientY: number }): number {
		const box = this.scroll.getBoundingClientRect();
		const y = event.clientY - box.top + this.scroll.scrollTop;
		const depth = Math.floor((this.props.upwards ? this.contentHeight() - y : y) / ROW);
		const x = this.from + ((event.clientX - box.left) / this.scroll.clientWidth) * (this.to - this.from);
		return depth < 0 ? -1 : nodeAt(this.props.tree, x, depth);
	}

	hover(node: number): void {
		if (node === this.hovered) return;
		this.hovered = node;
		this.drawSoon();
	}

	/** Scrolls the selected row into view. */
	reveal(node: number): void {
		const depth = this.props.tree.depth[node];
		if (depth === undefined) return;
		const top = this.top(depth);
		if (top < 0) this.scroll.scrollTop += top;
		else if (top + ROW > this.scroll.clientHeight) this.scroll.scrollTop += top + ROW - this.scroll.clientHeight;
	}
}

export function FlameCanvas(props: FlameCanvasProps) {
	const canvas = useRef<HTMLCanvasElement>(null);
	const scroll = useRef<HTMLDivElement>(null);
	const painting = useRef<Painting | undefined>(undefined);
	const shownTree = useRef<FlameTree | undefined>(undefined);

	useLayoutEffect(() => {
		const made = new Painting(canvas.current!, scroll.current!, props);
		painting.current = made;
		(canvas.current as unknown as { painting: Painting }).painting = made;
		if (props.upwards) scroll.current!.scrollTop = scroll.current!.scrollHeight;
		const watch = new ResizeObserver(() => made.draw());
		watch.observe(scroll.current!);
		return () => {
			watch.disconnect();
			made.stop();
		};
	}, []);
	useLayoutEffect(() => {
		const at = painting.current!;
		const moved = at.props.zoom !== props.zoom;
		const part = at.part();
		at.props = props;
		if (shownTree.current !== props.tree || !moved) {
			if (shownTree.current !== props.tree) {
				/* An update of the same tree: show the same part of the zoomed node. */
				const [from, to] = props.keepPart && shownTree.current ? part : [0, 1];
				const width = props.tree.weight[props.zoom] ?? 1;
				at.from = (props.tree.start[props.zoom] ?? 0) + from * width;
				at.to = at.from + (to - from) * width;
			}
			shownTree.current = props.tree;
			at.draw();
		} else {
			at.glide();
		}
	}, [props.tree, props.paint, props.zoom, props.chosen, props.dark]);
	useEffect(() => painting.current?.reveal(props.chosen), [props.chosen]);

	/* Where the button went down; `far`: it is a drag and no click. */
	const dragged = useRef<{ x: number; y: number; far: boolean } | undefined>(undefined);
	const drag = (event: TargetedMouseEvent<HTMLDivElement>): boolean => {
		const from = dragged.current;
		if (!from || !(event.buttons & 1)) return false;
		from.far ||= Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y) > DRAG_PIXELS;
		if (!from.far) return false;
		painting.current!.pan((from.x - event.clientX) / event.currentTarget.clientWidth);
		event.currentTarget.scrollTop += from.y - event.clientY;
		dragged.current = { x: event.clientX, y: event.clientY, far: true };
		return true;
	};
	const onMove = (event: TargetedMouseEvent<HTMLDivElement>) => {
		if (drag(event)) return;
		const node = painting.current!.under(event);
		painting.current!.hover(node);
		props.onHover(node, event.clientX, event.clientY);
	};
	const onKeyDown = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const { tree, chosen, zoom, upwards } = props;
		if (event.shiftKey && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
			painting.current!.pan(event.key === 'ArrowLeft' ? -PAN_PART : PAN_PART);
			event.preventDefault();
			return;
		}
		if (event.key === 'i' || event.key === 'o') {
			painting.current!.zoomAround(event.currentTarget.clientWidth / 2, event.key === 'i' ? KEY_ZOOM : 1 / KEY_ZOOM);
			event.preventDefault();
			return;
		}
		const next = step(tree, chosen < 0 ? zoom : chosen, event.key, upwards ?? false);
		if (next !== undefined) props.onChoose(next);
		else if (event.key === 'Enter' && chosen >= 0) props.onZoom(chosen);
		else if (event.key === 'Backspace' || event.key === 'Escape')
			props.onZoom(event.key === 'Escape' ? 0 : Math.max(0, tree.parent[zoom] ?? 0));
		else if (!props.onKey(event)) return;
		event.preventDefault();
		event.stopPropagation();
	};

	return (
		<div
			ref={scroll}
			class="flame-scroll"
			tabIndex={0}
			role="application"
			aria-label={props.label}
			aria-roledescription="flame graph"
			data-whole={props.tree.value[0]}
			onScroll={() => painting.current?.draw()}
			onMouseMove={onMove}
			onMouseLeave={() => {
				painting.current?.hover(-1);
				props.onHover(-1, 0, 0);
			}}
			onMouseDown={(event) => {
				dragged.current = { x: event.clientX, y: event.clientY, far: false };
			}}
			onClick={(event) => {
				if (!dragged.current?.far) props.onChoose(painting.current!.under(event));
				dragged.current = undefined;
			}}
			onDblClick={(event) => {
				const node = painting.current!.under(event);
				if (node >= 0) props.onZoom(node);
			}}
			onWheel={(event) => {
				if (!event.ctrlKey && !event.shiftKey) return;
				event.preventDefault();
				const box = event.currentTarget.getBoundingClientRect();
				painting.current!.zoomAround(event.clientX - box.left, 1.0015 ** (event.deltaY || event.deltaX));
			}}
			onKeyDown={onKeyDown}
		>
			<canvas ref={canvas} aria-hidden="true" />
			<div class="flame-space" style={{ height: `${(props.tree.deepest + 1) * ROW}px` }} />
			<span class="hidden-words" role="status">
				{props.chosenText}
			</span>
		</div>
	);
}
