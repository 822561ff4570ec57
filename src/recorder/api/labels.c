/* SPDX-License-Identifier: Apache-2.0 */
/* Labels as tags.
 *
 * Owns: the number of values per key. A program that labels by something unbounded (a request number) would create a site
 * per stack and request: after LABEL_VALUES values of a key, new ones become "other", and are counted.
 *
 * Labels form a chain below a scope: the first one, below it the second, each key once. Setting a label again yields the
 * same tag, whatever was set in between. Below an inner scope a new chain starts and hides the outer labels; a label that
 * is removed there appears with an empty value. */
#include "recorder/api/labels.h"

#include "base/hash.h"
#include "recorder/api/tags.h"

enum { LABEL_KEYS = 64, LABEL_VALUES = 1024, LABELS = 8 };

/* One entry per key, in the order of their first value; atomics. */
static PROCESS_STATE struct {
	uint64_t key; /* its hash; 0 = end of the list */
	uint32_t values;
} keys[LABEL_KEYS];

void labels_reset(void)
{
	for (int i = 0; i < LABEL_KEYS && keys[i].key != 0; i++) {
		keys[i].key = 0;
		keys[i].values = 0;
	}
}

/* The number of values of a key; NULL: too many keys. */
static uint32_t *values_of(const char *key)
{
	uint64_t hash = 1;

	for (; *key; key++)
		hash = hash_mix(hash ^ (uint8_t)*key);
	for (int i = 0; i < LABEL_KEYS; i++) {
		uint64_t there = 0;

		if (__atomic_compare_exchange_n(&keys[i].key, &there, hash, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) ||
		    there == hash)
			return &keys[i].values;
	}
	return NULL;
}

/* True if the key may have one more value. */
static bool may_have_more(const char *key)
{
	uint32_t *values = values_of(key);

	return values != NULL && __atomic_load_n(values, __ATOMIC_RELAXED) < LABEL_VALUES &&
	       __atomic_fetch_add(values, 1, __ATOMIC_RELAXED) < LABEL_VALUES;
}

/* Writes "key=value", truncated to the length of a tag. */
static void join(char *to, const char *key, const char *value)
{
	uint32_t n = 0;

	while (n < LIVE_TAG_TEXT_MAX - 1 && *key)
		to[n++] = *key++;
	to[n++] = '=';
	while (n < LIVE_TAG_TEXT_MAX && *value)
		to[n++] = *value++;
	to[n] = 0;
}

uint32_t labels_name(struct slot *slot, const char *key, const char *value)
{
	char text[LIVE_TAG_TEXT_MAX + 1];

	join(text, key, value);
	uint32_t name = tags_known_name(slot, LIVE_TAG_LABEL, text);

	if (name != 0)
		return name;
	if (*value && !may_have_more(key)) {
		health_add(HEALTH_other_labels);
		join(text, key, "other");
	}
	return tags_name(slot, LIVE_TAG_LABEL, text);
}

static bool has_key(uint32_t tag, const char *key)
{
	const struct live_tag *label = memory_tag(tag);
	const char *text = memory.region[LIVE_STRINGS] + label->text_at;
	uint32_t i = 0;

	while (i < label->text_bytes && key[i] != 0 && text[i] == key[i])
		i++;
	return label->kind == LIVE_TAG_LABEL && key[i] == 0 && i < label->text_bytes &&
	       text[i] == '=';
}

/* True if a tag or one of its ancestors has the key. */
static bool is_labelled(uint32_t tag, const char *key)
{
	while (tag != 0 && !has_key(tag, key))
		tag = memory_tag(tag)->parent;
	return tag != 0;
}

bool labels_with(struct slot *slot, uint32_t *tag, const char *key, const char *value)
{
	uint32_t label[LABELS], count = 0, at = *tag, name = 0;

	for (; at != 0 && count < LABELS && memory_tag(at)->kind == LIVE_TAG_LABEL;
	     at = memory_tag(at)->parent)
		label[count++] = at;
	/* A label that is not set, or is removed where it was set, needs no tag. */
	bool set = value != NULL && *value, hides = !set && is_labelled(at, key);

	if ((set || hides) && (name = labels_name(slot, key, set ? value : "")) == 0)
		return false;
	for (bool placed = false; count > 0 || (name != 0 && !placed);) {
		bool same = count == 0 || has_key(label[count - 1], key);
		uint32_t below = same ? name : memory_tag(label[count - 1])->name;

		placed |= same;
		count -= count > 0;
		if (below == 0)
			continue;
		at = tags_below(slot, at, below);
		if (at == 0)
			return false;
	}
	*tag = at;
	return true;
}
