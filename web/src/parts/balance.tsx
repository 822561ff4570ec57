// SPDX-License-Identifier: Apache-2.0
// The balance sheet of a process: from what the program asked for to what the kernel counts; the lines add up.
import type { Memory } from '../model/types';
import { bytes, duration } from '../model/units';
import { Amount, errorOf, hintOf } from './amount';

interface Line {
	sign: '' | '+' | '−' | '=';
	label: string;
	meaning: string;
	value: (m: Memory) => number;
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
		value: (m) => m.slack_bytes,
		key: 'slack_bytes',
		always: true,
	},
	{ sign: '+', label: 'mapped', meaning: "the program's own mmap", value: (m) => m.mapped_bytes, always: false },
	{
		sign: '+',
		label: 'held',
		meaning: 'by the allocator: freed and not given back, headers, never handed out',
		value: (m) => m.beyond_bytes,
		key: 'beyond_bytes',
		always: true,
	},
	{
		sign: '−',
		label: 'untouched',
		meaning: 'asked for, but its pages were never written',
		value: (m) => m.untouched_bytes,
		key: 'untouched_bytes',
		always: false,
	},
	{ sign: '=', label: 'private', meaning: 'heap and other anonymous memory', value: (m) => m.private_bytes, always: true },
	{ sign: '+', label: 'stacks', meaning: 'of all threads', value: (m) => m.stack_bytes, always: true },
	{ sign: '+', label: 'files', meaning: 'programs, libraries, mapped files', value: (m) => m.file_bytes, always: true },
	{ sign: '+', label: 'shared', meaning: 'with other processes', value: (m) => m.shared_bytes, always: false },
	{ sign: '+', label: 'recorder', meaning: 'what recording costs', value: (m) => m.own_bytes, always: true },
	{ sign: '+', label: 'rest', meaning: 'in no class', value: (m) => m.rest_bytes, always: false },
	{ sign: '=', label: 'RSS', meaning: 'resident, as the kernel counts it', value: (m) => m.rss_bytes, always: true },
	{ sign: '', label: 'swap', meaning: 'not resident any more', value: (m) => m.swap_bytes, always: false },
];

/** The last moment that was looked at, of the process with the most in memory. */
export function lastSheet(rows: readonly Memory[]): Memory | undefined {
	const last = new Map<number, Memory>();
	for (const row of rows) last.set(row.process ?? 0, row);
	return [...last.values()].reduce<Memory | undefined>((best, row) => (!best || row.rss_bytes > best.rss_bytes ? row : best), undefined);
}

export function BalanceSheet({ rows }: { rows: readonly Memory[] }) {
	const sheet = lastSheet(rows);
	if (!sheet) return <p class="soft">Not known: the program ended before it was looked at. A longer run tells.</p>;
	const most = Math.max(1, sheet.rss_bytes, sheet.live_bytes);
	return (
		<>
			<table class="plain balance">
				<caption class="soft">at {duration(sheet.at_ns)}, the last moment that was looked at</caption>
				<tbody>
					{LINES.filter((line) => line.always || line.value(sheet)).map((line) => (
						<tr key={line.label} class={line.sign === '=' ? 'sum' : ''}>
							<td class="sign">{line.sign}</td>
							<td>{line.label}</td>
							<td class="number" title={hintOf(line.value(sheet), 'bytes', errorOf(sheet, line.key ?? ''))}>
								<Amount value={line.value(sheet)} unit="bytes" error={errorOf(sheet, line.key ?? '')} />
							</td>
							<td class="measure">
								<i style={{ width: `${(line.value(sheet) / most) * 100}%` }} />
							</td>
							<td class="soft meaning" title={line.meaning}>
								{line.meaning}
							</td>
						</tr>
					))}
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
