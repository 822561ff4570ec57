/* SPDX-License-Identifier: Apache-2.0 */
/* Compression by zstd with one context per thread: creating one costs more than compressing a small chunk. */
#ifndef FORMAT_RECORDING_PACK_H
#define FORMAT_RECORDING_PACK_H

#include <stddef.h>

/* Like ZSTD_compress: check the result with ZSTD_isError. */
size_t pack_zstd(void *to, size_t room, const void *from, size_t bytes, int level);

#endif
