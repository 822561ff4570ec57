/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signs are functions that only that allocator or runtime defines, and, for files without a symbol table, texts that only
 * it contains: its environment variables and the beginnings of its messages.
 *
 * The constants of a large library are tens of megabytes, and there are dozens of texts: one pass finds all candidate
 * positions. No state.
 */
#include "collect/binaries/allocator_signs.h"

#include <string.h>

#include "base/compiler.h"
#include "format/unrecorded.h"

/* A "*" at either end of a name matches anything. */
static const struct sign {
	enum unrecorded is;
	const char *name;
} functions[] = {
	{ UNRECORDED_rust_jemalloc, "_rjem_malloc" },
	{ UNRECORDED_rust_jemalloc, "_rjem_mallocx" },
	{ UNRECORDED_jemalloc, "*mallocx" }, /* it may have any prefix */
	{ UNRECORDED_jemalloc, "je_malloc" },
	{ UNRECORDED_mimalloc, "mi_malloc" },
	{ UNRECORDED_mimalloc, "_mi_malloc_generic" },
	{ UNRECORDED_tcmalloc, "tc_malloc" },
	{ UNRECORDED_tcmalloc, "TCMallocInternalMalloc" },
	{ UNRECORDED_snmalloc, "sn_rust_alloc" },
	{ UNRECORDED_snmalloc, "snmalloc_alloc" },
	{ UNRECORDED_snmalloc, "_ZN8snmalloc*" },
	{ UNRECORDED_rpmalloc, "rpmalloc" },
	{ UNRECORDED_scudo, "__scudo_get_stack_depot_addr" },
	{ UNRECORDED_dlmalloc, "dlmalloc" },
	{ UNRECORDED_dlmalloc, "mspace_malloc" },
	{ UNRECORDED_jvm, "JNI_CreateJavaVM" },
	{ UNRECORDED_v8, "_ZN2v87Isolate*" },
	{ UNRECORDED_ghc, "hs_init_ghc" },
	{ UNRECORDED_ghc, "stg_upd_frame_info" },
	{ UNRECORDED_sbcl, "gc_and_save" },
	{ UNRECORDED_php, "_emalloc" },
	{ UNRECORDED_luajit, "luaJIT_setmode" },
	{ UNRECORDED_mono, "mono_jit_init" },
	{ UNRECORDED_boehm, "GC_malloc_atomic" },
	{ UNRECORDED_cpython, "PyObject_Malloc" },
	{ UNRECORDED_ocaml, "caml_alloc_shr" },
	{ UNRECORDED_ruby, "ruby_init" },
	{ UNRECORDED_dotnet, "coreclr_initialize" },
};

static const struct sign imports[] = {
	{ UNRECORDED_libc_malloc, "__libc_malloc" },
	{ UNRECORDED_libc_malloc, "__libc_calloc" },
	{ UNRECORDED_libc_malloc, "__libc_realloc" },
	{ UNRECORDED_libc_malloc, "__libc_memalign" },
	{ UNRECORDED_dlmopen, "dlmopen" },
	{ UNRECORDED_sbrk, "sbrk" },
	{ UNRECORDED_sbrk, "__sbrk" },
	{ UNRECORDED_sbrk, "brk" },
	{ UNRECORDED_own_names, "*mallocx" },
	{ UNRECORDED_own_names, "mi_malloc*" },
	{ UNRECORDED_own_names, "je_malloc" },
	{ UNRECORDED_own_names, "tc_malloc" },
	{ UNRECORDED_jvm, "JLI_Launch" },
};

/* Two texts that are a sign only together. */
enum { NAMES_LIBC = 62, NAMES_MALLOC = 63 };
_Static_assert((int)UNRECORDED_COUNT <= (int)NAMES_LIBC, "a bit for each");

#define WORD(is, text, sure)                                                                       \
	{                                                                                          \
		is, sizeof(text) - 1, text, sure                                                   \
	}
