/* SPDX-License-Identifier: Apache-2.0 */
/* See sampler.h.
 *
 * Owns: the filter. It is private memory: a forked child has its own. Any thread; each byte is accessed atomically. */
#include "recorder/sampling/sampler.h"

#include "recorder/counters/account.h"

#define ONE (UINT64_C(1) << 32)

uint8_t sample_filter[SAMPLE_BUCKETS] = { UINT8_MAX };
PROCESS_STATE uint32_t sample_mask;
static PROCESS_STATE bool used; /* the filter was in use */

/* xorshift64*: Marsaglia's generator with Vigna's multiplier. */
uint64_t sample_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t times_high(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* -log2(x / 2^64) with 32 fractional bits, x > 0: squaring a number in [1, 2) doubles its logarithm. */
static uint64_t minus_log2(uint64_t x)
{
	unsigned zeros = (unsigned)__builtin_clzll(x);
	uint64_t mantissa = x << zeros, fraction = 0;

	for (int bit = 31; bit >= 0; bit--) {
		uint64_t square = times_high(mantissa, mantissa); /* in [1/4, 1) * 2^64 */

		if (square >> 63) {
			fraction |= UINT64_C(1) << bit;
			mantissa = square;
		} else {
			mantissa = square << 1;
		}
	}
	return (uint64_t)(zeros + 1) * ONE - fraction;
}

int64_t sample_draw(uint64_t *random, uint64_t interval)
{
	const uint64_t ln2 = UINT64_C(0xb17217f7d1cf79ac); /* * 2^-64 */
	uint64_t natural = times_high(minus_log2(sample_random(random) | 1), ln2);

	return (int64_t)((unsigned __int128)interval * natural >> 32);
}

/* a * b of fixed-point numbers below 1 with 32 fractional bits. */
static uint64_t product(uint64_t a, uint64_t b)
{
	return a * b >> 32;
}

/* 1 / (1 - exp(-x)) = 1/x + 1/2 + x/12 - x^3/720 + x^5/30240 - ..., for x = size / interval below 1. */
uint64_t sample_weight(uint64_t size, uint64_t interval)
{
	if (size >= interval)
		return ONE;
	uint64_t some = MAX(size, UINT64_C(1)), x = some * ONE / interval;
	uint64_t square = product(x, x), cube = product(square, x);

	return interval * ONE / some + ONE / 2 + x / 12 - cube / 720 +
	       product(cube, square) / 30240;
}

uint32_t sample_round(uint64_t *random, uint64_t weight)
{
	if ((weight & (ONE - 1)) == 0)
		return (uint32_t)(weight >> 32);
	return (uint32_t)(weight >> 32) + (sample_random(random) >> 32 < (weight & (ONE - 1)));
}

void sample_remember(const void *block)
{
	uint8_t *place = sample_bucket(block), now = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (now != UINT8_MAX &&
	       !__atomic_compare_exchange_n(place, &now, (uint8_t)(now + 1), true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void sample_forget(const void *block)
{
	uint8_t *place = sample_bucket(block), now = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (now != UINT8_MAX && now != 0 &&
	       !__atomic_compare_exchange_n(place, &now, (uint8_t)(now - 1), true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void sample_no_filter(void)
{
	/* A forked child usually has these values already, and every page it writes to is copied. */
	if (__atomic_load_n(&sample_filter[0], __ATOMIC_RELAXED) != UINT8_MAX)
		__atomic_store_n(&sample_filter[0], UINT8_MAX, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sample_mask, __ATOMIC_RELAXED) != 0)
		__atomic_store_n(&sample_mask, 0, __ATOMIC_SEQ_CST);
}

void sample_start(bool filters)
{
	if (used)
		__builtin_memset(sample_filter, 0, sizeof sample_filter);
	used = filters;
	if (filters)
		__atomic_store_n(&sample_mask, SAMPLE_BUCKETS - 1, __ATOMIC_SEQ_CST);
	else
		sample_no_filter();
}

struct live_samples *samples_of_counters(struct live_site_counters *counters)
{
	if (memory_site(counters->site)->interval == 0)
		return NULL; /* [other], which counted the free of a sample */
	if (counters->samples == 0) {
		uint64_t unit = account_pool(sizeof(struct live_samples) / LIVE_POOL_UNIT);

		if (unit == 0)
			return NULL;
		__atomic_store_n(&counters->samples, (uint32_t)unit, __ATOMIC_RELEASE);
	}
	return memory_pool(counters->samples);
}

/* The variance contributed by one sample, in blocks squared with 32 fractional
 * bits: (1 - p) / p^2, plus that of the rounding. */
static unsigned __int128 variance(uint64_t weight)
{
	uint64_t part = weight & (ONE - 1);

	return ((unsigned __int128)weight * (weight - ONE) >> 32) + product(part, ONE - 1 - part);
}

static uint64_t of_calls(uint64_t weight)
{
	return (uint64_t)(variance(weight) >> (32 - LIVE_VARIANCE_SHIFT));
}

static uint64_t of_bytes(uint64_t size, uint64_t weight)
{
	return (uint64_t)(variance(weight) * (size * size) >> (32 + LIVE_VARIANCE_SHIFT));
}

void sample_add_allocation(struct live_samples *samples, uint64_t size, uint64_t weight)
{
	arch_add(&samples->count, 1);
	arch_add(&samples->calls_variance, of_calls(weight));
	arch_add(&samples->bytes_variance, of_bytes(size, weight));
}

void sample_add_free(struct live_samples *samples, uint64_t size, uint64_t weight)
{
	arch_add(&samples->freed_count, 1);
	arch_add(&samples->frees_variance, of_calls(weight));
	arch_add(&samples->freed_variance, of_bytes(size, weight));
}
