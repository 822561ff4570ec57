/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies the lines of /proc/PID/maps. A mapping with live blocks belongs to the allocator: its free memory is full of old pointers, so
 * only the blocks are scanned, and what the program itself mapped there, since the kernel merges neighbours. A mapping with a stack pointer
 * is a stack above it and its red zone; the thread pointer separates thread-local storage, which glibc and musl put at the top of it.
 *
 * Runs in the thread that stopped the process; nothing here is shared.
 */
#include "collect/image/roots.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/map_line.h"
#include "format/live/live.h"
#include "util/cleanup.h"
#include "util/search.h"

enum {
	HEADERS_MAX = 64,
	ARENA_BYTES = 64 << 20,
#ifdef __x86_64__
	RED_ZONE =
		128, /* a function that calls no other one uses it without moving the stack pointer */
#else
	RED_ZONE = 0,
#endif
};

struct finder {
	const struct memory_source *source;
	const struct stopped *stopped;
	const struct live_blocks *blocks;
	const struct own_map *own;
	size_t own_count;
	uint64_t tls_bytes; /* of all modules */
	uint64_t tls_seen;
	struct root_ranges *to;
	/* the module whose data the last line was */
	char *path;
	uint64_t path_bias, path_at, path_inode, path_end,
		data_end; /* path_end: of all its memory; 0: unknown */
	bool failed;
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static const char *base_of(const char *path, size_t length)
{
	const char *slash = memrchr(path, '/', length);

	return slash ? slash + 1 : path;
}

static size_t name_length(const struct map_line *map)
{
	return strcspn(map->name, "\n");
}

/* The thread with a stack pointer, or thread pointer, in the range, if it is the only one. */
static pid_t thread_in(const struct finder *f, enum reach_class class, uint64_t start, uint64_t end)
{
	pid_t found = 0;

	for (size_t i = 0; i < f->stopped->threads.count; i++) {
		const struct stopped_thread *thread = &f->stopped->threads.at[i];
		uint64_t at = class == REACH_STACK ? thread->stack_pointer : thread->thread_pointer;

		if ((class != REACH_STACK && class != REACH_TLS) || at < start || at >= end)
			continue;
		if (found)
			return 0;
		found = thread->tid;
	}
	return found;
}

static void add(struct finder *f, uint64_t start, uint64_t end, enum reach_class class)
{
	struct root_range range = { .start = start, .end = end, .class = class };

	if (start >= end)
		return;
	if (class == REACH_GLOBAL && f->path) {
		const char *base = base_of(f->path, strlen(f->path));

		range.path = strdup(f->path);
		range.bias = f->path_bias;
		range.file_at = f->path_at;
		range.is_allocator = begins(base, "libc.so") || begins(base, "libc-");
	}
	range.thread = thread_in(f, class, start, end);
	if (!vector_push(&f->to->list, range)) {
		free(range.path);
		f->failed = true;
	}
}

/* ---- modules ---- */

static uint64_t page_up(uint64_t address)
{
	return (address + LIVE_PAGE - 1) & ~(LIVE_PAGE - 1ull);
}

/* Reads the program headers of a module at its first mapping. */
static void read_module(struct finder *f, const struct map_line *map)
{
	Elf64_Ehdr header;
	Elf64_Phdr headers[HEADERS_MAX];
	bool has_bias = false;

	if (memory_source_read(f->source, map->start, &header, sizeof header) != sizeof header ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > HEADERS_MAX ||
	    header.e_phentsize != sizeof *headers)
		return;
	size_t bytes = header.e_phnum * sizeof *headers;

	if (memory_source_read(f->source, map->start + header.e_phoff, headers, bytes) !=
	    (ssize_t)bytes)
		return;
	for (size_t i = 0; i < header.e_phnum; i++) {
		if (headers[i].p_type == PT_LOAD && !has_bias) {
			f->path_bias = map->start - (headers[i].p_vaddr & ~0xfffull);
			has_bias = true;
		}
		if (headers[i].p_type == PT_LOAD)
			f->path_end =
				page_up(f->path_bias + headers[i].p_vaddr + headers[i].p_memsz);
		if (headers[i].p_type == PT_TLS && headers[i].p_memsz < 1u << 30)
			f->tls_seen += headers[i].p_memsz + headers[i].p_align % 4096;
	}
}

static void enter_module(struct finder *f, const struct map_line *map)
{
	free(f->path);
	f->path = strndup(map->name, name_length(map));
	f->path_inode = map->inode;
	f->path_bias = f->path_end = 0;
	f->path_at = map->offset == 0 ? map->start : 0;
	f->data_end = 0;
	if (map->offset == 0)
		read_module(f, map);
}

static bool is_recorder(const struct finder *f)
{
	return f->path && begins(base_of(f->path, strlen(f->path)), "libheapgauge");
}

/* Read-only data of a module has no pointers to the heap, except what was writable while it was loaded: that is next to its data. */
static bool is_data(const struct map_line *map, const struct map_line *next)
{
	if (begins(map->permissions, "rw"))
		return true;
	return begins(map->permissions, "r--p") && next && next->start == map->end &&
	       next->inode == map->inode && begins(next->permissions, "rw");
}

static void add_module(struct finder *f, const struct map_line *map, const struct map_line *next)
{
	struct module_range module = { map->start, map->end };

	/* The first page of a small file may be mapped twice, for its code and for its data. */
	if (map->inode != f->path_inode || (map->offset == 0 && map->start >= f->path_end))
		enter_module(f, map);
	if (map->permissions[0] == 'r' && !vector_push(&f->to->modules, module))
		f->failed = true;
	if (!is_data(map, next))
		return;
	f->data_end = map->end;
	if (!is_recorder(f))
		add(f, map->start, map->end, REACH_GLOBAL);
}

/* ---- anonymous memory ---- */

static bool has_blocks(const struct finder *f, uint64_t start, uint64_t end)
{
	size_t first = live_blocks_before(f->blocks, start);

	if (first > 0) {
		const struct live_block *before = &f->blocks->list.at[first - 1];

		if (before->address + before->size_bytes > start)
			return true;
	}
	return first < f->blocks->list.count && f->blocks->list.at[first].address < end;
}

/* Whether it is a heap of one of glibc's arenas, which are aligned to their largest size: it is the allocator's also if all of its blocks were
 * freed. The first words are malloc's struct _heap_info. */
static bool is_arena(const struct finder *f, uint64_t start, uint64_t end)
{
	struct {
		uint64_t arena, before, size, writable_bytes;
	} heap;

	return start % ARENA_BYTES == 0 &&
	       memory_source_read(f->source, start, &heap, sizeof heap) == sizeof heap &&
	       heap.arena != 0 && heap.arena % sizeof heap.arena == 0 &&
	       heap.before % ARENA_BYTES == 0 && heap.size != 0 &&
	       heap.size <= heap.writable_bytes && heap.writable_bytes == end - start;
}

/* The lowest of the pointers that are in a mapping, 0 = none is; `offset` of the pointer in struct stopped_thread. */
static uint64_t lowest_in(const struct finder *f, size_t offset, uint64_t start, uint64_t end)
{
	uint64_t lowest = 0, at;

	for (size_t i = 0; i < f->stopped->threads.count; i++) {
		memcpy(&at, (const char *)&f->stopped->threads.at[i] + offset, sizeof at);
		if (at >= start && at < end && (lowest == 0 || at < lowest))
			lowest = at;
	}
	return lowest;
}

/* What a thread uses of its stack, which begins at `start` or below, begins here. */
static uint64_t used_stack(uint64_t stack_pointer, uint64_t start)
{
	return MAX(start, saturating_sub(stack_pointer, RED_ZONE) & ~7ull);
}

/* The stacks and the thread-local storage in a mapping. Returns where they begin; 0: it has neither. */
static uint64_t add_threads(struct finder *f, uint64_t start, uint64_t end)
{
	uint64_t stack = lowest_in(f, offsetof(struct stopped_thread, stack_pointer), start, end);
	uint64_t tls = lowest_in(f, offsetof(struct stopped_thread, thread_pointer), start, end);

	if (!stack && !tls)
		return 0;
	if (!tls) {
		stack = used_stack(stack, start);
		add(f, stack, end, REACH_STACK);
		return stack;
	}
	if (!stack) {
		add(f, start, end, REACH_TLS);
		return start;
	}
	if (stack < tls) {
		stack = used_stack(stack, start);
		/* Modules that were loaded later have theirs elsewhere: that much of it need not be here. */
		tls = MAX(stack, saturating_sub(tls, f->tls_bytes));
		add(f, stack, tls, REACH_STACK);
		add(f, tls, end, REACH_TLS);
		return stack;
	}
	tls = MAX(start, saturating_sub(tls, f->tls_bytes));
	stack = used_stack(stack, tls);
	add(f, tls, stack, REACH_TLS);
	add(f, stack, end, REACH_STACK);
	return tls;
}

static void add_own_maps(struct finder *f, uint64_t start, uint64_t end)
{
	size_t low = FIRST_WHERE(i, f->own_count, f->own[i].end > start);

	for (size_t i = low; i < f->own_count && f->own[i].start < end; i++)
		add(f, MAX(start, f->own[i].start), MIN(end, f->own[i].end), REACH_UNKNOWN);
}

/* A stack inside a block, such as that of a coroutine. */
static void add_stack_blocks(struct finder *f, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < f->stopped->threads.count; i++) {
		uint64_t at = f->stopped->threads.at[i].stack_pointer;
		size_t first = live_blocks_before(f->blocks, at + 1);

		if (at < start || at >= end || first == 0)
			continue;
		const struct live_block *block = &f->blocks->list.at[first - 1];

		add(f, used_stack(at, block->address), MIN(end, block->address + block->size_bytes),
		    REACH_STACK);
	}
}

