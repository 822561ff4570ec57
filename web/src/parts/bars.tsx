// SPDX-License-Identifier: Apache-2.0
// Small charts: bars with their numbers, and a sparkline.
import type { ComponentChildren } from 'preact';
import { bytes, duration, percent } from '../model/units';
import { Amount } from './amount';
import type { SizeBar, TimeBar } from '../model/types';

export interface Bar {
	label: ComponentChildren;
	value: number;
	text: ComponentChildren;
	/** Of all bars together. */
	share: string;
	/** For an estimate: the standard error of the value. */
	error?: number;
}

/** An error bar of one standard error to either side. */
function Whisker({ value, error, most }: { value: number; error: number; most: number }) {
	const low = Math.max(0, value - error);
	return <b class="whisker" style={{ left: `${(low / most) * 100}%`, width: `${((value + error - low) / most) * 100}%` }} />;
}

export function Bars({ bars, label }: { bars: readonly Bar[]; label: string }) {
	const most = Math.max(1, ...bars.map((bar) => Math.abs(bar.value) + (bar.error ?? 0)));
	return (
		<div class="bars" role="list" aria-label={label}>
			{bars.map((bar, i) => (
				<div key={i} role="listitem" style={{ display: 'contents' }}>
					<span class="number">{bar.label}</span>
					<span class="track">
						<i style={{ width: `${(Math.abs(bar.value) / most) * 100}%` }} />
						{bar.error ? <Whisker value={Math.abs(bar.value)} error={bar.error} most={most} /> : null}
					</span>
					<span class="number">{bar.text}</span>
					<span class="number soft">{bar.share}</span>
				</div>
			))}
		</div>
	);
}

/** Beyond all classes: the last one is open-ended. */
const OPEN = 2 ** 53;

export function sizeLabel(bar: { low_bytes: number; high_bytes: number }): string {
	if (bar.low_bytes === bar.high_bytes) return bytes(bar.low_bytes);
	return bar.high_bytes >= OPEN ? `${bytes(bar.low_bytes)} and more` : `${bytes(bar.low_bytes)} – ${bytes(bar.high_bytes)}`;
}

export function timeLabel(bar: TimeBar): string {
	if (bar.low_ms === 0) return `below ${duration(bar.high_ms * 1e6)}`;
	if (bar.high_ms >= OPEN) return `${duration(bar.low_ms * 1e6)} and longer`;
	return `${duration(bar.low_ms * 1e6)} – ${duration(bar.high_ms * 1e6)}`;
}

function counted(
	bars: readonly { count: number; count_error?: number }[],
): (bar: { count: number; count_error?: number }) => Omit<Bar, 'label'> {
	const sum = bars.reduce((total, bar) => total + bar.count, 0);
	return (bar) => ({
		value: bar.count,
		error: bar.count_error ?? 0,
		text: <Amount value={bar.count} unit="count" error={bar.count_error ?? 0} />,
		share: percent(bar.count, sum),
	});
}

export function SizeBars({ bars, label }: { bars: readonly SizeBar[]; label: string }) {
	const rest = counted(bars);
	return <Bars label={label} bars={bars.map((bar) => ({ label: sizeLabel(bar), ...rest(bar) }))} />;
}

export function TimeBars({ bars, label }: { bars: readonly TimeBar[]; label: string }) {
	const rest = counted(bars);
	return <Bars label={label} bars={bars.map((bar) => ({ label: timeLabel(bar), ...rest(bar) }))} />;
}

/** A sparkline; xs and ys have the same length. */
export function Spark({ xs, ys, label }: { xs: readonly number[]; ys: readonly number[]; label: string }) {
	const from = xs[0] ?? 0;
	const span = (xs[xs.length - 1] ?? 0) - from || 1;
	const most = Math.max(1, ...ys);
	const points = xs.map((x, i) => `${(((x - from) / span) * 100).toFixed(2)},${(20 - ((ys[i] ?? 0) / most) * 19).toFixed(2)}`);
	return (
		<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label={label}>
			<path class="area" d={`M0,20 L${points.join(' L')} L100,20 Z`} />
			<path d={`M${points.join(' L')}`} />
		</svg>
	);
}
