// SPDX-License-Identifier: Apache-2.0
// The balance sheet of a process: from what the program asked for to what the kernel counts; the lines add up.
import type { Memory } from '../model/types';
import { bytes, duration } from '../model/units';
import { Amount, errorOf, hintOf } from './amount';

interface Line {
	sign: '' | '+' | '−' | '=';
	label: string;
	meaning: string;
	/** Null: not known. */
	value: (m: Memory) => number | null;
	/** The name of the number, if it may be an estimate. */
	key?: string;
	/** Shown also if it is 0. */
	always: boolean;
}

const LINES: readonly Line[] = [
	{ sign: '', label: 'requested', meaning: 'allocated and not freed', value: (m) => m.live_bytes, key: 'live_bytes', always: true },
	{
		sign: '+',
		label: 'rounding',
		meaning: 'usable beyond what was asked for',
		value: (m) => m.internal_fragmentation_bytes,
		key: 'internal_fragmentation_bytes',
		always: true,
	},
	{
		sign: '−',
		label: 'untouched',
		meaning: 'of these: in pages that were never written, or swapped out',
		value: (m) => m.untouched_bytes,
		key: 'untouched_bytes',
		always: false,
	},
	{ sign: '+', label: 'mapped', meaning: "the program's own mmap, as far as it is resident", value: (m) => m.mmap_resident_bytes, always: false },
	{
		sign: '+',
		label: 'held',
		meaning: 'by the allocator: freed and not given back, headers, never handed out',
		value: (m) => m.allocator_overhead_bytes,
		key: 'allocator_overhead_bytes',
		always: true,
	},
	{
		sign: '+',
		label: 'inherited',
		meaning: 'by fork: there before its own first allocation',
		value: (m) => m.inherited_bytes,
		always: false,
	},
	{ sign: '+', label: 'static data', meaning: 'variables that begin as zero', value: (m) => m.static_bytes, always: false },
	{
		sign: '+',
		label: 'not recorded',
		meaning: 'explained by no allocation or mmap that was recorded',
		value: (m) => m.unrecorded_bytes,
		always: true,
	},
	{ sign: '=', label: 'private', meaning: 'heap and other anonymous memory', value: (m) => m.private_bytes, always: true },
	{ sign: '+', label: 'stacks', meaning: 'of all threads', value: (m) => m.stack_bytes, always: true },
	{ sign: '+', label: 'files', meaning: 'programs, libraries, mapped files', value: (m) => m.file_bytes, always: true },
	{ sign: '+', label: 'shared', meaning: 'with other processes', value: (m) => m.shared_bytes, always: false },
	{ sign: '+', label: 'recorder', meaning: 'what recording costs', value: (m) => m.recorder_bytes, always: true },
	{ sign: '+', label: 'rest', meaning: 'in no class', value: (m) => m.rest_bytes, always: false },
	{ sign: '=', label: 'RSS', meaning: 'resident, as the kernel counts it', value: (m) => m.rss_bytes, always: true },
	{ sign: '', label: 'swap', meaning: 'not resident any more', value: (m) => m.swap_bytes, always: false },
];

/** The last moment of the process that was looked at: all its numbers are of that moment. */
export function lastSheet(rows: readonly Memory[], pid: number): Memory | undefined {
	return rows.filter((row) => row.pid === undefined || row.pid === pid).at(-1);
}

/** `several`: the recording has more than this process. */
export function BalanceSheet({ rows, pid, several }: { rows: readonly Memory[]; pid: number; several: boolean }) {
	const sheet = lastSheet(rows, pid);
	if (!sheet) return <p class="soft">Not known: the program ended before it was looked at. A longer run tells.</p>;
	const most = Math.max(1, sheet.rss_bytes, sheet.live_bytes);
	return (
		<>
			<table class="plain balance">
				<caption class="soft">
					{several ? `process ${pid} ` : ''}at {duration(sheet.at_ns)}, the last moment that was looked at
				</caption>
				<tbody>
					{LINES.filter((line) => line.always || line.value(sheet)).map((line) => {
						const value = line.value(sheet);
						const error = errorOf(sheet, line.key ?? '');
						return (
							<tr key={line.label} class={line.sign === '=' ? 'sum' : ''}>
								<td class="sign">{line.sign}</td>
								<td>{line.label}</td>
								<td class="number" title={value === null ? 'unknown' : hintOf(value, 'bytes', error)}>
									{value === null ? 'unknown' : <Amount value={value} unit="bytes" error={error} />}
								</td>
								<td class="measure">
									<i style={{ width: `${((value ?? 0) / most) * 100}%` }} />
								</td>
								<td class="soft meaning" title={line.meaning}>
									{line.meaning}
								</td>
							</tr>
						);
					})}
				</tbody>
			</table>
			{sheet.cgroup_limit_bytes > 0 && (
				<p class="soft">
					Control group: {bytes(sheet.cgroup_usage_bytes)} in use of the limit of {bytes(sheet.cgroup_limit_bytes)}.
				</p>
			)}
		</>
	);
}

/** Of several processes one line each: they were looked at at different moments. */
export function BalanceLines({ rows, pids }: { rows: readonly Memory[]; pids: readonly number[] }) {
	return (
		<table class="plain">
			<caption class="soft">each process at the last moment that it was looked at</caption>
			<thead>
				<tr>
					<th class="number">PID</th>
					<th class="number">At</th>
					<th class="number">Requested</th>
					<th class="number">Mapped</th>
					<th class="number">RSS</th>
				</tr>
			</thead>
			<tbody>
				{pids.map((pid) => {
					const sheet = lastSheet(rows, pid);
					return (
						<tr key={pid}>
							<td class="number">{pid}</td>
							<td class="number">{sheet ? duration(sheet.at_ns) : 'not known'}</td>
							<td class="number">{sheet ? bytes(sheet.live_bytes) : '–'}</td>
							<td class="number">{sheet ? bytes(sheet.mmap_live_bytes) : '–'}</td>
							<td class="number">{sheet ? bytes(sheet.rss_bytes) : '–'}</td>
						</tr>
					);
				})}
			</tbody>
		</table>
	);
}
