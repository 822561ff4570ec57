/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc or the tcmalloc of gperftools. jemalloc's functions have the prefix that it was configured with: none, je_, _rjem_ or any other. `mallctl` shows the prefix, and
 * the others must have the same. With two of them in one program, the first is used.
 *
 * No state.
 */
#include "collect/binaries/allocator_hooks.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/binaries/elf_walk.h"
#include "util/cleanup.h"

/* Beyond this, functions of such names are not of one object file. */
enum { CODE_MAX = 1 << 16, PREFIX_MAX = 64 };
enum {
	NAME_BYTES = 256
}; /* longer names are not of interest; in an untrusted file all may be as long as the file */

/* The code of some functions. */
struct extent {
	uint64_t start, end;
};

struct search {
	char prefix[PREFIX_MAX]; /* of the functions, once mallctl was found */
	struct live_hooks hooks;
	struct extent pages, entry;
};

typedef void take_function(struct search *search, const char *name, const GElf_Sym *symbol);

static void take_mallctl(struct search *search, const char *name, const GElf_Sym *symbol)
{
	static const char wanted[] = "mallctl";
	size_t length = strlen(name);

	if (search->hooks.mallctl != 0 || length < sizeof wanted - 1 ||
	    length - (sizeof wanted - 1) >= PREFIX_MAX ||
	    strcmp(name + length - (sizeof wanted - 1), wanted) != 0)
		return;
	search->hooks.mallctl = symbol->st_value;
	memcpy(search->prefix, name, length - (sizeof wanted - 1));
}

/* Whether the name contains one of these words and only a suffix of the compiler after it: "_rjem_je_pages_map",
 * "os_pages_map.constprop.0"; not "je_pages_map.cold", which lies elsewhere and is never on a stack. */
static bool ends_with_any(const char *name, const char *const *words)
{
	for (; *words; words++) {
		const char *found = strstr(name, *words);
		const char *rest = found ? found + strlen(*words) : "?";

		if (rest[0] == 0 || (rest[0] == '.' && !strstr(rest, ".cold")))
			return true;
	}
	return false;
}

/* operator new, and what it calls: newImpl, fallback_impl since 5.3.0, fallbackNewImpl since 5.3.1. */
static bool is_operator(const char *name)
{
	static const char *const starts[] = { "_Znw", "_Zna", "_Z13fallback_impl",
					      "_Z15fallbackNewImpl", "_Z7newImpl" };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		if (strncmp(name, starts[i], strlen(starts[i])) == 0)
			return !strstr(name, ".cold");
	}
	return false;
}

static void extend(struct extent *extent, const GElf_Sym *symbol)
{
	uint64_t end = symbol->st_value + MIN(symbol->st_size, (uint64_t)CODE_MAX);

	if (extent->end == 0 || symbol->st_value < extent->start)
		extent->start = symbol->st_value;
	extent->end = MAX(extent->end, end);
}

static void take_extent(struct extent extent, uint64_t *ret_start, uint64_t *ret_bytes)
{
	*ret_start = extent.start;
	*ret_bytes = extent.end - extent.start <= CODE_MAX ? extent.end - extent.start : 0;
}

/* A function to look for, and where its address goes; the first one of that name counts. */
struct wanted {
	const char *name;
	uint64_t *at;
};

static void take_wanted(const struct wanted *wanted, size_t count, const char *name,
			const GElf_Sym *symbol)
{
	for (size_t i = 0; i < count; i++) {
		if (*wanted[i].at == 0 && strcmp(name, wanted[i].name) == 0)
			*wanted[i].at = symbol->st_value;
	}
}

static void take_others(struct search *search, const char *name, const GElf_Sym *symbol)
{
	static const char *const mapping[] = { "pages_map", "pages_unmap", "pages_boot", NULL };
	const struct wanted wanted[] = { { "realloc", &search->hooks.realloc },
					 { "free", &search->hooks.free },
					 { "dallocx", &search->hooks.free },
					 { "sdallocx", &search->hooks.sdallocx },
					 { "malloc_usable_size", &search->hooks.usable },
					 { "sallocx", &search->hooks.usable } };
	size_t prefix = strlen(search->prefix);

	if (ends_with_any(name, mapping))
		extend(&search->pages, symbol);
	if (is_operator(name))
		extend(&search->entry, symbol);
	if (strncmp(name, search->prefix, prefix) == 0)
		take_wanted(wanted, ARRAY_SIZE(wanted), name + prefix, symbol);
}

/* The functions of gperftools have one name each. */
static void take_tcmalloc(struct search *search, const char *name, const GElf_Sym *symbol)
{
	const struct wanted wanted[] = {
		{ "MallocHook_AddNewHook", &search->hooks.add_new },
		{ "MallocHook_RemoveNewHook", &search->hooks.remove_new },
		{ "MallocHook_AddDeleteHook", &search->hooks.add_delete },
		{ "MallocHook_RemoveDeleteHook", &search->hooks.remove_delete },
		{ "tc_realloc", &search->hooks.realloc },
		{ "tc_malloc_size", &search->hooks.usable },
	};

	take_wanted(wanted, ARRAY_SIZE(wanted), name, symbol);
	if (strstr(name, "MmapSysAllocator"))
		extend(&search->pages, symbol);
}

