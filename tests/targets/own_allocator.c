/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -fno-builtin -pthread */
/* R5: a program with an allocator of its own, of which it defines malloc, free, realloc, calloc and, by -D, more of the family.
 * Prints whose block each function gives, also those of libc that call malloc by its name; ends with 99 if its free is
 * given a block of another allocator. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char pool[16 << 20] __attribute__((aligned(4096)));
static size_t used = 16;

static int is_own(const void *block)
{
	return (const char *)block >= pool && (const char *)block < pool + sizeof pool;
}

static void *take(size_t alignment, size_t bytes)
{
	size_t at = (__atomic_fetch_add(&used, bytes + alignment + 32, __ATOMIC_RELAXED) + 16 +
		     alignment - 1) &
		    -alignment;

	if (at + bytes > sizeof pool)
		return NULL;
	((size_t *)(void *)(pool + at))[-1] = bytes;
	return pool + at;
}

void *malloc(size_t bytes)
{
	return take(16, bytes);
}

void free(void *block)
{
	if (block == NULL || is_own(block))
		return;
	(void)!write(2, "a free of another's block\n", 26);
	_exit(99);
}

void *realloc(void *block, size_t bytes)
{
	void *fresh = take(16, bytes);

	if (block != NULL && !is_own(block))
		free(block);
	if (block != NULL && fresh != NULL) {
		size_t old = ((size_t *)block)[-1];

		memcpy(fresh, block, old < bytes ? old : bytes);
	}
	return fresh;
}

void *calloc(size_t count, size_t bytes)
{
	return take(16, count * bytes); /* never used before */
}

#ifdef OWN_REALLOCARRAY
void *reallocarray(void *block, size_t count, size_t bytes)
{
	return realloc(block, count * bytes);
}
#endif
#ifdef OWN_ALIGNED
void *memalign(size_t alignment, size_t bytes)
{
	return take(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return take(alignment, bytes);
}

int posix_memalign(void **ret, size_t alignment, size_t bytes)
{
	*ret = take(alignment, bytes);
	return 0;
}

void *valloc(size_t bytes)
{
	return take(4096, bytes);
}

size_t malloc_usable_size(void *block)
{
	return ((size_t *)block)[-1];
}
#endif

/* Undefined everywhere before C23, and in a C program: what stands there instead must give and take the same blocks. */
extern void free_sized(void *block, size_t size) __attribute__((weak));
extern void *operator_new(size_t bytes) __asm__("_Znwm") __attribute__((weak));
extern void *operator_new_aligned(size_t bytes, size_t alignment) __asm__("_ZnwmSt11align_val_t")
	__attribute__((weak));
extern void operator_delete(void *block) __asm__("_ZdlPv") __attribute__((weak));

static void tell(const char *name, void *block)
{
	printf("%s %s\n", name, block == NULL ? "none" : is_own(block) ? "own" : "another's");
	if (is_own(block))
		free(block);
}

/* Whether a block that grew by the function still holds its text. */
static void tell_grown(const char *name, char *block)
{
	printf("%s %s\n", name, block != NULL && strcmp(block, "text") == 0 ? "kept" : "lost");
	tell(name, block);
}

static void tell_weak(void)
{
	if (free_sized != NULL)
		free_sized(malloc(100), 100);
	if (operator_new != NULL)
		free(operator_new(100));
	if (operator_new_aligned != NULL && operator_delete != NULL) {
#ifdef OWN_ALIGNED
		operator_delete(operator_new_aligned(100, 64));
#endif
		operator_delete(malloc(10));
	}
}

static void tell_all(void)
{
	volatile size_t huge = (size_t)1 << 40;
	char *text = NULL, *line = NULL;
	size_t bytes = 0;
	void *aligned = NULL;

	tell("malloc", malloc(10));
	tell("calloc", calloc(2, 5));
	tell("realloc", realloc(NULL, 10));
	tell("reallocarray", reallocarray(NULL, 5, 7));
	tell_grown("reallocarray", reallocarray(strdup("text"), 500, 7));
	errno = 0;
	tell("too much", reallocarray(NULL, huge, huge));
	printf("errno %d\n", errno == ENOMEM);
	tell("strdup", strdup("text"));
	tell("strndup", strndup("text", 2));
	if (asprintf(&text, "%d", 5) > 0)
		tell("asprintf", text);
	FILE *stream = open_memstream(&text, &bytes);

	fputs("text\n", stream);
	fclose(stream);
	stream = fmemopen(text, bytes, "r");
	bytes = 0;
	if (getline(&line, &bytes, stream) > 0)
		tell("getline", line);
	fclose(stream);
	tell("open_memstream", text);
	tell("getcwd", getcwd(NULL, 0));
	stream = popen("echo popen", "r");
	line = NULL;
	if (getline(&line, &bytes, stream) > 0)
		printf("%s", line);
	pclose(stream);
	tell("memalign", memalign(64, 64));
	tell("aligned_alloc", aligned_alloc(64, 64));
	if (posix_memalign(&aligned, 64, 64) == 0)
		tell("posix_memalign", aligned);
	tell("valloc", valloc(10));
	tell("pvalloc", pvalloc(10));
#ifdef OWN_ALIGNED
	printf("malloc_usable_size %zu\n", malloc_usable_size(malloc(77)));
#endif
	tell_weak();
}

static void *in_thread(void *unused)
{
	tell_all();
	return unused;
}

int main(void)
{
	pthread_t thread;
	int status = 0;

	for (int i = 0; i < 1000; i++)
		free(reallocarray(malloc(100), 1000, 3));
	tell_all();
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	fflush(stdout);
	if (fork() == 0) {
		tell_all();
		fflush(stdout);
		_exit(5);
	}
	wait(&status);
	printf("child %d\n", WEXITSTATUS(status));
	return 3;
}
