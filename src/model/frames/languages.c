/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Languages: see languages.h.
 *
 * The mangled name determines the language, or else the extension of the source file, also for functions that are not mangled (main,
 * extern "C"). Both come with the names from any source: DWARF, the name cache or a bundled recording. A plain name without a file
 * may be of any language with C's calling convention, and is not guessed. No state.
 */
#include "model/frames/languages.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"

#define C "c"
#define CXX "c++"
#define FORTRAN "fortran"
#define PYTHON "python"
#define RUST "rust"

const struct language_word language_words[] = {
	{ C, "C" },
	{ CXX, "C++" },
	{ FORTRAN, "Fortran" },
	{ PYTHON, "Python" },
	{ RUST, "Rust" },
	{ LANGUAGE_UNKNOWN, "neither the name nor the source file tells" },
	{ NULL, NULL },
};

/* "_ZN4core3fmt5write17h0123456789abcdefE": Rust's legacy mangling is C++'s with a hash at the end. */
static bool has_rust_hash(const char *linkage)
{
	enum { DIGITS = 16 };

	for (const char *at = linkage; (at = strstr(at, "17h")); at++)
		if (strspn(at + 3, "0123456789abcdef") >= DIGITS && at[3 + DIGITS] == 'E')
			return true;
	return false;
}

static const char *of_linkage(const char *linkage)
{
	if (strncmp(linkage, "_R", 2) == 0 && isupper((unsigned char)linkage[2]))
		return RUST;
	if (strncmp(linkage, "_Z", 2) == 0)
		return has_rust_hash(linkage) ? RUST : CXX;
	/* gfortran: __module_MOD_procedure */
	if (strncmp(linkage, "__", 2) == 0 && strstr(linkage, "_MOD_"))
		return FORTRAN;
	return NULL;
}

static const char *of_ending(const char *ending)
{
	static const struct {
		const char *ending, *language;
	} rows[] = {
		{ "c", C },	    { "cc", CXX },	{ "cpp", CXX },	    { "cxx", CXX },
		{ "c++", CXX },	    { "C", CXX },	{ "hh", CXX },	    { "hpp", CXX },
		{ "hxx", CXX },	    { "ipp", CXX },	{ "tcc", CXX },	    { "rs", RUST },
		{ "f", FORTRAN },   { "F", FORTRAN },	{ "for", FORTRAN }, { "f90", FORTRAN },
		{ "F90", FORTRAN }, { "f95", FORTRAN }, { "F95", FORTRAN }, { "f03", FORTRAN },
		{ "F03", FORTRAN }, { "f08", FORTRAN }, { "F08", FORTRAN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(ending, rows[i].ending) == 0)
			return rows[i].language;
	return NULL;
}

const char *language_of(const char *linkage, const char *full, const char *file, const char *module)
{
	/* The module of a Python function is its source file. */
	if (file && strcmp(file, module) == 0)
		return PYTHON;
	const char *language = linkage ? of_linkage(linkage) : NULL;
	const char *dot = file ? strrchr(file, '.') : NULL;

	if (!language && dot)
		language = of_ending(dot + 1);
	if (language || !file)
		return language;
	/* A header; those of C++'s standard library have no extension. */
	if (full && strstr(full, "::"))
		return CXX;
	return dot && strcmp(dot, ".h") == 0 ? C : NULL;
}
