/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a core file, as lines of /proc/PID/maps. The kernel has a segment for each mapping, gdb only for those whose memory it
 * writes: files that have no segment are added. What a core file does not say is found out: which anonymous mapping is the heap and which
 * the stack, and which files are shared memory. Each of a million mappings may have a long name: the text has a limit. Pure.
 */
#include <elf.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/kernel/core_file.h"
#include "collect/kernel/recorded_processes.h"
#include "util/buffer.h"

enum { TEXT_BYTES_MAX = 256 << 20 };

struct writer {
	const struct core_file *core;
	struct buffer text;
	uint64_t exe; /* number of the executable's file; 0: unknown */
	uint64_t end; /* of the last line */
	bool after_exe, was_anonymous;
	uint64_t module; /* number of the last file that begins as an ELF file */
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
	size_t length = strlen(text), end = strlen(with);

	return length >= end && strcmp(text + length - end, with) == 0;
}

static bool is_elf(const struct core_file *core, uint64_t at)
{
	char magic[SELFMAG];

	return core_file_read(core, at, magic, sizeof magic) == sizeof magic &&
	       memcmp(magic, ELFMAG, sizeof magic) == 0;
}

/* Core files do not tell. Of shared memory they have only what no name leads to any more, which modules rarely are. */
static bool is_shared(const struct writer *w, const struct core_mapped *file)
{
	static const char *const prefixes[] = { "/memfd:", "/dev/zero", "/dev/shm/", "/SYSV" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (begins(file->name, prefixes[i]) && w->module != file->number)
			return true;
	return recorded_file_name(file->name) ||
	       (ends(file->name, " (deleted)") && w->module != file->number);
}

/* The heap is the first anonymous mapping after the executable that does not continue its data. */
static const char *name_anonymous(struct writer *w, const struct core_segment *segment)
{
	bool is_heap = w->after_exe && segment->flags & PF_W &&
		       (segment->start != w->end || w->was_anonymous);

	w->was_anonymous = true;
	if (is_heap) {
		w->after_exe = false;
		return "[heap]";
	}
	return w->core->stack >= segment->start && w->core->stack < segment->end ? "[stack]" : "";
}

static void write_line(struct writer *w, const struct core_segment *segment,
		       const struct core_mapped *file)
{
	uint64_t offset = file ? file->offset + (segment->start - file->start) : 0;
	const char *name;

	if (w->text.size > TEXT_BYTES_MAX)
		w->text.failed = true;
	if (file) {
		w->after_exe = file->number == w->exe;
		w->was_anonymous = false;
		if (offset == 0 && is_elf(w->core, segment->start))
			w->module = file->number;
		name = file->name;
	} else {
		name = name_anonymous(w, segment);
	}
	buffer_printf(&w->text, "%llx-%llx %c%c%c%c %llx 00:00 %llu ",
		      (unsigned long long)segment->start, (unsigned long long)segment->end,
		      segment->flags & PF_R ? 'r' : '-', segment->flags & PF_W ? 'w' : '-',
		      segment->flags & PF_X ? 'x' : '-', file && is_shared(w, file) ? 's' : 'p',
		      (unsigned long long)offset, file ? (unsigned long long)file->number : 0);
	/* A line of its own would be another mapping. */
	for (; *name; name++)
		buffer_char(&w->text, *name == '\n' ? '?' : *name);
	buffer_char(&w->text, '\n');
	w->end = segment->end;
}

static uint64_t file_of(const struct core_file *core, uint64_t at)
{
	for (size_t i = 0; i < core->mapped.count; i++)
		if (at >= core->mapped.at[i].start && at < core->mapped.at[i].end)
			return core->mapped.at[i].number;
	return 0;
}

char *core_file_maps(const struct core_file *core)
{
	struct writer w = { .core = core, .exe = file_of(core, core->entry) };
	size_t file = 0;

	for (size_t i = 0; i <= core->segments.count; i++) {
		const struct core_segment *segment =
			i < core->segments.count ? &core->segments.at[i] : NULL;

		for (; file < core->mapped.count &&
		       (!segment || core->mapped.at[file].end <= segment->start);
		     file++) {
			const struct core_mapped *one = &core->mapped.at[file];

			/* It may have been the last segment's, or one that is only partly there. */
			if (one->start >= w.end)
				write_line(&w,
					   &(struct core_segment){ .start = one->start,
								   .end = one->end,
								   .flags = PF_R },
					   one);
		}
		if (segment)
			write_line(&w, segment,
				   file < core->mapped.count &&
						   core->mapped.at[file].start <= segment->start
					   ? &core->mapped.at[file]
					   : NULL);
	}
	return buffer_take_string(&w.text);
}
