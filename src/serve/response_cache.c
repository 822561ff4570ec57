/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached responses: see kept.h. A session makes a few hundred different requests, so a linear search is enough.
 * libmicrohttpd counts references to a response: an evicted one lives until it has been sent.
 */
#include "serve/response_cache.h"

#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"

void response_cache_init(struct response_cache *kept, size_t limit_bytes)
{
	*kept = (struct response_cache){ .limit_bytes = limit_bytes };
	pthread_mutex_init(&kept->lock, NULL);
}

static void release_answer(struct cached_response *answer)
{
	free(answer->question);
	reply_release(&answer->reply);
}

void response_cache_release(struct response_cache *kept)
{
	for (size_t i = 0; i < kept->list.count; i++)
		release_answer(&kept->list.at[i]);
	vector_release(&kept->list);
	pthread_mutex_destroy(&kept->lock);
}

static int compare_params(const void *left, const void *right)
{
	const struct serve_param *const *a = left, *const *b = right;
	int order = strcmp((*a)->name, (*b)->name);

	return order ? order : (*a > *b) - (*a < *b);
}

char *response_cache_key(const struct serve_request *request)
{
	AUTO_FREE const struct serve_param **sorted =
		calloc(request->param_count + 1, sizeof(struct serve_param *));
	struct buffer out = BUFFER_INIT;

	if (!sorted)
		return NULL;
	for (size_t i = 0; i < request->param_count; i++)
		sorted[i] = &request->params[i];
	qsort(sorted, request->param_count, sizeof *sorted, compare_params);
	buffer_text(&out, request->path);
	/* Includes the lengths, because a value may contain any byte. */
	for (size_t i = 0; i < request->param_count; i++)
		buffer_printf(&out, "\n%zu:%s=%zu:%s", strlen(sorted[i]->name), sorted[i]->name,
			      strlen(sorted[i]->value), sorted[i]->value);
	return buffer_take_string(&out);
}

static struct cached_response *find(struct response_cache *kept, const char *question)
{
	for (size_t i = 0; i < kept->list.count; i++)
		if (strcmp(kept->list.at[i].question, question) == 0)
			return &kept->list.at[i];
	return NULL;
}

bool response_cache_send(struct response_cache *kept, const char *question,
			 struct MHD_Connection *connection, const char *accepts,
			 enum MHD_Result *ret)
{
	pthread_mutex_lock(&kept->lock);
	struct cached_response *found = find(kept, question);

	if (found) {
		found->used_at = ++kept->clock;
		*ret = reply_send(&found->reply, connection, accepts);
	}
	pthread_mutex_unlock(&kept->lock);
	return found;
}

static void drop_oldest(struct response_cache *kept)
{
	size_t oldest = 0;

	for (size_t i = 1; i < kept->list.count; i++)
		if (kept->list.at[i].used_at < kept->list.at[oldest].used_at)
			oldest = i;
	release_answer(&kept->list.at[oldest]);
	kept->list.at[oldest] = kept->list.at[--kept->list.count];
}

static size_t bytes_of(const struct response_cache *kept)
{
	size_t sum = 0;

	for (size_t i = 0; i < kept->list.count; i++)
		sum += kept->list.at[i].reply.body.size + kept->list.at[i].reply.packed_bytes;
	return sum;
}

void response_cache_add(struct response_cache *kept, const char *question, struct reply *reply)
{
	struct cached_response added = { .question = strdup(question), .reply = *reply };

	*reply = (struct reply){ 0 };
	pthread_mutex_lock(&kept->lock);
	added.used_at = ++kept->clock;
	bool taken = added.question && !find(kept, question) && vector_push(&kept->list, added);

	while (taken && kept->list.count && bytes_of(kept) > kept->limit_bytes)
		drop_oldest(kept);
	pthread_mutex_unlock(&kept->lock);
	if (!taken)
		release_answer(&added);
}
