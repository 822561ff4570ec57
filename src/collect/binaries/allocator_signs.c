/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signs are names of functions that only that allocator or runtime has, and, for files without a symbol table, texts
 * that only it says: names of its environment variables and beginnings of its messages.
 *
 * Constants of a large library are tens of megabytes, and there are dozens of texts to look for: one pass finds the places
 * where any of them may begin. No state.
 */
#include "collect/binaries/allocator_signs.h"

#include <string.h>

#include "base/compiler.h"
#include "format/unseen.h"

/* A "*" at one end of a name stands for anything. */
static const struct sign {
	enum unseen is;
	const char *name;
} functions[] = {
	{ UNSEEN_rust_jemalloc, "_rjem_malloc" },
	{ UNSEEN_rust_jemalloc, "_rjem_mallocx" },
	{ UNSEEN_jemalloc, "*mallocx" }, /* it may have any prefix */
	{ UNSEEN_jemalloc, "je_malloc" },
	{ UNSEEN_mimalloc, "mi_malloc" },
	{ UNSEEN_mimalloc, "_mi_malloc_generic" },
	{ UNSEEN_tcmalloc, "tc_malloc" },
	{ UNSEEN_tcmalloc, "TCMallocInternalMalloc" },
	{ UNSEEN_snmalloc, "sn_rust_alloc" },
	{ UNSEEN_snmalloc, "snmalloc_alloc" },
	{ UNSEEN_snmalloc, "_ZN8snmalloc*" },
	{ UNSEEN_rpmalloc, "rpmalloc" },
	{ UNSEEN_scudo, "__scudo_get_stack_depot_addr" },
	{ UNSEEN_dlmalloc, "dlmalloc" },
	{ UNSEEN_dlmalloc, "mspace_malloc" },
	{ UNSEEN_jvm, "JNI_CreateJavaVM" },
	{ UNSEEN_v8, "_ZN2v87Isolate*" },
	{ UNSEEN_ghc, "hs_init_ghc" },
	{ UNSEEN_ghc, "stg_upd_frame_info" },
	{ UNSEEN_sbcl, "gc_and_save" },
	{ UNSEEN_php, "_emalloc" },
	{ UNSEEN_luajit, "luaJIT_setmode" },
	{ UNSEEN_mono, "mono_jit_init" },
	{ UNSEEN_boehm, "GC_malloc_atomic" },
	{ UNSEEN_cpython, "PyObject_Malloc" },
	{ UNSEEN_ocaml, "caml_alloc_shr" },
	{ UNSEEN_ruby, "ruby_init" },
	{ UNSEEN_dotnet, "coreclr_initialize" },
};

static const struct sign imports[] = {
	{ UNSEEN_libc_malloc, "__libc_malloc" },
	{ UNSEEN_libc_malloc, "__libc_calloc" },
	{ UNSEEN_libc_malloc, "__libc_realloc" },
	{ UNSEEN_libc_malloc, "__libc_memalign" },
	{ UNSEEN_dlmopen, "dlmopen" },
	{ UNSEEN_sbrk, "sbrk" },
	{ UNSEEN_sbrk, "__sbrk" },
	{ UNSEEN_sbrk, "brk" },
	{ UNSEEN_own_names, "*mallocx" },
	{ UNSEEN_own_names, "mi_malloc*" },
	{ UNSEEN_own_names, "je_malloc" },
	{ UNSEEN_own_names, "tc_malloc" },
	{ UNSEEN_jvm, "JLI_Launch" },
};

static const struct word {
	enum unseen is;
	const char *text;
	bool sure;
} words[] = {
	{ UNSEEN_jemalloc, "<jemalloc>: ", false },
	{ UNSEEN_rust_jemalloc, "_RJEM_MALLOC_CONF", false },
	{ UNSEEN_arrow, "ARROW_DEFAULT_MEMORY_POOL", true },
	{ UNSEEN_tcmalloc, "tcmalloc.pageheap_unmapped_bytes", false },
	{ UNSEEN_mimalloc, "mimalloc: warning: ", false },
	{ UNSEEN_scudo, "Scudo ERROR", false },
	{ UNSEEN_ghc, "GHCRTS", false },
	{ UNSEEN_sbcl, "SBCL_HOME", false },
	{ UNSEEN_php, "USE_ZEND_ALLOC", false },
	{ UNSEEN_luajit, "LuaJIT 2.", false },
	{ UNSEEN_mono, "MONO_GC_PARAMS", false },
	{ UNSEEN_boehm, "GC_INITIAL_HEAP_SIZE", false },
	{ UNSEEN_cpython, "PYTHONMALLOC", false },
	{ UNSEEN_ocaml, "OCAMLRUNPARAM", false },
	{ UNSEEN_ruby, "RUBY_GC_HEAP_INIT_SLOTS", false },
};

static bool matches(const char *name, size_t length, const char *pattern)
{
	size_t wanted = strlen(pattern);

	if (pattern[0] == '*')
		return length >= wanted - 1 &&
		       strcmp(name + length - (wanted - 1), pattern + 1) == 0;
	if (pattern[wanted - 1] == '*')
		return strncmp(name, pattern, wanted - 1) == 0;
	return strcmp(name, pattern) == 0;
}

enum {
	NAME_MAX_BYTES = 65536
}; /* all names of a hostile file may be the same, and as long as it is */

/* Signs stand before more general ones. */
static uint64_t first_of(const char *name, const struct sign *signs, size_t count)
{
	size_t length = strnlen(name, NAME_MAX_BYTES);

	for (size_t i = 0; i < count && length < NAME_MAX_BYTES; i++)
		if (matches(name, length, signs[i].name))
			return UINT64_C(1) << signs[i].is;
	return 0;
}

uint64_t signs_of_function(const char *name)
{
	return first_of(name, functions, ARRAY_SIZE(functions));
}

uint64_t signs_of_import(const char *name)
{
	return first_of(name, imports, ARRAY_SIZE(imports));
}

/* The first two bytes of a text, as a number of a bit. */
static unsigned pair_at(const uint8_t *at)
{
	return at[0] | (unsigned)at[1] << 8;
}

static uint64_t words_at(const uint8_t *at, size_t left, uint64_t *sure)
{
	uint64_t found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t length = strlen(words[i].text);

		if (length > left || memcmp(at, words[i].text, length) != 0)
			continue;
		found |= UINT64_C(1) << words[i].is;
		*sure |= words[i].sure ? UINT64_C(1) << words[i].is : 0;
	}
	return found;
}

/* Both as whole texts: what a program needs to ask libc's handle for its malloc. */
static bool names_libc_and_malloc(struct span constants)
{
	static const char libc[] = "\0libc.so.6", function[] = "\0malloc";

	return constants.size > 0 && memmem(constants.data, constants.size, libc, sizeof libc) &&
	       memmem(constants.data, constants.size, function, sizeof function);
}

uint64_t signs_of_words(struct span constants, uint64_t *sure)
{
	uint8_t begins[(1 << 16) / 8] = { 0 };
	uint64_t found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		unsigned pair = pair_at((const uint8_t *)words[i].text);

		begins[pair / 8] |= (uint8_t)(1u << pair % 8);
	}
	for (size_t i = 0; i + 1 < constants.size; i++) {
		unsigned pair = pair_at(constants.data + i);

		if (begins[pair / 8] >> pair % 8 & 1)
			found |= words_at(constants.data + i, constants.size - i, sure);
	}
	if (names_libc_and_malloc(constants))
		found |= UNSEEN_BIT(dlsym_libc);
	return found;
}
