/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/*
 * Names on disk: what goes in comes out; what is damaged, foreign or too much does not. And many frames at
 * once are the same frames as one by one, with any number of threads.
 */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "symbols/names/name_store.h"
#include "symbols/symbolizer.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"

static char folder[] = "/tmp/test_symbols_store.XXXXXX";
static char store[64], program[512];
static const struct content_key key = { { 0xab, 0xcd, 1, 2, 3, 4, 5 } };
static const struct content_key content = { { 9, 8, 7 } };

static int shell(const char *format, ...) PRINTF_LIKE(1, 2);
static int shell(const char *format, ...)
{
	char line[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	return system(line);
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	/* Neither exists yet. */
	snprintf(store, sizeof store, "%s/a/b", folder);
	return readlink("/proc/self/exe", program, sizeof program - 1) > 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return shell("rm -rf %s", folder);
}

static int empty_store(void **state)
{
	(void)state;
	return shell("rm -rf %s", store);
}

static char *store_file(void)
{
	return path_join(store, "abcd0102030405000000000000000000.names");
}

/* Frames that tell their address; every third has an inlined one, every tenth is unknown. */
static struct symbol_list list_of(uint64_t address, struct symbol_frame frames[2],
				  char texts[2][64])
{
	snprintf(texts[0], 64, "_Z%" PRIu64, address % 100);
	snprintf(texts[1], 64, "/src/file%" PRIu64 ".c", address % 7);
	if (address % 10 == 0) {
		frames[0] = (struct symbol_frame){ 0 };
		return (struct symbol_list){ frames, 1 };
	}
	frames[0] = (struct symbol_frame){ .linkage = texts[0],
					   .file = texts[1],
					   .line = (uint32_t)address,
					   .inlined = address % 3 == 0 };
	frames[1] = (struct symbol_frame){ .linkage = "outer", .line = 7 };
	return (struct symbol_list){ frames, address % 3 == 0 ? 2 : 1 };
}

struct made {
	struct symbol_frame frames[2];
	char texts[2][64];
};

/* Saves first, first + step, ... below end. */
static int save(const struct name_store *old, uint64_t first, uint64_t end, uint64_t step,
		uint64_t limit)
{
	size_t count = 0, room = (end - first) / step + 1;
	struct name_entry *entries = calloc(room, sizeof *entries);
	struct made *made = calloc(room, sizeof *made);

	/* Backwards: order is the store's business. */
	for (uint64_t a = first; a < end; a += step) {
		uint64_t address = first + end - 1 - a;

		address -= (address - first) % step;
		entries[count] = (struct name_entry){ address, list_of(address, made[count].frames,
								       made[count].texts) };
		count++;
	}
	int status = name_store_save(store, &key, &content, old, entries, count, limit);

	free(made);
	free(entries);
	return status;
}

static void assert_known(const struct name_store *s, uint64_t address)
{
	struct dwarf_frame frames[DWARF_CHAIN_MAX];
	struct made made;
	struct symbol_list list = list_of(address, made.frames, made.texts);
	size_t count;

	assert_true(name_store_find(s, address, frames, &count));
	if (!list.at[0].linkage) {
		assert_int_equal(count, 0);
		return;
	}
	assert_int_equal(count, list.count);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(frames[i].name, list.at[i].linkage);
		assert_int_equal(frames[i].line, list.at[i].line);
		assert_int_equal(frames[i].inlined, list.at[i].inlined);
		if (list.at[i].file)
			assert_string_equal(frames[i].file, list.at[i].file);
		else
			assert_null(frames[i].file);
	}
}

static void what_goes_in_comes_out(void **state)
{
	struct dwarf_frame frames[DWARF_CHAIN_MAX];
	size_t count;

	(void)state;
	assert_null(name_store_open(store, &key, &content));
	assert_int_equal(save(NULL, 1000, 3000, 2, 1 << 20), 0);
	struct name_store *first = name_store_open(store, &key, &content);

	assert_non_null(first);
	for (uint64_t a = 1000; a < 3000; a += 2)
		assert_known(first, a);
	assert_false(name_store_find(first, 1001, frames, &count));
	assert_false(name_store_find(first, 998, frames, &count));
	assert_false(name_store_find(first, 3000, frames, &count));

	/* More is added to what there is; some of it was known. */
	assert_int_equal(save(first, 2000, 5000, 3, 1 << 20), 0);
	struct name_store *second = name_store_open(store, &key, &content);

	for (uint64_t a = 1000; a < 3000; a += 2)
		assert_known(second, a);
	for (uint64_t a = 2000; a < 5000; a += 3)
		assert_known(second, a);
	/* The first still has its file, though it was replaced. */
	assert_known(first, 1002);
	name_store_free(first);
	name_store_free(second);
}