/* The stacks and the thread-local storage between two blocks: the kernel merges them with a mapping that has a large block. */
static void add_threads_beside_blocks(struct finder *f, uint64_t start, uint64_t end)
{
	const struct live_blocks *blocks = f->blocks;

	for (size_t i = 0; i < 2 * f->stopped->threads.count; i++) {
		const struct stopped_thread *thread = &f->stopped->threads.at[i / 2];
		uint64_t at = i % 2 ? thread->thread_pointer : thread->stack_pointer;
		uint64_t low = start, high = end;
		size_t next = live_blocks_before(blocks, at + 1);

		if (at < start || at >= end)
			continue;
		if (next > 0)
			low = MAX(low, blocks->list.at[next - 1].address +
					       blocks->list.at[next - 1].size_bytes);
		if (next < blocks->list.count)
			high = MIN(high, blocks->list.at[next].address);
		if (at >= low)
			(void)add_threads(f, low, high);
	}
}

/* Adds .bss, which follows the data of a module. Returns its end: the kernel merges it with a mapping behind it. */
static uint64_t add_bss(struct finder *f, const struct map_line *map)
{
	struct module_range module = { map->start, map->end };

	if (f->path_end)
		module.end = MIN(map->end, MAX(f->path_end, map->start));
	if (module.start < module.end && !vector_push(&f->to->modules, module))
		f->failed = true;
	if (!is_recorder(f))
		add(f, module.start, module.end, REACH_GLOBAL);
	return module.end;
}

