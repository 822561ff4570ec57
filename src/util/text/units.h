/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Human-readable numbers, the same everywhere. The text is returned by value, so that a call can be
 * an argument of printf:
 *
 *	printf("peak %s in %s blocks\n", units_bytes(peak).text, units_count(blocks).text);
 */
#ifndef UTIL_TEXT_UNITS_H
#define UTIL_TEXT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct units {
	char text[40];
};

/* "512 B", "1.0 KiB", "214.0 MiB". */
struct units units_bytes(uint64_t bytes);
/* "+9.8 MiB", "-512 B", "0 B". */
struct units units_bytes_change(int64_t bytes);
/* "1,204,118". */
struct units units_count(uint64_t count);
/* "940", "1.9 k", "23.4 M": for rates and headlines. */
struct units units_count_short(uint64_t count);
/* "850 ns", "12.4 us", "12.4 s", "3 min 05 s", "2 h 03 min", "4 d 07 h". */
struct units units_duration(uint64_t ns);
/* "61.2 %"; "-" if the whole is 0, where the percentage is undefined. */
struct units units_percent(uint64_t part, uint64_t whole);

/*
 * "4096", "64MiB", "64 M", "1.5GiB", "10MB". K, M, G, T, P, E alone or with iB are powers of 1024,
 * with B alone powers of 1000; not case-sensitive. False, with *ret_bytes unchanged, for anything
 * else or more than 64 bits.
 */
MUST_CHECK bool units_parse_bytes(const char *text, uint64_t *ret_bytes);
/* "12", "12s", "1.5 s", "200ms", "2min", "1h"; as above. */
MUST_CHECK bool units_parse_duration(const char *text, uint64_t *ret_ns);
/* "1000", "500k", "1M", "1.5G": powers of 1000; as above. */
MUST_CHECK bool units_parse_count(const char *text, uint64_t *ret_count);

#endif