static void other_content_has_another_store(void **state)
{
	struct content_key other = content;
	struct name_store *s;

	(void)state;
	other.bytes[15] ^= 1;
	assert_int_equal(save(NULL, 1000, 1100, 1, 1 << 20), 0);
	assert_null(name_store_open(store, &key, &other));
	assert_null(name_store_open(store, &content, &content));
	/* Of what is gone nobody knows the content. */
	s = name_store_open(store, &key, NULL);
	assert_non_null(s);
	name_store_free(s);
}

static void damaged_store_is_no_store(void **state)
{
	AUTO(buffer_release) struct buffer file = BUFFER_INIT;
	AUTO_FREE char *path = store_file();

	(void)state;
	assert_int_equal(save(NULL, 1000, 1030, 1, 1 << 20), 0);
	assert_int_equal(file_read(path, 1 << 20, &file, NULL), 0);
	for (size_t i = 0; i < file.size; i++) {
		file.data[i] ^= 0x10;
		assert_null(name_store_read(buffer_span(&file), &content));
		file.data[i] ^= 0x10;
		assert_null(name_store_read(span_of(file.data, i), &content));
	}
	struct name_store *whole = name_store_read(buffer_span(&file), &content);

	assert_non_null(whole);
	name_store_free(whole);
}

static void what_others_may_write_is_not_believed(void **state)
{
	AUTO_FREE char *path = store_file();

	(void)state;
	assert_int_equal(save(NULL, 1000, 1030, 1, 1 << 20), 0);
	assert_int_equal(chmod(path, 0666), 0);
	assert_null(name_store_open(store, &key, &content));
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(chmod(store, 0777), 0);
	assert_null(name_store_open(store, &key, &content));
	assert_int_equal(save(NULL, 1000, 1030, 1, 1 << 20), -1);
	assert_int_equal(chmod(store, 0700), 0);
	struct name_store *s = name_store_open(store, &key, &content);

	assert_non_null(s);
	name_store_free(s);
	/* A place where nothing can be written. */
	struct name_entry none = { 0 };

	assert_int_equal(name_store_save("/proc/no/such", &key, &content, NULL, &none, 0, 1), -1);
}

static void oldest_stores_go_when_the_folder_is_full(void **state)
{
	struct stat status;
	char path[128];

	(void)state;
	assert_int_equal(shell("mkdir -p %s", store), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(
			shell("head -c 100000 /dev/zero >%s/%d.names && touch -d '2020-01-0%d' %s/%d.names",
			      store, i, 1 + (i * 7) % 9, store, i),
			0);
	assert_int_equal(shell("head -c 900000 /dev/zero >%s/other", store), 0);
	assert_int_equal(save(NULL, 1000, 1030, 1, 450000), 0);
	size_t left = 0;

	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof path, "%s/%d.names", store, i);
		left += stat(path, &status) == 0;
	}
	assert_int_equal(left, 4);
	/* i = 8, 4, 6 and 5, 7 in turn: 1 + i * 7 % 9 is the day. */
	snprintf(path, sizeof path, "%s/5.names", store);
	assert_int_equal(stat(path, &status), 0);
	snprintf(path, sizeof path, "%s/0.names", store);
	assert_int_not_equal(stat(path, &status), 0);
	snprintf(path, sizeof path, "%s/other", store);
	assert_int_equal(stat(path, &status), 0);
	struct name_store *s = name_store_open(store, &key, &content);

	assert_non_null(s);
	name_store_free(s);
}

/* Addresses all over this program, which a sanitizer makes several times as long. */
enum { ASKED = 4000 };

extern char etext; /* the linker's */

static int take_bias(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1; /* the program itself comes first */
}

static uint64_t code_end(void)
{
	uint64_t bias = 0;

	dl_iterate_phdr(take_bias, &bias);
	return (uint64_t)(uintptr_t)&etext - bias;
}

static struct symbol_request *requests_of(symbol_module_id module)
{
	struct symbol_request *requests = calloc(ASKED, sizeof *requests);
	uint64_t seed = 5;

	for (size_t i = 0; i < ASKED; i++)
		requests[i] = (struct symbol_request){ module, unit_random(&seed) % code_end(),
						       i % 5 == 0 };
	return requests;
}

