/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder holds, with all numbers in hexadecimal:
 *
 *	KEY-SERIAL-TIME.tmp		being written; deleted when the queue is opened
 *	KEY-SERIAL-TIME.pending		complete, not yet committed
 *	SEQUENCE-KEY-SERIAL-TIME.item	queued, in the order of the sequence numbers
 *
 * The names are the whole index: `items` and `pending` are read from them at the start and mirror the folder from then on, so that
 * there is no second file that could disagree. A pending item is on disk, with its name, before queue_prepare returns, because the
 * caller's baseline may be the next thing to reach the disk. The rename of queue_commit need not be: if it is lost, the item is
 * settled again. Other files in the folder are left alone.
 *
 * `lock` protects everything after it. It is not held while an item is written or read, except for a rename or unlink. An item
 * that is `taken` is in a batch: only the owner of the batch removes it.
 */
#include "agent/push/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/search.h"

/* The longest name is that of an item. */
#define NAME_BYTES (16 + 1 + QUEUE_KEY_MAX + 1 + 16 + 1 + 16 + sizeof ".pending")

struct item {
	uint64_t sequence; /* 0: pending */
	uint64_t serial, at_ns, bytes;
	char key[QUEUE_KEY_MAX + 1];
	bool taken, gone;   /* gone: removed at the next compact() */
	unsigned postponed; /* how often; since queue_open */
};

struct items {
	VECTOR(struct item) all;
};

struct queue {
	char *folder; /* for messages */
	int fd;	      /* of the folder; holds the lock of the folder */
	struct queue_limits limits;

	pthread_mutex_t lock;
	struct items items;   /* ascending sequence */
	struct items pending; /* ascending time after queue_open */
	uint64_t bytes, pending_bytes;
	uint64_t next_sequence; /* from 1 */
	uint64_t dropped[QUEUE_DROPS];
};

const char *queue_drop_name(enum queue_drop reason)
{
	static const char *const names[QUEUE_DROPS] = {
		[QUEUE_DROP_FULL] = "full",	  [QUEUE_DROP_OLD] = "old",
		[QUEUE_DROP_WRITE] = "write",	  [QUEUE_DROP_READ] = "read",
		[QUEUE_DROP_REFUSED] = "refused",
	};

	return names[reason];
}

/* ---- names ---- */

static bool key_is_valid(const char *key)
{
	size_t length =
		strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return length > 0 && length <= QUEUE_KEY_MAX && key[length] == '\0';
}

static void name_of(const struct item *item, const char *suffix, char name[NAME_BYTES])
{
	char sequence[16 + 2] = "";

	if (item->sequence)
		snprintf(sequence, sizeof sequence, "%016" PRIx64 "-", item->sequence);
	snprintf(name, NAME_BYTES, "%s%s-%016" PRIx64 "-%016" PRIx64 "%s", sequence, item->key,
		 item->serial, item->at_ns, suffix);
}

static const char *suffix_of(const struct item *item)
{
	return item->sequence ? ".item" : ".pending";
}

/* Reads sixteen lower-case hexadecimal digits. */
static bool parse_number(const char **at, uint64_t *ret)
{
	uint64_t value = 0;

	for (int i = 0; i < 16; i++, (*at)++) {
		char c = **at;

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret = value;
	return true;
}

static bool parse_char(const char **at, char c)
{
	return *(*at)++ == c;
}

static bool parse_name(const char *name, bool queued, struct item *ret)
{
	const char *at = name;
	size_t length;

	*ret = (struct item){ 0 };
	if (queued &&
	    (!parse_number(&at, &ret->sequence) || !parse_char(&at, '-') || !ret->sequence))
		return false;
	length = strcspn(at, "-");
	if (length > QUEUE_KEY_MAX)
		return false;
	memcpy(ret->key, at, length);
	at += length;
	return key_is_valid(ret->key) && parse_char(&at, '-') && parse_number(&at, &ret->serial) &&
	       parse_char(&at, '-') && parse_number(&at, &ret->at_ns) &&
	       strcmp(at, suffix_of(ret)) == 0;
}

/* ---- opening ---- */

static int compare_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	return strcmp(a->key, b->key);
}