static void take_table(struct elf_walk *walk, struct search *search, take_function *take)
{
	Elf_Data *data = elf_getdata(walk->section, NULL);
	uint64_t entry = walk->header.sh_entsize;
	GElf_Sym symbol;

	for (size_t i = 0; data && entry && i < walk->header.sh_size / entry && i < INT32_MAX;
	     i++) {
		if (!gelf_getsym(data, (int)i, &symbol))
			return;
		if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
		    symbol.st_value == 0)
			continue;
		const char *name = elf_walk_name(walk, walk->header.sh_link, symbol.st_name);

		if (name && strnlen(name, NAME_BYTES) < NAME_BYTES)
			take(search, name, &symbol);
	}
}

static void take_functions(struct span bytes, struct search *search, take_function *take)
{
	struct elf_walk walk;

	if (elf_walk_begin(&walk, bytes)) {
		while (elf_walk_next(&walk))
			if (walk.header.sh_type == SHT_SYMTAB)
				take_table(&walk, search, take);
	}
	elf_walk_end(&walk);
}

/* The linker keeps what gperftools has in a section of this name in one of the same. */
static void take_section(struct span bytes, const char *wanted, struct extent *ret)
{
	struct elf_walk walk;
	size_t names;

	if (elf_walk_begin(&walk, bytes) && elf_getshdrstrndx(walk.elf, &names) == 0) {
		while (elf_walk_next(&walk)) {
			const char *name = elf_walk_name(&walk, names, walk.header.sh_name);

			if (name && strcmp(name, wanted) == 0)
				*ret = (struct extent){ walk.header.sh_addr,
							walk.header.sh_addr +
								MIN(walk.header.sh_size,
								    (uint64_t)CODE_MAX) };
		}
	}
	elf_walk_end(&walk);
}

/* The program headers, aligned, unlike those in the file; the caller frees them. NULL: not an executable of this machine's kind, or
 * damaged. */
static Elf64_Phdr *read_headers(struct span program, size_t *ret_count)
{
	Elf64_Ehdr head;
	struct span table, note;

	if (program.size < sizeof head)
		return NULL;
	memcpy(&head, program.data, sizeof head);
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum == 0 ||
	    !span_part(program, head.e_phoff, head.e_phnum * sizeof(Elf64_Phdr), &table))
		return NULL;
	AUTO_FREE Elf64_Phdr *headers = malloc(table.size);

	if (!headers || !table.data)
		return NULL;
	memcpy(headers, table.data, table.size);
	for (size_t i = 0; i < head.e_phnum; i++) {
		if (headers[i].p_type == PT_NOTE &&
		    !span_part(program, headers[i].p_offset, headers[i].p_filesz, &note))
			return NULL;
	}
	*ret_count = head.e_phnum;
	return TAKE(headers);
}

/* Whether there is code at this address, or nothing is said to be there. The symbols may be those of another file. */
static bool is_code(const Elf64_Phdr *headers, size_t count, uint64_t address)
{
	for (size_t i = 0; i < count; i++) {
		if (headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X &&
		    address - headers[i].p_vaddr < headers[i].p_filesz)
			return true;
	}
	return address == 0;
}

static bool are_code(const Elf64_Phdr *headers, size_t count, const struct live_hooks *hooks)
{
	const uint64_t called[] = { hooks->mallctl,    hooks->add_new,	     hooks->remove_new,
				    hooks->add_delete, hooks->remove_delete, hooks->realloc,
				    hooks->free,       hooks->sdallocx,	     hooks->usable };

	for (size_t i = 0; i < ARRAY_SIZE(called); i++) {
		if (!is_code(headers, count, called[i]))
			return false;
	}
	return true;
}

/* Any program may have a function of the name mallctl: jemalloc also has the beginning of its messages. */
static bool has_text_of_jemalloc(struct span program)
{
	static const char text[] = "<jemalloc>: ";

	return memmem(program.data, program.size, text, sizeof text - 1) != NULL;
}

static bool find_jemalloc(struct span symbols, struct search *search)
{
	take_functions(symbols, search, take_mallctl);
	if (search->hooks.mallctl == 0)
		return false;
	take_functions(symbols, search, take_others);
	return search->hooks.realloc != 0 &&
	       (search->hooks.free != 0 || search->hooks.sdallocx != 0);
}

static bool find_tcmalloc(struct span symbols, struct search *search)
{
	const struct live_hooks *hooks = &search->hooks;

	take_functions(symbols, search, take_tcmalloc);
	take_section(symbols, "google_malloc", &search->entry);
	return hooks->add_new && hooks->remove_new && hooks->add_delete && hooks->remove_delete &&
	       hooks->realloc && search->entry.end != 0;
}

bool allocator_hooks_of(struct span program, struct span symbols, struct live_hooks *ret)
{
	struct search search = { 0 };
	size_t count = 0;
	AUTO_FREE Elf64_Phdr *headers = read_headers(program, &count);

	*ret = (struct live_hooks){ 0 };
	if (!headers)
		return false;
	if (!find_jemalloc(symbols, &search) || !has_text_of_jemalloc(program)) {
		search = (struct search){ 0 };
		if (!find_tcmalloc(symbols, &search))
			return false;
	}
	if (!are_code(headers, count, &search.hooks))
		return false;
	take_extent(search.pages, &search.hooks.pages, &search.hooks.pages_bytes);
	take_extent(search.entry, &search.hooks.entry, &search.hooks.entry_bytes);
	search.hooks.program = live_program_id(headers, count, (const char *)program.data, false);
	*ret = search.hooks;
	return true;
}