static void assert_same(struct symbol_list a, struct symbol_list b)
{
	assert_int_equal(a.count, b.count);
	for (size_t i = 0; i < a.count; i++) {
		assert_int_equal(a.at[i].function != NULL, b.at[i].function != NULL);
		if (a.at[i].function) {
			assert_string_equal(a.at[i].function, b.at[i].function);
			assert_string_equal(a.at[i].linkage, b.at[i].linkage);
		}
		assert_int_equal(a.at[i].file != NULL, b.at[i].file != NULL);
		if (a.at[i].file)
			assert_string_equal(a.at[i].file, b.at[i].file);
		assert_int_equal(a.at[i].line, b.at[i].line);
		assert_int_equal(a.at[i].inlined, b.at[i].inlined);
	}
}

static struct symbolizer *symbolizer_with(unsigned workers, const char *stored)
{
	struct symbolizer_options options = { .workers = workers, .store_folder = stored };
	struct symbolizer *s = symbolizer_new(&options);

	assert_non_null(s);
	return s;
}

static void many_at_once_are_the_same_as_one_by_one(void **state)
{
	struct symbolizer *single = symbolizer_with(1, NULL);
	symbol_module_id id = symbolizer_module(single, program, span_of(NULL, 0));
	struct symbol_request *requests = requests_of(id);
	size_t named = 0, inlined = 0;

	(void)state;
	for (unsigned workers = 1; workers <= 4; workers++) {
		struct symbolizer *many = symbolizer_with(workers, NULL);

		assert_int_equal(symbolizer_module(many, program, span_of(NULL, 0)).v, id.v);
		symbolizer_prepare(many, requests, ASKED);
		for (size_t i = 0; i < ASKED; i++) {
			struct symbol_request r = requests[i];
			struct symbol_list list = symbolizer_find(many, id, r.address, r.exact);

			assert_same(list, symbolizer_find(single, id, r.address, r.exact));
			named += list.at[0].function != NULL;
			inlined += list.count > 1;
		}
		symbolizer_free(many);
	}
	assert_true(named > ASKED);
	assert_true(inlined > 0); /* few where the compiler was told to keep out */
	free(requests);
	symbolizer_free(single);
}

static struct span own_build_id(void)
{
	static uint8_t bytes[20];
	AUTO_FREE char *command = NULL;
	size_t count = 0;
	FILE *pipe;

	assert_true(asprintf(&command, "readelf -n %s | sed -n 's/.*Build ID: //p'", program) > 0);
	pipe = popen(command, "r");
	while (count < sizeof bytes && fscanf(pipe, "%2hhx", &bytes[count]) == 1)
		count++;
	pclose(pipe);
	assert_int_equal(count, sizeof bytes);
	return span_of(bytes, count);
}

/* The second time no debug information is read. */
static void names_are_known_the_next_time(void **state)
{
	char copy[128];

	(void)state;
	snprintf(copy, sizeof copy, "%s/copy", folder);
	assert_int_equal(shell("cp %s %s", program, copy), 0);
	struct span id_span = own_build_id();
	struct symbolizer *cold = symbolizer_with(2, store);
	symbol_module_id id = symbolizer_module(cold, copy, id_span);
	struct symbol_request *requests = requests_of(id);

	/* One half at once, the other one by one; saved in two steps. */
	symbolizer_prepare(cold, requests, ASKED / 2);
	assert_int_equal(symbolizer_save(cold), 0);
	for (size_t i = ASKED / 2; i < ASKED; i++)
		symbolizer_find(cold, id, requests[i].address, requests[i].exact);
	assert_int_equal(symbolizer_save(cold), 0);
	struct symbolizer *warm = symbolizer_with(2, store);

	assert_int_equal(symbolizer_module(warm, copy, id_span).v, id.v);
	symbolizer_prepare(warm, requests, ASKED / 4);
	for (size_t i = 0; i < ASKED; i++)
		assert_same(symbolizer_find(cold, id, requests[i].address, requests[i].exact),
			    symbolizer_find(warm, id, requests[i].address, requests[i].exact));
	assert_int_equal(symbolizer_module_state(warm, id).source, SYMBOLS_UNASKED);
	/* What was not asked before is not there. */
	assert_null(symbolizer_find(warm, id, 0x7000000, false).at[0].function);
	assert_int_equal(symbolizer_module_state(warm, id).source, SYMBOLS_DWARF);
	symbolizer_free(warm);
	unlink(copy);
	symbolizer_free(cold);
	free(requests);
}

