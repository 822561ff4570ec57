/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
/* INI files are written by hand and come with other people's folders: any bytes may stand in them. */
#include <stdint.h>
#include <string.h>

#include "util/text/ini.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena = ARENA_INIT;
	struct error error = ERROR_INIT;
	struct ini ini = { 0 };

	if (ini_parse(&ini, span_of(data, size), "x.ini", &arena, &error) < 0) {
		if (strncmp(error.message, "x.ini:", 6) != 0)
			__builtin_trap();
	} else {
		for (size_t i = 0; i < ini.count; i++)
			if (!ini.entries[i].key[0] || !ini.entries[i].line ||
			    strlen(ini.entries[i].value) > size)
				__builtin_trap();
	}
	arena_release(&arena);
	return 0;
}
