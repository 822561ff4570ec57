/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the library and its functions. They match the header this was built with: the soname contains the version
 * of the ABI.
 *
 * Owns the table, which is filled before the server's threads start and never changes afterwards.
 */
#include "serve/http.h"

#include <dlfcn.h>
#include <string.h>

struct http http;

/* Converts a void pointer to a function pointer, for which ISO C has no cast. */
#define FIND(name)                                                                                 \
	do {                                                                                       \
		void *found_ = dlsym(library, #name);                                              \
                                                                                                   \
		if (!found_)                                                                       \
			return error_set(error, HTTP_LIBRARY " has no " #name);                    \
		memcpy(&http.name, &found_, sizeof found_);                                        \
	} while (0);

int http_load(struct error *error)
{
	void *library;

	if (http.MHD_stop_daemon)
		return 0;
	library = dlopen(HTTP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return error_set(error,
				 "heapgauge view needs " HTTP_LIBRARY
				 ", which cannot be loaded (%s): install libmicrohttpd12; "
				 "'heapgauge report' shows the same data as text",
				 dlerror());
	HTTP_FUNCTIONS(FIND)
	return 0;
}
