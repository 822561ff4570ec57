/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent util base */
/* The queue on disk: its order and bounds, what is left after a crash, and a disk that is full. */
#include "agent/push/queue.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"
#include "util/output_file.h"
#include "unit.h"
#include "test_agent_folder.h"

#define HOUR_NS (3600 * NS_PER_S)

static struct queue *opened(uint64_t max_bytes)
{
	struct error err = ERROR_INIT;
	struct queue *q = queue_open(
		"queue", (struct queue_limits){ .max_bytes = max_bytes, .max_age_ns = HOUR_NS },
		&err);

	assert_string_equal(err.message, "");
	assert_non_null(q);
	return q;
}

static int prepare(struct queue *q, const char *key, uint64_t serial, uint64_t at_ns,
		   const char *text)
{
	return queue_prepare(q, key, serial, at_ns, span_of(text, strlen(text)), NULL);
}

static void add(struct queue *q, uint64_t serial, uint64_t at_ns, const char *text)
{
	assert_int_equal(prepare(q, "p1", serial, at_ns, text), 0);
	assert_int_equal(queue_commit(q, "p1", serial, at_ns, NULL), 0);
}

static bool take(struct queue *q, uint64_t now_ns, size_t max_bytes, struct queue_batch *batch)
{
	return queue_take(q, now_ns, max_bytes, SIZE_MAX, batch);
}

/* Takes and deletes everything, which must be this text. */
static void check_all(struct queue *q, uint64_t now_ns, const char *text)
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };

	assert_int_equal(take(q, now_ns, SIZE_MAX, &batch), *text != '\0');
	assert_string_equal(buffer_string(&batch.bytes), text);
	queue_done(q, &batch);
}

static unsigned count_files(void)
{
	DIR *dir = opendir("queue");
	unsigned count = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static bool always(void *context, const char *key, uint64_t serial)
{
	(void)context, (void)key, (void)serial;
	return true;
}

/* ---- order and batches ---- */

static void the_oldest_items_are_taken_first_up_to_the_maximum(void **state)
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };
	struct queue *q = opened(1000);

	(void)state;
	add(q, 1, 1, "aaaa");
	add(q, 2, 2, "bbbb");
	add(q, 3, 3, "cccc");
	assert_true(take(q, 3, 9, &batch));
	assert_string_equal(buffer_string(&batch.bytes), "aaaabbbb");
	assert_int_equal(batch.sequences.count, 2);
	queue_done(q, &batch);
	assert_int_equal(queue_counters(q).items, 1);
	assert_int_equal(queue_counters(q).bytes, 4);
	assert_int_equal(queue_counters(q).oldest_ns, 3);
	assert_true(take(q, 3, 1, &batch)); /* at least one, however large */
	assert_string_equal(buffer_string(&batch.bytes), "cccc");
	queue_done(q, &batch);
	assert_false(take(q, 3, 9, &batch));
	assert_int_equal(count_files(), 0);
	queue_close(q);
}

static void a_kept_batch_is_taken_again_and_never_by_two(void **state)
{
	AUTO(queue_batch_release) struct queue_batch one = { 0 }, two = { 0 };
	struct queue *q = opened(1000);

	(void)state;
	add(q, 1, 1, "a");
	add(q, 2, 1, "b");
	assert_true(queue_take(q, 1, SIZE_MAX, 1, &one));
	assert_true(queue_take(q, 1, SIZE_MAX, SIZE_MAX, &two));
	assert_string_equal(buffer_string(&one.bytes), "a");
	assert_string_equal(buffer_string(&two.bytes), "b");
	queue_keep(q, &two);
	queue_keep(q, &one);
	assert_int_equal(one.sequences.count, 0);
	check_all(q, 1, "ab");
	queue_close(q);
}

static void a_postponed_item_is_passed_over_but_not_forgotten(void **state)
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };
	struct queue *q = opened(1000);

	(void)state;
	add(q, 1, 1, "a");
	add(q, 2, 1, "b");
	assert_true(queue_take(q, 1, SIZE_MAX, 1, &batch));
	queue_postpone(q, &batch);
	check_all(q, 1, "b");
	add(q, 3, 1, "c");
	check_all(q, 1, "c");
	assert_true(take(q, 1, SIZE_MAX, &batch));
	assert_string_equal(buffer_string(&batch.bytes), "a");
	queue_postpone(q, &batch);
	queue_close(q);
	q = opened(1000);
	check_all(q, 1, "a");
	queue_close(q);
}

