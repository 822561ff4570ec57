// SPDX-License-Identifier: Apache-2.0
// The filter bar: one box to type into, and a chip for each active filter.
import { useState } from 'preact/hooks';
import { set, state, values } from '../model/state';
import { FILTERS, type FilterWord } from '../model/words';
import { ignoredFilters, type Params } from '../model/query';
import { UNSAVED_FILTERS } from '../model/saved-sites';
import { about, saved, unfilterable } from '../model/source';

export interface TypedFilter {
	name: string;
	value: string;
}

/** "-module:libc" and the like; plain text is a function or file. */
export function parseFilter(text: string): TypedFilter | undefined {
	const typed = text.trim();
	const words = FILTERS.filter((filter) => filter.typed && typed.toLowerCase().startsWith(filter.typed));
	const word = words.sort((a, b) => b.typed.length - a.typed.length)[0];
	const value = typed.slice(word?.typed.length ?? 0).trim();
	return value ? { name: word?.name ?? 'focus', value } : undefined;
}

export function addFilter(filter: TypedFilter): void {
	const word = FILTERS.find((known) => known.name === filter.name)!;
	const before = values(filter.name);
	if (before.includes(filter.value)) return;
	set({ [filter.name]: word.many ? [...before, filter.value] : filter.value });
}

function Chip({ word, value }: { word: FilterWord; value: string }) {
	return (
		<span class="chip">
			<span class="soft">{word.label}</span>
			<code title={value}>{value}</code>
			<button
				type="button"
				aria-label={`Remove the filter ${word.label} ${value}`}
				onClick={() => set({ [word.name]: values(word.name).filter((one) => one !== value) })}
			>
				×
			</button>
		</span>
	);
}

const FOCUS_HINT = 'Filter: function or file, -not this, module:x, tag:x, thread:x, size>1k';

/** `asked`: the query of the current view. */
export function FilterBar({ asked }: { asked: { view: string; params: Params } }) {
	const [text, setText] = useState('');
	const [refused, setRefused] = useState('');
	const missing = unfilterable.value;
	const chips = FILTERS.flatMap((word) => values(word.name).map((value) => <Chip key={word.name + value} word={word} value={value} />));
	/* On Start each part reports the filters that it does not accept. */
	const ignored = state.value.view === 'start' ? [] : ignoredFilters(state.value, asked.view);
	const compared = values('compare').includes('1');
	if (compared && !asked.params.some(([name]) => name === 'compare')) ignored.push('comparison');
	return (
		<div class="filters" role="search">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					const filter = parseFilter(text);
					const why = filter && saved.value ? UNSAVED_FILTERS[filter.name] : undefined;
					setRefused(why ?? '');
					if (filter && !why) {
						addFilter(filter);
						setText('');
					}
				}}
			>
				<input
					id="filter"
					type="text"
					value={text}
					placeholder={FOCUS_HINT}
					aria-label={FOCUS_HINT}
					autocomplete="off"
					spellcheck={false}
					disabled={missing !== undefined}
					title={missing}
					aria-describedby={missing ? 'filter-why' : undefined}
					onInput={(event) => setText(event.currentTarget.value)}
				/>
			</form>
			{missing && (
				<span id="filter-why" class="hidden-words">
					{missing}
				</span>
			)}
			<span class="soft" role="status">
				{refused}
			</span>
			{chips}
			{chips.length > 1 && (
				<button type="button" class="plain" onClick={() => set(Object.fromEntries(FILTERS.map((f) => [f.name, null])))}>
					Clear all
				</button>
			)}
			<span class="right">
				{ignored.length > 0 && <span class="soft">{ignored.join(', ')}: not for this view</span>}
				{about.value?.compare && !saved.value && (
					<label class="check">
						<input type="checkbox" checked={compared} onChange={(event) => set({ compare: event.currentTarget.checked ? '1' : null })} />
						Compare
					</label>
				)}
			</span>
		</div>
	);
}
