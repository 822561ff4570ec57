// SPDX-License-Identifier: Apache-2.0
// The frame of the page: what all views share, and the current view.
import type { FunctionComponent } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { about, waiting } from './model/source';
import { address, file, formatState, go, knownCosts, moved, state, value, type ViewName } from './model/state';
import { switchTheme, theme } from './model/theme';
import { asking, CopyButton, Toast } from './parts/copy';
import { RunFacts } from './parts/badge';
import { FilterBar } from './parts/filters';
import { Guard, Unexpected } from './parts/guard';
import { Keys, keysShown } from './parts/keys';
import { useKnownPeak } from './parts/known';
import { Live } from './parts/live';
import { QuestionPick } from './parts/question';
import { Empty, Loading } from './parts/states';
import { Strip } from './parts/strip';
import { StartView } from './views/start';
import { CompareView } from './views/compare';
import { TreeView } from './views/tree';
import { FlameView } from './views/flame';
import { SitesView } from './views/sites';
import { SourceView } from './views/source';
import { SizesView } from './views/sizes';
import { RunView } from './views/run';
import { TagsView } from './views/tags';
import { ThreadsView } from './views/threads';
import { TimeView } from './views/time';

interface View {
	name: ViewName;
	label: string;
	component: FunctionComponent;
}

export const VIEWS: readonly View[] = [
	{ name: 'start', label: 'Start here', component: StartView },
	{ name: 'flame', label: 'Flame', component: FlameView },
	{ name: 'sites', label: 'Sites', component: SitesView },
	{ name: 'tree', label: 'Tree', component: TreeView },
	{ name: 'source', label: 'Source', component: SourceView },
	{ name: 'time', label: 'Time', component: TimeView },
	{ name: 'sizes', label: 'Sizes', component: SizesView },
	{ name: 'threads', label: 'Threads', component: ThreadsView },
	{ name: 'tags', label: 'Tags', component: TagsView },
	{ name: 'compare', label: 'Compare', component: CompareView },
	{ name: 'run', label: 'Run', component: RunView },
];

/** Views of what happened during a run, which a heap profile of another tool does not have. */
const OF_RUN: readonly ViewName[] = ['time', 'sizes', 'threads', 'run'];

function isUnknown(view: ViewName): boolean {
	return knownCosts.value !== undefined && OF_RUN.includes(view);
}

function Unknown() {
	return (
		<Empty title="Not known">
			<p>
				This is a heap profile of another tool. It has live memory by stack{knownCosts.value!.includes('calls') ? ', and totals' : ''}: no
				times, sizes, lifetimes or threads. A recording of heapgauge has them:
			</p>
			<code>heapgauge record PROGRAM</code>
		</Empty>
	);
}

/** Whether the view has nothing to show of this recording; what a running process sets later is not known. */
function isEmpty(view: ViewName): boolean {
	const all = about.value;
	if (!all || all.live_pid) return false;
	if (isUnknown(view)) return true;
	if (view === 'compare') return !all.compare && all.files.length < 2;
	return view === 'tags' && file.value?.tagged === false;
}

function Tabs() {
	const list = useRef<HTMLUListElement>(null);
	const shown = state.value.view;
	/* On a narrow screen the line of views scrolls. */
	useEffect(() => list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' }), [shown]);
	return (
		<nav aria-label="Views" style={{ height: '100%' }}>
			<ul class="tabs" ref={list}>
				{VIEWS.map((view) => (
					<li key={view.name}>
						<a
							href={formatState(moved(address.value, view.name))}
							class={isEmpty(view.name) ? 'empty' : undefined}
							title={isEmpty(view.name) ? 'Nothing to show for this recording' : undefined}
							aria-current={state.value.view === view.name ? 'page' : undefined}
							onClick={(event) => {
								event.preventDefault();
								go(view.name);
							}}
						>
							{view.label}
						</a>
					</li>
				))}
			</ul>
		</nav>
	);
}

function Bar() {
	const dark = theme.value === 'dark';
	return (
		<header class="bar">
			<span class="brand" title={about.value ? `heapgauge ${about.value.version}` : undefined}>
				heapgauge
			</span>
			<Tabs />
			<div class="right">
				<Live />
				<CopyButton />
				<button type="button" class="plain" onClick={switchTheme} aria-label={dark ? 'Light colours' : 'Dark colours'} title="d">
					{dark ? '☀' : '☾'}
				</button>
				<button
					type="button"
					class="plain"
					onClick={() => {
						keysShown.value = true;
					}}
					aria-label="Keys"
					title="?"
				>
					?
				</button>
			</div>
		</header>
	);
}

/** "Flame - run.hg - heapgauge": tells tabs of a browser apart. */
function useTitle(view: View): void {
	const files = about.value?.files ?? [];
	const live = about.value?.live_pid;
	const of = live ? `pid ${live}` : (files[Number(value('file') ?? 0)] ?? files[0])?.name;
	useEffect(() => {
		document.title = [view.label, of, 'heapgauge'].filter(Boolean).join(' - ');
	}, [view.label, of]);
}

export function App() {
	const view = VIEWS.find((known) => known.name === state.value.view) ?? VIEWS[0]!;
	const Shown = isUnknown(view.name) ? Unknown : view.component;
	const known = useKnownPeak();
	const main = useRef<HTMLElement>(null);
	useTitle(view);
	return (
		<div class="app">
			<button type="button" class="skip" onClick={() => main.current?.focus()}>
				Skip to the view
			</button>
			<Bar />
			<section class="asking" aria-label="Question, time and recording">
				<Guard what="the question">
					<QuestionPick known={known} />
				</Guard>
				<Guard what="the strip">
					<Strip />
				</Guard>
				<Guard what="the recording's name">
					<RunFacts />
				</Guard>
			</section>
			<FilterBar asked={asking.value} />
			<main ref={main} tabIndex={-1} style={{ position: 'relative', minHeight: 0, display: 'grid' }} aria-label={view.label}>
				<h1 class="hidden-words">{view.label}</h1>
				{waiting.value > 0 && <div class="progress" />}
				<Guard key={view.name} what={`the view "${view.label}"`}>
					{known ? <Shown /> : <Loading what="Finding out what is known of these threads" />}
				</Guard>
			</main>
			<Keys />
			<Toast />
			<Unexpected />
		</div>
	);
}
