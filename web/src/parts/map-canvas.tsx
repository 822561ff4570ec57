// SPDX-License-Identifier: Apache-2.0
// The map of resident memory on its canvas: squares in rows, from the lowest address to the highest. Maps pointer and keys to squares.
import type { TargetedKeyboardEvent } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { squaresOf, unitOf, zoomed, type PageMap, type Square } from '../model/page-map';

const SIZE = 13;
const GAP = 2;
const ZOOM = 0.25;
const WHEEL = 1.0015;
/** Squares that are left when the map is zoomed in as far as it goes. */
const LEAST_SQUARES = 64;

/** How to draw a square: the colour of what is in it, how much of its height that takes, and the colour of the rest. */
export interface Paint {
	full: string;
	part: number;
	rest: string;
	/** Only its upper left half, in `full`: nothing is known of what is in it. */
	half?: boolean;
}

export interface MapCanvasProps {
	label: string;
	map: PageMap;
	/** The positions that are shown. */
	from: number;
	to: number;
	/** Of the chosen square; -1: none. */
	chosen: number;
	/** Describes it for screen readers. */
	chosenText: string;
	paint: (square: Square) => Paint;
	/** Colours of the marks: where a region begins, what is swapped out, and what is chosen. */
	strong: string;
	onUnit: (unit: number) => void;
	onZoom: (from: number, to: number) => void;
	onChoose: (position: number) => void;
	onHover: (position: number, x: number, y: number) => void;
}

function drawSquare(context: CanvasRenderingContext2D, square: Square, paint: Paint, strong: string, x: number, y: number): void {
	const side = SIZE - GAP;
	const height = paint.part > 0 ? Math.max(1, Math.round(side * Math.min(1, paint.part))) : 0;
	if (paint.half) {
		context.fillStyle = paint.full;
		context.beginPath();
		context.moveTo(x, y);
		context.lineTo(x + side, y);
		context.lineTo(x, y + side);
		context.fill();
	} else {
		context.fillStyle = paint.rest;
		context.fillRect(x, y, side, side - height);
		context.fillStyle = paint.full;
		context.fillRect(x, y + side - height, side, height);
	}
	context.fillStyle = strong;
	if (square.first) context.fillRect(x - GAP, y - 1, GAP, side + 2);
	if (square.resident === 0) context.fillRect(x + side / 2 - 1, y + side / 2 - 1, 3, 3);
}

export function MapCanvas(props: MapCanvasProps) {
	const { map, from, to, chosen } = props;
	const box = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [size, setSize] = useState<[number, number]>([1, 1]);
	const columns = Math.max(1, Math.floor(size[0] / SIZE));
	const rows = Math.max(1, Math.floor(size[1] / SIZE));
	const unit = unitOf(map, from, to, columns * rows);
	const squares = useMemo(() => squaresOf(map, from, to, unit), [map, from, to, unit]);

	useLayoutEffect(() => {
		const watch = new ResizeObserver(() => setSize([box.current!.clientWidth - 24, box.current!.clientHeight - 12]));
		watch.observe(box.current!);
		return () => watch.disconnect();
	}, []);
	useLayoutEffect(() => props.onUnit(unit), [unit]);
	useLayoutEffect(() => {
		const ratio = devicePixelRatio || 1;
		const at = canvas.current!;
		at.width = Math.max(1, Math.round(size[0] * ratio));
		at.height = Math.max(1, Math.round(size[1] * ratio));
		at.style.width = `${at.width / ratio}px`;
		at.style.height = `${at.height / ratio}px`;
		const context = at.getContext('2d')!;
		context.scale(ratio, ratio);
		squares.forEach((square, i) => drawSquare(context, square, props.paint(square), props.strong, GAP + (i % columns) * SIZE, GAP + Math.floor(i / columns) * SIZE));
		const index = Math.floor((chosen - from) / unit);
		if (chosen < from || index >= squares.length) return;
		context.strokeStyle = props.strong;
		context.lineWidth = 2;
		context.strokeRect(GAP - 1 + (index % columns) * SIZE, GAP - 1 + Math.floor(index / columns) * SIZE, SIZE, SIZE);
	}, [squares, columns, size, props.paint, props.strong, chosen]);

	/** The position of the square under the pointer; -1: none. */
	const under = (event: { clientX: number; clientY: number }): number => {
		const place = canvas.current!.getBoundingClientRect();
		const column = Math.floor((event.clientX - place.left - GAP) / SIZE);
		const index = Math.floor((event.clientY - place.top - GAP) / SIZE) * columns + column;
		return column < 0 || column >= columns || index < 0 || index >= squares.length ? -1 : from + index * unit;
	};
	const zoom = (at: number, factor: number) =>
		props.onZoom(...zoomed(map, from, to, at, factor, LEAST_SQUARES * unitOf(map, 0, 1, 1)));
	const onKeyDown = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const at = chosen < from || chosen >= to ? from : chosen;
		const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, k: -columns, j: columns };
		const step = steps[event.key];
		const middle = at + unit / 2;
		if (step !== undefined) {
			const next = chosen < from || chosen >= to ? from : from + (Math.floor((at - from) / unit) + step) * unit;
			if (next >= from && next < to) props.onChoose(next);
		} else if (event.key === 'Enter' || event.key === 'i') zoom(middle, ZOOM);
		else if (event.key === 'Backspace' || event.key === 'o') zoom(middle, 1 / ZOOM);
		else if (event.key === 'Escape') props.onZoom(0, map.total);
		else return;
		event.preventDefault();
		event.stopPropagation();
	};

	return (
		<div
			ref={box}
			class="map-squares"
			tabIndex={0}
			role="application"
			aria-label={props.label}
			aria-roledescription="memory map"
			data-squares={squares.length}
			data-unit={unit}
			onMouseMove={(event) => props.onHover(under(event), event.clientX, event.clientY)}
			onMouseLeave={() => props.onHover(-1, 0, 0)}
			onClick={(event) => props.onChoose(under(event))}
			onDblClick={(event) => {
				const at = under(event);
				if (at >= 0) zoom(at, ZOOM);
			}}
			onWheel={(event) => {
				const at = under(event);
				if ((!event.ctrlKey && !event.shiftKey) || at < 0) return;
				event.preventDefault();
				zoom(at, WHEEL ** (event.deltaY || event.deltaX));
			}}
			onKeyDown={onKeyDown}
		>
			<canvas ref={canvas} aria-hidden="true" />
			<span class="hidden-words" role="status">
				{props.chosenText}
			</span>
		</div>
	);
}
