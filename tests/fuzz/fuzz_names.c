/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/* Names from other people's binaries: demangled and shortened, whatever they hold. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/names/demangle.h"
#include "symbols/names/name_style.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1);

	memcpy(name, data, size);
	name[size] = 0;
	char *plain = demangle(name);

	free(name_shorten(name));
	if (plain)
		free(name_shorten(plain));
	free(plain);
	free(name);
	return 0;
}
