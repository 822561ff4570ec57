/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file that names come from.
 *
 * libdwfl opens it and finds its separate debug file; each file has a Dwfl of its own, so that addresses
 * need no common space. Three address spaces meet: the
 * file's virtual addresses (ours), libdwfl's, and those of the debug file, which differ by biases.
 *
 * Order of trust: DWARF, then a symbol whose size covers the address. A file whose build-id is not
 * the recorded one is not asked at all: its names would be plausible and wrong. But its debug file may
 * still be where the build-id leads, and has all that is needed.
 */
#include "symbols/symbol_module.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwfl.h>

#include "base/compiler.h"
#include "symbols/elf_symbols.h"
#include "symbols/split_package.h"
#include "util/cleanup.h"
#include "util/files.h"

struct symbol_module {
	Dwfl *dwfl;
	Dwfl_Module *file;
	uint64_t file_bias;  /* libdwfl's address minus the file's */
	uint64_t dwarf_bias; /* libdwfl's address minus the debug file's */
	struct split_package *package;
	struct dwarf_index *dwarf; /* NULL: none */
	bool symbols_loaded;	   /* not before they are needed: there may be a million */
	struct elf_symbols symbols;
};

/* The recording keeps at most 32 bytes of a build-id; more than that is compared as far as kept. */
static bool same_build_id(Dwfl_Module *module, struct span wanted)
{
	enum { KEPT_MAX_BYTES = 32 };
	const unsigned char *bits;
	GElf_Addr address;
	int length = dwfl_module_build_id(module, &bits, &address);

	if (wanted.size == 0)
		return true;
	if (length <= 0)
		return false;
	size_t kept = MIN((size_t)length, (size_t)KEPT_MAX_BYTES);

	return span_equal(span_of(bits, kept), wanted);
}

/* Never blocks and never opens a device: the path comes from the recording. */
static int open_regular(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return -1;
	return TAKE_FD(fd);
}

static Dwfl_Module *report_file(Dwfl *dwfl, const char *path)
{
	int fd = open_regular(path);

	if (fd < 0)
		return NULL;
	Dwfl_Module *module = dwfl_report_offline(dwfl, path, path, fd);

	if (!module) {
		close(fd); /* libdwfl owns it only on success */
		return NULL;
	}
	return dwfl_report_end(dwfl, NULL, NULL) == 0 ? module : NULL;
}

/* Where the package of the split units may be. NULL, and no package, if out of memory. */
static struct split_package *find_package(const struct debug_search *search, Dwfl_Module *module,
					  const char *path, struct span build_id)
{
	const char *debug = NULL;
	size_t count = 0;
	char **paths = calloc(2 + 2 * search->folder_count, sizeof *paths);

	if (!paths)
		return NULL;
	dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, &debug);
	if (asprintf(&paths[count], "%s.dwp", path) >= 0)
		count++;
	if (debug && asprintf(&paths[count], "%s.dwp", debug) >= 0)
		count++;
	for (size_t i = 0; i < search->folder_count; i++) {
		paths[count] = debug_search_path(search, i, build_id, ".dwp");
		count += paths[count] != NULL;
		if (asprintf(&paths[count], "%s/%s.dwp", search->folders[i], path_base(path)) >= 0)
			count++;
	}
	return split_package_new(paths, count);
}

static const struct elf_symbols *symbols_of(struct symbol_module *m)
{
	if (!m->symbols_loaded)
		(void)elf_symbols_load(&m->symbols, m->file, m->file_bias);
	m->symbols_loaded = true;
	return &m->symbols;
}

static enum symbol_source load(struct symbol_module *m, const struct debug_search *search,
			       const char *path, struct span build_id)
{
	GElf_Addr bias;
	GElf_Ehdr header;
	Elf *elf = dwfl_module_getelf(m->file, &bias);

	if (!elf || !gelf_getehdr(elf, &header) ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return SYMBOLS_MISSING;
	m->file_bias = bias;
	if (!same_build_id(m->file, build_id))
		return SYMBOLS_CHANGED;
	Dwarf *dwarf = dwfl_module_getdwarf(m->file, &bias);

	if (dwarf) {
		m->dwarf_bias = bias;
		m->package = find_package(search, m->file, path, build_id);
		m->dwarf = dwarf_index_new(dwarf, m->package);
	}
	if (m->dwarf)
		return SYMBOLS_DWARF;
	return symbols_of(m)->names.count ? SYMBOLS_ELF : SYMBOLS_NONE;
}

static struct symbol_module *open_file(const struct debug_search *search, const char *path,
				       struct span build_id, enum symbol_source *ret_source)
{
	struct symbol_module *m = calloc(1, sizeof *m);

	*ret_source = SYMBOLS_MISSING;
	if (!m)
		return NULL;
	m->dwfl = dwfl_begin(&search->callbacks);
	m->file = m->dwfl ? report_file(m->dwfl, path) : NULL;
	if (m->file)
		*ret_source = load(m, search, path, build_id);
	if (*ret_source >= SYMBOLS_ELF)
		return m;
	symbol_module_free(m);
	return NULL;
}

struct symbol_module *symbol_module_open(const struct debug_search *search, const char *path,
					 struct span build_id, enum symbol_source *ret_source)
{
	struct symbol_module *m = open_file(search, path, build_id, ret_source);

	if (*ret_source >= SYMBOLS_NONE)
		return m;
	for (size_t i = 0; !m && i < search->folder_count; i++) {
		AUTO_FREE char *debug = debug_search_path(search, i, build_id, ".debug");
		enum symbol_source source;

		m = debug ? open_file(search, debug, build_id, &source) : NULL;
		if (m)
			*ret_source = source;
	}
	return m;
}

void symbol_module_free(struct symbol_module *m)
{
	if (!m)
		return;
	dwarf_index_free(m->dwarf);
	split_package_free(m->package);
	elf_symbols_release(&m->symbols);
	if (m->dwfl)
		dwfl_end(m->dwfl);
	free(m);
}

/* Functions of an unnamed namespace and static ones have a mangled name in the ELF table only. */
static void improve_name(struct symbol_module *m, uint64_t address, struct dwarf_frame *outermost)
{
	if (outermost->linkage_name || (outermost->name && !outermost->mangles))
		return;
	const char *symbol = elf_symbols_find(symbols_of(m), address);

	if (!symbol || (outermost->name && strncmp(symbol, "_Z", 2) != 0))
		return;
	outermost->name = NULL;
	outermost->linkage_name = symbol;
}

size_t symbol_module_find(struct symbol_module *m, uint64_t address, struct dwarf_frame *frames)
{
	size_t count = 0;

	if (m->dwarf)
		count = dwarf_index_find(m->dwarf, address + m->file_bias - m->dwarf_bias, frames);
	if (count == 0) {
		const char *symbol = elf_symbols_find(symbols_of(m), address);

		frames[0] = (struct dwarf_frame){ .linkage_name = symbol };
		return symbol ? 1 : 0;
	}
	improve_name(m, address, &frames[count - 1]);
	return count;
}
