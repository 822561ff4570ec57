/* SPDX-License-Identifier: Apache-2.0 */
/* Imports rows of a CSV file into running totals. Some rows are damaged and are skipped. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COLUMNS 8

struct row {
	char *text;
	char *column[COLUMNS];
};

static uint64_t random_state = 88172645463325252ull;
static double totals[16];
static unsigned long accepted, rejected;

static uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 20) % limit);
}

static void read_line(char *line, size_t size, unsigned long number)
{
	int damaged = random_below(5) == 0;
	size_t note = 550 + random_below(1200);
	int n = snprintf(line, size, "%lu,%u,%u.%02u,EUR,%u,store %u%s", number, random_below(16),
			 random_below(900), random_below(100), random_below(50), random_below(300),
			 damaged ? "," : ",online,");
	memset(line + n, 'a' + (int)(number % 26), note);
	line[(size_t)n + note] = '\0';
}

__attribute__((noinline)) static struct row *parse_row(const char *line)
{
	struct row *row = malloc(sizeof *row);
	char *copy = strdup(line);
	if (row == NULL || copy == NULL)
		exit(1);
	row->text = copy;
	int columns = 0;
	for (char *at = copy; at != NULL && columns < COLUMNS; columns++) {
		row->column[columns] = at;
		at = strchr(at, ',');
		if (at != NULL)
			*at++ = '\0';
	}
	if (columns != COLUMNS) {
		rejected++;
		free(row);
		return NULL;
	}
	return row;
}

__attribute__((noinline)) static void add_row(struct row *row)
{
	totals[atoi(row->column[1]) & 15] += atof(row->column[2]) * atoi(row->column[4]);
	accepted++;
	free(row->text);
	free(row);
}

int main(int argc, char **argv)
{
	struct timespec now, due;
	double length = argc > 1 ? atof(argv[1]) : 4.0;
	char line[4096];
	unsigned long number = 0;
	clock_gettime(CLOCK_MONOTONIC, &due);
	double end = (double)due.tv_sec + (double)due.tv_nsec / 1e9 + length;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((double)now.tv_sec + (double)now.tv_nsec / 1e9 >= end)
			break;
		for (int i = 0; i < 25; i++) {
			read_line(line, sizeof line, ++number);
			struct row *row = parse_row(line);
			if (row != NULL)
				add_row(row);
		}
		due.tv_nsec += 10000000;
		if (due.tv_nsec >= 1000000000) {
			due.tv_nsec -= 1000000000;
			due.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
	return accepted + rejected != number;
}
