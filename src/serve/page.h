/* SPDX-License-Identifier: Apache-2.0 */
/* The page of web/, as it was built into this program. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stdbool.h>

#include "base/span.h"
#include "util/buffer.h"

/* Whether this build has one (-DHEAPGAUGE_WEB=OFF has not). */
bool page_is_built(void);

/*
 * Appends the page with `data` (JSON) inside it, and its scripts marked with the nonce. False, and nothing is
 * appended, if this build has no page or `page` has no place for data.
 */
bool page_fill(struct buffer *out, const char *nonce, struct span data);

/* The same with another page: for tests. */
bool page_fill_in(struct buffer *out, struct span page, const char *nonce, struct span data);

#endif
