// SPDX-License-Identifier: Apache-2.0
// Threads and processes: the allocations of each, remote frees, and the process tree.
import { useEffect, useMemo } from 'preact/hooks';
import { base } from '../model/frames';
import { matrixOf } from '../model/handover';
import { narrow } from '../model/narrow';
import { ask as askParams, canonical } from '../model/query';
import { useAnswer } from '../model/source';
import { note, state, value } from '../model/state';
import type { Process, ProcessesResult, Thread, ThreadsResult } from '../model/types';
import { count, countShort, duration, percent, plural } from '../model/units';
import { Amount, errorOf, hintOf } from '../parts/amount';
import { addFilter } from '../parts/filters';
import { asking } from '../parts/copy';
import { Empty, Failed, Loading } from '../parts/states';
import { numbers, onSort, sortingOf, widened } from '../parts/numbers';
import { indent, sortRows, Table, type Column } from '../parts/table';
import { chosenTab, Tabs } from '../parts/tabs';

function threadColumns(data: ThreadsResult): Column<Thread>[] {
	const several = new Set(data.threads.map((thread) => thread.pid)).size > 1;
	const mostCalls = Math.max(1, ...data.threads.map((thread) => thread.calls));
	const mostBytes = Math.max(1, ...data.threads.map((thread) => thread.total_bytes));
	return [
		numbers<Thread>('calls', 'Calls', 'count', 'Allocations of this thread', mostCalls, 120),
		{
			key: 'name',
			title: 'Thread',
			sort: (row) => row.name,
			hint: (row) => (row.slot_threads > 1 ? data.note : undefined),
			cell: (row) => (
				<>
					<span class="fn">{row.name}</span>
					{narrow.value && <span class="where">{row.tid}</span>}
					{row.slot_threads > 1 && <span class="where">counted together with {plural(row.slot_threads - 1, 'other')}</span>}
				</>
			),
		},
		{ key: 'share', title: '%', number: true, width: 74, cell: (row) => <span class="soft">{percent(row.calls, data.calls)}</span> },
		numbers<Thread>('total_bytes', 'Total', 'bytes', 'Bytes requested', mostBytes, 112),
		numbers<Thread>('frees', 'Frees', 'count', 'Blocks that this thread freed'),
		...(data.threads.some((thread) => thread.allocator_ns !== null)
			? [numbers<Thread>('allocator_ns', 'In allocator', 'ns', 'Time of this thread in the allocator')]
			: []),
		numbers<Thread>('live_bytes', 'Holds', 'bytes', 'Allocated by this thread and not freed at the end'),
		numbers<Thread>('freed_by_others_bytes', 'Freed by others', 'bytes', 'Allocated by this thread, freed by others', undefined, 118),
		numbers<Thread>('freed_for_others_bytes', 'For others', 'bytes', 'Allocated by other threads, freed by this one'),
		...(data.threads.some((thread) => thread.stack_most_bytes !== null)
			? [
					numbers<Thread>('stack_most_bytes', 'Stack', 'bytes', 'Of its stack, the most that was resident'),
					numbers<Thread>('stack_reserved_bytes', 'Reserved', 'bytes', 'Address space of its stack'),
				]
			: []),
		numbers<Thread>('started_ns', 'Started', 'ns', 'Since the start of its process', undefined, 84),
		...(several ? [numbers<Thread>('pid', 'PID', 'id', 'Process', undefined, 72)] : []),
		numbers<Thread>('tid', 'TID', 'id', 'Number of the thread', undefined, 72),
	];
}

function useThreads() {
	const params = askParams(state.value, 'threads');
	const answer = useAnswer<ThreadsResult>(canonical('threads', params));
	useEffect(() => {
		asking.value = { view: 'threads', params };
	}, [canonical('threads', params)]);
	return answer;
}

