/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder knows the modules on the stacks that it has unwound. Those that never call it are only in /proc/PID/maps:
 * libraries loaded by dlmopen, and libraries that dlopen bound to libc with RTLD_DEEPBIND.
 *
 * The latter are visible in their GOT: the slot of malloc contains an address in libc instead of the recorder. If that libc is
 * not the one in the recorder's own namespace, the library is in another namespace. The slots are known from the relocations of
 * the file; their contents are read from the process.
 *
 * Called by a worker that owns the target; only the list is kept.
 */
#include "collect/binaries/loaded_files.h"

#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/map_line.h"
#include "collect/kernel/procfs.h"
#include "format/unrecorded.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/search.h"

/* A program may map a file any number of times; namespaces are few. */
enum { MAPPINGS_MAX = 1 << 16, PLACES_MAX = 64 };
#define DUE_BYTES (4ull << 20)

struct mapping {
	uint64_t start, end;
	uint64_t begins; /* start of the file's first mapping */
	bool is_code;
	const char *path; /* up to the end of the line */
};

struct maps {
	pid_t pid;
	char *text;
	VECTOR(struct mapping) all;
};

void loaded_release(struct loaded *loaded)
{
	for (size_t i = 0; i < loaded->files.count; i++)
		free(loaded->files.at[i].path);
	vector_release(&loaded->files);
}

bool loaded_copy(struct loaded *to, const struct loaded *from)
{
	for (size_t i = 0; i < from->files.count; i++) {
		struct loaded_file file = from->files.at[i];

		file.path = strdup(file.path);
		if (!file.path || !vector_push(&to->files, file)) {
			free(file.path);
			return false;
		}
	}
	return true;
}

void loaded_give(struct loaded *loaded, struct process_rows *rows)
{
	rows->unrecorded =
		loaded->files.count ? calloc(loaded->files.count, sizeof *rows->unrecorded) : NULL;
	for (size_t i = 0; rows->unrecorded && i < loaded->files.count; i++) {
		rows->unrecorded[i].path = TAKE(loaded->files.at[i].path);
		rows->unrecorded[i].found = loaded->files.at[i].found;
		rows->unrecorded_count = i + 1;
	}
	loaded_release(loaded);
}

bool loaded_is_due(const struct memory_row *row)
{
	uint64_t known = saturating_add(row->live_bytes, row->fragmentation_bytes);

	return saturating_sub(saturating_add(row->heap_bytes, row->anonymous_bytes), known) >
	       DUE_BYTES;
}

/* ---- the files ---- */

/* Functions that return blocks; and the function that every program calls in its own libc. */
static const char *const allocating[] = { "malloc", "calloc", "realloc", NULL };
static const char *const starting[] = { "__libc_start_main", NULL };

/* The link-time address of the start of the file. */
static uint64_t base_of(Elf *elf)
{
	size_t count;
	GElf_Phdr segment;

	if (elf_getphdrnum(elf, &count) != 0)
		return 0;
	for (size_t i = 0; i < count && i < INT32_MAX; i++)
		if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
		    segment.p_offset == 0)
			return segment.p_vaddr;
	return 0;
}

/* Returns slots relative to that address. */
static struct elf_slots slots_of(const char *path, const char *const *names)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_slots slots = { .count = 0 };
	struct elf_walk walk;

	if (file_map_open(&map, path, NULL) < 0)
		return slots;
	if (elf_walk_begin(&walk, map.bytes)) {
		while (elf_walk_next(&walk))
			elf_slots_take(&walk, names, &slots);
		for (size_t i = 0; i < slots.count; i++)
			slots.at[i] -= base_of(walk.elf);
	}
	elf_walk_end(&walk);
	return slots;
}

/* NULL: it is not in the list. Starts at the last result, since mappings of a file are adjacent. */
static struct loaded_file *known(struct loaded *loaded, const char *path)
{
	for (size_t i = 0; i < loaded->files.count; i++) {
		size_t at = (loaded->last + i) % loaded->files.count;

		if (strcmp(loaded->files.at[at].path, path) != 0)
			continue;
		loaded->last = at;
		return &loaded->files.at[at];
	}
	return NULL;
}

static void add_file(struct loaded *loaded, const char *path)
{
	struct loaded_file file = { .path = NULL };

	if (known(loaded, path) || loaded->files.count == UNRECORDED_FILES_MAX)
		return;
	file.path = strdup(path);
	if (file.path)
		file.slots = slots_of(path, allocating);
	if (!file.path || !vector_push(&loaded->files, file))
		free(file.path);
}

