/* SPDX-License-Identifier: Apache-2.0 */
/* A profile in pprof's format in memory, for those who send it instead of writing a file. */
#ifndef EXPORT_PPROF_H
#define EXPORT_PPROF_H

#include "export/exporters.h"
#include "util/buffer.h"

/* Appends the message, not compressed: stores limit that size. Tools and stores also read it gzipped (util/gzip.h). -1 with the
 * error set. */
int pprof_encode(const struct export_input *input, struct buffer *out, struct error *error);

#endif
