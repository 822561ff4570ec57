// SPDX-License-Identifier: Apache-2.0
// Responses of the server: the JSON of `heapgauge report --format json`, as far as the page reads it. The keys are those of src/analysis; a
// key that is missing here is not shown.

export interface Frame {
	function: string;
	file: string | null;
	line: number;
	module: string;
	offset: number;
	inlined: boolean;
	address_exact: boolean;
	/** libc, runtimes, containers: rarely what the user looks for. */
	runtime_frame?: boolean;
	own?: boolean;
	language?: string | null;
}

export interface Run {
	command: string;
	host: string;
	kernel: string;
	version: string;
	/** Options of `record` in effect. Missing in older recordings. */
	options?: string;
	started_real_ns: number;
	duration_ns: number;
	peak_bound_bytes: number;
}

export interface Head {
	view: string;
	file: string;
	run: Run;
	peak_bytes: number;
	peak_at_ns: number;
	warnings: Record<string, number>;
	/** null: every block was recorded. Otherwise numbers are estimates: NAME_error is the standard error of NAME, if it is not 0. */
	sampling?: { interval_bytes: number; samples: number; peak_bias_bytes: number } | null;
}

/** Results of views that take a query. */
export interface Answered extends Head {
	cost: string;
	moment: string;
	shown: number;
	total: number;
	suppressed: number;
	suppressed_sites: number;
	/** A caveat about the numbers; absent: none. */
	note?: string;
	/** No rows match the filters; the note says so. */
	unmatched?: boolean;
	/** Shows the end instead of the peak, which is unknown for the threads. */
	end_for_peak?: boolean;
}

export interface SizeBar {
	low_bytes: number;
	high_bytes: number;
	count: number;
	count_error?: number;
}

export interface TimeBar {
	low_ms: number;
	high_ms: number;
	count: number;
	count_error?: number;
}

export interface ReallocNumbers {
	calls: number;
	calls_error?: number;
	moved_calls: number;
	moved_bytes: number;
	grown_calls: number;
	shrunk_calls: number;
	old_bytes: number;
	new_bytes: number;
}

export interface Site {
	pid: number;
	site: number;
	kind: string;
	state: string;
	stack: number[];
	sizes?: SizeBar[];
	lifetimes?: TimeBar[];
	realloc?: ReallocNumbers;
	/** Names given by the program: the path of a tag, and its labels by key. */
	tag?: string | null;
	labels?: Record<string, string>;
	/** Of the view leaks of an image: how the block that retains most is still reached, from a root on. */
	path?: PathStep[] | null;
	[column: string]: unknown;
}

/** A root, or blocks that refer to the next one in the same way; name null: left out of a long path. */
export interface PathStep {
	name: string | null;
	offset_bytes: number | null;
	site?: number | null;
	type?: string | null;
	blocks?: number;
}

/** Counts of pairs: by the smallest number of a class of the first, then of the second. */
export type Pairs = Record<string, Record<string, number>>;

export interface SitesResult extends Answered {
	site_count: number;
	sites: Site[];
	frames: Frame[];
	lifetimes?: TimeBar[];
	/** Of whole processes: absent if filters leave out a part of their sites. */
	lifetimes_by_size?: Pairs;
	steps?: Pairs;
	/** Of the views pages and pins. */
	pages?: PageSums;
	/** Of the view leaks of an image: blocks and bytes by class. */
	reach?: Record<string, number>;
}

/** Resident memory of the process that has the most, when its pages were read; the parts add up to rss_bytes. */
export interface PageSums {
	pid: number;
	at_ns: number;
	/** The process waited for that before it exited. */
	at_exit?: boolean;
	rss_bytes: number;
	sites_bytes: number;
	free_bytes: number;
	unrecorded_bytes: number;
	static_bytes: number;
	stack_bytes: number;
	shared_bytes: number;
	file_bytes: number;
	recorder_bytes: number;
	changed_bytes: number;
	changed_blocks: number;
	waste_bytes: number;
	/** Why there may be live blocks that are not known: then nothing is forecast. */
	unknown_blocks?: 'inherited' | 'not recorded' | null;
	trim_bytes: number | null;
	held_bytes: number | null;
	holder_blocks: number | null;
	holder_bytes: number | null;
	holder_site: number | null;
}

/** Rows of --view functions: the key of the rows is the plural of the axis. */
export type GroupsResult = Answered & Record<string, unknown>;

export interface ChangedStack {
	change: number;
	before: number;
	after: number;
	spread: number;
	within_spread: boolean;
	within_noise?: boolean;
	calls_change: number;
	stack: number[];
}