static void refused_items_are_deleted_and_counted(void **state)
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };
	struct queue *q = opened(1000);

	(void)state;
	add(q, 1, 1, "a");
	add(q, 2, 1, "b");
	assert_true(take(q, 1, SIZE_MAX, &batch));
	queue_refused(q, &batch);
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_REFUSED], 2);
	check_all(q, 1, "");
	queue_close(q);
}

static void items_keep_their_order_when_opened_again(void **state)
{
	struct queue *q = opened(1000);

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		add(q, 100 - i, 100 - i,
		    (char[]){ (char)('a' + i), '\0' }); /* neither by serial nor by time */
	queue_close(q);
	q = opened(1000);
	assert_int_equal(queue_counters(q).items, 20);
	assert_int_equal(queue_counters(q).bytes, 20);
	add(q, 1, 1, "z");
	check_all(q, 1, "abcdefghijklmnopqrstz");
	queue_close(q);
}

/* ---- bounds ---- */

static void over_the_maximum_the_oldest_are_dropped(void **state)
{
	struct queue *q = opened(10);

	(void)state;
	add(q, 1, 1, "aaaa");
	add(q, 2, 2, "bbbb");
	add(q, 3, 3, "cccccc");
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_FULL], 1);
	assert_int_equal(queue_counters(q).bytes, 10);
	assert_int_equal(prepare(q, "p1", 4, 4, "larger than all"), -1);
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_FULL], 2);
	check_all(q, 3, "bbbbcccccc");
	queue_close(q);
}

static void items_of_a_batch_are_not_dropped_for_new_ones(void **state)
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };
	struct queue *q = opened(10);

	(void)state;
	add(q, 1, 1, "aaaaa");
	add(q, 2, 2, "bbbbb");
	assert_true(queue_take(q, 2, SIZE_MAX, 1, &batch));
	add(q, 3, 3, "ccccc"); /* the place of b */
	assert_int_equal(prepare(q, "p1", 4, 4, "dddddd"), -1);
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_FULL], 3); /* b, c and d */
	queue_keep(q, &batch);
	check_all(q, 3, "aaaaa");
	queue_close(q);
}

static void a_folder_of_more_than_the_maximum_shrinks_with_the_next_item(void **state)
{
	struct queue *q = opened(1000);

	(void)state;
	for (uint64_t i = 1; i <= 9; i++)
		add(q, i, i, (char[]){ (char)('0' + i), '\0' });
	queue_close(q);
	q = opened(4);
	assert_int_equal(queue_counters(q).items, 9);
	add(q, 10, 10, "x");
	check_all(q, 10, "789x");
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_FULL], 6);
	queue_close(q);
}

static void items_that_have_become_too_old_are_dropped(void **state)
{
	struct queue *q = opened(1000);

	(void)state;
	add(q, 1, 1, "a");
	add(q, 2, 2, "b");
	add(q, 3, HOUR_NS, "c");
	check_all(q, HOUR_NS + 2, "bc");
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_OLD], 1);
	add(q, 4, 5 * HOUR_NS, "d"); /* from the future: the clock was set back */
	check_all(q, HOUR_NS, "d");
	queue_close(q);
}

/* ---- two phases ---- */

static void a_pending_item_is_not_taken_before_its_commit(void **state)
{
	struct queue *q = opened(1000);

	(void)state;
	assert_int_equal(prepare(q, "p1", 7, 1, "a"), 0);
	check_all(q, 1, "");
	assert_int_equal(queue_commit(q, "p1", 8, 1, NULL), -1);
	assert_int_equal(queue_commit(q, "p2", 7, 1, NULL), -1);
	assert_int_equal(queue_commit(q, "p1", 7, 1, NULL), 0);
	assert_int_equal(queue_commit(q, "p1", 7, 1, NULL), -1);
	check_all(q, 1, "a");
	queue_close(q);
}

static void preparing_again_replaces_and_discarding_deletes(void **state)
{
	struct queue *q = opened(1000);

	(void)state;
	assert_int_equal(prepare(q, "p1", 7, 1, "first"), 0);
	assert_int_equal(prepare(q, "p1", 7, 2, "second"), 0);
	assert_int_equal(count_files(), 1);
	assert_int_equal(prepare(q, "p1", 8, 3, "third"), 0);
	queue_discard(q, "p1", 8);
	assert_int_equal(queue_commit(q, "p1", 8, 3, NULL), -1);
	assert_int_equal(queue_commit(q, "p1", 7, 3, NULL), 0);
	check_all(q, 3, "second");
	assert_int_equal(count_files(), 0);
	queue_close(q);
}

