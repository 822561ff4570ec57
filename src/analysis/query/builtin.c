/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/query/builtin.h"

#include <string.h>

#include "analysis/result/query.h"
#include "base/compiler.h"
#include "util/files.h"

bool builtin_suppresses(const struct result_frame *frame)
{
	static const char *const patterns[] = {
		"_IO_file_doallocate", /* stream buffer */
		"_dl_allocate_tls",    /* of a thread whose stack is cached for reuse */
		"std::rt::init",       /* Rust, before main */
		"pymain_init",	       /* CPython, before the first line */
		"Py_InitializeFromConfig",
	};

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (suppression_matches(patterns[i], frame->full))
			return true;
	return false;
}

bool builtin_is_runtime(const struct result_frame *frame)
{
	static const char *const libraries[] = {
		"ld-linux",	"ld-2.",       "ld.so",	  "libc.so",   "libc-2.",   "libm.so",
		"libpthread",	"libdl",       "librt",	  "libgcc_s",  "libstdc++", "libc++",
		"libgfortran.", "libquadmath", "libgomp", "libsupc++",
	};
	const char *name = frame->module ? path_base(frame->module) : "";

	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
			return true;
	return false;
}