export interface StacksResult extends Answered {
	stacks: ChangedStack[];
	frames: Frame[];
}

export interface Measure {
	measure: string;
	before: number;
	after: number;
	change: number;
	spread: number;
	within_spread: boolean;
	/** For estimates: the difference is within the noise. */
	within_noise?: boolean;
}

export interface ChangesResult extends Head {
	/** Who made the peak and what is left change; null: nobody in particular. */
	verdict?: {
		peak_owner: string | null;
		peak_owner_change: number;
		peak_owner_how: string | null;
		not_freed_owner: string | null;
		not_freed_owner_change: number;
		not_freed_owner_how: string | null;
	};
	changes: Measure[];
}

export interface Memory {
	at_ns: number;
	pid?: number;
	live_bytes: number;
	internal_fragmentation_bytes: number;
	mmap_live_bytes: number;
	/** From here to untouched_bytes, null: the recording does not attribute the memory. */
	mmap_resident_bytes: number | null;
	mmap_untouched_bytes: number | null;
	allocator_overhead_bytes: number | null;
	inherited_bytes: number | null;
	static_bytes: number | null;
	unrecorded_bytes: number | null;
	untouched_bytes: number | null;
	private_bytes: number;
	heap_bytes: number;
	anonymous_bytes: number;
	stack_bytes: number;
	file_bytes: number;
	shared_bytes: number;
	recorder_bytes: number;
	rest_bytes: number;
	rss_bytes: number;
	swap_bytes: number;
	cgroup_usage_bytes: number;
	cgroup_limit_bytes: number;
	/** Of the machine; null: not read. Missing in older pages. */
	system_bytes?: number | null;
	system_available_bytes?: number | null;
	system_cached_bytes?: number | null;
	system_swap_bytes?: number | null;
}

export interface MemoryResult extends Head {
	memory: Memory[];
}

export interface Process {
	depth?: number;
	pid: number;
	ppid: number;
	peak_bytes: number;
	not_freed_bytes: number;
	calls: number;
	total_bytes: number;
	frees: number;
	peak_blocks: number;
	peak_bound_bytes: number;
	peak_at_ns: number;
	not_freed_blocks: number;
	temporary_calls: number;
	/** Sizes of blocks; null: there are none. Missing in older pages. */
	smallest_bytes?: number | null;
	mean_bytes?: number | null;
	largest_bytes?: number | null;
	max_calls_per_second?: number | null;
	max_live_blocks?: number;
	mmap_bytes: number;
	mmap_calls: number;
	mmap_peak_bytes: number;
	threads: number;
	stacks: number;
	started_offset_ns: number;
	duration_ns: number;
	mode: string;
	/** For a sampled process: the sampling interval, average bytes between samples. */
	sampling_interval_bytes?: number;
	samples?: number;
	/** Upper bound of the peak's average bias, which is upwards. */
	peak_bias_bytes?: number;
	/** Maximum number of frames recorded per stack. */
	depth_limit?: number;
	/** In a parallel job. */
	rank?: number | null;
	end: string;
	exit_code: number | null;
	allocator: string;
	recorder_bytes: number;
	peak_rss_bytes: number | null;
	memory: Partial<Memory>;
	health: Record<string, number>;
	command: string;
}

export interface Verdict {
	kind: 'growing' | 'unclear' | 'kept' | 'freed' | 'live';
	pid: number;
	growth: 'growing' | 'bounded' | 'unknown';
	/** The window in which growth was judged. */
	growth_from_ns: number;
	growth_to_ns: number;
	growth_snapshots: number;
	not_freed_owner: string | null;
	not_freed_owner_bytes: number | null;
	peak_owner: string | null;
	peak_owner_bytes: number | null;
	growing_owner: string | null;
	growing_bytes_per_second: number | null;
	/** null: the recording has no image. */
	unreachable_bytes: number | null;
	unreachable_blocks: number | null;
}

export interface ProcessesResult extends Head {
	processes: Process[];
	/** Only of the summary. */
	verdict?: Verdict;
}

export interface Point {
	at_ns: number;
	live_bytes: number;
	live_blocks: number;
	/** null, as all that follow: not read yet of a process that runs then. */
	rss_bytes: number | null;
	calls_per_second: number | null;
	bytes_per_second: number | null;
	frees_per_second: number | null;
	threads: number | null;
	mmap_live_bytes: number | null;
	recorder_bytes: number | null;
	calls: number | null;
	total_bytes: number | null;
	frees: number | null;
	snapshot: number | null;
	peak: boolean;
}

