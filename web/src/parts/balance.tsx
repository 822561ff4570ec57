// SPDX-License-Identifier: Apache-2.0
// The memory breakdown of a process, from requested bytes to what the kernel counts; the lines add up.
import type { Memory } from '../model/types';
import { bytes, duration } from '../model/units';
import { Amount, errorOf, hintOf } from './amount';

interface Line {
	sign: '' | '+' | '−' | '=';
	label: string;
	meaning: string;
	/** Null: unknown. */
	value: (m: Memory) => number | null;
	/** The key of the number, if it may be an estimate. */
	key?: string;
	/** Also shown if it is 0. */
	always: boolean;
}

const LINES: readonly Line[] = [
	{ sign: '', label: 'requested', meaning: 'allocated and not freed', value: (m) => m.live_bytes, key: 'live_bytes', always: true },
	{
		sign: '+',
		label: 'rounding',
		meaning: 'usable beyond the requested size',
		value: (m) => m.internal_fragmentation_bytes,
		key: 'internal_fragmentation_bytes',
		always: true,
	},
	{
		sign: '−',
		label: 'not resident',
		meaning: 'of these: in pages that are not resident',
		value: (m) => m.untouched_bytes,
		key: 'untouched_bytes',
		always: false,
	},
	{ sign: '+', label: 'mapped', meaning: "the program's own mmap, as far as it is resident", value: (m) => m.mmap_resident_bytes, always: false },
	{
		sign: '+',
		label: 'held',
		meaning: 'by the allocator: free and not returned, headers, never allocated',
		value: (m) => m.allocator_overhead_bytes,
		key: 'allocator_overhead_bytes',
		always: true,
	},
	{
		sign: '+',
		label: 'inherited',
		meaning: 'by fork: present before its first allocation',
		value: (m) => m.inherited_bytes,
		always: false,
	},
	{ sign: '+', label: 'static data', meaning: '.bss (zero-initialized variables)', value: (m) => m.static_bytes, always: false },
	{
		sign: '+',
		label: 'not recorded',
		meaning: 'not in any recorded allocation or mapping',
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
	{ sign: '', label: 'swap', meaning: 'no longer resident', value: (m) => m.swap_bytes, always: false },
];

/** The last observation of the process; all numbers are from that moment. */
export function lastSheet(rows: readonly Memory[], pid: number): Memory | undefined {
	return rows.filter((row) => row.pid === undefined || row.pid === pid).at(-1);
}

/** A line of a sheet; a value of null is unknown. */
export interface SheetLine {
	sign: Line['sign'];
	label: string;
	meaning: string;
	value: number | null;
	error?: number;
}

/** An estimated difference below three standard errors may be sampling error. */
function meaningOf(line: Line, value: number | null, error: number): string {
	return line.key === 'untouched_bytes' && error > 0 && (value ?? 0) < 3 * error ? 'more than is resident; may be sampling error' : line.meaning;
}

/** Lines that add up; bars are relative to `most`. */
export function Sheet({ caption, lines, most }: { caption: string; lines: readonly SheetLine[]; most: number }) {
	return (
		<table class="plain balance">
			<caption class="soft">{caption}</caption>
			<tbody>
				{lines.map(({ sign, label, meaning, value, error = 0 }) => (
					<tr key={label} class={sign === '=' ? 'sum' : ''}>
						<td class="sign">{sign}</td>
						<td>{label}</td>
						<td class="number" title={value === null ? 'unknown' : hintOf(value, 'bytes', error)}>
							{value === null ? 'unknown' : <Amount value={value} unit="bytes" error={error} />}
						</td>
						<td class="measure">
							{value !== null && <i style={{ width: `${(value / most) * 100}%` }} />}
						</td>
						<td class="soft meaning" title={meaning}>
							{meaning}
						</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

/** `several`: the recording has other processes too. */
export function BalanceSheet({ rows, pid, several }: { rows: readonly Memory[]; pid: number; several: boolean }) {
	const sheet = lastSheet(rows, pid);
	if (!sheet) return <p class="soft">Not known: the program ended before it was observed. Record a longer run.</p>;
	const most = Math.max(1, sheet.rss_bytes, sheet.live_bytes);
	const lines = LINES.map((line) => {
		const value = line.value(sheet) ?? null;
		const error = errorOf(sheet, line.key ?? '');
		return { ...line, value, error, meaning: meaningOf(line, value, error) };
	});
	return (
		<>
			<Sheet
				caption={`${several ? `process ${pid} ` : ''}at ${duration(sheet.at_ns)}, its last observation`}
				lines={lines.filter((line) => line.always || line.value !== 0)}
				most={most}
			/>
			{sheet.cgroup_limit_bytes > 0 && (
				<p class="soft">
					Control group: {bytes(sheet.cgroup_usage_bytes)} in use of the limit of {bytes(sheet.cgroup_limit_bytes)}.
				</p>
			)}
		</>
	);
}

/** One line per process: they were observed at different moments. */
export function BalanceLines({ rows, pids }: { rows: readonly Memory[]; pids: readonly number[] }) {
	return (
		<table class="plain">
			<caption class="soft">each process at its last observation</caption>
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
