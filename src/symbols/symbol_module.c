/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file with symbols.
 *
 * libdwfl opens it and finds its separate debug file; each file has its own Dwfl, so that addresses need
 * no common space. There are three address spaces, which differ by biases: the file's virtual addresses
 * (ours), libdwfl's, and those of the debug file.
 *
 * libdw handles are not thread-safe and never free their caches. So each reader has its own, over the
 * same ELF files: sections are mapped and decompressed once, and libdw's caches are freed with the
 * reader. The lock protects what all readers share and create on first use.
 *
 * Order of trust: DWARF, then a symbol whose size covers the address. A file whose build-id differs from
 * the recorded one is not used at all: its names would be plausible and wrong. But the build-id may
 * still lead to its debug file, which has all that is needed.
 */
#include "symbols/symbol_module.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#include "base/compiler.h"
#include "symbols/debug/debug_fetch.h"
#include "symbols/debug/elf_symbols.h"
#include "symbols/debug/split_package.h"
#include "symbols/debug/unit_map.h"
#include "util/cleanup.h"
#include "util/files.h"

struct symbol_module {
	Dwfl *dwfl;
	Dwfl_Module *file;
	uint64_t file_bias;  /* libdwfl's address minus the file's */
	uint64_t dwarf_bias; /* libdwfl's address minus the debug file's */
	Dwarf *dwarf;	     /* owned by libdwfl; NULL: none */
	Dwarf *common;	     /* dwz's common file; NULL: none */
	int common_fd;
	char *dwarf_file; /* the file with the DWARF */
	char *real_file;  /* the same without symbolic links, as libdw knows it */
	struct unit_map units;
	char **packages; /* candidate paths for the package of split units */
	size_t package_count;

	struct debug_question question;
	struct file_identity module_file, common_file;
	bool lacks_common;

	pthread_mutex_t lock;
	bool symbols_loaded; /* lock; loaded on first use, as there may be a million */
	struct elf_symbols symbols;
};

struct symbol_reader {
	struct symbol_module *module;
	Dwarf *dwarf, *alt; /* NULL: none */
	struct split_package *package;
	struct dwarf_index *index; /* NULL: no DWARF */
};

static bool same_build_id(Dwfl_Module *module, struct span wanted)
{
	const unsigned char *bits = NULL;
	GElf_Addr address;
	int length = dwfl_module_build_id(module, &bits, &address);

	return content_same_build_id(span_of(bits, length > 0 ? (size_t)length : 0), wanted);
}

static Dwfl_Module *report_file(struct symbol_module *m, const struct debug_search *search,
				const char *path)
{
	int fd = file_open_regular(path, NULL, NULL);
	void **user_data;

	if (fd < 0)
		return NULL;
	m->module_file = file_identity(fd);
	Dwfl_Module *module = dwfl_report_offline(m->dwfl, path, path, fd);

	if (!module) {
		close(fd); /* libdwfl owns it only on success */
		return NULL;
	}
	m->question.search = search;
	dwfl_module_info(module, &user_data, NULL, NULL, NULL, NULL, NULL, NULL);
	*user_data = &m->question;
	return dwfl_report_end(m->dwfl, NULL, NULL) == 0 ? module : NULL;
}

/* Collects candidate paths for the package of split units; fewer if out of memory. */
static void find_packages(struct symbol_module *m, const struct debug_search *search,
			  const char *path, struct span build_id)
{
	m->packages = calloc(2 + 2 * search->folder_count, sizeof *m->packages);
	if (!m->packages)
		return;
	if (asprintf(&m->packages[m->package_count], "%s.dwp", path) >= 0)
		m->package_count++;
	if (asprintf(&m->packages[m->package_count], "%s.dwp", m->dwarf_file) >= 0)
		m->package_count++;
	for (size_t i = 0; i < search->folder_count; i++) {
		char **next = &m->packages[m->package_count];

		*next = debug_search_path(search, i, build_id, ".dwp");
		m->package_count += *next != NULL;
		next = &m->packages[m->package_count];
		if (asprintf(next, "%s/%s.dwp", search->folders[i], path_base(path)) >= 0)
			m->package_count++;
	}
}

static const struct elf_symbols *symbols_of(struct symbol_module *m)
{
	pthread_mutex_lock(&m->lock);
	if (!m->symbols_loaded)
		(void)elf_symbols_load(&m->symbols, m->file, m->file_bias);
	m->symbols_loaded = true;
	pthread_mutex_unlock(&m->lock);
	return &m->symbols; /* immutable from here on */
}

