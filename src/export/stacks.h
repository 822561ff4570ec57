/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the exporters: iterating stacks, numbering functions, and sanitizing names. */
#ifndef EXPORT_STACKS_H
#define EXPORT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/exporters.h"
#include "model/tags.h"
#include "util/buffer.h"
#include "util/numbering.h"
#include "util/vector.h"

/* Dense numbers for functions: there are few, and each is looked up many times. */
struct function_numbers {
	VECTOR(const struct location *)
	items;			  /* one location of each; NULL: the function for the empty stack */
	VECTOR(uint32_t) numbers; /* by location_key(AXIS_FUNCTION) + 1: number + 1; 0: none yet */
};
/* SIZE_MAX if out of memory. */
size_t function_number(struct function_numbers *functions, const struct location *location);
void function_numbers_release(struct function_numbers *functions);

/* The stack of an entry, innermost first; valid until the next call with the same scratch. -1 if out of memory. */
struct stack_scratch {
	VECTOR(const struct location *) locations;
};
int entry_stack(const struct export_input *input, const struct entry *entry,
		struct stack_scratch *scratch, struct location_chain *ret);
void stack_scratch_release(struct stack_scratch *scratch);

/* The labels that the program set with hg_label, without those whose key is empty, which Parca rejects. The texts of a recording
 * may lack the "=": then the value is empty. Keys are in the arena. Returns their number, or -1 if out of memory. */
ptrdiff_t entry_labels(const struct entry *entry, struct arena *arena,
		       struct export_label ret[PROFILE_LABELS_MAX]);

/*
 * Processes one step of a name, which may contain any bytes: returns the number of bytes consumed, and in *ret what
 * to write for them. That is the text itself, unless it would move a cursor or is not UTF-8.
 */
size_t safe_step(const char *text, const char **ret);
/* The number of leading bytes that are plain and not in `bad`: usually all of them. */
size_t plain_run(const char *text, const char *bad);
void buffer_safe(struct buffer *out, const char *text);
/* The same, and replaces every character of `bad` with `instead`. */
void write_safe(FILE *out, const char *text, const char *bad, char instead);

/* Writes the buffer to the file if it has at least `least` bytes. */
void flush_buffer(struct buffer *buffer, FILE *out, size_t least);
enum { FLUSH_BYTES = 1 << 16 };

/* "at the end": the moment of live numbers, regardless of the selected cost. */
const char *live_moment(const struct selection *selection);
/* "bytes", "count" or "nanoseconds". */
const char *cost_unit_word(enum cost_id cost);

/*
 * For formats that have room for a sentence but not for standard errors, in a sampled recording: " (estimates from 7075
 * samples; standard errors: total 1.1 %, peak 1.2 %, left 1.1 %; the peak is too high on average, by 343.0 KiB at most)".
 * Else empty.
 */
struct estimate_words {
	char text[240];
};
struct estimate_words estimate_words(const struct export_input *input);
/* Whether any number is an estimate. */
bool is_estimated(const struct export_input *input);
/* The variance of the cost for a part of the selection; and as an integer, for formats that sum integers. */
double entry_variance(const struct export_input *input, const struct measures *measures);
int64_t whole_variance(double variance);

/* "0x401136: main (main.c:12)", as in massif and DHAT; characters of `bad` become quotes. */
void write_valgrind_frame(FILE *out, const struct location *location, const char *bad);

/* Appends the build-id of the module with that path, in hex; nothing if it is unknown. */
void buffer_build_id(struct buffer *out, const struct profile *profile, const char *path);

int no_memory(struct error *error); /* sets "out of memory" and returns -1 */
/* For formats that require the peak: -1 with the error set if it is unknown for the selected threads. */
int export_wants_peak(const struct export_input *in, struct error *error);

#endif
