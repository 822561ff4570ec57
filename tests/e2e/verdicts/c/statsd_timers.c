/* SPDX-License-Identifier: Apache-2.0 */
/* A statsd-like aggregator: timers collect samples between flushes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMERS = 4096, STEP = 16, PACKETS_PER_ROUND = 1000, ROUNDS_PER_FLUSH = 20 };

struct timer_series {
	double *samples;
	size_t count;
	size_t capacity;
	size_t flushed;
};

static struct timer_series timers[TIMERS];
static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static __attribute__((noinline)) void append_sample(struct timer_series *series, double value)
{
	if (series->count == series->capacity) {
		series->capacity += STEP;
		series->samples =
			realloc(series->samples, series->capacity * sizeof *series->samples);
		if (!series->samples)
			abort();
	}
	series->samples[series->count++] = value;
}

/* Sends the mean of each timer's new samples. */
static __attribute__((noinline)) double flush_timers(void)
{
	double sum_of_means = 0;
	for (size_t i = 0; i < TIMERS; i++) {
		struct timer_series *series = &timers[i];
		size_t fresh = series->count - series->flushed;
		if (fresh == 0)
			continue;
		double sum = 0;
		for (size_t k = series->flushed; k < series->count; k++)
			sum += series->samples[k];
		char *line = malloc(64);
		snprintf(line, 64, "timer.%zu.mean:%.3f|ms", i, sum / (double)fresh);
		sum_of_means += (double)strlen(line);
		free(line);
		series->flushed = series->count;
	}
	return sum_of_means;
}

static __attribute__((noinline)) void handle_packet(void)
{
	uint64_t r = next_random();
	append_sample(&timers[r % TIMERS], (double)(r >> 40) * 0.001);
}

static void prepare_timers(void)
{
	for (size_t i = 0; i < TIMERS; i++) {
		size_t already = next_random() % STEP + 1;
		for (size_t k = 0; k < already; k++)
			append_sample(&timers[i], 1.0);
		timers[i].flushed = timers[i].count;
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 4.0;
	int64_t deadline = now_ns() + (int64_t)(seconds * 1e9);
	double total = 0;
	prepare_timers();
	for (unsigned round = 1; now_ns() < deadline; round++) {
		for (int i = 0; i < PACKETS_PER_ROUND; i++)
			handle_packet();
		if (round % ROUNDS_PER_FLUSH == 0)
			total += flush_timers();
		usleep(10000);
	}
	for (size_t i = 0; i < TIMERS; i++)
		free(timers[i].samples);
	return total < 0;
}
