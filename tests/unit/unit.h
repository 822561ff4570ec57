/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For every unit test: cmocka with what it needs before it, and random numbers that are the same in each run.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* How much less a test of many random cases tries where each takes many times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { UNIT_FEWER = 8 };
#else
enum { UNIT_FEWER = 1 };
#endif

/* xorshift64; the state must not be 0. */
static inline uint64_t unit_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A number whose bit length, and not only its value, is random: short ones are as frequent as long ones. */
static inline uint64_t unit_random_length(uint64_t *state)
{
	return unit_random(state) >> (unit_random(state) % 64);
}

#endif
