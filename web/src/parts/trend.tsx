// SPDX-License-Identifier: Apache-2.0
// The totals of several runs side by side: each run's number as a dot, in the order in which the recordings were named, and the spread of
// the newer ones, with which to compare the change since the older one.
import { useEffect, useState } from 'preact/hooks';
import { base } from '../model/frames';
import { ask as askParams, canonical } from '../model/query';
import { about, ask } from '../model/source';
import { state } from '../model/state';
import type { Process, ProcessesResult } from '../model/types';
import { exact, quantity, type Unit } from '../model/units';

interface Total {
	key: keyof Process & ('peak_bytes' | 'not_freed_bytes' | 'total_bytes' | 'calls');
	label: string;
	unit: Unit;
}

/** Those that Compare chooses from. */
const TOTALS: readonly Total[] = [
	{ key: 'peak_bytes', label: 'peak', unit: 'bytes' },
	{ key: 'not_freed_bytes', label: 'not freed', unit: 'bytes' },
	{ key: 'total_bytes', label: 'total', unit: 'bytes' },
	{ key: 'calls', label: 'calls', unit: 'count' },
];

interface Named {
	file: string;
	name: string;
}

/** The older recording, if there is one, then the others. */
function runsOf(): Named[] {
	const all = about.value;
	const files = all?.files.map((file): Named => ({ file: String(file.index), name: file.name })) ?? [];
	return all?.compare ? [{ file: 'before', name: base(all.before) }, ...files] : files;
}

/** Whether there are more runs than a comparison shows. */
export function hasTrend(): boolean {
	return (about.value?.files.length ?? 0) > 1;
}

function medianOf(values: readonly number[]): number {
	const sorted = [...values].sort((a, b) => a - b);
	const middle = sorted.length >> 1;
	return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

const WIDTH = 180;
const HEIGHT = 32;
const EDGE = 5;

/** From the least to the most of all runs; the dashed line is the median of the newer ones. */
function Dots({ total, runs, values, median }: { total: Total; runs: readonly Named[]; values: readonly number[]; median: number }) {
	const least = Math.min(...values);
	const range = Math.max(...values) - least;
	const x = (i: number) => EDGE + (i * (WIDTH - 2 * EDGE)) / (values.length - 1);
	const y = (value: number) => (range ? HEIGHT - EDGE - ((value - least) * (HEIGHT - 2 * EDGE)) / range : HEIGHT / 2);
	const hint = (i: number) => `${runs[i]!.name} ${quantity(values[i]!, total.unit)}`;
	return (
		<svg class="dots" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${total.label} by run: ${values.map((_, i) => hint(i)).join(', ')}`}>
			<line class="median" x1={0} x2={WIDTH} y1={y(median)} y2={y(median)} />
			<polyline points={values.map((value, i) => `${x(i)},${y(value)}`).join(' ')} />
			{values.map((value, i) => (
				<circle key={i} class={runs[i]!.file === 'before' ? 'before' : undefined} cx={x(i)} cy={y(value)} r={4}>
					<title>{`${runs[i]!.name} ${exact(value, total.unit)}`}</title>
				</circle>
			))}
		</svg>
	);
}

function Cell({ value, unit, class: more = '' }: { value: number; unit: Unit; class?: string }) {
	return (
		<td class={`number ${more}`} title={exact(value, unit)}>
			{quantity(value, unit)}
		</td>
	);
}

/** A heap profile of another tool does not have all. */
function isKnown(total: Total, results: readonly ProcessesResult[]): boolean {
	return results.every((result) => result.processes.every((process) => process[total.key] !== null));
}

function Spread({ total, runs, results }: { total: Total; runs: readonly Named[]; results: readonly ProcessesResult[] }) {
	const values = results.map((result) => result.processes.reduce((sum, process) => sum + process[total.key], 0));
	const newer = values.filter((_, i) => runs[i]!.file !== 'before');
	const median = medianOf(newer);
	const least = Math.min(...newer);
	const most = Math.max(...newer);
	const older = values.length > newer.length ? values[0] : undefined;
	return (
		<tr>
			<td>{total.label}</td>
			<td>
				<Dots total={total} runs={runs} values={values} median={median} />
			</td>
			{older !== undefined && <Cell class="older" value={older} unit={total.unit} />}
			<Cell value={least} unit={total.unit} />
			<Cell value={median} unit={total.unit} />
			<Cell value={most} unit={total.unit} />
			<Cell class="spread" value={most - least} unit={total.unit} />
		</tr>
	);
}

export function Trend() {
	const runs = runsOf();
	const newer = runs.filter((run) => run.file !== 'before');
	const keys = runs.map(({ file }) => {
		const values = { process: state.value.values.process ?? [], file: [file] };
		return canonical('summary', askParams({ ...state.value, values }, 'summary'));
	});
	const [read, setRead] = useState<{ of: string; results: ProcessesResult[] } | Error | undefined>(undefined);
	const of = keys.join(' ');
	useEffect(() => {
		let wanted = true;
		Promise.all(keys.map((key) => ask<ProcessesResult>(key))).then(
			(results) => wanted && setRead({ of, results }),
			(error: Error) => wanted && setRead(error),
		);
		return () => {
			wanted = false;
		};
	}, [of]);
	return (
		<section class="panel trend" aria-labelledby="trend-title">
			<h2 id="trend-title">
				{newer.length} runs{' '}
				<span class="soft">
					from {newer[0]?.name} to {newer[newer.length - 1]?.name}, in the order of the command line
				</span>
			</h2>
			{read instanceof Error ? (
				<p class="soft">{read.message}</p>
			) : read?.of !== of ? (
				<p class="soft">Reading the runs…</p>
			) : (
				<table class="plain">
					<thead>
						<tr>
							<th>Measure</th>
							<th>Each run</th>
							{runs.length > newer.length && <th class="number older">Before</th>}
							<th class="number">Minimum</th>
							<th class="number">Median</th>
							<th class="number">Maximum</th>
							<th class="number spread">Spread</th>
						</tr>
					</thead>
					<tbody>
						{TOTALS.filter((total) => isKnown(total, read.results)).map((total) => (
							<Spread key={total.key} total={total} runs={runs} results={read.results} />
						))}
					</tbody>
				</table>
			)}
		</section>
	);
}
