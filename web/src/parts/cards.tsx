// SPDX-License-Identifier: Apache-2.0
// The cards of Start: the numbers of the selected processes, each with its moment.
import type { ComponentChildren } from 'preact';
import { totalsOf } from '../model/processes';
import { growthFigure, growthWords } from '../model/growth';
import type { Answered, GrowthResult, Memory, Process, TimelineResult } from '../model/types';
import { bytes, count, duration, exact, plural, quantity, share, spread } from '../model/units';
import { Amount, errorOf } from './amount';

function Card({
	title,
	value,
	hint,
	error,
	children,
	onOpen,
}: {
	title: string;
	value: string;
	hint?: string;
	error?: string;
	children?: ComponentChildren;
	onOpen: () => void;
}) {
	return (
		<section class="card" aria-label={title}>
			<h2>
				<button type="button" class="link" onClick={onOpen}>
					{title}
				</button>
			</h2>
			<div class="figure" title={hint}>
				{value}
				{error && (
					<small class="error" title="Standard error; with 30 samples or more the 95 % interval is 2 standard errors either way">
						{' '}
						{error}
					</small>
				)}
			</div>
			<div class="soft">{children}</div>
		</section>
	);
}

export interface CardNumbers {
	processes: readonly Process[];
	growth: GrowthResult | undefined;
	timeline: TimelineResult | undefined;
	/** The last observation of the process; undefined: there is none, or several processes are shown. */
	sheet: Memory | undefined;
	/** If filters exclude parts of a process: the numbers of what they select. */
	filtered?: {
		peak: Answered | undefined;
		peakUnknown: boolean;
		leaked: Answered | undefined;
		calls: Answered | undefined;
		/** The numbers are parts of the heap. */
		whole: boolean;
	};
	open: (view: 'flame' | 'sites' | 'time', changes: Record<string, string | null>) => void;
}

function blocks(number: number, error: number): ComponentChildren {
	return (
		<>
			<Amount value={number} unit="count" error={error} /> {number === 1 ? 'block' : 'blocks'}
		</>
	);
}

/** The part of a number that the filters select. `whole` is the number without filters; undefined: not comparable. */
function FilteredCard({
	title,
	data,
	unit,
	whole,
	open,
	unknown = false,
}: {
	title: string;
	data: Answered | undefined;
	unknown?: boolean;
	unit: 'bytes' | 'count';
	whole: number | undefined;
	open: () => void;
}) {
	const part = data && data.shown !== whole && share(data.shown, whole);
	return (
		<Card
			title={title}
			value={data ? `${quantity(data.shown, unit)}${unit === 'count' ? ' calls' : ''}` : unknown ? 'not known' : '…'}
			hint={data && exact(data.shown, unit)}
			error={data && spread(errorOf(data, 'shown'), data.shown)}
			onOpen={open}
		>
			{unknown && 'of these threads: other threads freed some of the blocks'}
			{data && `${part ? `${part} of ${quantity(whole!, unit)}, ` : ''}${data.moment}`}
		</Card>
	);
}

function FilteredCards({ processes, filtered, open }: CardNumbers) {
	const sum = totalsOf(processes);
	const { peak, peakUnknown, leaked, calls, whole } = filtered!;
	return (
		<>
			<FilteredCard
				title="Peak"
				data={peak}
				unknown={peakUnknown}
				unit="bytes"
				whole={whole ? sum.peak_bytes : undefined}
				open={() => open('flame', { cost: null })}
			/>
			<FilteredCard
				title="Left at the end"
				data={leaked}
				unit="bytes"
				whole={whole ? sum.not_freed_bytes : undefined}
				open={() => open('sites', { cost: 'leaked' })}
			/>
			<FilteredCard
				title="Allocations"
				data={calls}
				unit="count"
				whole={whole ? sum.calls : undefined}
				open={() => open('sites', { cost: 'calls' })}
			/>
		</>
	);
}

