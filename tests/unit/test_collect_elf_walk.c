/* links: collect format util base */
/* SPDX-License-Identifier: Apache-2.0 */
/* Files that no linker makes: their sections lie over each other, are very many, or have names without an end. */
#include "collect/binaries/elf_walk.h"

#include <libelf.h>
#include <string.h>

#include "unit.h"

enum { SECTIONS = 60000, BYTES = 8 << 20, NAMES_AT = 64, TABLE_AT = 4096 };
static const char names[] = "\0.rodata";
static _Alignas(64) uint8_t file[BYTES];

static struct span whole(void)
{
	return span_of(file, sizeof file);
}

/* The second section has the names, all others are the rest of the file. */
static void make(uint16_t count, uint32_t type)
{
	Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_ehsize = sizeof head,
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shoff = TABLE_AT,
			    .e_shnum = count,
			    .e_shstrndx = 1 };
	Elf64_Shdr section = { .sh_name = 1,
			       .sh_type = type,
			       .sh_flags = SHF_ALLOC,
			       .sh_size = BYTES / 2,
			       .sh_entsize = sizeof(Elf64_Sym),
			       .sh_link = 1 };
	const Elf64_Shdr of_names = { .sh_type = SHT_STRTAB,
				      .sh_offset = NAMES_AT,
				      .sh_size = sizeof names };

	memset(file, 0, sizeof file);
	memcpy(file, &head, sizeof head);
	memcpy(file + NAMES_AT, names, sizeof names);
	memcpy(file + TABLE_AT + sizeof section, &of_names, sizeof of_names);
	for (size_t i = 2; i < SECTIONS; i++)
		memcpy(file + TABLE_AT + i * sizeof section, &section, sizeof section);
}

static void sections_are_no_larger_together_than_the_file(void **state)
{
	static const uint32_t types[] = { SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_DYNAMIC,
					  SHT_NOTE };

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct elf_walk walk;
		uint64_t bytes = 0;

		make(SECTIONS, types[i]);
		assert_true(elf_walk_begin(&walk, whole()));
		while (elf_walk_next(&walk))
			bytes += walk.header.sh_size;
		assert_in_range(bytes, BYTES / 2, BYTES);
		elf_walk_end(&walk);
	}
}

static void as_many_sections_as_the_file_has_bytes_are_refused(void **state)
{
	const uint64_t count = (BYTES - TABLE_AT) / sizeof(Elf64_Shdr);
	struct elf_walk walk;

	(void)state;
	make(0, SHT_PROGBITS);
	/* Where the head says none, the first section has their number. */
	memcpy(file + TABLE_AT + offsetof(Elf64_Shdr, sh_size), &count, sizeof count);
	assert_false(elf_walk_begin(&walk, whole()));
	elf_walk_end(&walk);
}

static void names_have_an_end(void **state)
{
	struct elf_walk walk;

	(void)state;
	make(SECTIONS, SHT_PROGBITS);
	assert_true(elf_walk_begin(&walk, whole()));
	assert_string_equal(elf_walk_name(&walk, 1, 1), ".rodata");
	assert_null(elf_walk_name(&walk, 1, sizeof names));
	assert_null(elf_walk_name(&walk, SECTIONS, 1));
	elf_walk_end(&walk);
	file[NAMES_AT + sizeof names - 1] = 'x';
	assert_true(elf_walk_begin(&walk, whole()));
	assert_null(elf_walk_name(&walk, 1, 1));
	elf_walk_end(&walk);
}

static void what_is_no_elf_file_is_refused(void **state)
{
	struct elf_walk walk;

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(Elf64_Ehdr); bytes++) {
		assert_false(elf_walk_begin(&walk, span_of(file, bytes)));
		elf_walk_end(&walk);
	}
	memset(file, 0, sizeof file);
	assert_false(elf_walk_begin(&walk, whole()));
	elf_walk_end(&walk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_are_no_larger_together_than_the_file),
		cmocka_unit_test(as_many_sections_as_the_file_has_bytes_are_refused),
		cmocka_unit_test(names_have_an_end),
		cmocka_unit_test(what_is_no_elf_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
