/* SPDX-License-Identifier: Apache-2.0 */
/* links: base util */
/* Judging programs by their files: real ones, and the same cut and bent. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/elf.h"
#include "unit.h"
#include "util/files.h"

static void load(const char *path, struct file_map *ret)
{
	struct error error;

	*ret = FILE_MAP_INIT;
	assert_int_equal(file_map_open(ret, path, &error), 0);
}

static void own_program_fits(void **state)
{
	struct file_map file;

	(void)state;
	load("/bin/true", &file);
	assert_int_equal(elf_judge(file.bytes.data, file.bytes.size).verdict, ELF_FITS);
	file_map_release(&file);
}

static void loader_is_recognised(void **state)
{
	struct file_map file;

	(void)state;
	load("/lib/" ELF_FOLDER_HERE "/" ELF_LOADER_HERE, &file);
	assert_int_equal(elf_judge(file.bytes.data, file.bytes.size).verdict, ELF_LOADER);
	file_map_release(&file);
}

static void library_without_interpreter_is_no_program(void **state)
{
	struct file_map file;

	(void)state;
	load("/lib/" ELF_FOLDER_HERE "/libz.so.1", &file);
	assert_int_equal(elf_judge(file.bytes.data, file.bytes.size).verdict, ELF_STATIC);
	file_map_release(&file);
}

static void script_names_its_interpreter(void **state)
{
	static const char text[] = "#!  /bin/sh -e\necho\n";
	struct elf_judgement judgement = elf_judge(text, sizeof text - 1);

	(void)state;
	assert_int_equal(judgement.verdict, ELF_SCRIPT);
	assert_int_equal(judgement.path_bytes, 7);
	assert_memory_equal(judgement.path, "/bin/sh", 7);
	assert_int_equal(elf_judge("#!\n", 3).verdict, ELF_TEXT);
	assert_int_equal(elf_judge("echo\n", 5).verdict, ELF_TEXT);
	assert_int_equal(elf_judge("", 0).verdict, ELF_TEXT);
	assert_int_equal(elf_judge(ELFMAG, SELFMAG).verdict, ELF_OTHER_CLASS);
}

static void class_machine_and_loader_are_compared(void **state)
{
	struct file_map file;

	(void)state;
	load("/bin/true", &file);
	char *copy = malloc(file.bytes.size);
	Elf64_Ehdr *elf = (Elf64_Ehdr *)(void *)copy;

	assert_non_null(copy);
	memcpy(copy, file.bytes.data, file.bytes.size);
	elf->e_machine = EM_RISCV;
	assert_int_equal(elf_judge(copy, file.bytes.size).verdict, ELF_OTHER_MACHINE);
	elf->e_machine = ELF_MACHINE_HERE;
	elf->e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(elf_judge(copy, file.bytes.size).verdict, ELF_OTHER_CLASS);
	elf->e_ident[EI_CLASS] = ELFCLASS64;
	char *interpreter = NULL;
	const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(copy + elf->e_phoff);

	for (unsigned i = 0; i < elf->e_phnum; i++) {
		if (segments[i].p_type == PT_INTERP)
			interpreter = copy + segments[i].p_offset;
	}
	assert_non_null(interpreter);
	memcpy(interpreter, "/lib64/ld-uClibc", 16);
	assert_int_equal(elf_judge(copy, file.bytes.size).verdict, ELF_OTHER_LIBC);
	size_t bytes = strlen(interpreter), musl_bytes = sizeof ELF_MUSL_HERE - 1;

	assert_true(bytes > musl_bytes);
	memset(interpreter, '/', bytes);
	memcpy(interpreter + bytes - musl_bytes, ELF_MUSL_HERE, musl_bytes);
	assert_int_equal(elf_judge(copy, file.bytes.size).verdict, ELF_FITS);
	free(copy);
	file_map_release(&file);
}

static void every_cut_and_many_bends_are_survived(void **state)
{
	struct file_map file;
	uint64_t seed = 7;

	(void)state;
	load("/bin/true", &file);
	for (size_t length = 0; length < 2048;
	     length++) { /* in memory of exactly that size: a sanitizer sees more */
		char *copy = malloc(length ? length : 1);

		assert_non_null(copy);
		memcpy(copy, file.bytes.data, length);
		assert_true(elf_judge(copy, length).verdict != ELF_FITS || length >= 64);
		free(copy);
	}
	char *copy = malloc(file.bytes.size);

	assert_non_null(copy);
	for (int i = 0; i < 20000; i++) {
		memcpy(copy, file.bytes.data, 1024);
		if (i == 0)
			memcpy(copy, file.bytes.data, file.bytes.size);
		for (int k = 0; k < 4; k++)
			copy[unit_random(&seed) % 1024] = (char)unit_random(&seed);
		assert_true(elf_judge(copy, file.bytes.size).verdict <= ELF_SANITIZED);
	}
	free(copy);
	file_map_release(&file);
}