static void sort_items(struct items *items)
{
	if (items->all.count)
		qsort(items->all.at, items->all.count, sizeof *items->all.at, compare_items);
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && memcmp(name + n - s, suffix, s) == 0;
}

static int list_file(struct queue *q, const char *name, struct error *err)
{
	bool queued = ends_in(name, ".item");
	struct items *list = queued ? &q->items : &q->pending;
	struct stat st;
	struct item item;

	if (ends_in(name, ".tmp")) {
		unlinkat(q->fd, name, 0);
		return 0;
	}
	if (!parse_name(name, queued, &item) ||
	    fstatat(q->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	item.bytes = (uint64_t)st.st_size;
	if (!vector_push(&list->all, item))
		return error_set(err, "open queue %s: out of memory", q->folder);
	*(queued ? &q->bytes : &q->pending_bytes) += item.bytes;
	q->next_sequence = MAX(q->next_sequence, item.sequence + 1);
	return 0;
}

static int list_folder(struct queue *q, struct error *err)
{
	int fd = openat(q->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE_FOLDER DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return error_errno(err, "list queue %s", q->folder);
	}
	while ((entry = readdir(dir)))
		if (list_file(q, entry->d_name, err) < 0)
			return -1;
	sort_items(&q->items);
	sort_items(&q->pending);
	return 0;
}

static int open_folder(struct queue *q, struct error *err)
{
	struct stat st;

	if (mkdir(q->folder, 0700) < 0 && errno != EEXIST)
		return error_errno(err, "create queue %s", q->folder);
	q->fd = open(q->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (q->fd < 0 || fstat(q->fd, &st) < 0)
		return error_errno(err, "open queue %s", q->folder);
	if (st.st_uid != geteuid())
		return error_set(err, "queue %s belongs to another user", q->folder);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, "other users may write to the queue %s: chmod 700 it",
				 q->folder);
	if (flock(q->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_set(err, "the queue %s is in use by another agent", q->folder);
	return error_errno(err, "lock queue %s", q->folder);
}

struct queue *queue_open(const char *folder, struct queue_limits limits, struct error *err)
{
	struct queue *q = calloc(1, sizeof *q);

	if (!q) {
		error_set(err, "open queue %s: out of memory", folder);
		return NULL;
	}
	pthread_mutex_init(&q->lock, NULL);
	q->fd = -1;
	q->limits = limits;
	q->next_sequence = 1;
	q->folder = strdup(folder);
	if (!q->folder)
		error_set(err, "open queue %s: out of memory", folder);
	else if (open_folder(q, err) == 0 && list_folder(q, err) == 0)
		return q;
	queue_close(q);
	return NULL;
}

void queue_close(struct queue *q)
{
	if (!q)
		return;
	cleanup_close(&q->fd);
	vector_release(&q->items.all);
	vector_release(&q->pending.all);
	pthread_mutex_destroy(&q->lock);
	free(q->folder);
	free(q);
}

/* ---- the lists; the caller holds the lock ---- */

static void delete_file(struct queue *q, const struct item *item)
{
	char name[NAME_BYTES];

	name_of(item, suffix_of(item), name);
	unlinkat(q->fd, name, 0);
}

/* Deletes the file of an item. The caller calls compact() when it has done so for all. */
static void remove_item(struct queue *q, struct item *item)
{
	delete_file(q, item);
	q->bytes -= item->bytes;
	item->gone = true;
}

static void compact(struct queue *q)
{
	size_t kept = 0;

	for (size_t i = 0; i < q->items.all.count; i++)
		if (!q->items.all.at[i].gone)
			q->items.all.at[kept++] = q->items.all.at[i];
	q->items.all.count = kept;
}

/* Makes room for `extra` bytes by dropping the oldest. Returns false if there is not enough to drop. */
static bool make_room(struct queue *q, uint64_t extra)
{
	if (saturating_add(q->bytes, extra) <= q->limits.max_bytes)
		return true;
	for (size_t i = 0; i < q->items.all.count; i++) {
		struct item *item = &q->items.all.at[i];

		if (item->taken)
			continue;
		remove_item(q, item);
		q->dropped[QUEUE_DROP_FULL]++;
		if (saturating_add(q->bytes, extra) <= q->limits.max_bytes)
			break;
	}
	compact(q);
	return saturating_add(q->bytes, extra) <= q->limits.max_bytes;
}

static void drop_old(struct queue *q, uint64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; q->limits.max_age_ns && i < q->items.all.count; i++) {
		struct item *item = &q->items.all.at[i];

		if (item->taken || saturating_sub(now_ns, item->at_ns) <= q->limits.max_age_ns)
			continue;
		remove_item(q, item);
		q->dropped[QUEUE_DROP_OLD]++;
		any = true;
	}
	if (any)
		compact(q);
}

/* The index of the pending item, or SIZE_MAX. */
static size_t find_pending(const struct queue *q, const char *key, uint64_t serial)
{
	for (size_t i = 0; i < q->pending.all.count; i++)
		if (q->pending.all.at[i].serial == serial &&
		    strcmp(q->pending.all.at[i].key, key) == 0)
			return i;
	return SIZE_MAX;
}

static void forget_pending(struct queue *q, size_t index)
{
	struct item *item = &q->pending.all.at[index];

	q->pending_bytes -= item->bytes;
	q->pending.all.count--;
	memmove(item, item + 1, (q->pending.all.count - index) * sizeof *item);
}

/* Renames a pending item and moves it to the end of the items. */
static int commit_at(struct queue *q, size_t index, uint64_t now_ns, struct error *err)
{
	struct item item = q->pending.all.at[index];
	char from[NAME_BYTES], to[NAME_BYTES];

	if (!vector_reserve(&q->items.all, 1))
		return error_set(err, "queue %s: out of memory", q->folder);
	name_of(&item, suffix_of(&item), from);
	item.sequence = q->next_sequence;
	name_of(&item, suffix_of(&item), to);
	if (renameat(q->fd, from, q->fd, to) < 0)
		return error_errno(err, "rename %s in %s", from, q->folder);
	q->next_sequence++;
	forget_pending(q, index);
	q->items.all.at[q->items.all.count++] = item;
	q->bytes += item.bytes;
	drop_old(q, now_ns);
	make_room(q, 0);
	return 0;
}

/* ---- adding ---- */

void queue_settle(struct queue *q, uint64_t now_ns, queue_is_committed *is_committed, void *context)
{
	pthread_mutex_lock(&q->lock);
	for (size_t i = 0; i < q->pending.all.count;) {
		struct item *item = &q->pending.all.at[i];

		if (!is_committed(context, item->key, item->serial)) {
			delete_file(q, item);
			forget_pending(q, i);
		} else if (commit_at(q, i, now_ns, NULL) < 0) {
			i++; /* stays pending */
		}
	}
	pthread_mutex_unlock(&q->lock);
}

/* Writes KEY-SERIAL-TIME.pending, whole when it has that name. */
static int write_pending(const struct queue *q, const struct item *item, struct span bytes,
			 struct error *err)
{
	char temporary[NAME_BYTES], name[NAME_BYTES];

	name_of(item, ".tmp", temporary);
	name_of(item, ".pending", name);

	AUTO_CLOSE int fd = openat(q->fd, temporary,
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_errno(err, "create %s in %s", temporary, q->folder);
	if (file_write_all(fd, bytes, temporary, err) < 0) {
		unlinkat(q->fd, temporary, 0);
		return error_wrap(err, "queue %s", q->folder);
	}
	if (renameat(q->fd, temporary, q->fd, name) < 0) {
		error_errno(err, "write %s in %s", name, q->folder);
		unlinkat(q->fd, temporary, 0);
		return -1;
	}
	return 0;
}

static int count_drop(struct queue *q, enum queue_drop reason)
{
	pthread_mutex_lock(&q->lock);
	q->dropped[reason]++;
	pthread_mutex_unlock(&q->lock);
	return -1;
}

int queue_prepare(struct queue *q, const char *key, uint64_t serial, uint64_t at_ns,
		  struct span bytes, struct error *err)
{
	struct item item = { .serial = serial, .at_ns = at_ns, .bytes = bytes.size };
	bool fits;

	if (!key_is_valid(key))
		return error_set(err, "queue %s: not a valid key", q->folder);
	memcpy(item.key, key, strlen(key) + 1);
	queue_discard(q, key, serial);

	pthread_mutex_lock(&q->lock);
	fits = bytes.size <= q->limits.max_bytes &&
	       make_room(q, saturating_add(q->pending_bytes, bytes.size)) &&
	       vector_reserve(&q->pending.all, 1);
	if (fits) {
		/* Listed before it is written: nobody else refers to it, and its bytes are reserved. */
		q->pending.all.at[q->pending.all.count++] = item;
		q->pending_bytes += item.bytes;
	}
	pthread_mutex_unlock(&q->lock);
	if (!fits) {
		error_set(err, "queue %s has no room for %zu bytes", q->folder, bytes.size);
		return count_drop(q, QUEUE_DROP_FULL);
	}
	if (write_pending(q, &item, bytes, err) == 0)
		return 0;
	queue_discard(q, key, serial);
	return count_drop(q, QUEUE_DROP_WRITE);
}

int queue_commit(struct queue *q, const char *key, uint64_t serial, uint64_t now_ns,
		 struct error *err)
{
	int status = -1;
	size_t index;

	pthread_mutex_lock(&q->lock);
	index = find_pending(q, key, serial);
	if (index == SIZE_MAX)
		error_set(err, "queue %s has no such pending item", q->folder);
	else
		status = commit_at(q, index, now_ns, err);
	pthread_mutex_unlock(&q->lock);
	return status;
}

void queue_discard(struct queue *q, const char *key, uint64_t serial)
{
	size_t index;

	pthread_mutex_lock(&q->lock);
	index = find_pending(q, key, serial);
	if (index != SIZE_MAX) {
		delete_file(q, &q->pending.all.at[index]);
		forget_pending(q, index);
	}
	pthread_mutex_unlock(&q->lock);
}

/* ---- taking ---- */

void queue_batch_release(struct queue_batch *batch)
{
	buffer_release(&batch->bytes);
	vector_release(&batch->sequences);
}

/* Marks the oldest of the items that were postponed least as taken, and copies them to `taken`. */
static void mark_taken(struct queue *q, size_t max_bytes, size_t max_items, struct items *taken)
{
	unsigned least = UINT_MAX;
	uint64_t bytes = 0;

	for (size_t i = 0; i < q->items.all.count; i++)
		if (!q->items.all.at[i].taken)
			least = MIN(least, q->items.all.at[i].postponed);

	for (size_t i = 0; i < q->items.all.count && taken->all.count < max_items; i++) {
		struct item *item = &q->items.all.at[i];

		if (item->taken || item->postponed > least)
			continue;
		bytes = saturating_add(bytes, item->bytes);
		if ((taken->all.count && bytes > max_bytes) || !vector_push(&taken->all, *item))
			break;
		item->taken = true;
	}
}

/* Finds an item; NULL if it is gone. */
static struct item *find_item(struct queue *q, uint64_t sequence)
{
	size_t low = FIRST_WHERE(i, q->items.all.count, q->items.all.at[i].sequence >= sequence);

	if (low == q->items.all.count || q->items.all.at[low].sequence != sequence)
		return NULL;
	return &q->items.all.at[low];
}

/* Appends the file to out. Leaves out as it was if the file is not whole. */
static bool read_item(const struct queue *q, const struct item *item, struct buffer *out)
{
	size_t before = out->size;
	char name[NAME_BYTES];

	name_of(item, ".item", name);

	AUTO_CLOSE int fd = openat(q->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (file_read_all(fd, item->bytes, name, out, NULL) == 0 &&
	    out->size - before == item->bytes)
		return true;
	out->size = before;
	return false;
}

/* An item that could not be read is dropped; if only memory was missing, it can be taken again. */
static void give_up(struct queue *q, uint64_t sequence, bool out_of_memory)
{
	struct item *item;

	pthread_mutex_lock(&q->lock);
	item = find_item(q, sequence);
	if (item && out_of_memory) {
		item->taken = false;
	} else if (item) {
		remove_item(q, item);
		q->dropped[QUEUE_DROP_READ]++;
		compact(q);
	}
	pthread_mutex_unlock(&q->lock);
}

bool queue_take(struct queue *q, uint64_t now_ns, size_t max_bytes, size_t max_items,
		struct queue_batch *batch)
{
	struct items taken = { 0 };

	buffer_clear(&batch->bytes);
	batch->sequences.count = 0;
	pthread_mutex_lock(&q->lock);
	drop_old(q, now_ns);
	mark_taken(q, max_bytes, max_items, &taken);
	pthread_mutex_unlock(&q->lock);

	for (size_t i = 0; i < taken.all.count; i++) {
		const struct item *item = &taken.all.at[i];
		bool has_room = vector_reserve(&batch->sequences, 1);

		if (has_room && read_item(q, item, &batch->bytes))
			batch->sequences.at[batch->sequences.count++] = item->sequence;
		else
			give_up(q, item->sequence, !has_room || batch->bytes.failed);
	}
	vector_release(&taken.all);
	return batch->sequences.count > 0;
}

enum fate { FATE_DONE, FATE_KEPT, FATE_POSTPONED };

/* The caller holds the lock. */
static void give_back(struct queue *q, struct queue_batch *batch, enum fate fate)
{
	for (size_t i = 0; i < batch->sequences.count; i++) {
		struct item *item = find_item(q, batch->sequences.at[i]);

		if (!item)
			continue;
		if (fate == FATE_DONE)
			remove_item(q, item);
		item->postponed += fate == FATE_POSTPONED;
		item->taken = false;
	}
	compact(q);
	make_room(q, q->pending_bytes);
	buffer_clear(&batch->bytes);
	batch->sequences.count = 0;
}

void queue_done(struct queue *q, struct queue_batch *batch)
{
	pthread_mutex_lock(&q->lock);
	give_back(q, batch, FATE_DONE);
	pthread_mutex_unlock(&q->lock);
}

void queue_refused(struct queue *q, struct queue_batch *batch)
{
	pthread_mutex_lock(&q->lock);
	q->dropped[QUEUE_DROP_REFUSED] += batch->sequences.count;
	give_back(q, batch, FATE_DONE);
	pthread_mutex_unlock(&q->lock);
}

void queue_keep(struct queue *q, struct queue_batch *batch)
{
	pthread_mutex_lock(&q->lock);
	give_back(q, batch, FATE_KEPT);
	pthread_mutex_unlock(&q->lock);
}

void queue_postpone(struct queue *q, struct queue_batch *batch)
{
	pthread_mutex_lock(&q->lock);
	give_back(q, batch, FATE_POSTPONED);
	pthread_mutex_unlock(&q->lock);
}

struct queue_counters queue_counters(struct queue *q)
{
	struct queue_counters counters;

	pthread_mutex_lock(&q->lock);
	counters = (struct queue_counters){ .items = q->items.all.count, .bytes = q->bytes };
	if (q->items.all.count)
		counters.oldest_ns = q->items.all.at[0].at_ns;
	memcpy(counters.dropped, q->dropped, sizeof counters.dropped);
	pthread_mutex_unlock(&q->lock);
	return counters;
}
