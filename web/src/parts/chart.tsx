// SPDX-License-Identifier: Apache-2.0
// A chart over time: uPlot in a resizable element, in the colours of the theme.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { theme } from '../model/theme';
import { bytes, countShort, duration } from '../model/units';

export interface Line {
	label: string;
	/** Name of a colour in the style sheet: series-live. */
	colour: string;
	/** null: a gap; undefined: no point at this time, the line goes on. */
	values: readonly (number | null | undefined)[];
	/** Fill below the line: a tint, the colour itself, or stripes of it. */
	fill?: 'pale' | 'solid' | 'hatched';
	dash?: boolean;
	width?: number;
	/** A step function: each value holds until the next. */
	steps?: boolean;
	scale?: 'y' | 'right';
	/** Standard errors of estimates: a band of two to either side contains the true value 95 times out of 100. */
	errors?: readonly number[] | undefined;
}

export interface Mark {
	at: number;
	label: string;
	colour: string;
	/** A line over the full height; else a tick at the bottom. */
	tall: boolean;
	/** Its label moves beside one that would be hidden. */
	aside?: boolean;
}

export interface ChartProps {
	label: string;
	/** Nanoseconds since the start, ascending. */
	times: readonly number[];
	lines: readonly Line[];
	marks?: readonly Mark[];
	height: number;
	unit: 'bytes' | 'count' | 'rate';
	/** Without axes: for the strip. */
	bare?: boolean;
	/** The current selection. */
	range?: { from: number; to: number } | undefined;
	onRange?: (from: number, to: number) => void;
	onPoint?: (at: number) => void;
	onHover?: (index: number | null) => void;
	/** Charts with the same key share their cursor. */
	sync?: string;
}

export function colourOf(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function textOf(value: number, unit: ChartProps['unit']): string {
	if (unit === 'bytes') return bytes(value).replace('.0 ', ' ');
	return unit === 'rate' ? `${countShort(value)}/s` : countShort(value);
}

/* Ticks that are round numbers in the unit: powers of two for bytes. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, i) => 2 ** i);

/* 1, 2, 5 and their tens up to 20 s, which is how labels round; then minutes, hours and days. */
const TIME_STEPS = [
	...Array.from({ length: 11 }, (_, i) => [1, 2, 5].map((digit) => digit * 10 ** i)).flat().filter((step) => step <= 20e9),
	...[30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800].map((seconds) => seconds * 1e9),
];

function axes(props: ChartProps): uPlot.Axis[] {
	if (props.bare) return [{ show: false }, { show: false }];
	const line = { stroke: colourOf('line'), width: 1 };
	const common = { stroke: colourOf('soft'), grid: line, ticks: { ...line, size: 4 }, font: '11px system-ui, sans-serif' };
	return [
		{ ...common, size: 24, gap: 4, space: 80, incrs: TIME_STEPS, values: (_, ticks) => ticks.map((at) => duration(at).replace('.0 ', ' ')) },
		{
			...common,
			size: 72,
			gap: 6,
			space: 24,
			...(props.unit === 'bytes' ? { incrs: BYTE_STEPS } : {}),
			values: (_, ticks) => ticks.map((value) => textOf(value, props.unit)),
		},
	];
}

/** Diagonal stripes of the colour on the panel. */
function hatch(colour: string): CanvasPattern {
	const size = Math.round(8 * devicePixelRatio);
	const tile = document.createElement('canvas');
	tile.width = tile.height = size;
	const ctx = tile.getContext('2d')!;
	ctx.fillStyle = colourOf('panel');
	ctx.fillRect(0, 0, size, size);
	ctx.strokeStyle = colour;
	ctx.lineWidth = size / 3;
	for (const shift of [-size, 0, size]) {
		ctx.beginPath();
		ctx.moveTo(shift - 1, size + 1);
		ctx.lineTo(shift + size + 1, -1);
		ctx.stroke();
	}
	return ctx.createPattern(tile, 'repeat')!;
}

function fillOf(fill: NonNullable<Line['fill']>, colour: string): string | CanvasPattern {
	return fill === 'pale' ? `${colour}2e` : fill === 'hatched' ? hatch(colour) : colour;
}

function series(props: ChartProps): uPlot.Series[] {
	const lines = props.lines.map((line): uPlot.Series => {
		const colour = colourOf(line.colour);
		return {
			label: line.label,
			stroke: colour,
			width: line.width ?? 1.5,
			points: { show: false },
			...(line.fill ? { fill: fillOf(line.fill, colour) } : {}),
			...(line.dash ? { dash: [4, 3] } : {}),
			...(line.steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
		};
	});
	const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false } };
	return [{}, ...lines, ...banded(props).flatMap(() => [edge, edge])];
}

