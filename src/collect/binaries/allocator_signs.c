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
#include "format/unseen.h"

/* A "*" at either end of a name matches anything. */
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

/* Two texts that are a sign only together. */
enum { NAMES_LIBC = 62, NAMES_MALLOC = 63 };
_Static_assert((int)UNSEEN_COUNT <= (int)NAMES_LIBC, "a bit for each");

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
	WORD(UNSEEN_jemalloc, "<jemalloc>: ", false),
	WORD(UNSEEN_rust_jemalloc, "_RJEM_MALLOC_CONF", false),
	WORD(UNSEEN_arrow, "ARROW_DEFAULT_MEMORY_POOL", true),
	WORD(UNSEEN_tcmalloc, "tcmalloc.pageheap_unmapped_bytes", false),
	WORD(UNSEEN_mimalloc, "mimalloc: warning: ", false),
	WORD(UNSEEN_scudo, "Scudo ERROR", false),
	WORD(UNSEEN_ghc, "GHCRTS", false),
	WORD(UNSEEN_sbcl, "SBCL_HOME", false),
	WORD(UNSEEN_php, "USE_ZEND_ALLOC", false),
	WORD(UNSEEN_luajit, "LuaJIT 2.", false),
	WORD(UNSEEN_mono, "MONO_GC_PARAMS", false),
	WORD(UNSEEN_boehm, "GC_INITIAL_HEAP_SIZE", false),
	WORD(UNSEEN_cpython, "PYTHONMALLOC", false),
	WORD(UNSEEN_ocaml, "OCAMLRUNPARAM", false),
	WORD(UNSEEN_ruby, "RUBY_GC_HEAP_INIT_SLOTS", false),
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
	return (found & ~both) | ((found & both) == both ? UNSEEN_BIT(dlsym_libc) : 0);
}
