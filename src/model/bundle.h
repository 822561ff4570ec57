/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names put into a recording, so that it can be read where neither the programs nor their debug
 * information are.
 */
#ifndef MODEL_BUNDLE_H
#define MODEL_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#include "model/names.h"
#include "model/profile.h"
#include "util/error.h"

struct bundle_options {
	/* Lines of source before and behind each line that a name has. They are somebody's source code:
	 * with 0 none are taken. */
	unsigned source_lines;
	/* Only of files below these: debug information can name any file, and what it names leaves this machine. Without symbolic links. */
	const char *const *source_folders;
	size_t source_folder_count;
};

struct bundle_counts {
	uint64_t frames;       /* in the recording */
	uint64_t named;	       /* of these, with a function */
	uint64_t source_lines; /* taken along */
	uint64_t
		outside_files; /* with lines that were not, because they are not below the folders */
};

/*
 * Writes the recording with its names to `path`, at once or not at all. `names` must give them in the
 * raw style. Names that the recording had before are replaced where there are new ones. 0, or -1 with
 * the error set.
 */
int bundle_write(struct profile *profile, struct names *names, const struct bundle_options *options,
		 const char *path, struct bundle_counts *ret, struct error *error);

/* Each line of the file that came with the recording, by ascending number. The text lives as long as the profile. */
typedef void bundle_line(void *context, uint32_t line, const char *text);
void bundle_lines(const struct profile_process *process, const char *file, bundle_line *take,
		  void *context);

#endif
