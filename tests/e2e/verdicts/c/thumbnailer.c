/* SPDX-License-Identifier: Apache-2.0 */
/* An image pipeline: a reader thread, two resizers and a writer, connected by bounded queues. The writer keeps the last 64 thumbnails. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE_LIMIT = 4, RECENT = 64, RESIZERS = 2, THUMB_BYTES = 12288 };

struct image {
	size_t bytes;
	unsigned char pixels[];
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct image *items[QUEUE_LIMIT];
	size_t head, count;
	int producers;
};

static struct queue frames = {
	PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 }, 0, 0, 1
};
static struct queue thumbs = {
	PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 }, 0, 0, RESIZERS
};
static atomic_int stopping;

static void queue_put(struct queue *queue, struct image *image)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->count == QUEUE_LIMIT)
		pthread_cond_wait(&queue->changed, &queue->lock);
	queue->items[(queue->head + queue->count++) % QUEUE_LIMIT] = image;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

static struct image *queue_take(struct queue *queue)
{
	struct image *image = NULL;
	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0 && queue->producers > 0)
		pthread_cond_wait(&queue->changed, &queue->lock);
	if (queue->count > 0) {
		image = queue->items[queue->head];
		queue->head = (queue->head + 1) % QUEUE_LIMIT;
		queue->count--;
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return image;
}

static void queue_leave(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->producers--;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

static __attribute__((noinline)) struct image *load_frame(unsigned number)
{
	size_t bytes = 16384 + (size_t)(number * 7919u % 9u) * 4096;
	struct image *image = malloc(sizeof *image + bytes);
	image->bytes = bytes;
	memset(image->pixels, (int)(number & 255), bytes);
	return image;
}

static __attribute__((noinline)) struct image *scale_frame(const struct image *frame,
							   const uint32_t *weights)
{
	struct image *thumb = malloc(sizeof *thumb + THUMB_BYTES);
	thumb->bytes = THUMB_BYTES;
	for (size_t i = 0; i < THUMB_BYTES; i++)
		thumb->pixels[i] = (unsigned char)(frame->pixels[i] * weights[i] >> 8);
	return thumb;
}

static void *read_frames(void *unused)
{
	(void)unused;
	for (unsigned number = 0; !atomic_load(&stopping);) {
		for (int burst = 0; burst < 6; burst++)
			queue_put(&frames, load_frame(number++));
		usleep(12000);
	}
	queue_leave(&frames);
	return NULL;
}

static void *resize_frames(void *unused)
{
	(void)unused;
	uint32_t *weights = malloc(THUMB_BYTES * sizeof *weights);
	for (uint32_t i = 0; i < THUMB_BYTES; i++)
		weights[i] = i % 256;
	for (struct image *frame; (frame = queue_take(&frames)) != NULL;) {
		queue_put(&thumbs, scale_frame(frame, weights));
		free(frame);
	}
	free(weights);
	queue_leave(&thumbs);
	return NULL;
}

static void *write_thumbs(void *unused)
{
	(void)unused;
	struct image *recent[RECENT] = { 0 };
	unsigned next = 0;
	for (struct image *thumb; (thumb = queue_take(&thumbs)) != NULL;
	     next = (next + 1) % RECENT) {
		free(recent[next]);
		recent[next] = thumb;
	}
	for (int i = 0; i < RECENT; i++)
		free(recent[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 4.0;
	struct timespec start, now;
	pthread_t threads[2 + RESIZERS];
	clock_gettime(CLOCK_MONOTONIC, &start);
	pthread_create(&threads[0], NULL, read_frames, NULL);
	pthread_create(&threads[1], NULL, write_thumbs, NULL);
	for (int i = 0; i < RESIZERS; i++)
		pthread_create(&threads[2 + i], NULL, resize_frames, NULL);
	do {
		usleep(20000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - start.tv_sec) +
			 (double)(now.tv_nsec - start.tv_nsec) * 1e-9 <
		 seconds);
	atomic_store(&stopping, 1);
	for (int i = 0; i < 2 + RESIZERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
