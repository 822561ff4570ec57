/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name cache of one module, in a file that is mapped and searched in place.
 *
 *	magic, version, 4 bytes of padding, content key, counts, checksum of all the rest
 *	entries   {address, first frame, number of frames}, by address
 *	frames    {name, arguments, file, line, flags}; texts as offsets, 0 = none
 *	texts     NUL-terminated; the first is empty
 *
 * It is a cache: any defect (another version, a wrong checksum, an offset out of bounds) makes names
 * unknown but never causes invalid memory accesses, and the next save replaces it. Files are replaced by
 * renaming, so a reader sees either the old or the new one. Only files and folders that we own are
 * trusted, because others could plant wrong names.
 */
#include "symbols/names/name_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/compiler.h"
#include "base/cursor.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/search.h"
#include "util/texts.h"
#include "util/vector.h"

enum {
	VERSION = 3,
	ENTRY_BYTES = 16,
	FRAME_BYTES = 20,
	CHECKSUM_AT = 44,
	HEAD_BYTES = 52,
	FLAG_INLINED = 1,
	/* Above this size, old entries are dropped. */
	FILE_MAX_BYTES = 128 << 20,
	USED_AGAIN_SECONDS = 3600,
};

static const char magic[8] = "hgnames";
static const char suffix[] = ".names";
static const char secret_name[] = "secret";

struct name_store {
	struct file_map map; /* empty if the caller owns the bytes */
	struct span entries, frames, texts;
	size_t entry_count;
};

static char *store_path(const char *folder, const struct content_key *name)
{
	AUTO(buffer_release) struct buffer path = BUFFER_INIT;

	buffer_printf(&path, "%s/", folder);
	for (size_t i = 0; i < sizeof name->bytes; i++)
		buffer_printf(&path, "%02x", name->bytes[i]);
	buffer_text(&path, suffix);
	return buffer_take_string(&path);
}

