/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a program or library, from its headers, its symbol tables and, if these are stripped, from its allocator's
 * messages (allocator_signs.h). Strings are accessed by index through libelf, never by our own arithmetic. No state.
 */
#include "collect/binaries/elf_facts.h"

#include <gelf.h>
#include <libelf.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/binaries/raw_mmap.h"
#include "collect/binaries/allocator_signs.h"
#include "format/unrecorded.h"

/* Allocators in shared libraries that replace the C library's. */
static const struct library {
	const char *file, *name;
} libraries[] = {
	{ "libjemalloc.so", "jemalloc" }, { "libtcmalloc", "tcmalloc" },
	{ "libmimalloc", "mimalloc" },	  { "libsnmalloc", "snmalloc" },
	{ "librpmalloc", "rpmalloc" },	  { "libscudo", "Scudo" },
};

static const char *const system_calling[] = { "syscall", NULL };

/* Findings of the walk over the sections, evaluated afterwards. */
struct walk {
	struct elf_walk elf;
	struct span bytes;
	bool has_symbols, has_constants;
	bool asks_dlsym;
	uint64_t by_words, sure;
	struct elf_slots syscalls;
	struct code code;
};

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static void take_import(const char *name, struct walk *walk, struct elf_facts *facts)
{
	facts->unrecorded |= signs_of_import(name);
	walk->asks_dlsym |= strcmp(name, "dlsym") == 0;
}

static void take_symbols(struct walk *walk, struct elf_facts *facts)
{
	const GElf_Shdr *header = &walk->elf.header;
	Elf_Data *data = elf_getdata(walk->elf.section, NULL);
	GElf_Sym symbol;

	if (!data || header->sh_entsize == 0)
		return;
	for (size_t i = 0; i < header->sh_size / header->sh_entsize && i < INT32_MAX; i++) {
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol))
			return;
		name = elf_walk_name(&walk->elf, header->sh_link, symbol.st_name);
		if (!name)
			continue;
		if (symbol.st_shndx == SHN_UNDEF) {
			if (header->sh_type == SHT_DYNSYM)
				take_import(name, walk, facts);
			continue;
		}
		if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		facts->unrecorded |= signs_of_function(name);
		if (header->sh_type != SHT_DYNSYM)
			continue;
		facts->defines_malloc |= strcmp(name, "malloc") == 0;
		facts->has_recorder |= strcmp(name, "confstr") == 0;
		facts->defines_new |= strcmp(name, "_Znwm") == 0;
	}
}

static void take_needed(struct walk *walk, struct elf_facts *facts)
{
	Elf_Data *data = elf_getdata(walk->elf.section, NULL);
	size_t names = walk->elf.header.sh_link;
	GElf_Dyn entry;

	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		const char *name = entry.d_tag == DT_NEEDED
					   ? elf_walk_name(&walk->elf, names, entry.d_un.d_val)
					   : NULL;

		if (!name)
			continue;
		facts->links_cxx |= begins_with(name, "libstdc++") || begins_with(name, "libc++");
		for (size_t k = 0; k < ARRAY_SIZE(libraries); k++)
			if (begins_with(name, libraries[k].file))
				facts->shared = libraries[k].name;
	}
}

static void take_notes(Elf_Scn *section, struct elf_facts *facts)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t at = 0, name, text;
	GElf_Nhdr note;

	while (data && (at = gelf_getnote(data, at, &note, &name, &text)) > 0) {
		const char *bytes = data->d_buf;

		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(bytes + name, "GNU", 4) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= sizeof facts->build_id) {
			memcpy(facts->build_id, bytes + text, note.n_descsz);
			facts->build_id_bytes = note.n_descsz;
		}
	}
}

/* Constants and code, for findings without a symbol. */
static void take_contents(struct walk *walk, const char *name, const GElf_Shdr *header)
{
	struct span contents;

	if (header->sh_type != SHT_PROGBITS ||
	    !span_part(walk->bytes, header->sh_offset, header->sh_size, &contents))
		return;
	if (begins_with(name, ".rodata")) {
		walk->has_constants = true;
		walk->by_words |= signs_of_words(contents, &walk->sure);
	} else if (header->sh_flags & SHF_EXECINSTR && walk->code.count < CODE_SECTIONS_MAX) {
		walk->code.sections[walk->code.count++] =
			(struct code_section){ contents, header->sh_addr };
	}
}

