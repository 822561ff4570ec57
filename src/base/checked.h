/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic on untrusted sizes. Each function returns true and stores the result if it fits the
 * type of *ret; otherwise it returns false, and *ret must not be used. Mixed argument types are
 * computed with unlimited precision.
 */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#define checked_add(a, b, ret) (!__builtin_add_overflow((a), (b), (ret)))
#define checked_mul(a, b, ret) (!__builtin_mul_overflow((a), (b), (ret)))

/* Rounds up to a multiple of align, which must be a power of two. */
static inline bool checked_align_up(uint64_t value, uint64_t align, uint64_t *ret)
{
	uint64_t sum;

	if (align == 0 || (align & (align - 1)) != 0 || !checked_add(value, align - 1, &sum))
		return false;
	*ret = sum & ~(align - 1);
	return true;
}

/* True if [offset, offset + length) is within [0, size). Cannot overflow. */
static inline bool range_within(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

/* For totals that are displayed, where "at least this much" is better than a wrapped number. */
static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return checked_add(a, b, &sum) ? sum : UINT64_MAX;
}

static inline uint64_t saturating_mul(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t saturating_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static inline int64_t saturating_add_signed(int64_t a, int64_t b)
{
	int64_t sum;

	if (checked_add(a, b, &sum))
		return sum;
	return a < 0 ? INT64_MIN : INT64_MAX;
}

/* The absolute value, also of INT64_MIN. */
static inline uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* Saturating conversion: converting a value that is out of range is undefined. NaN gives 0. */
static inline uint64_t saturating_u64(double value)
{
	if (!(value > 0))
		return 0;
	return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

static inline int64_t saturating_i64(double value)
{
	if (value != value)
		return 0;
	if (value >= 0x1p63)
		return INT64_MAX;
	return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

#endif