static bool is_even(void *context, const char *key, uint64_t serial)
{
	assert_string_equal(key, "pid_1_2");
	(*(unsigned *)context)++;
	return serial % 2 == 0;
}

static void pending_items_are_settled_by_the_baseline(void **state)
{
	struct queue *q = opened(1000);
	unsigned asked = 0;

	(void)state;
	for (uint64_t serial = 1; serial <= 6; serial++)
		assert_int_equal(prepare(q, "pid_1_2", serial, 10 - serial,
					 (char[]){ (char)('0' + serial), '\0' }),
				 0);
	queue_close(q);
	q = opened(1000);
	check_all(q, 1, "");
	queue_settle(q, 1, is_even, &asked);
	assert_int_equal(asked, 6);
	assert_int_equal(count_files(), 3);
	check_all(q, 1, "642"); /* by their times */
	queue_close(q);
}

/* ---- the folder ---- */

static void put(const char *path, const char *text)
{
	assert_int_equal(output_file_write(path, span_of(text, strlen(text)), 0600, NULL), 0);
}

static void leftovers_are_removed_and_other_files_ignored(void **state)
{
	static const char *const others[] = {
		"queue/0000000000000001-a-b-c.item",
		"queue/0000000000000000-k-0000000000000001-0000000000000001.item",
		"queue/0000000000000001-k-0000000000000001-000000000000000G.item",
		"queue/k-0000000000000001-0000000000000001.item",
		"queue/-0000000000000001-0000000000000001.pending",
		"queue/k-0000000000000001-0000000000000001.pending.item",
		"queue/.item",
		"queue/README",
	};
	struct queue *q;
	char longest[200];

	(void)state;
	assert_int_equal(mkdir("queue", 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		put(others[i], "not an item");
	snprintf(longest, sizeof longest, "queue/%070d-%016d-%016d.pending", 1, 1, 1);
	put(longest, "a key that is too long");
	put("queue/k-0000000000000001-0000000000000001.tmp", "half");
	assert_int_equal(symlink("/etc/passwd",
				 "queue/0000000000000001-k-0000000000000001-0000000000000001.item"),
			 0);
	assert_int_equal(
		mkdir("queue/0000000000000002-k-0000000000000001-0000000000000001.item", 0700), 0);
	q = opened(1000);
	queue_settle(q, 1, always, NULL);
	assert_int_equal(access("queue/k-0000000000000001-0000000000000001.tmp", F_OK), -1);
	assert_int_equal(queue_counters(q).items, 0);
	add(q, 1, 1, "a");
	check_all(q, 1, "a");
	assert_int_equal(access("queue/README", F_OK), 0);
	queue_close(q);
}

static void hostile_keys_are_refused(void **state)
{
	static const char *const keys[] = { "",	   ".",	  "..",	 "../x", "a/b",
					    "a-b", "a.b", "a b", "a\n",	 "\xc3\xa4" };
	char long_key[QUEUE_KEY_MAX + 2];
	struct queue *q = opened(1000);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_int_equal(prepare(q, keys[i], 1, 1, "x"), -1);
	memset(long_key, 'k', sizeof long_key);
	long_key[QUEUE_KEY_MAX + 1] = '\0';
	assert_int_equal(prepare(q, long_key, 1, 1, "x"), -1);
	assert_int_equal(count_files(), 0);
	long_key[QUEUE_KEY_MAX] = '\0';
	assert_int_equal(prepare(q, long_key, UINT64_MAX, UINT64_MAX, "x"), 0);
	assert_int_equal(queue_commit(q, long_key, UINT64_MAX, 1, NULL), 0);
	queue_close(q);
	q = opened(1000);
	check_all(q, 1, "x");
	queue_close(q);
}

static void check_refused(const char *folder, const char *why)
{
	struct error err = ERROR_INIT;

	assert_null(queue_open(folder, (struct queue_limits){ .max_bytes = 10 }, &err));
	if (!strstr(err.message, why))
		fail_msg("%s", err.message);
}

static void folders_of_others_and_of_another_agent_are_refused(void **state)
{
	struct queue *q = opened(1000);
	struct stat st;

	(void)state;
	assert_int_equal(stat("queue", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	check_refused("queue", "in use by another agent");
	queue_close(q);
	queue_close(opened(1000));
	assert_int_equal(chmod("queue", 0720), 0);
	check_refused("queue", "may write");
	assert_int_equal(chmod("queue", 0702), 0);
	check_refused("queue", "may write");
	assert_int_equal(symlink("queue", "link"), 0);
	check_refused("link", "open queue");
	put("file", "x");
	check_refused("file", "open queue");
	check_refused("missing/queue", "create queue");
	if (geteuid() == 0) {
		assert_int_equal(mkdir("theirs", 0700), 0);
		assert_int_equal(chown("theirs", 65534, 65534), 0);
		check_refused("theirs", "another user");
	}
}

static void an_item_that_vanished_or_changed_is_counted(void **state)
{
	struct queue *q = opened(1000);

	(void)state;
	add(q, 1, 1, "aa");
	add(q, 2, 1, "bb");
	add(q, 3, 1, "cc");
	add(q, 4, 1, "dd");
	assert_int_equal(unlink("queue/0000000000000002-p1-0000000000000002-0000000000000001.item"),
			 0);
	put("queue/0000000000000001-p1-0000000000000001-0000000000000001.item", "longer");
	put("queue/0000000000000003-p1-0000000000000003-0000000000000001.item", "c");
	check_all(q, 1, "dd");
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_READ], 3);
	assert_int_equal(queue_counters(q).bytes, 0);
	assert_int_equal(count_files(), 0);
	queue_close(q);
}

/* A write that fails half-way, like that to a full disk. */
static void a_failed_write_leaves_nothing_and_is_counted(void **state)
{
	struct rlimit before, small;
	struct error err = ERROR_INIT;
	struct queue *q = opened(1000000);
	AUTO_FREE char *large = calloc(1, 100000);

	(void)state;
	assert_non_null(large);
	memset(large, 'x', 99999);
	add(q, 1, 1, "a");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 50000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(queue_prepare(q, "p1", 2, 2, span_of(large, 99999), &err), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_non_null(strstr(err.message, "File too large"));
	assert_int_equal(queue_commit(q, "p1", 2, 2, NULL), -1);
	assert_int_equal(queue_counters(q).dropped[QUEUE_DROP_WRITE], 1);
	assert_int_equal(count_files(), 1);
	add(q, 2, 2, "b");
	check_all(q, 2, "ab");
	queue_close(q);
}

/* ---- killed at any moment ---- */

enum { KEYS = 2, KILLS = 50 };

static const char *key_name(unsigned key)
{
	static const char *const names[KEYS] = { "p1", "p2" };

	return names[key];
}

static uint64_t baseline(const char *key)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;

	return file_read(key, 100, &b, NULL) < 0 ? 0 : strtoull(buffer_string(&b), NULL, 10);
}

static bool has_baseline(void *context, const char *key, uint64_t serial)
{
	(void)context;
	return baseline(key) >= serial;
}

/* "KEY SERIAL xxxx...\n", of a length that depends on the serial. */
static void make_item(struct buffer *b, unsigned key, uint64_t serial)
{
	buffer_clear(b);
	buffer_printf(b, "%u %llu ", key, (unsigned long long)serial);
	buffer_fill(b, 'x', serial * 7919 % 20000);
	buffer_char(b, '\n');
}

static void add_until_killed(void)
{
	struct queue *q = queue_open("queue", (struct queue_limits){ .max_bytes = 1u << 30 }, NULL);
	struct buffer b = BUFFER_INIT;
	uint64_t serials[KEYS];

	if (!q)
		_exit(1);
	queue_settle(q, 1, has_baseline, NULL);
	for (unsigned key = 0; key < KEYS; key++)
		serials[key] = baseline(key_name(key));
	for (unsigned key = 0;; key = (key + 1) % KEYS) {
		char text[32];
		int length =
			snprintf(text, sizeof text, "%llu", (unsigned long long)++serials[key]);

		make_item(&b, key, serials[key]);
		if (queue_prepare(q, key_name(key), serials[key], 1, buffer_span(&b), NULL) < 0 ||
		    output_file_write(key_name(key), span_of(text, (size_t)length), 0600, NULL) <
			    0 ||
		    queue_commit(q, key_name(key), serials[key], 1, NULL) < 0)
			_exit(1);
	}
}

/* Takes everything: of each key exactly the items after `seen`, up to the baseline. */
static void check_survivors(uint64_t seen[KEYS])
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };
	AUTO(buffer_release) struct buffer expected = BUFFER_INIT;
	struct queue *q = opened(1u << 30);
	size_t at = 0;

	queue_settle(q, 1, has_baseline, NULL);
	if (take(q, 1, SIZE_MAX, &batch))
		for (size_t i = 0; i < batch.sequences.count; i++) {
			unsigned key = batch.bytes.data[at] - '0';
			struct span item = { 0 };

			assert_true(key < KEYS);
			make_item(&expected, key, ++seen[key]);
			assert_true(span_part(buffer_span(&batch.bytes), at, expected.size, &item));
			assert_true(span_equal(item, buffer_span(&expected)));
			at += expected.size;
		}
	assert_int_equal(at, batch.bytes.size);
	for (unsigned key = 0; key < KEYS; key++)
		assert_int_equal(seen[key], baseline(key_name(key)));
	queue_done(q, &batch);
	assert_int_equal(count_files(), 0);
	queue_close(q);
}