/* The file that libdwfl read the DWARF from. False if out of memory. */
static bool find_dwarf_file(struct symbol_module *m, const char *path)
{
	const char *debug = NULL;

	dwfl_module_info(m->file, NULL, NULL, NULL, NULL, NULL, NULL, &debug);
	m->dwarf_file = strdup(debug ? debug : path);
	m->real_file = m->dwarf_file ? realpath(m->dwarf_file, NULL) : NULL;
	if (m->dwarf_file && !m->real_file)
		m->real_file = strdup(m->dwarf_file);
	return m->real_file != NULL;
}

/* dwz may have moved parts into a common file. False if the DWARF is unusable: libdw itself would open the file of that name,
 * which may block. */
static bool find_common_file(struct symbol_module *m, const struct debug_search *search,
			     Dwarf *dwarf)
{
	struct debug_wanted wanted = { .beside = m->dwarf_file, .is_common = true };
	const void *build_id;
	ssize_t bytes = dwelf_dwarf_gnu_debugaltlink(dwarf, &wanted.name, &build_id);
	AUTO_FREE char *path = NULL;

	if (bytes <= 0)
		return true;
	wanted.build_id = span_of(build_id, (size_t)bytes);
	m->common_fd = debug_search_open(search, &wanted, &path);
	if (m->common_fd < 0 && search->fetch) {
		path = debug_fetch_find(search->fetch, wanted.build_id);
		m->common_fd = path ? file_open_regular(path, NULL, NULL) : -1;
	}
	m->common_file = file_identity(m->common_fd);
	m->common = m->common_fd < 0 ? NULL : dwarf_begin(m->common_fd, DWARF_C_READ);
	if (m->common) {
		dwarf_setalt(dwarf, m->common);
		return true;
	}
	m->lacks_common = true;
	AUTO_FREE char *folder = path_folder(m->real_file);
	AUTO_FREE char *libdws = folder && wanted.name[0] != '/' ? path_join(folder, wanted.name)
								 : strdup(wanted.name);

	return libdws && !file_is_irregular(libdws);
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

	if (dwarf && find_dwarf_file(m, path) && find_common_file(m, search, dwarf) &&
	    unit_map_init(&m->units, dwarf)) {
		m->dwarf = dwarf;
		m->dwarf_bias = bias;
		find_packages(m, search, path, build_id);
		return SYMBOLS_DWARF;
	}
	return symbols_of(m)->names.count ? SYMBOLS_ELF : SYMBOLS_NONE;
}

static struct symbol_module *open_file(const struct debug_search *search, const char *path,
				       struct span build_id, enum symbol_source *ret_source)
{
	struct symbol_module *m = calloc(1, sizeof *m);

	*ret_source = SYMBOLS_MISSING;
	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->common_fd = -1;
	m->dwfl = dwfl_begin(&search->callbacks);
	m->file = m->dwfl ? report_file(m, search, path) : NULL;
	if (m->file)
		*ret_source = load(m, search, path, build_id);
	if (*ret_source >= SYMBOLS_ELF)
		return m;
	symbol_module_free(m);
	return NULL;
}

/* Tries another path for the recorded module. Replaces *m if it has a better source. */
static void try_path(const struct debug_search *search, const char *path, struct span build_id,
		     struct symbol_module **m, enum symbol_source *source)
{
	enum symbol_source found_source;
	struct symbol_module *found =
		path ? open_file(search, path, build_id, &found_source) : NULL;

	if (!found)
		return;
	if (*m && found_source <= *source) {
		symbol_module_free(found);
		return;
	}
	symbol_module_free(*m);
	*m = found;
	*source = found_source;
}

struct symbol_module *symbol_module_open(const struct debug_search *search, const char *path,
					 struct span build_id, enum symbol_source *ret_source)
{
	struct symbol_module *m = NULL;

