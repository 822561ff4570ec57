/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Program headers are read from the memory of the process, since the file may have been replaced or removed: from its first page, if
 * that is resident, as the loader has read it. Reading one that is not would allocate it, and could block if the file is in a file system
 * of a user. They are untrusted, as is all memory of a target.
 *
 * Called by a worker that owns the target.
 * Invariant: ranges ascend by file, then by address, and do not overlap.
 */
#include "collect/process/static_data.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/cursor.h"
#include "collect/kernel/pagemap.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"

enum { FILES_MAX = 1 << 12, RANGES_MAX = 1 << 20, SEGMENTS_MAX = 64 };
#define PAGED_SUM_MAX (16ull << 30) /* no more is queried page by page */

/* One loaded file while it is read. */
struct object {
	pid_t pid;
	int pagemap;
	uint64_t paged_bytes;	 /* of all files so far */
	uint8_t page[LIVE_PAGE]; /* its first */
	uint64_t bias;		 /* address minus ELF virtual address */
	Elf64_Phdr segments[SEGMENTS_MAX];
	size_t segment_count;
};

void static_data_release(struct static_data *data)
{
	for (size_t i = 0; i < data->files.count; i++)
		free(data->files.at[i].path);
	vector_release(&data->files);
	vector_release(&data->ranges);
}

bool static_data_copy(struct static_data *to, const struct static_data *from)
{
	to->at_ns = from->at_ns;
	to->threads = from->threads;
	for (size_t i = 0; i < from->files.count; i++) {
		struct static_file_row file = from->files.at[i];

		file.path = strdup(file.path);
		if (!file.path || !vector_push(&to->files, file)) {
			free(file.path);
			return false;
		}
	}
	for (size_t i = 0; i < from->ranges.count; i++)
		if (!vector_push(&to->ranges, from->ranges.at[i]))
			return false;
	return true;
}

void static_data_give(struct static_data *data, struct process_rows *rows)
{
	rows->globals.at_ns = data->at_ns;
	rows->globals.threads = data->threads;
	rows->globals.files = data->files.at;
	rows->globals.file_count = data->files.count;
	rows->globals.ranges = data->ranges.at;
	rows->globals.range_count = data->ranges.count;
	*data = (struct static_data){ 0 };
}

/* ---- headers ---- */

static bool is_resident(const struct object *object, uint64_t address)
{
	uint64_t page = address & ~(uint64_t)(LIVE_PAGE - 1), bits = 0;

	pagemap_bits(object->pagemap, page, page + LIVE_PAGE, &bits);
	return bits & 1;
}

