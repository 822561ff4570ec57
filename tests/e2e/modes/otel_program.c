/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes OpenTelemetry contexts as OTEP 4719 and 4947 say, allocates in them, and prints what each label holds; for test_otel.py.
 * Arguments: truth, garbage, fork, depth or reload; memfd or anonymous; a library to load that has the variable, unless it is linked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

__attribute__((weak)) void context_attach(void *record);
static void (*attach)(void *record);

/* ---- the process context ---- */

struct header {
	char signature[8];
	uint32_t version, payload_bytes;
	uint64_t published_ns;
	const void *payload;
};
static struct header *context;

static size_t put(char *to, int field, const char *content, size_t bytes)
{
	size_t n = 0, rest = bytes;

	to[n++] = (char)(field << 3 | 2);
	for (; rest >= 128; rest >>= 7)
		to[n++] = (char)(rest | 128);
	to[n++] = (char)rest;
	memcpy(to + n, content, bytes);
	return n + bytes;
}

static size_t put_pair(char *to, const char *key, const char *value, size_t bytes)
{
	static char pair[65536];
	size_t n = put(pair, 1, key, strlen(key));

	n += put(pair + n, 2, value, bytes);
	return put(to, 2, pair, n);
}

static uint64_t now(void)
{
	static uint64_t last;
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;

	return last = ns > last ? ns : last + 1;
}

static void publish(const char *const *keys, int with_memfd)
{
	static char array[32768], value[32768], text[256], resource[8192];
	char *payload = malloc(65536);
	size_t n = 0, bytes = 0, most = sysconf(_SC_PAGESIZE);
	int fd = -1;

	for (; *keys; keys++) {
		size_t length = put(text, 1, *keys, strlen(*keys));

		n += put(array + n, 1, text, length);
	}
	n = put(value, 5, array, n);
	memset(resource, 'r', 5000); /* longer than what the recorder reads at once */
	bytes += put(payload + bytes, 1, resource, 5000);
	bytes += put_pair(payload + bytes, "threadlocal.schema_version", text,
			  put(text, 1, "tlsdesc_v1_dev", 14));
	bytes += put_pair(payload + bytes, "threadlocal.attribute_key_map", value, n);
	if (!context) {
		if (with_memfd &&
		    ((fd = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0 ||
		     ftruncate(fd, (off_t)most) < 0))
			abort();
		context = mmap(NULL, most, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | (with_memfd ? 0 : MAP_ANONYMOUS), fd, 0);
		if (context == MAP_FAILED || madvise(context, most, MADV_DONTFORK) < 0)
			abort();
		if (fd >= 0)
			close(fd);
		memcpy(context->signature, "OTEL_CTX", 8);
		context->version = 2;
	}
	__atomic_store_n(&context->published_ns, 0, __ATOMIC_SEQ_CST);
	context->payload = payload;
	context->payload_bytes = (uint32_t)bytes;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&context->published_ns, now(), __ATOMIC_SEQ_CST);
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, context, most, "OTEL_CTX");
}

/* ---- thread contexts ---- */

struct record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t bytes;
	uint8_t attributes[612];
};

static void add(struct record *record, uint8_t key, const char *value)
{
	uint8_t *to = record->attributes + record->bytes;

	to[0] = key;
	to[1] = (uint8_t)strlen(value);
	memcpy(to + 2, value, to[1]);
	record->bytes += 2 + to[1];
}

static void *volatile kept[1 << 20];
static unsigned kept_count;

__attribute__((noinline)) static void take(size_t bytes, unsigned count)
{
	while (count--)
		kept[__atomic_fetch_add(&kept_count, 1, __ATOMIC_RELAXED)] = malloc(bytes);
}

enum { USER, TENANT, ROUTE, BLOCK = 10000, SMALL = 100, SMALL_COUNT = 20000 };
static const char *const tenants[] = { "acme", "initech", "umbrella" };

static void *worker(void *argument)
{
	int i = (int)(intptr_t)argument;
	struct record r = { .trace = { 1 }, .span = { 1 } };

	take(BLOCK, 1); /* no context yet */
	for (unsigned round = 0; round < 30; round++) {
		attach(NULL);
		r.valid = 0;
		r.bytes = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		add(&r, USER, "somebody");
		add(&r, TENANT, "overwritten");
		add(&r, TENANT, tenants[(unsigned)i % 3]);
		if (i % 2)
			add(&r, ROUTE, "/orders/{id}");
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		r.valid = 1;
		attach(&r);
		take(BLOCK, (unsigned)i + 1);
		r.valid = 2; /* reserved: not valid */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		take(BLOCK, 1);
		r.valid = 1;
	}
	take(SMALL, SMALL_COUNT);
	attach(NULL);
	take(BLOCK, 1);
	return NULL;
}

static void run_workers(void)
{
	pthread_t thread[6];

	for (intptr_t i = 0; i < 6; i++)
		pthread_create(&thread[i], NULL, worker, (void *)i);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
}

static void truth(int with_memfd)
{
	static const char *const first[] = { "user", "tenant", NULL }, *const then[] = {
		"user", "tenant", "http.route", NULL
	};
	struct record r = { .valid = 1 };

	publish(first, with_memfd);
	add(&r, TENANT, "main");
	attach(&r);
	take(BLOCK, 3);
	publish(then, with_memfd);
	add(&r, ROUTE, "/late");
	take(BLOCK, 4);
	attach(NULL);
	run_workers();
	puts("{\"tenant=main\": 30000, \"tenant=main http.route=/late\": 40000, \"tenant=acme\": 300000, \"tenant=acme http.route=/orders/{id}\": 1200000,");
	puts(" \"tenant=initech\": 1500000, \"tenant=initech http.route=/orders/{id}\": 600000, \"tenant=umbrella\": 900000,");
	puts(" \"tenant=umbrella http.route=/orders/{id}\": 1800000, \"\": 1920000}");
}