static void killed_at_any_moment_every_item_is_whole_and_there_once(void **state)
{
	uint64_t random = clock_real_ns() | 1, seen[KEYS] = { 0 };

	(void)state;
	print_message("seed %llu\n", (unsigned long long)random);
	for (unsigned i = 0; i < KILLS; i++) {
		long delay_ns = (long)(unit_random(&random) % (60 * NS_PER_MS));
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (child == 0)
			add_until_killed();
		nanosleep(&(struct timespec){ .tv_nsec = delay_ns }, NULL);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		check_survivors(seen);
	}
	assert_true(seen[0] > 0 && seen[1] > 0);
	print_message("%llu items\n", (unsigned long long)(seen[0] + seen[1]));
}

/* ---- threads ---- */

enum { ADDED = 400 };

static void *add_many(void *context)
{
	struct queue *q = context;

	for (uint64_t i = 1; i <= ADDED; i++)
		add(q, i, i, "0123456789");
	return NULL;
}

static void one_thread_adds_while_another_takes(void **state)
{
	AUTO(queue_batch_release) struct queue_batch batch = { 0 };
	struct queue *q = opened(500);
	struct queue_counters counters;
	uint64_t delivered = 0, newest = 0;
	pthread_t adder;

	(void)state;
	assert_int_equal(pthread_create(&adder, NULL, add_many, q), 0);
	do {
		if (queue_take(q, 1, 35, 3, &batch)) {
			assert_int_equal(batch.bytes.size, batch.sequences.count * 10);
			for (size_t i = 0; i < batch.sequences.count; i++) {
				assert_true(batch.sequences.at[i] > newest);
				newest = batch.sequences.at[i];
			}
			delivered += batch.sequences.count;
			queue_done(q, &batch);
		}
		counters = queue_counters(q);
		assert_true(counters.bytes <= 500);
	} while (delivered + counters.dropped[QUEUE_DROP_FULL] < ADDED);
	pthread_join(adder, NULL);
	assert_int_equal(delivered + queue_counters(q).dropped[QUEUE_DROP_FULL], ADDED);
	assert_int_equal(queue_counters(q).items, 0);
	assert_int_equal(count_files(), 0);
	queue_close(q);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, enter_folder, leave_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_oldest_items_are_taken_first_up_to_the_maximum),
		TEST(a_kept_batch_is_taken_again_and_never_by_two),
		TEST(a_postponed_item_is_passed_over_but_not_forgotten),
		TEST(refused_items_are_deleted_and_counted),
		TEST(items_keep_their_order_when_opened_again),
		TEST(over_the_maximum_the_oldest_are_dropped),
		TEST(items_of_a_batch_are_not_dropped_for_new_ones),
		TEST(a_folder_of_more_than_the_maximum_shrinks_with_the_next_item),
		TEST(items_that_have_become_too_old_are_dropped),
		TEST(a_pending_item_is_not_taken_before_its_commit),
		TEST(preparing_again_replaces_and_discarding_deletes),
		TEST(pending_items_are_settled_by_the_baseline),
		TEST(leftovers_are_removed_and_other_files_ignored),
		TEST(hostile_keys_are_refused),
		TEST(folders_of_others_and_of_another_agent_are_refused),
		TEST(an_item_that_vanished_or_changed_is_counted),
		TEST(a_failed_write_leaves_nothing_and_is_counted),
		TEST(killed_at_any_moment_every_item_is_whole_and_there_once),
		TEST(one_thread_adds_while_another_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
