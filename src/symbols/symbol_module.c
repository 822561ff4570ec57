/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file that names come from.
 *
 * libdwfl opens it and finds its separate debug file (by .build-id folder and .gnu_debuglink); each
 * file has a Dwfl of its own, so that addresses need no common space. Three address spaces meet: the
 * file's virtual addresses (ours), libdwfl's, and those of the debug file, which differ by biases.
 *
 * Order of trust: DWARF, then a symbol whose size covers the address. A file whose build-id is not
 * the recorded one is not asked at all: its names would be plausible and wrong.
 */
#include "symbols/symbol_module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwfl.h>

#include "base/compiler.h"
#include "symbols/elf_symbols.h"
#include "util/cleanup.h"

struct symbol_module {
	Dwfl *dwfl;
	uint64_t file_bias;	   /* libdwfl's address minus the file's */
	uint64_t dwarf_bias;	   /* libdwfl's address minus the debug file's */
	struct dwarf_index *dwarf; /* NULL: none */
	struct elf_symbols symbols;
};

static const Dwfl_Callbacks callbacks = {
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
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

static enum symbol_source load(struct symbol_module *m, Dwfl_Module *module, struct span build_id)
{
	GElf_Addr bias;
	GElf_Ehdr header;
	Elf *elf = dwfl_module_getelf(module, &bias);

	if (!elf || !gelf_getehdr(elf, &header) ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return SYMBOLS_MISSING;
	m->file_bias = bias;
	if (!same_build_id(module, build_id))
		return SYMBOLS_CHANGED;
	Dwarf *dwarf = dwfl_module_getdwarf(module, &bias);

	if (dwarf) {
		m->dwarf_bias = bias;
		m->dwarf = dwarf_index_new(dwarf);
	}
	if (elf_symbols_load(&m->symbols, module, m->file_bias) < 0)
		return m->dwarf ? SYMBOLS_DWARF : SYMBOLS_NONE;
	if (m->dwarf)
		return SYMBOLS_DWARF;
	return m->symbols.names.count ? SYMBOLS_ELF : SYMBOLS_NONE;
}

struct symbol_module *symbol_module_open(const char *path, struct span build_id,
					 enum symbol_source *ret_source)
{
	struct symbol_module *m = calloc(1, sizeof *m);

	*ret_source = SYMBOLS_MISSING;
	if (!m)
		return NULL;
	m->dwfl = dwfl_begin(&callbacks);
	Dwfl_Module *module = m->dwfl ? report_file(m->dwfl, path) : NULL;

	if (module)
		*ret_source = load(m, module, build_id);
	if (*ret_source >= SYMBOLS_ELF)
		return m;
	symbol_module_free(m);
	return NULL;
}

void symbol_module_free(struct symbol_module *m)
{
	if (!m)
		return;
	dwarf_index_free(m->dwarf);
	elf_symbols_release(&m->symbols);
	if (m->dwfl)
		dwfl_end(m->dwfl);
	free(m);
}

/* Functions of an unnamed namespace and static ones have a mangled name in the ELF table only. */
static void improve_name(struct dwarf_frame *outermost, const char *symbol)
{
	if (!symbol || outermost->linkage_name)
		return;
	if (outermost->name && (!outermost->mangles || strncmp(symbol, "_Z", 2) != 0))
		return;
	outermost->name = NULL;
	outermost->linkage_name = symbol;
}

size_t symbol_module_find(struct symbol_module *m, uint64_t address, struct dwarf_frame *frames)
{
	const char *symbol = elf_symbols_find(&m->symbols, address);
	size_t count = 0;

	if (m->dwarf)
		count = dwarf_index_find(m->dwarf, address + m->file_bias - m->dwarf_bias, frames);
	if (count == 0) {
		if (!symbol)
			return 0;
		frames[0] = (struct dwarf_frame){ .linkage_name = symbol };
		return 1;
	}
	improve_name(&frames[count - 1], symbol);
	return count;
}
