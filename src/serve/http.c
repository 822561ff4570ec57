/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the library and its functions. They are those of the header this was built with: the name of the file holds the
 * version of their interface.
 *
 * Owns the table, which is filled before the server's threads begin and never changes again.
 */
#include "serve/http.h"

#include <dlfcn.h>
#include <string.h>

struct http http;

/* From a void pointer to a function's, which ISO C knows no cast for. */
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
				 "'heapgauge report' answers the same questions as text",
				 dlerror());
	HTTP_FUNCTIONS(FIND)
	return 0;
}