static int keep_files(void **state)
{
	(void)state;
	return shell(
		"mkdir -p %s/real %s/false && cd %s && "
		"echo 'int helper(int x) { return x * 3; } int main(int c, char **v) { return helper(c) + !v; }' >real.c && "
		"sed 's/helper/hostile/g' real.c >false.c && "
		"for n in real false; do gcc -g -O0 -Wl,--build-id=0xabcdef0123456789 -o $n/program $n.c || exit 1; done; "
		"for n in real false; do objcopy --only-keep-debug $n/program $n.debug && cp $n/program $n/stripped && "
		"strip -g $n/stripped && objcopy --add-gnu-debuglink=$n.debug $n/stripped && mv $n.debug $n/; done && "
		/* the real program, and beside it what another one was made of */
		"mkdir mixed && cp real/stripped mixed/ && cp false/false.debug mixed/real.debug",
		folder, folder, folder);
}

/* The function of a program that both know by another name. */
static const char *name_in(const char *path)
{
	static const uint8_t id[] = { 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89 };
	static char name[64];
	char full[128];
	uint64_t address = 0;

	snprintf(full, sizeof full, "nm %s/false/program | awk '/ hostile$/{print $1}'", folder);
	FILE *pipe = popen(full, "r");

	assert_int_equal(fscanf(pipe, "%" SCNx64, &address), 1);
	pclose(pipe);
	snprintf(full, sizeof full, "%s/%s", folder, path);
	struct symbolizer *s = symbolizer_with(1, store);
	const char *found = symbolizer_find(s, symbolizer_module(s, full, span_of(id, sizeof id)),
					    address, true)
				    .at[0]
				    .function;

	snprintf(name, sizeof name, "%s", found ? found : "");
	symbolizer_free(s);
	return name;
}

static size_t kept_stores(void)
{
	AUTO_FREE char *command = NULL;
	size_t count = 0;

	assert_true(asprintf(&command, "ls %s | grep -c names", store) > 0);
	FILE *pipe = popen(command, "r");

	assert_int_equal(fscanf(pipe, "%zu", &count), 1);
	pclose(pipe);
	return count;
}

/* H9: a build-id is what a file claims. */
static void what_claims_the_same_build_id_does_not_name_others(void **state)
{
	(void)state;
	assert_int_equal(keep_files(state), 0);
	assert_string_equal(name_in("false/program"), "hostile");
	assert_string_equal(name_in("real/program"), "helper");
	assert_string_equal(name_in("false/program"), "hostile");
	/* The same program, with a debug file that claims to be its. */
	assert_string_equal(name_in("mixed/stripped"), "hostile");
	assert_string_equal(name_in("real/stripped"), "helper");
	assert_string_equal(name_in("mixed/stripped"), "hostile");
	assert_int_equal(kept_stores(), 4);
	/* What is gone keeps the names that it had there; what was never there has none. */
	assert_int_equal(shell("cd %s && mv real/program real/gone", folder), 0);
	assert_string_equal(name_in("real/program"), "helper");
	assert_string_equal(name_in("real/never"), "");
	/* And what is another one by now, whatever it claims, has its own. */
	assert_int_equal(shell("cd %s && cp false/program real/program", folder), 0);
	assert_string_equal(name_in("real/program"), "hostile");
}

/* H9: two users have two keys for one file, and who does not know the secret cannot look for another file with the same. */
static void keys_depend_on_the_secret(void **state)
{
	struct content_secret first, again, other;
	char path[128];
	struct stat status;

	(void)state;
	assert_true(name_store_secret(store, &first) && name_store_secret(store, &again));
	assert_memory_equal(&first, &again, sizeof first);
	snprintf(path, sizeof path, "%s/secret", store);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(chmod(path, 0644), 0);
	assert_true(name_store_secret(store, &other));
	assert_memory_not_equal(&first, &other, sizeof first);
}

static void store_that_cannot_be_written_is_counted(void **state)
{
	struct symbolizer *s = symbolizer_with(1, "/proc/no/such");

	(void)state;
	struct span id = own_build_id();

	symbolizer_find(s, symbolizer_module(s, program, id), 0x4000, true);
	assert_int_equal(symbolizer_save(s), 1);
	symbolizer_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_goes_in_comes_out, empty_store),
		cmocka_unit_test_setup(other_content_has_another_store, empty_store),
		cmocka_unit_test_setup(damaged_store_is_no_store, empty_store),
		cmocka_unit_test_setup(what_others_may_write_is_not_believed, empty_store),
		cmocka_unit_test_setup(oldest_stores_go_when_the_folder_is_full, empty_store),
		cmocka_unit_test(many_at_once_are_the_same_as_one_by_one),
		cmocka_unit_test_setup(names_are_known_the_next_time, empty_store),
		cmocka_unit_test_setup(what_claims_the_same_build_id_does_not_name_others,
				       empty_store),
		cmocka_unit_test_setup(keys_depend_on_the_secret, empty_store),
		cmocka_unit_test(store_that_cannot_be_written_is_counted),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