export interface TimelineResult extends Head {
	timeline: Point[];
}

/** Named moments. */
export interface SnapshotsResult extends Head {
	snapshots: {
		/** null: only the name was recorded. */
		snapshot: number | null;
		at_ns: number;
		pid: number;
		kind: string;
		live_bytes: number | null;
		name: string | null;
	}[];
}

export interface HistorySite {
	pid: number;
	site: number;
	max_snapshot_bytes: number;
	/** By snapshot. */
	history: number[];
	history_error?: number[];
	stack: number[];
}

export interface HistoryResult extends Answered {
	snapshot_at_ns: number[];
	sites: HistorySite[];
	frames: Frame[];
}

/** All sites of an owner. */
export interface HistoryOwner {
	/** "Cache::insert (store.cc:35)" */
	own: string;
	max_snapshot_bytes: number;
	/** By snapshot. */
	history: number[];
	history_error?: number[];
}

export interface OwnersHistoryResult extends Answered {
	snapshot_at_ns: number[];
	/** The whole heap at each of these, whatever the filters. */
	live_bytes: number[];
	owners: HistoryOwner[];
}

export interface Finding {
	rule: string;
	title: string;
	pid: number;
	site: number;
	sites: number;
	processes: number;
	saving_peak_bytes: number;
	saving_copied_bytes: number;
	saving_not_freed_bytes: number;
	saving_bytes_per_second: number;
	saving_calls: number;
	saving_cross_thread_frees: number;
	saving_reserved_bytes: number;
	saving_resident_bytes: number;
	evidence: Record<string, number>;
	todo: string;
	stack: number[];
}

export interface AdviceResult extends Head {
	finding_count: number;
	unjudged_mapped_bytes: number;
	findings: Finding[];
	frames: Frame[];
}

export interface GrowingSite {
	pid: number;
	site: number;
	verdict: string;
	bytes_per_second: number | null;
	slowest_bytes_per_second: number | null;
	fastest_bytes_per_second: number | null;
	confidence_per_mille: number;
	first_bytes: number | null;
	last_bytes: number | null;
	live_bytes: number;
	live_blocks: number;
	calls: number;
	frees: number;
	snapshots: number;
	from_ns: number;
	to_ns: number;
	stack: number[];
}

export interface GrowthResult extends Head {
	growing_bytes_per_second: number | null;
	growing_sites: number;
	bounded_sites: number;
	unknown_sites: number;
	heap_verdict: string;
	unjudged_mapped_bytes: number;
	sites: GrowingSite[];
	frames: Frame[];
}

export interface HealthRow {
	pid: number | null;
	about: string;
	name: string;
	count: number;
	meaning: string;
}

export interface HealthResult extends Head {
	recorder_bytes: number;
	peak_rss_bytes: number | null;
	nothing_lost: boolean;
	health: HealthRow[];
}

export interface ModuleRow {
	frames: number;
	named_frames: number;
	frames_with_lines: number;
	processes: number;
	names_from: string;
	build_id: string;
	module: string;
}

export interface ModulesResult extends Head {
	modules: ModuleRow[];
}

export interface VariableRow {
	pid: number;
	bytes: number;
	resident_bytes: number | null;
	copies: number;
	section: string;
	variable: string | null;
	file: string | null;
	line: number | null;
	module: string;
}

export interface GlobalsResult extends Head {
	/** null: unknown, as the next one. */
	bytes: number | null;
	resident_bytes: number | null;
	variables: VariableRow[];
}

export interface SizeRow {
	low_bytes: number;
	high_bytes: number;
	exact: boolean;
	calls: number;
	total_bytes: number;
	mean_internal_fragmentation_bytes: number | null;
	internal_fragmentation_bytes: number;
	internal_fragmentation_calls: number;
}

export interface SizesResult extends Answered {
	/** By the time of a snapshot that was asked for, then by the smallest size of a class; of one whole process. */
	live_bytes_by_time_and_size?: Pairs;
	calls: number;
	total_bytes: number;
	internal_fragmentation_bytes: number;
	sizes: SizeRow[];
}

export interface Thread {
	pid: number;
	tid: number;
	name: string;
	slot: number;
	slot_threads: number;
	started_ns: number;
	calls: number;
	total_bytes: number;
	frees: number;
	freed_bytes: number;
	live_bytes: number | null;
	allocator_ns: number | null;
	stack_reserved_bytes: number | null;
	stack_used_bytes: number | null;
	stack_most_bytes: number | null;
	freed_by_others_blocks: number | null;
	freed_by_others_bytes: number | null;
	freed_for_others_blocks: number | null;
	freed_for_others_bytes: number | null;
	freed_by_owner: Record<string, { blocks: number; bytes: number; blocks_error?: number; bytes_error?: number }> | null;
}

