// SPDX-License-Identifier: Apache-2.0
// What is wrong, or that nothing is, in two sentences: the same as the first lines of the summary in the terminal.
import { edgeOf } from '../model/growth';
import { bytes, duration, percent, plural } from '../model/units';
import type { Process, Verdict } from '../model/types';

interface Opening {
	open: (view: 'sites' | 'flame' | 'time', changes: Record<string, string | null>) => void;
}

function endOf(process: Process): string {
	return process.end === 'killed' ? ' when it was killed' : process.end === 'signal' ? ' when a signal ended it' : ' at exit';
}

/** What is left, without what is known about its growth. */
function remains(verdict: Verdict, process: Process): string {
	const live = bytes(process.not_freed_bytes);
	const running = process.end === 'running' || process.end === 'exec';
	if (process.not_freed_bytes === 0 && !running) return 'Everything was freed';
	if (verdict.kind === 'freed' && !running)
		return (process.not_freed_bytes * 8 < process.peak_bytes ? `All but ${live} had been freed` : `Only ${live} was not freed`) + endOf(process);
	const from = verdict.not_freed_owner
		? `, ${percent(verdict.not_freed_owner_bytes ?? 0, process.not_freed_bytes)} from ${verdict.not_freed_owner}`
		: '';
	return running ? `${live} live${from}` : `${live} not freed${endOf(process)}${from}`;
}

function left(verdict: Verdict, process: Process): string {
	const what = remains(verdict, process);
	switch (verdict.kind) {
		case 'growing': {
			const other = verdict.growing_owner && verdict.growing_owner !== verdict.not_freed_owner ? `, most in ${verdict.growing_owner}` : '';
			return `${what}; it grew by ${bytes(verdict.growing_bytes_per_second ?? 0)}/s${window(verdict)}${other}.`;
		}
		case 'freed':
			return `${what}.`;
		default:
			return `${what}; ${verdict.growth === 'bounded' ? `no growth${window(verdict)}` : unknownGrowth(verdict)}.`;
	}
}

function window(verdict: Verdict): string {
	return ` from ${duration(verdict.growth_from_ns)} to ${duration(verdict.growth_to_ns)}`;
}

function unknownGrowth(verdict: Verdict): string {
	if (verdict.growth_snapshots === 0) return 'growth is unknown: there are no snapshots';
	return verdict.growth_snapshots < 8 ? 'growth is unknown: there are too few snapshots' : 'growth is unknown';
}

/** Only an image tells; without one nothing is said. */
function unreachable(verdict: Verdict): string | undefined {
	if (typeof verdict.unreachable_blocks !== 'number') return undefined;
	return verdict.unreachable_blocks > 0
		? `${bytes(verdict.unreachable_bytes ?? 0)} of it is unreachable, in ${plural(verdict.unreachable_blocks, 'block')}.`
		: 'No unreachable block was found.';
}

/** Each sentence opens its evidence. `among`: it is about one of several processes that are shown, and says nothing about the others. */
export function VerdictText({ verdict, process, among, open }: { verdict: Verdict; process: Process; among: boolean } & Opening) {
	const at = process.peak_at_ns ? ` at ${duration(process.started_offset_ns + process.peak_at_ns)}` : '';
	const holder = verdict.peak_owner
		? `, ${percent(verdict.peak_owner_bytes ?? 0, process.peak_bytes)} in ${verdict.peak_owner}`
		: '';
	const lost = unreachable(verdict);
	const edge = edgeOf(verdict);
	return (
		<p class={`verdict ${among && edge === 'edge-good' ? '' : edge}`} data-verdict={verdict.kind}>
			{among && `Process ${process.pid} alone: `}
			<button type="button" onClick={() => open('sites', { cost: 'leaked' })}>
				{left(verdict, process)}
			</button>{' '}
			{lost && (
				<>
					<button type="button" onClick={() => open('sites', { tab: 'retainers' })}>
						{lost}
					</button>{' '}
				</>
			)}
			<button type="button" onClick={() => open('flame', { cost: null })}>
				{`Peak ${bytes(process.peak_bytes)}${at}${holder}.`}
			</button>
		</p>
	);
}