/* The child publishes the same keys in another order. */
static void forks(int with_memfd)
{
	static const char *const here[] = { "user", "tenant", NULL }, *const there[] = { "tenant",
											 "user",
											 NULL };
	struct record r = { .valid = 1 };

	publish(here, with_memfd);
	add(&r, USER, "secret");
	add(&r, TENANT, "parent");
	attach(&r);
	take(BLOCK, 2);
	if (fork() == 0) {
		take(BLOCK, 1); /* no table: no label */
		context = NULL;
		publish(there, with_memfd);
		r.bytes = 0;
		add(&r, 0, "child");
		add(&r, 1, "secret");
		take(BLOCK, 5);
		exit(0);
	}
	wait(NULL);
}

static void *labelled(void *argument)
{
	attach(argument);
	take(BLOCK, 50);
	attach(NULL);
	return NULL;
}

/* Prints how much of a thread's stack was used while its first sample read the table. */
static void depth(int with_memfd)
{
	static const char *const keys[] = { "user", "tenant", "http.route", NULL };
	enum { SIZE = 1 << 20, PAINT = 0xa5 };
	unsigned char *area =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct record r = { .valid = 1 };
	pthread_attr_t attributes;
	pthread_t thread;
	size_t i = 0;

	publish(keys, with_memfd);
	add(&r, TENANT, "acme");
	add(&r, ROUTE, "/orders/{id}");
	memset(area, PAINT, SIZE);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, area, SIZE);
	pthread_create(&thread, &attributes, labelled, &r);
	pthread_join(thread, NULL);
	while (area[i] == PAINT)
		i++;
	printf("%zu\n", SIZE - i);
}

/* The library with the variable is unloaded, and loaded again. */
static void reload(int with_memfd, const char *path)
{
	static const char *const keys[] = { "user", "tenant", NULL };
	struct record r = { .valid = 1 };
	void *library = dlopen(path, RTLD_NOW);

	publish(keys, with_memfd);
	add(&r, TENANT, "first");
	attach(&r);
	take(BLOCK, 2);
	attach(NULL);
	dlclose(library);
	if (dlclose(library) != 0 || dlopen(path, RTLD_NOW | RTLD_NOLOAD))
		abort();
	take(BLOCK, 3);
	library = dlopen(path, RTLD_NOW);
	attach = (void (*)(void *))dlsym(library, "context_attach");
	r.bytes = 0;
	add(&r, TENANT, "second");
	attach(&r);
	take(BLOCK, 4);
}

static void try(void *record)
{
	attach(record);
	take(BLOCK, 20);
	take(SMALL, 1000);
	attach(NULL);
}

static void garbage(int with_memfd)
{
	static const char *const keys[] = { "user", "tenant", NULL };
	static const char broken[] = "tenant=\xff\x80\x01\n\"";
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct record *r;

	try((void *)1);
	try((void *)~(uintptr_t)0);
	try((void *)0x8000000000000000u);
	munmap(pages + page, page); /* a hole behind the first page */
	try(pages + page);
	try(pages + page - 8);
	r = (struct record *)(pages + page - 40);
	*(volatile uint8_t *)&r->valid = 1;
	memset((void *)&r->bytes, 0xff, 2);
	try(r);
	publish(keys, with_memfd);
	try(r);
	r->bytes = 13; /* ends behind the page */
	try(r);
	r->bytes = 12;
	memcpy(r->attributes, "\1\377cut short.", 12);
	try(r);
	r = (struct record *)(pages + 2 * page);
	r->valid = 1;
	for (int i = 0; i < 200; i++) { /* keys, lengths and bytes of any kind */
		r->bytes = (uint16_t)(i * 37 % 600);
		for (unsigned k = 0; k < sizeof r->attributes; k++)
			r->attributes[k] = (uint8_t)rand();
		attach(r);
		take(BLOCK, 1);
	}
	r->bytes = 0;
	add(r, 1, broken + 7);
	try(r);
	for (int i = 0; i < 300; i++) { /* a header and a payload that are none */
		context->published_ns = (uint64_t)i % 3;
		context->payload_bytes = i % 2 ? ~0u : (uint32_t)rand();
		context->payload = i % 5 ? (void *)(pages + page * (unsigned)(i % 3))
					 : (void *)(intptr_t)rand();
		r->attributes[0] = (uint8_t)i;
		prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, context, page, "OTEL_CTX");
		attach(r);
		take(BLOCK, 1);
	}
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, 1, 1, "OTEL_CTX");
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, context, page, 1);
	try(r);
	munmap(context, page);
	try(r);
	printf("%u\n", kept_count);
}

int main(int argc, char **argv)
{
	int with_memfd = argc > 2 && strcmp(argv[2], "memfd") == 0;

	attach = context_attach;
	if (argc > 3) {
		void *library = dlopen(argv[3], RTLD_NOW);

		attach = library ? (void (*)(void *))dlsym(library, "context_attach") : NULL;
	}
	if (!attach)
		return 2;
	if (strcmp(argv[1], "truth") == 0)
		truth(with_memfd);
	else if (strcmp(argv[1], "fork") == 0)
		forks(with_memfd);
	else if (strcmp(argv[1], "depth") == 0)
		depth(with_memfd);
	else if (strcmp(argv[1], "reload") == 0)
		reload(with_memfd, argv[3]);
	else
		garbage(with_memfd);
	return 0;
}
