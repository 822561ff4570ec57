// SPDX-License-Identifier: Apache-2.0
// All data of one site: its numbers, sizes, lifetimes, and its stack.
import { ownerOf, shortName } from '../model/frames';
import { knownMeasures, measureOf } from '../model/measures';
import { stepWords } from '../model/paths';
import { knownCosts } from '../model/state';
import { Amount, errorOf, hintOf } from './amount';
import { SizeBars, TimeBars } from './bars';
import { addFilter } from './filters';
import { escapeRegex } from './row-keys';
import { boundOf, type SiteRow } from './site-columns';
import { Stack } from './stack';
import type { Site } from '../model/types';

const FACTS = [
	'peak_bytes',
	'peak_blocks',
	'not_freed_bytes',
	'not_freed_blocks',
	'total_bytes',
	'calls',
	'mean_bytes',
	'temporary_calls',
	'max_bytes',
	'internal_fragmentation_bytes',
	'mean_lifetime_ns',
	'first_seen_ns',
	'copied_bytes',
	'frees',
];

/** Names given by the program; a click filters by one. */
function Named({ site }: { site: Site }) {
	const pool = site.pool as string | null | undefined;
	const words: [string, string, string, string][] = [
		...(site.tag ? [['Tag', site.tag, 'tag', `^${escapeRegex(site.tag)}(/|$)`] as [string, string, string, string]] : []),
		...(pool ? [['Pool', pool, 'pool', `^${escapeRegex(pool)}$`] as [string, string, string, string]] : []),
		...Object.entries(site.labels ?? {}).map(([key, text]): [string, string, string, string] => [
			key,
			text,
			'label',
			`${key}=${escapeRegex(text)}`,
		]),
	];
	if (!words.length) return null;
	return (
		<section>
			<dl class="facts">
				{words.map(([title, text, name, value]) => (
					<>
						<dt>{title}</dt>
						<dd>
							<button type="button" class="link code" title="Only this" onClick={() => addFilter({ name, value })}>
								{text}
							</button>
						</dd>
					</>
				))}
			</dl>
		</section>
	);
}

export function SiteDetail({ row, onClose, onFlame }: { row: SiteRow; onClose: () => void; onFlame: (name: string) => void }) {
	const owner = ownerOf(row.stack ?? [], row.frames ?? []);
	const site = row.site!;
	const facts = knownCosts.value ? knownMeasures([site]) : FACTS.map((key) => measureOf(key)!);
	return (
		<aside class="side" aria-label="The selected site" tabIndex={0}>
			<header>
				<h2 class="code" title={owner?.function}>
					{owner ? shortName(owner.function) : '[no stack]'}
				</h2>
				{owner && (
					<button type="button" onClick={() => onFlame(owner.function)} title="p">
						Callers, callees
					</button>
				)}
				<button type="button" class="plain" aria-label="Close" onClick={onClose}>
					×
				</button>
			</header>
			<section>
				<dl class="facts">
					{facts.map((measure) => {
						const { key } = measure;
						const value = site[key];
						return (
							<>
								<dt title={measure.help}>{measure.title}</dt>
								<dd
									title={typeof value === 'number' ? hintOf(value, measure.unit, errorOf(site, key), boundOf(measure, site)) : 'not known'}
								>
									{typeof value === 'number' ? (
										<Amount value={value} unit={measure.unit} error={errorOf(site, key)} bound={boundOf(measure, site)} />
									) : (
										'–'
									)}
								</dd>
							</>
						);
					})}
				</dl>
			</section>
			<Named site={site} />
			{site.path && (
				<section>
					<h2>{Number(site.unreachable_blocks) > 0 ? 'Its reachable blocks are held by, from the root' : 'Held by, from the root'}</h2>
					<ol class="code">
						{site.path.map((step) => (
							<li>{stepWords(step)}</li>
						))}
					</ol>
				</section>
			)}
			<section>
				<h2>Stack, innermost first</h2>
				<Stack stack={row.stack ?? []} frames={row.frames ?? []} />
			</section>
			{site.sizes && site.sizes.length > 0 && (
				<section>
					<h2>Requested sizes, by calls</h2>
					<SizeBars label="Requested sizes" bars={site.sizes} />
				</section>
			)}
			{site.lifetimes && site.lifetimes.length > 0 && (
				<section>
					<h2>Lifetimes of freed blocks</h2>
					<TimeBars label="Lifetimes" bars={site.lifetimes} />
				</section>
			)}
		</aside>
	);
}
