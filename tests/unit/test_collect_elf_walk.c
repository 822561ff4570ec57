/* links: collect format util base */
/* SPDX-License-Identifier: Apache-2.0 */
/* Files that no linker makes: their sections lie over each other, are very many, or have names without an end. And what is looked for
 * in their contents. */
#include "collect/binaries/elf_walk.h"

#include <libelf.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/binaries/allocator_signs.h"
#include "collect/binaries/raw_mmap.h"
#include "format/unrecorded.h"

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

static uint64_t words_in(struct span constants)
{
	uint64_t sure = 0;

	return signs_of_words(constants, &sure);
}

/* At every distance from the beginning and from the end, since only some places are looked at. */
static void words_are_found_wherever_they_stand(void **state)
{
	static const char word[] = "GHCRTS", libc[] = "\0libc.so.6", function[] = "\0malloc";
	uint8_t text[64];

	(void)state;
	for (size_t at = 0; at <= sizeof text - (sizeof word - 1); at++) {
		memset(text, 'x', sizeof text);
		memcpy(text + at, word, sizeof word - 1);
		assert_int_equal(words_in(span_of(text, sizeof text)), UNRECORDED_BIT(ghc));
		assert_int_equal(words_in(span_of(text, at + sizeof word - 1)),
				 UNRECORDED_BIT(ghc));
		assert_int_equal(words_in(span_of(text, at + sizeof word - 2)), 0);
	}
	for (size_t at = 0; at + sizeof libc + sizeof function <= sizeof text; at++) {
		memset(text, 'x', sizeof text);
		memcpy(text + at, libc, sizeof libc);
		assert_int_equal(words_in(span_of(text, sizeof text)), 0);
		memcpy(text + at + sizeof libc, function, sizeof function);
		assert_int_equal(words_in(span_of(text, sizeof text)), UNRECORDED_BIT(dlsym_libc));
		text[at + sizeof libc + sizeof function - 1] = 'x';
		assert_int_equal(words_in(span_of(text, sizeof text)), 0);
	}
}

static bool maps_itself(const uint8_t *bytes, size_t count)
{
	const struct code code = { .sections = { { span_of(bytes, count), 0x1000 } }, .count = 1 };
	const struct elf_slots none = { 0 };

	return raw_mmap_is_in_x86_64(&code, &none);
}

/* mov $9, %eax; syscall: with up to 62 bytes between them. */
static void the_instruction_is_found_near_its_number(void **state)
{
	static const uint8_t number[] = { 0xb8, 9, 0, 0, 0 }, call[] = { 0x0f, 0x05 };
	uint8_t code[256];

	(void)state;
	for (size_t at = 0; at < 100; at++) {
		for (size_t between = 0; between < 80; between++) {
			size_t end = at + sizeof number + between;

			memset(code, 0x90, sizeof code);
			memcpy(code + at, number, sizeof number);
			memcpy(code + end, call, sizeof call);
			assert_int_equal(maps_itself(code, sizeof code), between <= 62);
			assert_int_equal(maps_itself(code, end + sizeof call), between <= 62);
			assert_false(maps_itself(code, end + 1));
		}
	}
}

enum { NOP = (int)0xd503201f, SVC = (int)0xd4000001 };

/* mov x8, #222 or mov w8, #222; svc #0: with up to 14 instructions between them. */
static void the_instruction_of_aarch64_is_found_near_its_number(void **state)
{
	static const uint32_t numbers[] = { 0xd2801bc8, 0x52801bc8 };
	const struct elf_slots none = { 0 };
	uint32_t words[64];

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(numbers); n++) {
		for (size_t between = 0; between < 30; between++) {
			for (size_t i = 0; i < ARRAY_SIZE(words); i++)
				words[i] = (uint32_t)NOP;
			words[7] = numbers[n];
			words[8 + between] = (uint32_t)SVC;
			struct code code = {
				.sections = { { span_of(words, sizeof words), 0x1000 } }, .count = 1
			};

			assert_int_equal(raw_mmap_is_in_aarch64(&code, &none), between <= 14);
			code.sections[0].bytes.size = (8 + between) * sizeof *words + 3;
			assert_false(raw_mmap_is_in_aarch64(&code, &none));
			words[7] ^= 1 << 5; /* another call */
			code.sections[0].bytes.size = sizeof words;
			assert_false(raw_mmap_is_in_aarch64(&code, &none));
		}
	}
}

static uint32_t adrp(unsigned to, int32_t pages)
{
	uint32_t distance = (uint32_t)pages & 0x1fffff;

	return 0x90000000 | (distance & 3) << 29 | distance >> 2 << 5 | to;
}

/* mov x0, #222; bl to the last entry of the PLT: adrp x16; ldr x17, [x16, 24]. Or both here, for a call through the slot. */
static void syscall_of_aarch64_is_found_by_its_slot(void **state)
{
	static const int32_t pages[] = { 15, -3, 0 };
	const uint32_t load = 0xf9400000 | 24 / 8 << 10 | 16 << 5 | 17;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		uint32_t caller[] = { 0xd2801bc0, (uint32_t)NOP, 0x94000000 | (0x1008 - 8) / 4 };
		uint32_t plt[] = { (uint32_t)NOP,      (uint32_t)NOP, 0xd503245f,
				   adrp(16, pages[i]), load,	      (uint32_t)NOP };
		uint32_t direct[] = { adrp(16, pages[i]), 0xd2801bc0, load, 0xd63f0220 };
		const struct code by_plt = { .sections = { { span_of(caller, sizeof caller),
							     0x10000 },
							   { span_of(plt, sizeof plt), 0x11000 } },
					     .count = 2 };
		const struct code by_slot = {
			.sections = { { span_of(direct, sizeof direct), 0x11000 } }, .count = 1
		};
		struct elf_slots slots = { .at = { 0x11018 + (uint64_t)(int64_t)pages[i] * 4096 },
					   .count = 1 };

		assert_true(raw_mmap_is_in_aarch64(&by_plt, &slots));
		assert_true(raw_mmap_is_in_aarch64(&by_slot, &slots));
		caller[2] ^= 0x80000000; /* b: the last thing that a function does */
		assert_true(raw_mmap_is_in_aarch64(&by_plt, &slots));
		slots.at[0] += 8;
		assert_false(raw_mmap_is_in_aarch64(&by_plt, &slots));
		assert_false(raw_mmap_is_in_aarch64(&by_slot, &slots));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_are_no_larger_together_than_the_file),
		cmocka_unit_test(as_many_sections_as_the_file_has_bytes_are_refused),
		cmocka_unit_test(names_have_an_end),
		cmocka_unit_test(what_is_no_elf_file_is_refused),
		cmocka_unit_test(words_are_found_wherever_they_stand),
		cmocka_unit_test(the_instruction_is_found_near_its_number),
		cmocka_unit_test(the_instruction_of_aarch64_is_found_near_its_number),
		cmocka_unit_test(syscall_of_aarch64_is_found_by_its_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