static bool is_ours(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The checksum of all but itself. Pre: the header is complete. */
static uint64_t checksum(struct span file)
{
	uint64_t head = XXH64(file.data, CHECKSUM_AT, VERSION);

	return XXH64(file.data + HEAD_BYTES, file.size - HEAD_BYTES, head);
}

static bool read_head(struct name_store *store, struct span file, const struct content_key *content)
{
	struct cursor c = cursor_over(file);
	struct span kind = cursor_bytes(&c, sizeof magic);
	uint32_t version = cursor_u32(&c);
	(void)cursor_u32(&c);
	struct span key = cursor_bytes(&c, sizeof *content);
	uint32_t entries = cursor_u32(&c), frames = cursor_u32(&c), texts = cursor_u32(&c);
	uint64_t sum = cursor_u64(&c);

	if (c.failed || memcmp(kind.data, magic, sizeof magic) != 0 || version != VERSION ||
	    (content && memcmp(key.data, content, sizeof *content) != 0))
		return false;
	store->entry_count = entries;
	store->entries = cursor_bytes(&c, (size_t)entries * ENTRY_BYTES);
	store->frames = cursor_bytes(&c, (size_t)frames * FRAME_BYTES);
	store->texts = cursor_bytes(&c, texts);
	return !c.failed && cursor_left(&c) == 0 && checksum(file) == sum &&
	       (texts == 0 || store->texts.data[texts - 1] == 0);
}

/* Updates the file's time of use, so that others are evicted first. */
static void touch(const char *path)
{
	struct stat status;

	if (stat(path, &status) == 0 && time(NULL) - status.st_mtime > USED_AGAIN_SECONDS)
		(void)utimensat(AT_FDCWD, path, NULL, 0);
}

struct name_store *name_store_read(struct span file, const struct content_key *content)
{
	struct name_store *store = calloc(1, sizeof *store);

	if (store && read_head(store, file, content))
		return store;
	free(store);
	return NULL;
}

struct name_store *name_store_open(const char *folder, const struct content_key *name,
				   const struct content_key *content)
{
	AUTO_FREE char *path = store_path(folder, name);
	struct file_map map = FILE_MAP_INIT;

	if (!path || !is_ours(folder) || !is_ours(path) || file_map_open(&map, path, NULL) < 0)
		return NULL;
	struct name_store *store = name_store_read(map.bytes, content);

	if (!store) {
		file_map_release(&map);
		return NULL;
	}
	store->map = map;
	touch(path);
	return store;
}

void name_store_free(struct name_store *store)
{
	if (!store)
		return;
	file_map_release(&store->map);
	free(store);
}

struct entry {
	uint64_t address;
	uint32_t first, count;
};

static struct entry entry_at(const struct name_store *store, size_t index)
{
	struct cursor c = cursor_over(store->entries);

	cursor_seek(&c, index * ENTRY_BYTES);
	struct entry e = { .address = cursor_u64(&c) };

	e.first = cursor_u32(&c);
	e.count = cursor_u32(&c);
	return c.failed ? (struct entry){ 0 } : e;
}

/* NULL for none. Every text is terminated, because the last one is. */
static const char *text_at(const struct name_store *store, uint32_t offset)
{
	if (offset == 0 || offset >= store->texts.size)
		return NULL;
	return (const char *)store->texts.data + offset;
}

static size_t frames_of(const struct name_store *store, struct entry e, struct dwarf_frame *frames)
{
	struct cursor c = cursor_over(store->frames);
	size_t count = MIN((size_t)e.count, (size_t)DWARF_CHAIN_MAX);

	cursor_seek(&c, (size_t)e.first * FRAME_BYTES);
	for (size_t i = 0; i < count; i++) {
		frames[i] = (struct dwarf_frame){ .name = text_at(store, cursor_u32(&c)) };
		frames[i].arguments = text_at(store, cursor_u32(&c));
		frames[i].file = text_at(store, cursor_u32(&c));
		frames[i].line = cursor_u32(&c);
		frames[i].inlined = cursor_u32(&c) & FLAG_INLINED;
	}
	return c.failed ? 0 : count;
}

bool name_store_find(const struct name_store *store, uint64_t address, struct dwarf_frame *frames,
		     size_t *ret_count)
{
	size_t at = FIRST_WHERE(i, store->entry_count, entry_at(store, i).address >= address);

	if (at == store->entry_count || entry_at(store, at).address != address)
		return false;
	*ret_count = frames_of(store, entry_at(store, at), frames);
	return true;
}

/* A cache file under construction. */
struct writer {
	struct buffer entries, frames;
	struct texts texts;
	uint32_t entry_count, frame_count;
};

static void writer_release(struct writer *w)
{
	buffer_release(&w->entries);
	buffer_release(&w->frames);
	texts_release(&w->texts);
}

static void write_frame(struct writer *w, const struct dwarf_frame *frame)
{
	buffer_u32(&w->frames, texts_add(&w->texts, frame->name));
	buffer_u32(&w->frames, texts_add(&w->texts, frame->arguments));
	buffer_u32(&w->frames, texts_add(&w->texts, frame->file));
	buffer_u32(&w->frames, frame->line);
	buffer_u32(&w->frames, frame->inlined ? FLAG_INLINED : 0);
	w->frame_count++;
}

static void begin_entry(struct writer *w, uint64_t address, size_t count)
{
	buffer_u64(&w->entries, address);
	buffer_u32(&w->entries, w->frame_count);
	buffer_u32(&w->entries, (uint32_t)count);
	w->entry_count++;
}

static void write_old(struct writer *w, const struct name_store *old, struct entry e)
{
	struct dwarf_frame frames[DWARF_CHAIN_MAX];
	size_t count = frames_of(old, e, frames);

	begin_entry(w, e.address, count);
	for (size_t i = 0; i < count; i++)
		write_frame(w, &frames[i]);
}

static void write_new(struct writer *w, const struct name_entry *e)
{
	const struct symbol_frame *first = e->list.at;
	bool nothing = e->list.count == 1 && !first->linkage && !first->file;

	begin_entry(w, e->address, nothing ? 0 : e->list.count);
	for (size_t i = 0; !nothing && i < e->list.count; i++) {
		const struct dwarf_frame frame = { .name = first[i].linkage,
						   .arguments = first[i].arguments,
						   .file = first[i].file,
						   .line = first[i].line,
						   .inlined = first[i].inlined };

		write_frame(w, &frame);
	}
}

static int compare_entries(const void *left, const void *right)
{
	const struct name_entry *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

static void write_all(struct writer *w, const struct name_store *old, struct name_entry *entries,
		      size_t count)
{
	size_t olds = old ? old->entry_count : 0, i = 0;

	if (count)
		qsort(entries, count, sizeof *entries, compare_entries);
	for (size_t j = 0; j < count; j++) {
		for (; i < olds; i++) {
			struct entry e = entry_at(old, i);

			if (e.address >= entries[j].address) {
				i += e.address == entries[j].address;
				break;
			}
			write_old(w, old, e);
		}
		write_new(w, &entries[j]);
	}
	for (; i < olds; i++)
		write_old(w, old, entry_at(old, i));
}

static void join(struct writer *w, const struct content_key *content, struct buffer *out)
{
	uint64_t sum;

	buffer_append(out, magic, sizeof magic);
	buffer_u32(out, VERSION);
	buffer_u32(out, 0);
	buffer_append(out, content, sizeof *content);
	buffer_u32(out, w->entry_count);
	buffer_u32(out, w->frame_count);
	buffer_u32(out, (uint32_t)w->texts.bytes.size);
	ASSERT(out->failed || out->size == CHECKSUM_AT);
	buffer_u64(out, 0);
	buffer_append(out, w->entries.data, w->entries.size);
	buffer_append(out, w->frames.data, w->frames.size);
	buffer_append(out, w->texts.bytes.data, w->texts.bytes.size);
	if (out->failed)
		return;
	sum = checksum(buffer_span(out));
	buffer_patch(out, CHECKSUM_AT, &sum, sizeof sum);
}

struct kept_file {
	char name[NAME_MAX + 1];
	struct timespec used;
	uint64_t bytes;
};

static int compare_ages(const void *left, const void *right)
{
	const struct kept_file *a = left, *b = right;

	if (a->used.tv_sec != b->used.tv_sec)
		return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
	return (a->used.tv_nsec > b->used.tv_nsec) - (a->used.tv_nsec < b->used.tv_nsec);
}

/* Evicts the least recently used files until the rest is within the limit. */
static void prune(const char *folder, uint64_t limit_bytes)
{
	VECTOR(struct kept_file) files = { 0 };
	uint64_t total = 0;
	DIR *dir = opendir(folder);

	for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
		size_t length = strlen(entry->d_name);
		struct kept_file file = { .bytes = 0 };
		struct stat status;

		if (length < sizeof suffix || fstatat(dirfd(dir), entry->d_name, &status, 0) != 0 ||
		    strcmp(entry->d_name + length - (sizeof suffix - 1), suffix) != 0)
			continue;
		memcpy(file.name, entry->d_name, length + 1);
		file.used = status.st_mtim;
		file.bytes = (uint64_t)status.st_size;
		total += file.bytes;
		if (!vector_push(&files, file))
			break;
	}
	if (files.count && total > limit_bytes)
		qsort(files.at, files.count, sizeof *files.at, compare_ages);
	for (size_t i = 0; i < files.count && total > limit_bytes; i++)
		if (unlinkat(dirfd(dir), files.at[i].name, 0) == 0)
			total -= files.at[i].bytes;
	vector_release(&files);
	if (dir)
		closedir(dir);
}

/* mkdir -p; callers check afterwards that it exists and is ours. */
static void make_folder(const char *folder)
{
	AUTO_FREE char *path = strdup(folder);

	for (char *slash = path; slash && (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		*slash = 0;
		(void)mkdir(path, 0700);
	}
	(void)mkdir(folder, 0700);
}

int name_store_save(const char *folder, const struct content_key *name,
		    const struct content_key *content, const struct name_store *old,
		    struct name_entry *entries, size_t count, uint64_t limit_bytes)
{
	struct writer w = { 0 };
	AUTO(buffer_release) struct buffer out = BUFFER_INIT;
	AUTO_FREE char *path = store_path(folder, name);
	int status = -1;

	if (!path)
		return -1;
	if (old && old->map.bytes.size > FILE_MAX_BYTES)
		old = NULL;
	write_all(&w, old, entries, count);
	if (!w.entries.failed && !w.frames.failed && !w.texts.bytes.failed)
		join(&w, content, &out);
	writer_release(&w);
	if (out.size == 0 || out.failed)
		return -1;
	make_folder(folder);
	if (is_ours(folder))
		status = output_file_write(path, buffer_span(&out), 0600, NULL);
	if (status == 0)
		prune(folder, limit_bytes);
	return status;
}

/* Reads the secret, if the file has one and nobody else can read it. */
static bool read_secret(const char *path, struct content_secret *ret)
{
	struct stat status;
	AUTO_CLOSE int fd = file_open_regular(path, &status, NULL);

	return fd >= 0 && status.st_uid == geteuid() && (status.st_mode & 0077) == 0 &&
	       status.st_size == sizeof *ret && read(fd, ret, sizeof *ret) == sizeof *ret;
}

bool name_store_secret(const char *folder, struct content_secret *ret)
{
	AUTO_FREE char *path = path_join(folder, secret_name);

	if (path && is_ours(folder) && read_secret(path, ret))
		return true;
	if (!path || getentropy(ret, sizeof *ret) != 0)
		return false;
	make_folder(folder);
	if (is_ours(folder))
		(void)output_file_write(path, span_of(ret, sizeof *ret), 0600, NULL);
	return true;
}

char *name_store_folder(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int length = -1;

	if (cache && cache[0] == '/')
		length = asprintf(&path, "%s/heapgauge/names", cache);
	else if (home && home[0] == '/')
		length = asprintf(&path, "%s/.cache/heapgauge/names", home);
	return length < 0 ? NULL : path;
}