/* Memory of the allocator. Of blocks from before a fork only the parent knows where they are: all between the other ones is searched then. */
static void add_heap(struct finder *f, uint64_t start, uint64_t end)
{
	if (!f->blocks->has_parents) {
		add_own_maps(f, start, end);
		add_stack_blocks(f, start, end);
		add_threads_beside_blocks(f, start, end);
		return;
	}
	add(f, start, end, REACH_UNKNOWN);
	if (!f->failed) {
		struct root_range *range = &f->to->list.at[f->to->list.count - 1];

		range->has_blocks = range->is_allocator = true;
	}
}

static void add_anonymous(struct finder *f, const struct map_line *map)
{
	bool bss = map->start == f->data_end && map->name[0] != '[';
	uint64_t start = map->start, threads;

	f->data_end = 0;
	/* Memory that is only read was written before it was made so. */
	if (!begins(map->permissions, "rw") && !begins(map->permissions, "r--"))
		return;
	if (bss)
		start = add_bss(f, map);
	if (start == map->end)
		return;
	if (begins(map->name, "[heap]") || has_blocks(f, start, map->end) ||
	    is_arena(f, start, map->end)) {
		add_heap(f, start, map->end);
	} else if ((threads = add_threads(f, start, map->end)) != 0) {
		/* The C library uses nothing below its stacks; in what the program mapped there may be other ones, or data. */
		add_own_maps(f, start, threads);
	} else {
		add(f, start, map->end, begins(map->name, "[stack") ? REACH_STACK : REACH_UNKNOWN);
	}
}

static int compare_ranges(const void *left, const void *right)
{
	const struct root_range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Each byte is a root once. */
static void make_disjoint(struct root_ranges *roots)
{
	uint64_t end = 0;

	if (roots->list.count > 0)
		qsort(roots->list.at, roots->list.count, sizeof *roots->list.at, compare_ranges);
	for (size_t i = 0; i < roots->list.count; i++) {
		struct root_range *range = &roots->list.at[i];

		range->start = MAX(range->start, end);
		range->end = MAX(range->end, range->start);
		end = range->end;
	}
}

int roots_find(const char *maps, const struct memory_source *source, const struct stopped *stopped,
	       const struct live_blocks *blocks, const struct own_map *own, size_t own_count,
	       struct root_ranges *ret, struct error *error)
{
	struct finder f = { .source = source,
			    .stopped = stopped,
			    .blocks = blocks,
			    .own = own,
			    .own_count = own_count,
			    .to = ret };
	struct map_line map, next;
	const char *at = maps;

	*ret = (struct root_ranges){ 0 };
	while (map_line_next(&at, &map))
		if (map.inode != 0 && map.offset == 0)
			read_module(&f, &map);
	f.tls_bytes = f.tls_seen;
	at = maps;
	for (bool more = map_line_next(&at, &map); more; map = next) {
		more = map_line_next(&at, &next);
		if (map.permissions[3] != 'p' || begins(map.name, "[v"))
			f.data_end = 0;
		else if (map.inode != 0 && !begins(map.name, "/anon_hugepage"))
			add_module(&f, &map, more ? &next : NULL);
		else
			add_anonymous(&f, &map);
	}
	free(f.path);
	make_disjoint(ret);
	return f.failed ? error_set(error, "out of memory") : 0;
}

void roots_release(struct root_ranges *roots)
{
	for (size_t i = 0; i < roots->list.count; i++)
		free(roots->list.at[i].path);
	vector_release(&roots->list);
	vector_release(&roots->modules);
}