/* Adds two series per line with errors, behind all lines: the edges of its band. */
function banded(props: ChartProps): readonly Line[] {
	return props.lines.filter((line) => line.errors?.some((error) => error > 0));
}

function bands(props: ChartProps): uPlot.Band[] {
	const first = props.lines.length + 1;
	return banded(props).map((line, i) => ({
		series: [first + 2 * i, first + 2 * i + 1],
		fill: `${colourOf(line.colour)}4d`,
	}));
}

function edges(line: Line, sign: number): (number | null | undefined)[] {
	return line.values.map((value, i) => (value == null ? value : Math.max(0, value + sign * 2 * (line.errors![i] ?? 0))));
}

interface Span {
	from: number;
	to: number;
}

/** Labels are above the plot, where they hide no curve. One that has no room beside those before is left out. */
function drawLabel(plot: uPlot, mark: Mark, x: number, drawn: Span[]): void {
	const { ctx, bbox } = plot;
	const ratio = devicePixelRatio;
	const wide = ctx.measureText(mark.label).width;
	const right = bbox.left + bbox.width - Math.max(60 * ratio, wide);
	const beside = x > right ? x - wide - 4 * ratio : x + 4 * ratio;
	const hidden = drawn.find((one) => beside < one.to && beside + wide > one.from);
	if (hidden && !mark.aside) return;
	const after = hidden && x > hidden.from && hidden.to + wide < bbox.left + bbox.width;
	const left = !hidden ? beside : after ? hidden.to + 4 * ratio : hidden.from - wide - 8 * ratio;
	ctx.fillStyle = colourOf('panel');
	ctx.fillRect(left - 2 * ratio, bbox.top - 14 * ratio, wide + 4 * ratio, 13 * ratio);
	ctx.fillStyle = colourOf(mark.colour);
	ctx.fillText(mark.label, left, bbox.top - 4 * ratio);
	drawn.push({ from: left - 4 * ratio, to: left + wide + 4 * ratio });
}

function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
	const { ctx, bbox } = plot;
	const ratio = devicePixelRatio;
	const drawn: Span[] = [];
	ctx.save();
	ctx.font = `${11 * ratio}px system-ui, sans-serif`;
	ctx.textAlign = 'left';
	const placed = marks
		.map((mark) => ({ mark, x: Math.round(plot.valToPos(mark.at, 'x', true)) + 0.5 }))
		.filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
	for (const { mark, x } of placed) {
		ctx.strokeStyle = colourOf(mark.colour);
		ctx.globalAlpha = mark.tall ? 1 : 0.45;
		ctx.lineWidth = ratio;
		ctx.setLineDash(mark.tall ? [3 * ratio, 3 * ratio] : []);
		ctx.beginPath();
		ctx.moveTo(x, mark.tall ? bbox.top - 12 * ratio : bbox.top + bbox.height - 4 * ratio);
		ctx.lineTo(x, bbox.top + bbox.height);
		ctx.stroke();
	}
	ctx.globalAlpha = 1;
	const labels = placed.filter(({ mark }) => mark.tall && mark.label);
	for (const { mark, x } of labels.reverse()) drawLabel(plot, mark, x, drawn);
	ctx.restore();
}

