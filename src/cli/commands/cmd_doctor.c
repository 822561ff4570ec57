/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge doctor: checks what can be recorded on this machine, and whether a given program can. Each line has a
 * verdict, and a remedy where there is one. The lines come from doctor_machine.c and doctor_program.c; this file
 * prints them as text or JSON.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/output.h"
#include "util/cleanup.h"
#include "util/text/json.h"
#include "util/text/printable.h"

enum { OPT_FORMAT };

static const char *const formats[] = { "text", "json", NULL };

static const struct option_row rows[] = {
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format", .choices = WORDS(formats),
			 .fallback = "text" },
};

static const struct {
	const char *word, *colour;
} verdicts[] = {
	[DOCTOR_OK] = { "ok", "\033[32m" },
	[DOCTOR_WARN] = { "warn", "\033[33m" },
	[DOCTOR_NO] = { "no", "\033[1;31m" },
};

void doctor_release(struct doctor *doctor)
{
	vector_release(&doctor->lines);
	arena_release(&doctor->arena);
}

static void add(struct doctor *doctor, struct doctor_line line)
{
	if (!line.found || !vector_push(&doctor->lines, line))
		doctor->failed = true;
}

void doctor_add(struct doctor *doctor, const char *check, enum doctor_verdict verdict,
		const char *way_out, const char *format, ...)
{
	struct doctor_line line = { .check = check, .verdict = verdict };
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	line.found = arena_strdup(&doctor->arena, text);
	line.way_out = way_out ? arena_strdup(&doctor->arena, way_out) : NULL;
	add(doctor, line);
}

void doctor_add_error(struct doctor *doctor, const char *check, enum doctor_verdict verdict,
		      const struct error *error)
{
	AUTO_FREE char *way_out = error->hint ? strdup(error->hint) : NULL;
	size_t length = way_out ? strlen(way_out) : 0;

	if (length && way_out[length - 1] == '.')
		way_out[length - 1] = '\0';
	doctor_add(doctor, check, verdict, way_out, "%s", error->message);
}

enum doctor_verdict doctor_worst(const struct doctor *doctor)
{
	enum doctor_verdict worst = DOCTOR_OK;

	for (size_t i = 0; i < doctor->lines.count; i++)
		worst = MAX(worst, doctor->lines.at[i].verdict);
	return worst;
}

/* ---- text ---- */

static void put_lines(const struct output *output, const char *title, const struct doctor *doctor)
{
	FILE *out = output->file;

	print_printable(out, title);
	fputc('\n', out);
	for (size_t i = 0; i < doctor->lines.count; i++) {
		const struct doctor_line *line = &doctor->lines.at[i];

		fprintf(out, "  %s%-4s%s  %-12s  ",
			output->colours ? verdicts[line->verdict].colour : "",
			verdicts[line->verdict].word, output->colours ? "\033[0m" : "",
			line->check);
		print_printable(out, line->found);
		fputc('\n', out);
		if (line->way_out) {
			fprintf(out, "  %4s  %-12s  -> ", "", "");
			print_printable(out, line->way_out);
			fputc('\n', out);
		}
	}
	fputc('\n', out);
}

static void put_text(const struct output *output, const struct doctor *machine, const char *name,
		     const struct doctor *program, bool recordable)
{
	put_lines(output, "this machine", machine);
	if (name)
		put_lines(output, name, program);
	print_printable(output->file, name ? name : "programs");
	fprintf(output->file, " %s be recorded%s\n", recordable ? "can" : "cannot",
		recordable ? "" : "; the lines marked 'no' above say why");
}

/* ---- JSON ---- */

static void json_lines(struct json *json, const struct doctor *doctor)
{
	json_array(json);
	for (size_t i = 0; i < doctor->lines.count; i++) {
		const struct doctor_line *line = &doctor->lines.at[i];

		json_object(json);
		json_field_string(json, "check", line->check);
		json_field_string(json, "verdict", verdicts[line->verdict].word);
		json_field_string(json, "found", line->found);
		json_field_string(json, "remedy", line->way_out);
		json_end_object(json);
	}
	json_end_array(json);
}

static bool put_json(FILE *out, const struct doctor *machine, const char *name,
		     const struct doctor *program, bool recordable)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	struct json json = json_to(&text, JSON_PRETTY);

	json_object(&json);
	json_field_schema(&json);
	json_field_bool(&json, "recordable", recordable);
	json_key(&json, "machine");
	json_lines(&json, machine);
	if (name) {
		json_key(&json, "program");
		json_object(&json);
		json_field_string(&json, "name", name);
		json_key(&json, "checks");
		json_lines(&json, program);
		json_end_object(&json);
	}
	json_end_object(&json);
	buffer_char(&text, '\n');
	return !text.failed && fwrite(text.data, 1, text.size, out) == text.size;
}

struct doctor_command {
	const char *program; /* NULL: only the machine */
	bool as_json;
};

static int examine(void *state, const struct common_options *common, struct error *error)
{
	const struct doctor_command *c = state;
	AUTO(doctor_release) struct doctor machine = DOCTOR_INIT;
	AUTO(doctor_release) struct doctor program = DOCTOR_INIT;
	bool recordable;
	int status = 0;

	doctor_machine(&machine);
	if (c->program)
		doctor_program(&program, c->program);
	recordable = doctor_worst(&machine) != DOCTOR_NO && doctor_worst(&program) != DOCTOR_NO;
	struct output output = output_open(common);

	if (machine.failed || program.failed)
		status = error_set(error, "out of memory");
	else if (!c->as_json)
		put_text(&output, &machine, c->program, &program, recordable);
	else if (!put_json(output.file, &machine, c->program, &program, recordable))
		status = error_set(error, "cannot write the output");
	if (output_close(&output, status, error) < 0)
		return -1;
	return recordable ? CLI_OK : CLI_FAILED;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct doctor_command *c = state;

	if (option != OPT_FORMAT)
		return options_once(&c->program, "program", value, error);
	c->as_json = strcmp(value, "json") == 0;
	return 0;
}

static int run_doctor(int argc, char **argv)
{
	const struct command_steps steps = { take_option, NULL, examine };
	struct doctor_command c = { 0 };

	return command_run(&command_doctor, &steps, &c, argc, argv);
}

static const char *const examples[] = {
	"heapgauge doctor",
	"what this machine can do",
	"heapgauge doctor ./server",
	"whether ./server can be recorded, and what its report will show",
	NULL,
};

const struct command command_doctor = {
	.name = "doctor",
	.usage = "[PROGRAM] [options]",
	.help = "check whether recording works here, and how to fix it",
	.run = run_doctor,
	.group = COMMANDS_HELP,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_EXECUTABLE,
	.about =
		"Checks this machine and, if given, PROGRAM: whether the recorder can be loaded into it, sees its "
		"allocator, can unwind its stacks and name its frames. Each line is ok, warn (something will be "
		"missing) or no (nothing can be recorded), with a remedy after an arrow. PROGRAM is examined but not "
		"run; a small program is recorded as a test.",
	.examples = examples,
	.exit_status =
		"0 if PROGRAM, or programs here, can be recorded; 1 if not; 2 if the command "
		"line is wrong.",
};
