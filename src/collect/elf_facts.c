/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about an executable, from its headers, its symbol tables and, if these are stripped, from what its allocator
 * would say. libelf reads the structure and checks every offset; strings of its tables are asked for by index and never
 * reached by our own arithmetic. No state.
 */
#include "collect/elf_facts.h"

#include <gelf.h>
#include <libelf.h>
#include <string.h>

#include "base/compiler.h"

/* How an allocator is known: by a function that only it has, by words that only it says, by its library. */
static const struct known {
	const char *name;
	const char *functions[6];
	const char *words;
	const char *library;
} known[] = {
	{ "jemalloc",
	  { "mallocx", "je_malloc", "_rjem_malloc", "je_mallocx", "_rjem_mallocx" },
	  "<jemalloc>: ",
	  "libjemalloc.so" },
	{ "tcmalloc",
	  { "tc_malloc", "TCMallocInternalMalloc" },
	  "tcmalloc.pageheap_unmapped_bytes",
	  "libtcmalloc" },
	{ "mimalloc", { "mi_malloc", "_mi_malloc_generic" }, "mimalloc: warning: ", "libmimalloc" },
	{ "snmalloc", { "sn_rust_alloc", "snmalloc_alloc" }, NULL, "libsnmalloc" },
	{ "rpmalloc", { "rpmalloc" }, NULL, "librpmalloc" },
	{ "Scudo", { "__scudo_get_stack_depot_addr" }, "Scudo ERROR", "libscudo" },
};

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static const char *allocator_of_function(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		for (size_t j = 0; j < ARRAY_SIZE(known[i].functions); j++)
			if (known[i].functions[j] && strcmp(name, known[i].functions[j]) == 0)
				return known[i].name;
	return NULL;
}

static void take_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			 struct elf_facts *facts)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;

	if (!data || header->sh_entsize == 0)
		return;
	for (size_t i = 0; i < header->sh_size / header->sh_entsize && i < INT32_MAX; i++) {
		const char *name, *allocator;

		if (!gelf_getsym(data, (int)i, &symbol))
			return;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (symbol.st_shndx == SHN_UNDEF || !name ||
		    GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		allocator = allocator_of_function(name);
		if (allocator)
			facts->linked_in = allocator;
		if (header->sh_type != SHT_DYNSYM)
			continue;
		facts->defines_malloc |= strcmp(name, "malloc") == 0;
		facts->has_recorder |= strcmp(name, "confstr") == 0;
		facts->defines_new |= strcmp(name, "_Znwm") == 0;
	}
}

static void take_needed(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			struct elf_facts *facts)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Dyn entry;

	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		const char *name = entry.d_tag == DT_NEEDED
					   ? elf_strptr(elf, header->sh_link, entry.d_un.d_val)
					   : NULL;

		if (!name)
			continue;
		facts->links_cxx |= begins_with(name, "libstdc++") || begins_with(name, "libc++");
		for (size_t k = 0; k < ARRAY_SIZE(known); k++)
			if (begins_with(name, known[k].library))
				facts->shared = known[k].name;
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

/* Whether there is a full symbol table. *ret_constants: where the program's words are, if that can be told. */
static bool take_sections(Elf *elf, struct span bytes, struct elf_facts *facts,
			  struct span *ret_constants)
{
	bool has_symbols = false;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;

		if (!name)
			continue;
		facts->has_unwind |= strcmp(name, ".eh_frame_hdr") == 0;
		facts->is_go |=
			strcmp(name, ".gopclntab") == 0 || strcmp(name, ".note.go.buildid") == 0;
		has_symbols |= header.sh_type == SHT_SYMTAB;
		if (strcmp(name, ".rodata") == 0 && header.sh_offset <= bytes.size &&
		    header.sh_size <= bytes.size - header.sh_offset)
			*ret_constants = span_of(bytes.data + header.sh_offset, header.sh_size);
		if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
			take_symbols(elf, section, &header, facts);
		else if (header.sh_type == SHT_DYNAMIC)
			take_needed(elf, section, &header, facts);
		else if (header.sh_type == SHT_NOTE)
			take_notes(section, facts);
	}
	return has_symbols;
}

static const char *allocator_of_words(struct span bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].words &&
		    memmem(bytes.data, bytes.size, known[i].words, strlen(known[i].words)))
			return known[i].name;
	return NULL;
}

bool elf_facts_of(struct span bytes, struct elf_facts *ret)
{
	GElf_Ehdr header;
	Elf *elf;

	*ret = (struct elf_facts){ 0 };
	if (bytes.size == 0 || elf_version(EV_CURRENT) == EV_NONE)
		return false;
	/* It is not written to: libelf copies what it converts. */
	elf = elf_memory((char *)(uintptr_t)bytes.data, bytes.size);
	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header)) {
		elf_end(elf);
		return false;
	}
	ret->entry = header.e_entry;
	struct span constants = bytes;
	bool has_symbols = take_sections(elf, bytes, ret, &constants);

	elf_end(elf);
	/* A recorder that is linked in passes all on. */
	if (ret->has_recorder)
		ret->defines_malloc = ret->defines_new = false;
	/* A program may speak of an allocator that it does not have, so its words are the last resort. */
	if (!ret->linked_in && (ret->defines_malloc || !has_symbols))
		ret->linked_in = allocator_of_words(constants);
	return true;
}