function HeapCards({ processes, timeline, open }: CardNumbers) {
	const sum = totalsOf(processes);
	const peak = processes.length === 1 ? timeline?.timeline.find((point) => point.peak) : undefined;
	const bound = processes.length === 1 ? processes[0]!.peak_bound_bytes : 0;
	const when = processes.length > 1 ? ', each process at its own peak' : peak ? ` at ${duration(peak.at_ns)}` : '';
	const part = share(sum.not_freed_bytes, sum.peak_bytes);
	const temporary = share(sum.temporary_calls, sum.calls);
	return (
		<>
			<Card
				title="Peak"
				value={bytes(sum.peak_bytes)}
				hint={exact(sum.peak_bytes, 'bytes')}
				error={spread(errorOf(sum, 'peak_bytes'), sum.peak_bytes)}
				onOpen={() => open('flame', { cost: null })}
			>
				{blocks(sum.peak_blocks, errorOf(sum, 'peak_blocks'))}
				{when}
				{bound > 0 && `, within ${bytes(bound)}`}
			</Card>
			<Card
				title={processes.every((process) => process.end !== 'running') ? 'Not freed at exit' : 'Live'}
				value={bytes(sum.not_freed_bytes)}
				hint={exact(sum.not_freed_bytes, 'bytes')}
				error={spread(errorOf(sum, 'not_freed_bytes'), sum.not_freed_bytes)}
				onOpen={() => open('sites', { cost: 'leaked' })}
			>
				{blocks(sum.not_freed_blocks, errorOf(sum, 'not_freed_blocks'))}
				{part && `, ${part} of the peak`}
			</Card>
			<Card
				title="Allocations"
				value={`${count(sum.calls)} calls`}
				error={spread(errorOf(sum, 'calls'), sum.calls)}
				onOpen={() => open('sites', { cost: 'calls' })}
			>
				<Amount value={sum.total_bytes} unit="bytes" error={errorOf(sum, 'total_bytes')} /> requested
				{temporary && `, ${temporary} temporary`}
			</Card>
		</>
	);
}

function KernelCards({ processes, sheet, open }: CardNumbers) {
	const sum = totalsOf(processes);
	const { peak_rss_bytes: rss, without_rss: without } = sum;
	const most = processes.length > 1 ? "each process' own maximum, added up" : 'at most';
	return (
		<>
			<Card
				title="RSS"
				value={rss === null ? 'not known' : `${without ? '≥ ' : ''}${bytes(rss)}`}
				{...(rss === null ? {} : { hint: exact(rss, 'bytes') })}
				onOpen={() => open('time', {})}
			>
				{rss !== null && most}
				{rss !== null && without > 0 && '; '}
				{without > 0 &&
					(processes.length > 1
						? `${plural(without, 'process', 'processes')} ended before being observed`
						: 'it ended before it was observed')}
				{sheet && (
					<>
						; {bytes(sheet.rss_bytes)} at {duration(sheet.at_ns)}, when{' '}
						<Amount value={sheet.live_bytes} unit="bytes" error={errorOf(sheet, 'live_bytes')} /> of heap was live
					</>
				)}
			</Card>
			{sum.mmap_calls > 0 && (
				<Card
					title="Mapped"
					value={bytes(sum.mmap_peak_bytes)}
					hint={exact(sum.mmap_peak_bytes, 'bytes')}
					onOpen={() => open('sites', { cost: 'max', kind: 'mmap' })}
				>
					{most}, by {plural(sum.mmap_calls, 'call')} of mmap of the program's own
				</Card>
			)}
		</>
	);
}

/** The cards of a heap profile of another tool. */
export function ImportedCards({
	process,
	live,
	calls,
	open,
}: {
	process: Process;
	live: Answered | undefined;
	/** Null: the profile has no totals. */
	calls: Answered | undefined | null;
	open: CardNumbers['open'];
}) {
	return (
		<div class="card-row">
			<FilteredCard title="Live" data={live} unit="bytes" whole={process.not_freed_bytes} open={() => open('sites', { cost: 'leaked' })} />
			{calls !== null && (
				<FilteredCard title="Allocations" data={calls} unit="count" whole={process.calls} open={() => open('sites', { cost: 'calls' })} />
			)}
		</div>
	);
}

export function Cards(props: CardNumbers) {
	const { growth, filtered, open } = props;
	return (
		<div class="card-row">
			{filtered ? <FilteredCards {...props} /> : <HeapCards {...props} />}
			<Card title="Growth" value={growth ? growthFigure(growth) : '…'} onOpen={() => open('time', {})}>
				{growth ? growthWords(growth) : ''}
			</Card>
			{!filtered && <KernelCards {...props} />}
		</div>
	);
}
