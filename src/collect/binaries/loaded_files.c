/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder knows the objects on the stacks that it has walked. Those that never call it are only in /proc/PID/maps: what
 * dlmopen loaded, and what dlopen bound to libc by RTLD_DEEPBIND.
 *
 * The latter show in their global offset tables: the slot of malloc holds an address in libc instead of one in the recorder. If
 * that libc is not the one that the recorder's own namespace has, the object is in another namespace. The slots are known from
 * the relocations of the file (libelf), their contents are read from the process.
 *
 * A worker calls this while it has the target; nothing is kept but the list.
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
#include "util/cleanup.h"
#include "util/files.h"

enum { FILES_MAX = 4096, MAPPINGS_MAX = 1 << 16 };
#define DUE_BYTES (4ull << 20)

struct mapping {
	uint64_t start, end, offset;
	bool is_code;
	const char *path; /* ends with the line */
};

struct maps {
	pid_t pid;
	char *text;
	VECTOR(struct mapping) all;
};

/* Where the libcs begin that a file is bound to. */
struct bound {
	uint64_t libc[ELF_SLOTS_MAX];
	size_t count;
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
	rows->unseen =
		loaded->files.count ? calloc(loaded->files.count, sizeof *rows->unseen) : NULL;
	for (size_t i = 0; rows->unseen && i < loaded->files.count; i++) {
		rows->unseen[i].path = TAKE(loaded->files.at[i].path);
		rows->unseen[i].found = loaded->files.at[i].found;
		rows->unseen_count = i + 1;
	}
	loaded_release(loaded);
}

bool loaded_is_due(const struct memory_row *row)
{
	uint64_t known = saturating_add(row->live_bytes, row->slack_bytes);

	return saturating_sub(saturating_add(row->heap_bytes, row->anonymous_bytes), known) >
	       DUE_BYTES;
}

/* ---- the files ---- */

/* Functions that give out blocks; and what every program calls of the libc that it began with. */
static const char *const allocating[] = { "malloc", "calloc", "realloc", NULL };
static const char *const starting[] = { "__libc_start_main", NULL };

/* The address of the beginning of the file. */
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

/* Relative to that address. */
static struct elf_slots slots_of(const char *path, const char *const *names)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_slots slots = { .count = 0 };
	Elf_Scn *section = NULL;
	Elf *elf;

	if (file_map_open(&map, path, NULL) < 0 || elf_version(EV_CURRENT) == EV_NONE)
		return slots;
	elf = elf_memory((char *)(uintptr_t)map.bytes.data, map.bytes.size);
	while (elf && (section = elf_nextscn(elf, section)) != NULL)
		elf_slots_take(elf, section, names, &slots);
	for (size_t i = 0; i < slots.count; i++)
		slots.at[i] -= base_of(elf);
	elf_end(elf);
	return slots;
}

static struct loaded_file *file_of(struct loaded *loaded, const char *path)
{
	for (size_t i = 0; i < loaded->files.count; i++)
		if (strcmp(loaded->files.at[i].path, path) == 0)
			return &loaded->files.at[i];
	struct loaded_file file = { .path = loaded->files.count < FILES_MAX ? strdup(path) : NULL };

	if (file.path)
		file.slots = slots_of(path, allocating);
	if (!file.path || !vector_push(&loaded->files, file)) {
		free(file.path);
		return NULL;
	}
	return &loaded->files.at[loaded->files.count - 1];
}

/* ---- the process ---- */

static bool is_libc(const char *path)
{
	return strcmp(path_base(path), "libc.so.6") == 0;
}

/* What everybody has, and what forwards to libc by design. */
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

	maps->pid = pid;
	maps->text = rest = procfs_file(pid, "maps", NULL);
	while (rest && (line = strsep(&rest, "\n")) != NULL) {
		if (!map_line_parse(line, &map) || map.name[0] != '/' ||
		    maps->all.count == MAPPINGS_MAX)
			continue;
		struct mapping mapping = { map.start, map.end, map.offset,
					   map.permissions[2] == 'x', map.name };

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

/* Where the file that holds the address begins, if that is libc; else 0. */
static uint64_t libc_of(const struct maps *maps, uint64_t address)
{
	uint64_t begins = 0;

	for (size_t i = 0; i < maps->all.count; i++) {
		const struct mapping *m = &maps->all.at[i];

		if (m->offset == 0)
			begins = m->start;
		if (address >= m->start && address < m->end)
			return is_libc(m->path) ? begins : 0;
	}
	return 0;
}

static uint64_t word_at(pid_t pid, uint64_t address)
{
	uint64_t word = 0;
	struct iovec local = { &word, sizeof word };
	struct iovec remote = { (void *)(uintptr_t)address, sizeof word };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof word ? word : 0;
}

/* The libcs that the file's slots lead to, at all places where it is mapped: each namespace has its own. The first is
 * enough to know where it is bound. */
static void find_libcs(const struct maps *maps, const char *path, const struct elf_slots *slots,
		       struct bound *ret)
{
	for (size_t i = 0; slots->count > 0 && i < maps->all.count; i++) {
		const struct mapping *m = &maps->all.at[i];

		if (m->offset != 0 || strcmp(m->path, path) != 0)
			continue;
		for (size_t k = 0; k < slots->count && ret->count < ARRAY_SIZE(ret->libc); k++) {
			uint64_t at = m->start + slots->at[k];
			uint64_t libc = libc_of(maps, word_at(maps->pid, at));

			if (libc != 0)
				ret->libc[ret->count++] = libc;
		}
	}
}

static void look_at_file(const struct maps *maps, uint64_t first_libc, struct loaded_file *file)
{
	struct bound bound = { .count = 0 };

	find_libcs(maps, file->path, &file->slots, &bound);
	for (size_t i = 0; i < bound.count; i++)
		file->found |=
			bound.libc[i] == first_libc ? UNSEEN_BIT(deepbind) : UNSEEN_BIT(namespace);
}

/* 0: not known. */
static uint64_t first_libc_of(const struct maps *maps)
{
	AUTO_FREE char *exe = procfs_exe(maps->pid);
	struct bound bound = { .count = 0 };

	if (exe) {
		struct elf_slots slots = slots_of(exe, starting);

		find_libcs(maps, exe, &slots, &bound);
	}
	return bound.count > 0 ? bound.libc[0] : 0;
}

void loaded_look(struct loaded *loaded, pid_t pid)
{
	AUTO(maps_release) struct maps maps = { 0 };

	if (!read_maps(&maps, pid))
		return;
	uint64_t first_libc = first_libc_of(&maps);

	for (size_t i = 0; i < maps.all.count; i++) {
		const struct mapping *m = &maps.all.at[i];
		struct loaded_file *file =
			m->is_code && !is_exempt(m->path) ? file_of(loaded, m->path) : NULL;

		if (file && first_libc != 0 && file->found == 0)
			look_at_file(&maps, first_libc, file);
	}
}