static const struct word {
	unsigned is;
	size_t bytes;
	const char *text;
	bool sure;
} words[] = {
	WORD(UNRECORDED_jemalloc, "<jemalloc>: ", false),
	WORD(UNRECORDED_rust_jemalloc, "_RJEM_MALLOC_CONF", false),
	WORD(UNRECORDED_arrow, "ARROW_DEFAULT_MEMORY_POOL", true),
	WORD(UNRECORDED_tcmalloc, "tcmalloc.pageheap_unmapped_bytes", false),
	WORD(UNRECORDED_mimalloc, "mimalloc: warning: ", false),
	WORD(UNRECORDED_scudo, "Scudo ERROR", false),
	WORD(UNRECORDED_ghc, "GHCRTS", false),
	WORD(UNRECORDED_sbcl, "SBCL_HOME", false),
	WORD(UNRECORDED_php, "USE_ZEND_ALLOC", false),
	WORD(UNRECORDED_luajit, "LuaJIT 2.", false),
	WORD(UNRECORDED_mono, "MONO_GC_PARAMS", false),
	WORD(UNRECORDED_boehm, "GC_INITIAL_HEAP_SIZE", false),
	WORD(UNRECORDED_cpython, "PYTHONMALLOC", false),
	WORD(UNRECORDED_ocaml, "OCAMLRUNPARAM", false),
	WORD(UNRECORDED_ruby, "RUBY_GC_HEAP_INIT_SLOTS", false),
	WORD(NAMES_LIBC, "\0libc.so.6\0", false),
	WORD(NAMES_MALLOC, "\0malloc\0", false),
};

static bool matches(const char *name, size_t length, const char *pattern)
{
	/* A symbol table has a hundred thousand names: most differ in the first byte. */
	if (pattern[0] != '*' && pattern[0] != name[0])
		return false;
	size_t wanted = strlen(pattern);

	if (pattern[0] == '*')
		return length >= wanted - 1 && name[length - 1] == pattern[wanted - 1] &&
		       strcmp(name + length - (wanted - 1), pattern + 1) == 0;
	if (pattern[wanted - 1] == '*')
		return strncmp(name, pattern, wanted - 1) == 0;
	return strcmp(name, pattern) == 0;
}

enum {
	NAME_MAX_BYTES = 65536
}; /* in an untrusted file all names may be the same, and as long as the file */

/* Returns the first match: specific signs come before general ones. */
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

/* Only every third position is examined: there are four bytes of a word that starts there or up to two bytes earlier. */
enum { STRIDE = 3, GRAM_BYTES = 4, WORD_MIN = STRIDE - 1 + GRAM_BYTES, GRAM_BITS = 16 };

static unsigned gram_at(const uint8_t *at)
{
	uint32_t gram;

	memcpy(&gram, at, sizeof gram);
	return gram * 0x9e3779b1u >> (32 - GRAM_BITS);
}

static uint64_t words_at(const uint8_t *at, size_t left, uint64_t *sure)
{
	uint64_t found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (words[i].bytes > left || memcmp(at, words[i].text, words[i].bytes) != 0)
			continue;
		found |= UINT64_C(1) << words[i].is;
		*sure |= words[i].sure ? UINT64_C(1) << words[i].is : 0;
	}
	return found;
}

uint64_t signs_of_words(struct span constants, uint64_t *sure)
{
	const uint64_t both = UINT64_C(1) << NAMES_LIBC | UINT64_C(1) << NAMES_MALLOC;
	uint8_t grams[(1 << GRAM_BITS) / 8] = { 0 };
	uint64_t found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words) * STRIDE; i++) {
		const struct word *word = &words[i / STRIDE];
		unsigned gram = gram_at((const uint8_t *)word->text + i % STRIDE);

		ASSERT(word->bytes >= WORD_MIN);
		grams[gram / 8] |= (uint8_t)(1u << gram % 8);
	}
	for (size_t i = 0; i + GRAM_BYTES <= constants.size; i += STRIDE) {
		unsigned gram = gram_at(constants.data + i);

		if (!(grams[gram / 8] >> gram % 8 & 1))
			continue;
		for (size_t back = 0; back < STRIDE && back <= i; back++)
			found |= words_at(constants.data + i - back, constants.size - i + back,
					  sure);
	}
	/* Both are needed to look malloc up in libc's handle. */
	return (found & ~both) | ((found & both) == both ? UNRECORDED_BIT(dlsym_libc) : 0);
}
