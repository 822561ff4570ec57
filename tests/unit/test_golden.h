/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of hand-made recordings, rendered and compared to the byte with a file of tests/golden.
 * HEAPGAUGE_UPDATE_GOLDEN=1 writes them anew; read the difference before you commit it.
 */
#ifndef TEST_GOLDEN_H
#define TEST_GOLDEN_H

#include "test_model_made.h"

#include <stdio.h>

#include "analysis/analyses.h"
#include "model/build.h"
#include "render/renderers.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"

struct sink {
	struct buffer text;
	size_t writes;
	bool broken;
};

static inline int to_sink(void *context, struct span bytes, struct error *error)
{
	struct sink *sink = context;

	sink->writes++;
	if (sink->broken)
		return error_set(error, "the disk is full");
	buffer_append(&sink->text, bytes.data, bytes.size);
	return 0;
}

static inline int render(const struct result *result, const char *format,
			 struct render_options options, struct sink *sink, struct error *error)
{
	struct render_output out = { .write = to_sink, .context = sink };

	assert_non_null(renderer_find(format));
	int status = renderer_find(format)->run(result, &options, &out, error);

	buffer_release(&out.buffer);
	return status;
}

/* The view with a question of its own; its file and limit are set here. */
static inline char *render_query(struct recording recording, const char *view, const char *format,
				 struct render_options options, struct query query)
{
	struct profile *profile = profile_new(&recording, NULL);
	struct names *names = names_new(NULL);
	struct locations *locations = locations_new(names);
	struct error error = ERROR_INIT;
	struct sink sink = { 0 };

	query.file = "made.hg";
	struct result *result =
		analysis_answer(analysis_find(view), profile, locations, &query, &error);

	if (!result)
		fail_msg("%s: %s", view, error.message);
	assert_int_equal(render(result, format, options, &sink, NULL), 0);
	char *text = buffer_take_string(&sink.text);

	assert_non_null(text);
	result_free(result);
	locations_free(locations);
	names_free(names);
	profile_free(profile);
	return text;
}

static inline char *render_view(struct recording recording, const char *view, const char *format,
				struct render_options options, size_t limit)
{
	return render_query(recording, view, format, options, (struct query){ .limit = limit });
}

static inline void compare_golden(char *text, const char *name)
{
	AUTO_FREE char *owned = text;
	AUTO_FREE char *folder = path_folder(__FILE__);
	AUTO(buffer_release) struct buffer want = BUFFER_INIT;
	struct error error = ERROR_INIT;
	char path[1024];

	snprintf(path, sizeof path, "%s/../golden/%s", folder, name);
	if (getenv("HEAPGAUGE_UPDATE_GOLDEN"))
		assert_int_equal(output_file_write(path, span_of(text, strlen(text)), 0644, &error),
				 0);
	if (file_read(path, 1 << 20, &want, &error) < 0)
		fail_msg("%s", error.message);
	assert_string_equal(owned, buffer_string(&want));
}

/* Text as on a terminal of 100 columns, JSON and CSV: VIEW.txt, VIEW.json, VIEW.csv. */
#define GOLDEN_VIEW(recording, view, name, limit)                                                  \
	do {                                                                                       \
		const struct render_options people_ = { .columns = 100,                            \
							.stack_frames = 8,                         \
							.utf8 = true };                            \
		compare_golden(render_view((recording), view, "text", people_, limit),             \
			       name ".txt");                                                       \
		compare_golden(render_view((recording), view, "json", people_, SIZE_MAX),          \
			       name ".json");                                                      \
		compare_golden(render_view((recording), view, "csv", people_, SIZE_MAX),           \
			       name ".csv");                                                       \
	} while (0)

#endif