static void take_section(struct walk *walk, const char *name, struct elf_facts *facts)
{
	const GElf_Shdr *header = &walk->elf.header;

	facts->has_unwind |= strcmp(name, ".eh_frame_hdr") == 0;
	facts->is_go |= strcmp(name, ".gopclntab") == 0 || strcmp(name, ".note.go.buildid") == 0;
	walk->has_symbols |= header->sh_type == SHT_SYMTAB;
	if (header->sh_type == SHT_NOBITS && header->sh_flags & SHF_ALLOC &&
	    !(header->sh_flags & SHF_TLS))
		facts->zeroed_bytes = saturating_add(facts->zeroed_bytes, header->sh_size);
	if (header->sh_type == SHT_SYMTAB || header->sh_type == SHT_DYNSYM)
		take_symbols(walk, facts);
	else if (header->sh_type == SHT_DYNAMIC)
		take_needed(walk, facts);
	else if (header->sh_type == SHT_NOTE)
		take_notes(walk->elf.section, facts);
	else
		take_contents(walk, name, header);
	elf_slots_take(&walk->elf, system_calling, &walk->syscalls);
}

static void take_sections(struct walk *walk, struct elf_facts *facts)
{
	size_t names;

	if (elf_getshdrstrndx(walk->elf.elf, &names) != 0)
		return;
	while (elf_walk_next(&walk->elf)) {
		const char *name = elf_walk_name(&walk->elf, names, walk->elf.header.sh_name);

		if (name)
			take_section(walk, name, facts);
	}
}

/* The name of an allocator among the bits; NULL: there is none. */
static const char *allocator_of(uint64_t unrecorded)
{
	unrecorded &= unrecorded_of_class(UNRECORDED_ALLOCATOR);
	return unrecorded ? unrecorded_words[__builtin_ctzll(unrecorded)].title : NULL;
}

/* A program may mention an allocator that it does not contain, so texts are the last resort. */
static void believe_words(const struct walk *walk, struct elf_facts *facts)
{
	uint64_t allocators = unrecorded_of_class(UNRECORDED_ALLOCATOR);
	uint64_t believed = walk->sure;

	if (!walk->has_symbols)
		believed = walk->by_words;
	else if (facts->defines_malloc && !(facts->unrecorded & allocators))
		believed |= walk->by_words & allocators;
	if (walk->asks_dlsym)
		believed |= walk->by_words & UNRECORDED_BIT(dlsym_libc);
	else
		believed &= ~UNRECORDED_BIT(dlsym_libc);
	facts->unrecorded |= believed;
}

bool elf_facts_of(struct span bytes, struct elf_facts *ret)
{
	struct walk walk = { .bytes = bytes };
	GElf_Ehdr header;

	*ret = (struct elf_facts){ 0 };
	if (!elf_walk_begin(&walk.elf, bytes) || !gelf_getehdr(walk.elf.elf, &header)) {
		elf_walk_end(&walk.elf);
		return false;
	}
	ret->entry = header.e_entry;
	take_sections(&walk, ret);
	elf_walk_end(&walk.elf);
	if ((header.e_machine == EM_X86_64 && raw_mmap_is_in_x86_64(&walk.code, &walk.syscalls)) ||
	    (header.e_machine == EM_AARCH64 && raw_mmap_is_in_aarch64(&walk.code, &walk.syscalls)))
		ret->unrecorded |= UNRECORDED_BIT(raw_mmap);
	if (!walk.has_constants)
		walk.by_words = signs_of_words(span_of(bytes.data, MIN(bytes.size, ELF_WALK_MAX)),
					       &walk.sure);
	/* A linked-in recorder forwards all calls. */
	if (ret->has_recorder)
		ret->defines_malloc = ret->defines_new = false;
	believe_words(&walk, ret);
	if (ret->is_go)
		ret->unrecorded |= UNRECORDED_BIT(go);
	ret->linked_in = allocator_of(ret->unrecorded);
	return true;
}