function Threads() {
	const answer = useThreads();
	const sorting = sortingOf('calls');
	const columns = useMemo(() => (answer.data ? widened(threadColumns(answer.data), answer.data.threads) : []), [answer.data, narrow.value]);
	const rows = useMemo(
		() => (answer.data ? (value('sort') ? sortRows(answer.data.threads, columns, sorting) : answer.data.threads) : []),
		[answer.data, columns, value('sort')],
	);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!answer.data) return <Loading what="Counting threads" />;
	return (
		<>
			{answer.data.note && (
				<div class="toolbar">
					<span class="soft">{answer.data.note}</span>
				</div>
			)}
			<Table
				label="Threads"
				columns={columns}
				rows={rows}
				total={answer.data.thread_count}
				sorting={sorting}
				onSort={onSort}
				chosen={Number(value('row') ?? -1)}
				onChoose={(index) => note({ row: String(index) })}
				onOpen={(index) => rows[index] && addFilter({ name: 'thread', value: String(rows[index].tid) })}
				onKey={(event, index) => {
					if (event.key !== '+' || !rows[index]) return false;
					addFilter({ name: 'thread', value: String(rows[index].tid) });
					return true;
				}}
			/>
		</>
	);
}

function Handover() {
	const answer = useThreads();
	const matrix = useMemo(() => (answer.data ? matrixOf(answer.data.threads) : undefined), [answer.data]);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!answer.data || !matrix) return <Loading what="Counting who frees what" />;
	if (!answer.data.cross_thread_freed_blocks)
		return (
			<Empty title="No cross-thread frees">
				<p>
					{answer.data.note ??
						(answer.data.sampling
							? 'No sampled block was freed by another thread than the one that allocated it.'
							: 'Every block was freed by the thread that allocated it, or not at all.')}
				</p>
			</Empty>
		);
	const label = (thread: Thread | undefined, slot: string) =>
		thread ? `${thread.name} (${thread.tid})` : slot === 'unknown' ? 'not known' : `slot ${slot}`;
	return (
		<div class="both">
			<p class="soft">
				<Amount value={answer.data.cross_thread_freed_blocks} unit="count" error={errorOf(answer.data, 'cross_thread_freed_blocks')} />{' '}
				{answer.data.cross_thread_freed_blocks === 1 ? 'block' : 'blocks'},{' '}
				<Amount value={answer.data.cross_thread_freed_bytes} unit="bytes" error={errorOf(answer.data, 'cross_thread_freed_bytes')} />: freed by another thread
				than allocated {answer.data.cross_thread_freed_blocks === 1 ? 'it' : 'them'}.
				{matrix.cut ? ` The ${count(matrix.freers.length)} threads that free most are shown.` : ''}
			</p>
			<div class="heat" tabIndex={0} role="region" aria-label="Bytes by who allocated and who freed">
				<table>
					<thead>
						<tr>
							<th>freed by \ allocated by</th>
							{matrix.owners.map((owner) => (
								<th key={owner.slot} class="number">
									{label(owner.thread, owner.slot)}
								</th>
							))}
						</tr>
					</thead>
					<tbody>
						{matrix.freers.map((freer, row) => (
							<tr key={`${freer.pid}.${freer.tid}`}>
								<th class="number">{label(freer, '')}</th>
								{matrix.cells[row]!.map((cell, column) => (
									<td
										key={column}
										style={{ '--s': cell ? 0.12 + 0.88 * Math.sqrt(cell.bytes / matrix.most) : 0 }}
										class={cell ? 'full' : ''}
										title={cell ? `${hintOf(cell.bytes, 'bytes', errorOf(cell, 'bytes'))} in ${plural(cell.blocks, 'block')}` : undefined}
									>
										{cell ? (
											<>
												<Amount value={cell.bytes} unit="bytes" error={errorOf(cell, 'bytes')} />
												<br />
												<span class="soft">{countShort(cell.blocks)}</span>
											</>
										) : (
											''
										)}
									</td>
								))}
							</tr>
						))}
					</tbody>
				</table>
			</div>
		</div>
	);
}

