/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads with pread, never by mapping: whoever cuts the file meanwhile must not end us. Segments are sorted and made disjoint by address;
 * together they must not have more data than the file, so that no part of it is read over and over.
 *
 * Invariant: [offset, offset + data_bytes) of each segment is within the file as it was when it was opened.
 */
#include "collect/kernel/core_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/elf.h"
#include "format/live/live.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/search.h"

enum {
	/* The kernel writes one for each mapping. */
	SEGMENTS_MAX = 1 << 20,
	/* Up to this size, no holes are searched for. */
	SMALL_BYTES = 16 << 10,
};
#define NOTES_MAX (256ull << 20)
/* Addresses of programs are lower, on all machines that we know. */
#define ADDRESS_MAX (1ull << 57)

bool core_file_is(struct span first)
{
	uint16_t type;

	_Static_assert(sizeof(Elf64_Ehdr) <= CORE_FILE_FIRST_BYTES, "");
	if (first.size < sizeof(Elf64_Ehdr) || memcmp(first.data, ELFMAG, SELFMAG) != 0)
		return false;
	memcpy(&type, first.data + offsetof(Elf64_Ehdr, e_type), sizeof type);
	return type == ET_CORE;
}

static bool read_all(int fd, uint64_t at, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* ---- opening ---- */

static int compare_segments(const void *left, const void *right)
{
	const struct core_segment *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* More than 65534 are counted in the first section header. 0: damaged. */
static uint64_t count_headers(int fd, const Elf64_Ehdr *head)
{
	Elf64_Shdr first;

	if (head->e_phnum != PN_XNUM)
		return head->e_phnum;
	return read_all(fd, head->e_shoff, &first, sizeof first) ? first.sh_info : 0;
}

static bool add_segment(struct core_file *core, const Elf64_Phdr *header, uint64_t file_bytes)
{
	struct core_segment segment = { .start = header->p_vaddr,
					.offset = header->p_offset,
					.flags = header->p_flags };
	uint64_t there = MIN(header->p_filesz, saturating_sub(file_bytes, header->p_offset));

	/* The kernel's vsyscall page, or nothing, or no mapping. */
	if (header->p_vaddr >= ADDRESS_MAX || header->p_memsz == 0 ||
	    header->p_vaddr % LIVE_PAGE != 0)
		return true;
	segment.end = MIN(saturating_add(header->p_vaddr, header->p_memsz), ADDRESS_MAX);
	segment.data_bytes = MIN(there, segment.end - segment.start);
	core->is_cut |= header->p_filesz > there;
	return vector_push(&core->segments, segment);
}

/* By address, each byte once. False: together they have more data than the file. */
static bool make_disjoint(struct core_file *core, uint64_t file_bytes)
{
	uint64_t end = 0, sum = 0;
	size_t kept = 0;

	if (core->segments.count > 0)
		qsort(core->segments.at, core->segments.count, sizeof *core->segments.at,
		      compare_segments);
	for (size_t i = 0; i < core->segments.count; i++) {
		struct core_segment *segment = &core->segments.at[i];

		if (segment->start < end)
			continue;
		end = segment->end;
		sum += segment->data_bytes;
		core->segments.at[kept++] = *segment;
	}
	core->segments.count = kept;
	return sum <= file_bytes;
}

static bool take_notes(struct core_file *core, const Elf64_Phdr *header, uint64_t file_bytes)
{
	uint64_t bytes = MIN(header->p_filesz, saturating_sub(file_bytes, header->p_offset));

	core->is_cut |= header->p_filesz > bytes;
	if (core->notes || bytes == 0 || bytes > NOTES_MAX)
		return true;
	core->notes = malloc(bytes);
	core->notes_bytes = bytes;
	return core->notes && read_all(core->fd, header->p_offset, core->notes, bytes);
}

static int read_headers(struct core_file *core, const Elf64_Ehdr *head, uint64_t file_bytes,
			struct error *error)
{
	uint64_t count = count_headers(core->fd, head);
	AUTO_FREE Elf64_Phdr *headers = NULL;

	if (count == 0 || count > SEGMENTS_MAX || head->e_phentsize != sizeof *headers ||
	    !range_within(head->e_phoff, count * sizeof *headers, file_bytes))
		return error_set(error, "it is a damaged core file");
	headers = malloc(count * sizeof *headers);
	if (!headers)
		return error_set(error, "out of memory");
	if (!read_all(core->fd, head->e_phoff, headers, count * sizeof *headers))
		return error_set(error, "it cannot be read");
	for (uint64_t i = 0; i < count; i++)
		if ((headers[i].p_type == PT_LOAD && !add_segment(core, &headers[i], file_bytes)) ||
		    (headers[i].p_type == PT_NOTE && !take_notes(core, &headers[i], file_bytes)))
			return error_set(error, "out of memory");
	if (!make_disjoint(core, file_bytes))
		return error_set(error, "it is a damaged core file: its segments overlap");
	return core_notes_read(core) ? 0 : error_set(error, "out of memory");
}

static int open_core(struct core_file *core, struct error *error)
{
	Elf64_Ehdr head;
	struct stat st;

	if (fstat(core->fd, &st) < 0)
		return error_errno(error, "it cannot be read");
	if (!read_all(core->fd, 0, &head, sizeof head) ||
	    !core_file_is(span_of(&head, sizeof head)))
		return error_set(error, "it is not a core file");
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != ELF_MACHINE_HERE)
		return error_set(error, "it is a core file of another kind of machine");
	core->present_bytes = saturating_mul((uint64_t)st.st_blocks, 512);
	return read_headers(core, &head, (uint64_t)st.st_size, error);
}

int core_file_open_fd(struct core_file *ret, int fd, struct error *error)
{
	struct core_file core = CORE_FILE_INIT;

	core.fd = fd;
	if (open_core(&core, error) < 0) {
		core_file_release(&core);
		return -1;
	}
	*ret = core;
	return 0;
}

int core_file_open(struct core_file *ret, const char *path, struct error *error)
{
	int fd = file_open_regular(path, NULL, NULL);

	if (fd < 0)
		return errno == EINVAL ? error_set(error, "it is not a regular file")
				       : error_errno(error, "it cannot be opened");
	return core_file_open_fd(ret, fd, error);
}

void core_file_release(struct core_file *core)
{
	if (core->fd >= 0)
		close(core->fd);
	vector_release(&core->segments);
	vector_release(&core->mapped);
	vector_release(&core->threads);
	free(core->notes);
	*core = CORE_FILE_INIT;
}

/* ---- memory ---- */

/* The first segment that ends after the address; segments.count: none. */
static size_t segment_at(const struct core_file *core, uint64_t at)
{
	return FIRST_WHERE(i, core->segments.count, core->segments.at[i].end > at);
}

size_t core_file_read(const struct core_file *core, uint64_t at, void *to, size_t bytes)
{
	size_t index = segment_at(core, at);

	if (index == core->segments.count)
		return 0;
	const struct core_segment *segment = &core->segments.at[index];
	uint64_t in = at - segment->start;

	if (at < segment->start || in >= segment->data_bytes)
		return 0;
	size_t part = MIN(bytes, segment->data_bytes - in);

	return read_all(core->fd, segment->offset + in, to, part) ? part : 0;
}

/* The first data of the file in [from, end); false: there is none. */
static bool next_data(int fd, uint64_t from, uint64_t end, uint64_t *ret_from, uint64_t *ret_end)
{
	*ret_from = from;
	*ret_end = end;
	if (end - from <= SMALL_BYTES)
		return true;
	off_t data = lseek(fd, (off_t)from, SEEK_DATA);

	if (data < 0)
		return errno != ENXIO; /* all of it, if the file system does not know */
	off_t hole = lseek(fd, data, SEEK_HOLE);

	*ret_from = MAX(from, (uint64_t)data);
	*ret_end = hole < 0 ? end : MIN(end, (uint64_t)hole);
	return *ret_from < *ret_end;
}

bool core_file_next(const struct core_file *core, uint64_t from, uint64_t end, uint64_t *ret_at,
		    uint64_t *ret_bytes)
{
	for (size_t i = segment_at(core, from); i < core->segments.count; i++) {
		const struct core_segment *segment = &core->segments.at[i];
		uint64_t first = MAX(from, segment->start),
			 last = MIN(end, segment->start + segment->data_bytes), at, to;

		if (segment->start >= end)
			return false;
		if (first >= last)
			continue;
		uint64_t shift = segment->offset - segment->start;

		if (!next_data(core->fd, first + shift, last + shift, &at, &to))
			continue;
		/* Holes end with blocks of the file, which pages need not be. */
		*ret_at = MAX(first, (at - shift) & ~(LIVE_PAGE - 1ull));
		*ret_bytes =
			MIN(last, (to - shift + LIVE_PAGE - 1) & ~(LIVE_PAGE - 1ull)) - *ret_at;
		return true;
	}
	return false;
}

uint64_t core_file_has(const struct core_file *core, uint64_t from, uint64_t bytes)
{
	uint64_t end = saturating_add(from, bytes), sum = 0;

	for (size_t i = segment_at(core, from); i < core->segments.count; i++) {
		const struct core_segment *segment = &core->segments.at[i];

		if (segment->start >= end)
			break;
		sum += saturating_sub(MIN(end, segment->start + segment->data_bytes),
				      MAX(from, segment->start));
	}
	return sum;
}