function drawRange(plot: uPlot, range: { from: number; to: number }): void {
	const { ctx, bbox } = plot;
	const clamp = (at: number) => Math.max(bbox.left, Math.min(bbox.left + bbox.width, plot.valToPos(at, 'x', true)));
	const left = clamp(range.from);
	const width = Math.max(2, clamp(range.to) - left);
	ctx.save();
	ctx.fillStyle = `${colourOf('accent')}26`;
	ctx.fillRect(left, bbox.top, width, bbox.height);
	ctx.fillStyle = colourOf('accent');
	ctx.fillRect(left, bbox.top, 2, bbox.height);
	ctx.fillRect(left + width - 2, bbox.top, 2, bbox.height);
	ctx.restore();
}

const CLICK_PIXELS = 4;

function optionsOf(current: { props: ChartProps }, width: number): uPlot.Options {
	const props = current.props;
	const select = (plot: uPlot) => {
		const { left, width: pixels } = plot.select;
		if (pixels < CLICK_PIXELS) return;
		current.props.onRange?.(plot.posToVal(left, 'x'), plot.posToVal(left + pixels, 'x'));
		plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
	};
	return {
		width,
		height: props.height,
		padding: props.bare ? [15, 1, 2, 1] : [16, 12, 0, 0],
		legend: { show: false },
		scales: { x: { time: false }, y: { range: (_, __, max) => [0, (max || 1) * 1.06] } },
		axes: axes(props),
		series: series(props),
		bands: bands(props),
		cursor: {
			drag: { x: props.onRange !== undefined, y: false, setScale: false },
			y: false,
			points: { size: 6 },
			...(props.sync ? { sync: { key: props.sync, setSeries: false } } : {}),
		},
		hooks: {
			setSelect: [select],
			setCursor: [(plot) => current.props.onHover?.(plot.cursor.idx ?? null)],
			drawAxes: [(plot) => current.props.range && drawRange(plot, current.props.range)],
			draw: [(plot) => drawMarks(plot, current.props.marks ?? [])],
			ready: [
				(plot) => {
					let down = 0;
					plot.over.addEventListener('mousedown', (event) => {
						down = event.clientX;
					});
					plot.over.addEventListener('mouseup', (event) => {
						if (Math.abs(event.clientX - down) < CLICK_PIXELS)
							current.props.onPoint?.(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, 'x'));
					});
				},
			],
		},
	};
}

function dataOf(props: ChartProps): uPlot.AlignedData {
	const around = banded(props).flatMap((line) => [edges(line, 1), edges(line, -1)]);
	return [props.times, ...props.lines.map((line) => line.values), ...around] as unknown as uPlot.AlignedData;
}

export function Chart(props: ChartProps) {
	const element = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | undefined>(undefined);
	const current = useRef({ props });
	current.current.props = props;
	const shape = props.lines.map((line) => line.label + line.colour + (line.errors ? '±' : '')).join('|');

	useEffect(() => {
		const at = element.current!;
		const made = new uPlot(optionsOf(current.current, at.clientWidth || 300), dataOf(current.current.props), at);
		plot.current = made;
		const watch = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height: current.current.props.height }));
		watch.observe(at);
		return () => {
			watch.disconnect();
			made.destroy();
			plot.current = undefined;
		};
	}, [shape, theme.value, props.height, props.unit]);

	useEffect(
		() => plot.current?.setData(dataOf(props)),
		[props.times, shape, props.lines.map((line) => line.values[line.values.length - 1]).join()],
	);
	useEffect(() => plot.current?.redraw(false), [props.range?.from, props.range?.to, props.marks?.length]);

	return <div ref={element} class="chart" role="img" aria-label={props.label} style={{ height: `${props.height}px` }} />;
}
