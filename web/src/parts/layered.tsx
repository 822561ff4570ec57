// SPDX-License-Identifier: Apache-2.0
// Live bytes over time with a layer for each owner: on Start and on Time.
import { useMemo } from 'preact/hooks';
import { isLive } from '../model/live';
import { knownOwners, layersOf, type Layer } from '../model/layers';
import { shortName, splitOwner } from '../model/frames';
import { eventsOf, momentsOf } from '../model/moments';
import { ask as askParams, canonical } from '../model/query';
import { useAnswer } from '../model/source';
import { go, type Changes, type State } from '../model/state';
import type { OwnersHistoryResult, Point, TimelineResult } from '../model/types';
import { bytes } from '../model/units';
import { Amount, errorOf, hintOf } from './amount';
import { Chart, type ChartProps, type Line } from './chart';
import { escapeRegex } from './row-keys';
import { chooseRange, choosePoint, chosenRange, marksOf, useNamed } from './strip';

const LAYERS = '9';

/** The owners of the most memory over time. */
export function useHistory(scope: State) {
	const params = askParams(scope, 'history', [
		['by', 'own'],
		['limit', LAYERS],
	]);
	return useAnswer<OwnersHistoryResult>(canonical('history', params));
}

export function useLayers(history: OwnersHistoryResult | undefined, points: readonly Point[], shown = true): readonly Layer[] {
	return useMemo(() => (history && shown ? layersOf(history, points) : []), [history, points, shown]);
}

/** " between snapshots": the owners at that point are not known, but at the moments before and after it. */
export function betweenWords(history: OwnersHistoryResult | undefined, point: Point): string {
	return !history || knownOwners(history, point) ? '' : ', between snapshots';
}

/** The peak; of several processes, which have one each, the point with the most. */
export function peakOf(points: readonly Point[]): number {
	const peak = points.findIndex((point) => point.peak);
	if (peak >= 0) return peak;
	return points.reduce((most, point, i) => (point.live_bytes > points[most]!.live_bytes ? i : most), 0);
}

type Common = Omit<ChartProps, 'label' | 'lines' | 'height' | 'unit'>;

/** What all charts of a timeline share: its moments, and selecting them. */
export function useChart(data: TimelineResult, onHover: (index: number | null) => void): Common {
	const named = useNamed();
	const times = useMemo(() => data.timeline.map((point) => point.at_ns), [data]);
	const moments = useMemo(() => momentsOf(data, isLive.value, named), [data, named]);
	const events = useMemo(() => eventsOf(named), [named]);
	return {
		times,
		marks: marksOf(moments, events),
		range: chosenRange(moments),
		sync: 'time',
		onHover,
		onPoint: (at: number) => choosePoint(moments, at),
		onRange: (from: number, to: number) => chooseRange(moments, from, to),
	};
}

export function column(points: readonly Point[], key: keyof Point): (number | null)[] {
	return points.map((point) => point[key] as number | null);
}

/** For estimates; none for an exact recording. */
export function errorsOf(points: readonly Point[], key: keyof Point): number[] | undefined {
	return points.some((point) => errorOf(point, key)) ? points.map((point) => errorOf(point, key)) : undefined;
}

export function memoryLines(points: readonly Point[], layers: readonly Layer[], withRss: boolean): Line[] {
	const lines: Line[] = layers.map((layer) => ({
		label: layer.label,
		colour: layer.colour,
		values: layer.tops,
		fill: layer.hatched ? 'hatched' : 'solid',
		width: 0.5,
	}));
	lines.push({
		label: 'live heap',
		colour: layers.length ? 'curve' : 'series-live',
		values: column(points, 'live_bytes'),
		errors: errorsOf(points, 'live_bytes'),
		...(layers.length ? {} : { fill: 'pale' as const }),
	});
	if (withRss && points.some((point) => point.mmap_live_bytes))
		lines.push({ label: 'own mappings', colour: 'series-b', values: column(points, 'mmap_live_bytes'), dash: true, width: 1 });
	if (withRss) lines.push({ label: 'RSS', colour: 'series-rss', values: points.map((point) => point.rss_bytes || null), width: 1 });
	return lines;
}

interface MemoryChartProps {
	common: Common;
	points: readonly Point[];
	layers: readonly Layer[];
	withRss: boolean;
	height: number;
}

export function MemoryChart({ common, points, layers, withRss, height }: MemoryChartProps) {
	const most = useMemo(() => Math.max(...points.map((point) => point.live_bytes)), [points]);
	return (
		<Chart
			{...common}
			label={`Live heap over time, at most ${bytes(most)}`}
			unit="bytes"
			height={height}
			lines={memoryLines(points, layers, withRss)}
		/>
	);
}

/** The layers at one point, heaviest first, which is their legend. */
export function LayerTable({ layers, at, scope = {} }: { layers: readonly Layer[]; at: number; scope?: Changes }) {
	return (
		<table class="plain layers">
			<tbody>
				{[...layers].reverse().map((layer) => {
					const owner = layer.owner && splitOwner(layer.owner.own);
					return (
						<tr key={layer.key}>
							<td>
								<i class={layer.hatched && 'hatched'} style={{ color: `var(--${layer.colour})` }} />
							</td>
							<td class="number" title={hintOf(layer.values[at] ?? 0, 'bytes', layer.errors?.[at] ?? 0)}>
								<Amount value={layer.values[at] ?? 0} unit="bytes" error={layer.errors?.[at] ?? 0} />
							</td>
							<td class="name" title={layer.hint}>
								{owner ? (
									<>
										<button type="button" class="link code" onClick={() => go('sites', { ...scope, focus: `^${escapeRegex(owner.name)}$` })}>
											{shortName(owner.name)}
										</button>
										<span class="soft"> {owner.place}</span>
									</>
								) : (
									<span class="soft">{layer.label}</span>
								)}
							</td>
						</tr>
					);
				})}
			</tbody>
		</table>
	);
}
