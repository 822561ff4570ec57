/* SPDX-License-Identifier: Apache-2.0 */
/* links: base */
/* OpenTelemetry's process context, any bytes: a mapping that a program names. The code under test is compiled in, because the recorder
 * itself is never sanitized. */
#include <stdlib.h>
#include <string.h>

#include "recorder/otel/key_table.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

unsigned sys_forbidden;

bool memory_read_safely(uintptr_t from, void *to, size_t bytes)
{
	memcpy(to, (const void *)from, bytes);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *payload = malloc(size ? size : 1);

	if (!payload || size > PAYLOAD_MAX) {
		free(payload);
		return 0;
	}
	memcpy(payload, data, size);
	struct header header = { .version = HEADER_VERSION,
				 .payload_bytes = (uint32_t)size,
				 .published_ns = 1,
				 .payload = (uintptr_t)payload };

	memcpy(header.signature, signature, sizeof signature);
	otel_keys_start("tenant,http.route");
	otel_mapping_is_named((uintptr_t)&header, (uintptr_t) "OTEL_CTX");
	struct table direct = read_payload(span_of(payload, size)); /* not in whole pages */

	if (direct.count != otel_keys_known() || direct.count > KEYS_MAX)
		abort();
	for (uint32_t i = 0; i < otel_key_count; i++)
		if (direct.index[i] > direct.count || table.index[i] != direct.index[i])
			abort();
	free(payload);
	return 0;
}