/* ---- the process ---- */

static bool is_libc(const char *path)
{
	return strcmp(path_base(path), "libc.so.6") == 0;
}

/* Files that every process has, or that forward to libc by design. */
static bool is_exempt(const char *path)
{
	const char *base = path_base(path);

	return is_libc(path) || strncmp(base, "ld-linux", 8) == 0 ||
	       strncmp(base, "libheapgauge", 12) == 0;
}

static bool read_maps(struct maps *maps, pid_t pid)
{
	char *rest, *line;
	struct map_line map;
	uint64_t begins = 0;

	maps->pid = pid;
	maps->text = rest = procfs_file(pid, "maps", NULL);
	while (rest && (line = strsep(&rest, "\n")) != NULL) {
		if (!map_line_parse(line, &map) || map.name[0] != '/' ||
		    maps->all.count == MAPPINGS_MAX)
			continue;
		if (map.offset == 0)
			begins = map.start;
		struct mapping mapping = { map.start, map.end, begins, map.permissions[2] == 'x',
					   map.name };

		if (!vector_push(&maps->all, mapping))
			return false;
	}
	return maps->text != NULL;
}

static void maps_release(struct maps *maps)
{
	vector_release(&maps->all);
	free(maps->text);
}

/* The start of the file that contains the address, if it is libc; else 0. */
static uint64_t libc_of(const struct maps *maps, uint64_t address)
{
	size_t low = FIRST_WHERE(i, maps->all.count, maps->all.at[i].end > address);
	const struct mapping *m = low < maps->all.count ? &maps->all.at[low] : NULL;

	return m && address >= m->start && is_libc(m->path) ? m->begins : 0;
}

static uint64_t word_at(pid_t pid, uint64_t address)
{
	uint64_t word = 0;
	struct iovec local = { &word, sizeof word };
	struct iovec remote = { (void *)(uintptr_t)address, sizeof word };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof word ? word : 0;
}

/* The libc that a slot of the file mapped there points to; 0: none. */
static uint64_t bound_to(const struct maps *maps, uint64_t begins, uint64_t slot)
{
	return libc_of(maps, word_at(maps->pid, begins + slot));
}

/* 0: unknown. */
static uint64_t own_libc_of(const struct maps *maps)
{
	AUTO_FREE char *exe = procfs_exe(maps->pid);
	struct elf_slots slots = exe ? slots_of(exe, starting) : (struct elf_slots){ .count = 0 };
	uint64_t libc = 0;

	for (size_t i = 0; slots.count > 0 && i < maps->all.count && libc == 0; i++) {
		const struct mapping *m = &maps->all.at[i];

		for (size_t k = 0; k < slots.count && libc == 0 && m->start == m->begins &&
				   strcmp(m->path, exe) == 0;
		     k++)
			libc = bound_to(maps, m->begins, slots.at[k]);
	}
	return libc;
}

/* Each namespace maps the file at another address. */
static void scan_bucket(const struct loaded *loaded, const struct maps *maps, uint64_t begins,
			struct loaded_file *file)
{
	for (size_t i = 0; i < file->slots.count; i++) {
		uint64_t libc = bound_to(maps, begins, file->slots.at[i]);

		if (libc != 0)
			file->found |= libc == loaded->own_libc ? UNRECORDED_BIT(deepbind)
								: UNRECORDED_BIT(namespace);
	}
	file->places++;
}

void loaded_scan(struct loaded *loaded, pid_t pid)
{
	AUTO(maps_release) struct maps maps = { 0 };

	if (!read_maps(&maps, pid))
		return;
	for (size_t i = 0; i < maps.all.count; i++)
		if (maps.all.at[i].is_code && !is_exempt(maps.all.at[i].path))
			add_file(loaded, maps.all.at[i].path);
	/* One finding per file is enough. */
	for (size_t i = 0; i < loaded->files.count; i++)
		loaded->files.at[i].places = loaded->files.at[i].found ? PLACES_MAX : 0;
	if (loaded->own_libc == 0)
		loaded->own_libc = own_libc_of(&maps);
	for (size_t i = 0; loaded->own_libc != 0 && i < maps.all.count; i++) {
		const struct mapping *m = &maps.all.at[i];
		struct loaded_file *file = m->start == m->begins ? known(loaded, m->path) : NULL;

		if (file && file->places < PLACES_MAX)
			scan_bucket(loaded, &maps, m->begins, file);
	}
}
