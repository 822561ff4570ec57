/* SPDX-License-Identifier: Apache-2.0 */
/* The page of web/, as built into this program. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stdbool.h>

#include "base/span.h"
#include "util/buffer.h"

/* Whether this build has a page (not with -DHEAPGAUGE_WEB=OFF). */
bool page_is_built(void);

/*
 * Appends the page with `data` (JSON) embedded and the nonce in its scripts. Returns false, with nothing appended,
 * if this build has no page or `page` has no placeholder for data.
 */
bool page_fill(struct buffer *out, const char *nonce, struct span data);

/* Does the same with another page, for tests. */
bool page_fill_in(struct buffer *out, struct span page, const char *nonce, struct span data);

#endif