	*ret_source = SYMBOLS_MISSING;
	if (search->root && path[0] == '/') {
		AUTO_FREE char *inside = path_join(search->root, path + 1);

		m = inside ? open_file(search, inside, build_id, ret_source) : NULL;
	}
	/* A file that differs there, or lacks symbols there, may still be right here. */
	if (!m) {
		enum symbol_source here;

		m = open_file(search, path, build_id, &here);
		*ret_source = MAX(*ret_source, here);
	}
	/* For an existing module, libdwfl has already searched. */
	for (size_t i = 0; *ret_source < SYMBOLS_NONE && i < search->folder_count; i++) {
		AUTO_FREE char *debug = debug_search_path(search, i, build_id, ".debug");

		try_path(search, debug, build_id, &m, ret_source);
	}
	if (*ret_source < SYMBOLS_DWARF && search->fetch) {
		AUTO_FREE char *fetched = debug_fetch_find(search->fetch, build_id);

		try_path(search, fetched, build_id, &m, ret_source);
	}
	return m;
}

void symbol_module_free(struct symbol_module *m)
{
	if (!m)
		return;
	unit_map_release(&m->units);
	for (size_t i = 0; i < m->package_count; i++)
		free(m->packages[i]);
	free(m->packages);
	elf_symbols_release(&m->symbols);
	if (m->dwfl)
		dwfl_end(m->dwfl);
	if (m->common)
		dwarf_end(m->common);
	if (m->common_fd >= 0)
		close(m->common_fd);
	free(m->dwarf_file);
	free(m->real_file);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

bool symbol_module_is_of(const struct symbol_module *m, const struct content *content)
{
	const struct file_identity opened[CONTENT_FILES] = {
		[CONTENT_MODULE] = m->module_file,
		[CONTENT_DEBUG] = m->question.found,
		[CONTENT_COMMON] = m->common_file,
	};

	return m->dwarf && !m->lacks_common && !m->units.has_split_units &&
	       memcmp(opened, content->files, sizeof opened) == 0;
}

static uint64_t dwarf_address(const struct symbol_module *m, uint64_t address)
{
	return address + m->file_bias - m->dwarf_bias;
}

uint32_t symbol_module_unit(const struct symbol_module *m, uint64_t address)
{
	uint32_t unit;

	return m->dwarf && unit_map_find(&m->units, dwarf_address(m, address), &unit) ? unit
										      : UINT32_MAX;
}

/* Opens another handle for the files that libdwfl has found and opened. */
static bool begin_dwarf(struct symbol_reader *r, const struct symbol_module *m)
{
	r->dwarf = dwarf_begin_elf(dwarf_getelf(m->dwarf), DWARF_C_READ, NULL);
	if (r->dwarf && m->common)
		r->alt = dwarf_begin_elf(dwarf_getelf(m->common), DWARF_C_READ, NULL);
	if (r->alt)
		dwarf_setalt(r->dwarf, r->alt);
	return r->dwarf && (r->alt || !m->common);
}

struct symbol_reader *symbol_reader_new(struct symbol_module *m)
{
	struct symbol_reader *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->module = m;
	if (!m->dwarf)
		return r;
	pthread_mutex_lock(&m->lock);
	bool begun = begin_dwarf(r, m);

	pthread_mutex_unlock(&m->lock);
	if (begun) {
		r->package = split_package_new(m->packages, m->package_count);
		r->index = dwarf_index_new(r->dwarf, m->real_file, &m->units, r->package);
	}
	if (r->index)
		return r;
	symbol_reader_free(r);
	return NULL;
}

void symbol_reader_free(struct symbol_reader *r)
{
	if (!r)
		return;
	dwarf_index_free(r->index);
	split_package_free(r->package);
	if (r->dwarf)
		dwarf_end(r->dwarf);
	if (r->alt)
		dwarf_end(r->alt);
	free(r);
}

/* Static functions and those in unnamed namespaces have a mangled name only in the ELF symbol table. */
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

size_t symbol_reader_find(struct symbol_reader *r, uint64_t address, struct dwarf_frame *frames)
{
	struct symbol_module *m = r->module;
	size_t count = 0;

	if (r->index)
		count = dwarf_index_find(r->index, dwarf_address(m, address), frames);
	if (count == 0) {
		const char *symbol = elf_symbols_find(symbols_of(m), address);

		frames[0] = (struct dwarf_frame){ .linkage_name = symbol };
		return symbol ? 1 : 0;
	}
	improve_name(m, address, &frames[count - 1]);
	return count;
}

int symbol_module_variables(struct symbol_module *m, struct variables *ret)
{
	if (variables_load(ret, m->file, m->file_bias) < 0)
		return -1;
	if (m->dwarf)
		variables_locate(ret, m->dwarf, m->file_bias - m->dwarf_bias);
	return 0;
}