export interface ThreadsResult extends Head {
	thread_count: number;
	calls: number;
	total_bytes: number;
	cross_thread_freed_blocks: number;
	cross_thread_freed_bytes: number;
	/** What is unknown about some of them. */
	note?: string;
	threads: Thread[];
}

export interface Tag {
	depth: number;
	/** The selected number: of the tag including all tags inside it, and of the tag alone. */
	value: number;
	self: number;
	/** null: not a tag, but the memory without a tag or of tags not shown. */
	visits: number | null;
	total_bytes: number;
	self_total_bytes: number;
	bytes_per_visit: number | null;
	self_bytes_per_visit: number | null;
	calls: number;
	self_calls: number;
	realloc_calls: number;
	self_realloc_calls: number;
	frees: number;
	self_frees: number;
	freed_bytes: number;
	self_freed_bytes: number;
	peak_bytes: number;
	self_peak_bytes: number;
	not_freed_bytes: number;
	self_not_freed_bytes: number;
	name: string | null;
	/** Its path: server/parser. */
	tag: string | null;
	/** scope, label, pool; null: not a tag. */
	kind: string | null;
	/** Number of tags that this row summarizes. */
	hidden: number;
}

export interface TagsResult extends Answered {
	tags: Tag[];
}

export interface Pool {
	pool: string;
	pid: number;
	live_bytes: number;
	live_blocks: number;
	/** null: unknown, because filters exclude a part. */
	max_bytes: number | null;
	peak_bytes: number;
	total_bytes: number;
	calls: number;
	frees: number;
	pools: number;
}

export interface PoolsResult extends Answered {
	pools: Pool[];
}

export interface FlameName {
	function: string;
	module: string | null;
	file: string | null;
	line: number;
	inlined: boolean;
	/** The project's own code. */
	own?: boolean;
	language?: string | null;
}

export interface FlameResult extends Answered {
	unit: string;
	names: FlameName[];
	nodes: { name: number[]; parent: number[]; value: number[]; self: number[]; before?: number[]; value_error?: number[] };
}

/** A part of the address space with resident memory, and its tiles and blocks by field. Offsets count from `start`. */
export interface MapRegion {
	pid: number;
	kind: string;
	start: number;
	size_bytes: number;
	resident_bytes: number;
	swapped_bytes: number;
	/** null: nothing is known to be in it. */
	used_bytes: number | null;
	blocks: number;
	/** The one with the most bytes; null: none. */
	site: number | null;
	tile_bytes: number;
	tiles: { offset: number[]; resident_bytes: number[]; swapped_bytes: number[]; used_bytes: number[]; site: number[]; age_ms: number[] };
	/** null: there are too many. */
	block_list: { offset: number[]; bytes: number[]; site: number[]; age_ms: number[] } | null;
}

export interface MapResult extends Head {
	regions: MapRegion[];
	rss_bytes: number;
	left_out_bytes: number;
	changed_bytes: number;
}

export interface SourceFile {
	file: string;
	from: string;
	/** null: unknown, as between the excerpts of a bundle. */
	lines: (string | null)[];
}

export interface About {
	version: string;
	/**
	 * `tagged`: the program set tags, labels or pools. `pages`, `image`, `timed`: its pages were read, it is an image, its calls were timed.
	 * `known_costs`: it is a heap profile of another tool, which has no others.
	 */
	files: {
		index: number;
		path: string;
		name: string;
		tagged?: boolean;
		pages?: boolean;
		image?: boolean;
		timed?: boolean;
		known_costs?: string[];
	}[];
	compare: boolean;
	/** The older recording of a comparison. */
	before?: string | null;
	/** The running process that is shown; 0: recordings. */
	live_pid?: number;
	views: { name: string; help: string; compares: boolean }[];
	costs: { name: string; help: string; unit: string }[];
	axes: { name: string; help: string }[];
	moments: { name: string; help: string }[];
	options: { name: string; help: string; choices?: string[] }[];
	command: string;
}

/** Data embedded in the page. */
export interface Embedded {
	about?: About;
	results?: Record<string, unknown>;
	/** The results of a saved page: JSON, compressed, in base64. */
	results_zlib?: string;
	/** All its sites, likewise: see saved-sites.ts. */
	sites_zlib?: string;
	/** Why it does not have them. */
	sites_missing?: string;
	saved?: boolean;
}