/* Reads within one page. */
static bool read_page(const struct object *object, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)address, bytes };

	return is_resident(object, address) &&
	       process_vm_readv(object->pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* False: it is no ELF file, or its program headers are not in its first page. */
static bool read_headers(struct object *object, uint64_t start)
{
	struct cursor c = cursor_over(span_of(object->page, sizeof object->page));
	Elf64_Ehdr head;

	if (!read_page(object, start, object->page, sizeof object->page) ||
	    !cursor_copy(&c, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
	    head.e_phnum > SEGMENTS_MAX || head.e_phoff > sizeof object->page)
		return false;
	cursor_seek(&c, head.e_phoff);
	for (size_t i = 0; i < head.e_phnum; i++)
		cursor_copy(&c, &object->segments[i], sizeof object->segments[i]);
	object->segment_count = head.e_phnum;
	for (size_t i = 0; i < object->segment_count && !c.failed; i++) {
		const Elf64_Phdr *segment = &object->segments[i];

		if (segment->p_type == PT_LOAD && segment->p_offset == 0) {
			object->bias = start - segment->p_vaddr;
			return true;
		}
	}
	return false;
}

static bool find_build_id(struct span notes, struct static_file_row *file)
{
	struct cursor c = cursor_over(notes);

	while (cursor_left(&c) > 0) {
		Elf64_Nhdr note;
		uint64_t name_bytes, text_bytes;

		if (!cursor_copy(&c, &note, sizeof note) ||
		    !checked_align_up(note.n_namesz, 4, &name_bytes) ||
		    !checked_align_up(note.n_descsz, 4, &text_bytes))
			return false;
		struct span name = cursor_bytes(&c, name_bytes);
		struct span text = cursor_bytes(&c, text_bytes);

		if (!c.failed && note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(name.data, "GNU", 4) == 0 && note.n_descsz <= sizeof file->build_id) {
			memcpy(file->build_id, text.data, note.n_descsz);
			file->build_id_bytes = note.n_descsz;
			return true;
		}
	}
	return false;
}

static void read_build_id(const struct object *object, struct static_file_row *file)
{
	for (size_t i = 0; i < object->segment_count; i++) {
		const Elf64_Phdr *segment = &object->segments[i];
		uint64_t address = segment->p_vaddr + object->bias;
		uint8_t notes[LIVE_PAGE];

		if (segment->p_type == PT_NOTE && segment->p_memsz > 0 &&
		    segment->p_memsz <= LIVE_PAGE - address % LIVE_PAGE &&
		    read_page(object, address, notes, segment->p_memsz) &&
		    find_build_id(span_of(notes, segment->p_memsz), file))
			return;
	}
}

/* ---- pages ---- */

/* Appends to the last range if that is possible. */
static void add_range(struct static_data *data, enum static_resident resident, uint64_t start,
		      uint64_t bytes)
{
	uint32_t file = (uint32_t)data->files.count;
	struct static_range_row *last =
		data->ranges.count ? &data->ranges.at[data->ranges.count - 1] : NULL;

	if (last && last->file == file && last->resident == resident &&
	    last->start + last->bytes == start)
		last->bytes += bytes;
	else if (data->ranges.count < RANGES_MAX)
		(void)vector_push(&data->ranges,
				  ((struct static_range_row){ file, resident, start, bytes }));
}

static void add_segment(struct static_data *data, struct object *object, uint64_t start,
			uint64_t end)
{
	uint64_t first = (start + object->bias) & ~(uint64_t)(LIVE_PAGE - 1);
	uint64_t pages = (end + object->bias - first + LIVE_PAGE - 1) / LIVE_PAGE;
	AUTO_FREE uint64_t *bits = NULL;

	if (end - start <= PAGED_SUM_MAX - object->paged_bytes)
		bits = calloc(pages / 64 + 1, sizeof *bits);
	if (!bits) {
		add_range(data, STATIC_UNKNOWN, start, end - start);
		return;
	}
	object->paged_bytes += end - start;
	pagemap_bits(object->pagemap, first, first + pages * LIVE_PAGE, bits);
	for (uint64_t page = 0, at = start; page < pages; page++) {
		uint64_t next = MIN(first + (page + 1) * LIVE_PAGE - object->bias, end);
		bool is_there = bits[page / 64] >> page % 64 & 1;

		add_range(data, is_there ? STATIC_RESIDENT : STATIC_ABSENT, at, next - at);
		at = next;
	}
}

/* The writable segments, in the order of the file, which is that of addresses. */
static void add_object(struct static_data *data, struct object *object, const char *path)
{
	struct static_file_row file = { .path = NULL };
	size_t ranges = data->ranges.count;
	uint64_t end = 0;

	if (data->files.count == FILES_MAX || !(file.path = strdup(path)))
		return;
	read_build_id(object, &file);
	for (size_t i = 0; i < object->segment_count; i++) {
		const Elf64_Phdr *segment = &object->segments[i];
		uint64_t stop;

		if (segment->p_type == PT_TLS)
			file.tls_bytes = segment->p_memsz;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W) ||
		    segment->p_memsz == 0 || segment->p_vaddr < end ||
		    !checked_add(segment->p_vaddr, segment->p_memsz, &stop))
			continue;
		add_segment(data, object, segment->p_vaddr, stop);
		end = stop;
	}
	if (!vector_push(&data->files, file)) {
		free(file.path);
		data->ranges.count = ranges;
	}
}

/* A file that is mapped from its start, with code in the mappings that follow: others are not loaded. */
static bool is_loaded_at(const struct smaps *smaps, size_t index)
{
	const struct mapping *first = &smaps->list.at[index];

	if (first->kind != MAPPING_FILES || first->offset != 0 || first->name[0] != '/')
		return false;
	for (size_t i = index; i < smaps->list.count; i++) {
		const struct mapping *m = &smaps->list.at[i];

		if (m->inode != first->inode || strcmp(m->name, first->name) != 0 ||
		    (i > index && m->offset == 0))
			return false;
		if (m->is_code)
			return true;
	}
	return false;
}

static uint64_t thread_count(pid_t pid)
{
	AUTO_FREE char *status = procfs_file(pid, "status", NULL);
	const char *at = status ? strstr(status, "\nThreads:") : NULL;

	return at ? strtoull(at + strlen("\nThreads:"), NULL, 10) : 0;
}

void static_data_read(struct static_data *data, pid_t pid, const struct smaps *smaps,
		      uint64_t at_ns)
{
	AUTO_CLOSE int pagemap = pagemap_open(pid);
	struct static_data now = { .at_ns = at_ns, .threads = thread_count(pid) };
	struct object object = { .pid = pid, .pagemap = pagemap };

	for (size_t i = 0; pagemap >= 0 && i < smaps->list.count; i++) {
		const struct mapping *m = &smaps->list.at[i];

		/* The recorder's own data is not the program's. */
		if (is_loaded_at(smaps, i) && !strstr(m->name, "/libheapgauge") &&
		    read_headers(&object, m->start))
			add_object(&now, &object, m->name);
	}
	/* Of a process that has just ended there is nothing. */
	if (now.files.count > 0) {
		struct static_data before = *data;

		*data = now;
		now = before;
	}
	static_data_release(&now);
}
