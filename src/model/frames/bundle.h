/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to a recording, so that it can be read on machines without the programs and their
 * debug information.
 */
#ifndef MODEL_FRAMES_BUNDLE_H
#define MODEL_FRAMES_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#include "model/frames/names.h"
#include "model/frames/redact.h"
#include "model/frames/sources.h"
#include "model/profile.h"
#include "util/error.h"

struct bundle_options {
	/* Lines of source to include before and after each named line. They may be confidential: 0 includes none. */
	unsigned source_lines;
	/* Only files below these are included: debug information can name any file, and its lines leave this machine. Without
	 * symbolic links. */
	const char *const *source_folders;
	size_t source_folder_count;
	const struct sources *sources; /* where files are read: sources_path; may be NULL */
	enum redaction redaction;      /* not with source_lines */
};

struct bundle_counts {
	uint64_t frames;	/* in the recording */
	uint64_t named;		/* of these, with a function name */
	uint64_t source_lines;	/* included */
	uint64_t outside_files; /* files not included because they are outside the folders */
};

/*
 * Writes the recording with its names to `path`, atomically. `names` must use the raw style. Existing
 * names in the recording are replaced where there are new ones. 0, or -1 with the error set.
 */
int bundle_write(struct profile *profile, struct names *names, const struct bundle_options *options,
		 const char *path, struct bundle_counts *ret, struct error *error);

/* Calls `take` for each bundled line of the file, in ascending order. The text lives as long as the profile. */
typedef void bundle_line(void *context, uint32_t line, const char *text);
void bundle_lines(const struct profile_process *process, const char *file, bundle_line *take,
		  void *context);

#endif