function processColumns(data: ProcessesResult): Column<Process>[] {
	const most = Math.max(1, ...data.processes.map((process) => process.peak_bytes));
	return [
		numbers<Process>('peak_bytes', 'Peak', 'bytes', 'Live heap at its own peak', most, 112),
		numbers<Process>('not_freed_bytes', 'At end', 'bytes', 'Not freed at exit'),
		numbers<Process>('calls', 'Calls', 'count', 'Allocations'),
		numbers<Process>('total_bytes', 'Total', 'bytes', 'Bytes requested'),
		numbers<Process>('peak_rss_bytes', 'RSS', 'bytes', 'Resident at most'),
		numbers<Process>('started_offset_ns', 'Started', 'ns', 'Since the start of the recording', undefined, 92),
		numbers<Process>('duration_ns', 'Ran for', 'ns', 'Until its end, or until it was last seen', undefined, 92),
		{
			key: 'end',
			title: 'End',
			width: 92,
			cell: (row) => (row.exit_code !== null && row.end.startsWith('exit') ? `exit ${row.exit_code}` : row.end),
		},
		...(data.processes.some((process) => typeof process.rank === 'number')
			? [numbers<Process>('rank', 'Rank', 'id', 'In the parallel job', undefined, 64)]
			: []),
		numbers<Process>('pid', 'PID', 'id', 'Number of the process', undefined, 72),
		{
			key: 'name',
			title: 'Command',
			hint: (row) => row.command,
			cell: (row) => (
				<span style={{ paddingLeft: indent(row.depth ?? 0) }} class="fn">
					{row.depth ? '└ ' : ''}
					{base(row.command.split(' ')[0])} <span class="soft">{row.command.split(' ').slice(1).join(' ')}</span>
				</span>
			),
		},
	];
}

function Processes() {
	const params = askParams(state.value, 'processes');
	const answer = useAnswer<ProcessesResult>(canonical('processes', params));
	useEffect(() => {
		asking.value = { view: 'processes', params };
	}, [canonical('processes', params)]);
	const columns = useMemo(() => (answer.data ? widened(processColumns(answer.data), answer.data.processes) : []), [answer.data]);
	const text = value('sort');
	const rows = useMemo(
		() =>
			answer.data
				? text
					? sortRows(
							answer.data.processes.map((row) => ({ ...row, depth: 0 })),
							columns,
							sortingOf(''),
						)
					: answer.data.processes
				: [],
		[answer.data, columns, text],
	);
	if (answer.status === 'error') return <Failed answer={answer} />;
	if (!answer.data) return <Loading what="Reading processes" />;
	return (
		<>
			<p class="line-of-words soft">
				{plural(answer.data.processes.length, 'process', 'processes')}, at most{' '}
				<Amount value={answer.data.peak_bytes} unit="bytes" error={errorOf(answer.data, 'peak_bytes')} /> live in all of them
				together, at {duration(answer.data.peak_at_ns)}.{' '}
				{text ? (
					<button type="button" class="link" onClick={() => note({ sort: null })}>
						As a tree again
					</button>
				) : (
					'Each below the one that started it.'
				)}
			</p>
			<Table
				label="Processes"
				columns={columns}
				rows={rows}
				{...(text ? { sorting: sortingOf('') } : {})}
				onSort={onSort}
				chosen={Number(value('row') ?? -1)}
				onChoose={(index) => note({ row: String(index) })}
				onOpen={(index) => rows[index] && addFilter({ name: 'process', value: String(rows[index].pid) })}
				onKey={(event, index) => {
					if (event.key !== '+' || !rows[index]) return false;
					addFilter({ name: 'process', value: String(rows[index].pid) });
					return true;
				}}
			/>
		</>
	);
}

/** None of these follows the selected moment. */
const MOMENTS: Readonly<Record<string, string>> = {
	threads: 'Over the whole run; what a thread holds, at its end.',
	handover: 'Over the whole run.',
	processes: 'Each process at its own peak; calls, total and RSS over its whole run.',
};

const TABS = [
	['threads', 'Threads'],
	['handover', 'Who frees what'],
	['processes', 'Processes'],
] as const;

export function ThreadsView() {
	const tab = chosenTab(TABS);
	return (
		<div class="view fixed">
			<div class="toolbar">
				<Tabs tabs={TABS} />
				<span class="soft">
					{MOMENTS[tab]} {tab === 'handover' ? '' : 'Enter or + filters all views to the selection.'}
				</span>
			</div>
			{tab === 'handover' ? <Handover /> : tab === 'processes' ? <Processes /> : <Threads />}
		</div>
	);
}