struct in_parts {
	struct elf_source source;
	const char *bytes;
	char part[ELF_PART_MAX];
	uint64_t cut; /* from here on, reading fails */
};

/* Each part overwrites the one before. */
static const char *read_part(struct elf_source *source, uint64_t at, size_t bytes)
{
	struct in_parts *file = (struct in_parts *)source;

	assert_true(bytes <= sizeof file->part && at + bytes <= source->length);
	memset(file->part, 'x', sizeof file->part);
	memcpy(file->part, file->bytes + at, bytes);
	return at + bytes <= file->cut ? file->part : NULL;
}

static void assert_same_in_parts(const char *path)
{
	struct file_map file;

	load(path, &file);
	struct elf_judgement whole = elf_judge(file.bytes.data, file.bytes.size);
	struct in_parts parts = { .source = { file.bytes.size, read_part },
				  .bytes = (const char *)file.bytes.data,
				  .cut = UINT64_MAX };
	struct elf_judgement judgement = elf_judge_source(&parts.source);

	assert_int_equal(judgement.verdict, whole.verdict);
	assert_int_equal(judgement.path_bytes, whole.path_bytes);
	for (parts.cut = 0; parts.cut < file.bytes.size; parts.cut += parts.cut / 8 + 1)
		assert_true(elf_judge_source(&parts.source).verdict <= ELF_SANITIZED);
	file_map_release(&file);
}

static void reading_in_parts_gives_the_same_judgement(void **state)
{
	static const char *const paths[] = { "/bin/true",
					     "/lib/" ELF_FOLDER_HERE "/" ELF_LOADER_HERE,
					     "/lib/" ELF_FOLDER_HERE "/libz.so.1", "/usr/bin/ldd" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_same_in_parts(paths[i]);
}

/* At every distance from the end of a part. */
static void a_word_across_two_parts_is_found(void **state)
{
	enum { BYTES = 2 * ELF_PART_MAX };
	static const char word[] = "__asan_init";
	static struct {
		Elf64_Ehdr elf;
		Elf64_Phdr segment[3];
		Elf64_Dyn dynamic[4];
		char loader[sizeof ELF_LOADER_HERE], strings[BYTES];
	} file;
	uint64_t strings = (uint64_t)(file.strings - (char *)&file);

	(void)state;
	file.elf = (Elf64_Ehdr){ .e_ident = ELFMAG,
				 .e_machine = ELF_MACHINE_HERE,
				 .e_phoff = sizeof file.elf,
				 .e_phentsize = sizeof *file.segment,
				 .e_phnum = ARRAY_SIZE(file.segment) };
	file.elf.e_ident[EI_CLASS] = ELFCLASS64;
	file.segment[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_filesz = sizeof file };
	file.segment[1] = (Elf64_Phdr){ .p_type = PT_INTERP,
					.p_offset = (uint64_t)(file.loader - (char *)&file),
					.p_filesz = sizeof file.loader };
	file.segment[2] =
		(Elf64_Phdr){ .p_type = PT_DYNAMIC,
			      .p_offset = (uint64_t)((char *)file.dynamic - (char *)&file),
			      .p_filesz = sizeof file.dynamic };
	file.dynamic[0] = (Elf64_Dyn){ DT_STRTAB, { strings } };
	file.dynamic[1] = (Elf64_Dyn){ DT_STRSZ, { BYTES } };
	memcpy(file.loader, ELF_LOADER_HERE, sizeof file.loader);
	for (size_t at = ELF_PART_MAX - 64; at < ELF_PART_MAX + 8; at++) {
		struct in_parts parts = { .source = { sizeof file, read_part },
					  .bytes = (const char *)&file,
					  .cut = UINT64_MAX };

		memset(file.strings, 0, BYTES);
		assert_int_equal(elf_judge_source(&parts.source).verdict, ELF_FITS);
		memcpy(file.strings + at, word, sizeof word);
		assert_int_equal(elf_judge_source(&parts.source).verdict, ELF_SANITIZED);
		file.strings[at - 1] = 'x'; /* the end of another name */
		assert_int_equal(elf_judge_source(&parts.source).verdict, ELF_FITS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_program_fits),
		cmocka_unit_test(loader_is_recognised),
		cmocka_unit_test(library_without_interpreter_is_no_program),
		cmocka_unit_test(script_names_its_interpreter),
		cmocka_unit_test(class_machine_and_loader_are_compared),
		cmocka_unit_test(every_cut_and_many_bends_are_survived),
		cmocka_unit_test(reading_in_parts_gives_the_same_judgement),
		cmocka_unit_test(a_word_across_two_parts_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
