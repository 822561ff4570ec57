/* SPDX-License-Identifier: Apache-2.0 */
/* Which object contains an address: _dl_find_object, which takes no lock; in musl and before glibc 2.35, which have none, the
 * loader's list.
 *
 * The list may change while it is read, and its entries be freed: they are copied by the kernel, which does not fault, and what
 * was found counts only if the loader was not unloading before and after. Objects that were found once are remembered, and checked
 * against their entry before each use: one system call instead of three for each object before it. musl unloads an object only if it
 * fails to load it, before its code runs: there, what was loaded at start-up or has code on a stack is remembered for ever, and
 * nothing else. Namespaces of dlmopen are not in this list.
 *
 * Owns: the address of the function; `known`, whose entries are written once and published by `start`. */
#include <dlfcn.h>
#include <elf.h>

#include "recorder/checks/check.h"
#include "recorder/checks/verify.h"
#include "recorder/libc/libc.h"
#include "recorder/lookup.h"
#include "recorder/sys.h"

/* struct dl_find_object, which only new headers have. */
struct found_object {
	unsigned long long flags;
	void *start, *end;
	struct link_map *map;
	const uint8_t *unwind_header;
	uint64_t reserved[7];
};
typedef int find_object_fn(void *pc, struct found_object *result);
static find_object_fn *find_object;

static struct r_debug *debug;
bool libc_musl;

extern struct r_debug glibc_debug __asm__("_r_debug") __attribute__((weak));
#define MUSL_DEBUG "_dl_debug_addr"
extern struct r_debug *musl_debug __asm__(MUSL_DEBUG) __attribute__((weak));

enum { KNOWN_MAX = 512, OBJECTS_MAX = 4 << 10, HEADERS_MAX = 32 };

struct known {
	uintptr_t start, end; /* start 0: not written yet, or unloaded */
	const struct link_map *map;
	uintptr_t bias;
	const void *dynamic;
	const uint8_t *unwind_header;
};
static struct known known[KNOWN_MAX];
static uint32_t known_used;

extern Elf64_Dyn own_dynamic[] __asm__("_DYNAMIC") __attribute__((weak, visibility("hidden")));

/* What the loader writes into the executable, if we are part of it; NULL: we are not. Some linkers (mold) take a weak symbol that they do
 * not see for missing. */
static struct r_debug *debug_of_executable(void)
{
	for (const Elf64_Dyn *entry = own_dynamic; entry != NULL && entry->d_tag != DT_NULL;
	     entry++) {
		if (entry->d_tag == DT_DEBUG)
			return (struct r_debug *)entry->d_un.d_ptr;
	}
	return NULL;
}

const struct r_debug *libc_debug(void)
{
	struct r_debug *found = __atomic_load_n(&debug, __ATOMIC_RELAXED);

	if (found == NULL) {
		if (&musl_debug != NULL)
			found = musl_debug;
		else
			found = &glibc_debug != NULL ? &glibc_debug : debug_of_executable();
		__atomic_store_n(&debug, found, __ATOMIC_RELAXED);
	}
	return found;
}

enum { AT_START = 0 }; /* instead of our pid: the list cannot change, it is read directly */

static bool read_safely(long pid, const void *from, void *to, size_t bytes)
{
	if (pid != AT_START)
		return sys_read_safely(pid, (uintptr_t)from, to, bytes);
	__builtin_memcpy(to, from, bytes);
	return true;
}

/* The program headers: those of the program are where the kernel says, those of others after their ELF header. Returns their
 * number; 0: unreadable. */
static uint64_t find_headers(long pid, const struct link_map *entry, const Elf64_Phdr **ret)
{
	Elf64_Ehdr file = { 0 };

	if (entry->l_prev == NULL && sys_auxiliary(AT_BASE) != 0) {
		*ret = (const Elf64_Phdr *)sys_auxiliary(AT_PHDR);
		return sys_auxiliary(AT_PHNUM);
	}
	if (!read_safely(pid, (const void *)entry->l_addr, &file, sizeof file) ||
	    __builtin_memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
	    file.e_phentsize != sizeof **ret)
		return 0;
	*ret = (const Elf64_Phdr *)(entry->l_addr + file.e_phoff);
	return file.e_phnum;
}

static void add_segment(struct known *object, const Elf64_Phdr *header)
{
	uintptr_t at = object->bias + header->p_vaddr;

	if (header->p_type == PT_GNU_EH_FRAME)
		object->unwind_header = (const uint8_t *)at;
	if (header->p_type != PT_LOAD)
		return;
	object->start = MIN(object->start, at & ~(uintptr_t)(ARCH_PAGE - 1));
	object->end = MAX(object->end, at + header->p_memsz);
}

static bool describe(long pid, const struct link_map *map, const struct link_map *entry,
		     struct known *ret)
{
	enum { AT_ONCE = 4 };
	Elf64_Phdr some[AT_ONCE];
	const Elf64_Phdr *headers = NULL;
	uint64_t count = MIN(find_headers(pid, entry, &headers), (uint64_t)HEADERS_MAX);

	*ret = (struct known){
		.start = UINTPTR_MAX, .map = map, .bias = entry->l_addr, .dynamic = entry->l_ld
	};
	for (uint64_t i = 0; i < count; i += AT_ONCE) {
		uint64_t part = MIN(count - i, (uint64_t)AT_ONCE);

		if (!read_safely(pid, headers + i, some, part * sizeof *some))
			return false;
		for (uint64_t k = 0; k < part; k++)
			add_segment(ret, &some[k]);
	}
	return ret->start < ret->end;
}

/* Two threads may add the same object: the second entry is never used. */
static void remember(const struct known *object)
{
	uint32_t index = __atomic_fetch_add(&known_used, 1, __ATOMIC_RELAXED);

	if (index >= KNOWN_MAX) {
		__atomic_store_n(&known_used, KNOWN_MAX, __ATOMIC_RELAXED);
		return;
	}
	struct known *entry = &known[index];

	*entry = (struct known){
		0, object->end, object->map, object->bias, object->dynamic, object->unwind_header
	};
	__atomic_store_n(&entry->start, object->start, __ATOMIC_RELEASE);
}

/* Compares everything: malloc may give the next library the same link map. */
static bool is_loaded(long pid, const struct known *object)
{
	struct link_map entry = { 0 };
	struct known now;

	if (lookup_is_permanent((const struct libc_object *)object->map))
		return true;
	return read_safely(pid, object->map, &entry, sizeof entry) &&
	       describe(pid, object->map, &entry, &now) && now.start == object->start &&
	       now.end == object->end && now.bias == object->bias &&
	       now.dynamic == object->dynamic && now.unwind_header == object->unwind_header;
}

static bool recall(long pid, uintptr_t address, struct known *ret)
{
	uint32_t used = MIN(__atomic_load_n(&known_used, __ATOMIC_RELAXED), (uint32_t)KNOWN_MAX);

	for (uint32_t i = 0; i < used; i++) {
		uintptr_t start = __atomic_load_n(&known[i].start, __ATOMIC_ACQUIRE);

		if (start == 0 || address < start || address >= known[i].end)
			continue;
		*ret = known[i];
		ret->start = start;
		if (libc_is_musl() || is_loaded(pid, ret))
			return true;
		__atomic_store_n(&known[i].start, 0, __ATOMIC_RELAXED);
	}
	return false;
}

/* What is about to be loaded does not matter: the code on a stack is of an object that stays. */
static bool unloads_nothing(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* still, after what was read before */
	return libc_is_musl() ||
	       __atomic_load_n((const int *)&libc_debug()->r_state, __ATOMIC_ACQUIRE) != RT_DELETE;
}

static bool is_known(const struct link_map *map, const struct link_map *entry)
{
	uint32_t used = MIN(__atomic_load_n(&known_used, __ATOMIC_RELAXED), (uint32_t)KNOWN_MAX);

	for (uint32_t i = 0; i < used; i++) {
		if (__atomic_load_n(&known[i].start, __ATOMIC_ACQUIRE) != 0 &&
		    known[i].map == map && known[i].bias == entry->l_addr &&
		    known[i].dynamic == entry->l_ld)
			return true;
	}
	return false;
}

/* Remembers the objects that it passes, so that no later search describes them again. */
static bool search(long pid, uintptr_t address, struct known *ret)
{
	const struct r_debug *loader = libc_debug();
	const struct link_map *map =
		loader != NULL ? __atomic_load_n(&loader->r_map, __ATOMIC_ACQUIRE) : NULL;
	struct link_map entry = { 0 };

	for (uint32_t i = 0; map != NULL && i < OBJECTS_MAX && unloads_nothing(); i++) {
		if (!read_safely(pid, map, &entry, sizeof entry))
			return false;
		if (!is_known(map, &entry) && describe(pid, map, &entry, ret)) {
			bool found = address >= ret->start && address < ret->end;

			if (!unloads_nothing())
				return false;
			if (found || pid == AT_START || !libc_is_musl())
				remember(ret);
			if (found)
				return true;
		}
		map = entry.l_next;
	}
	return false;
}

static struct libc_found found_of(const struct known *object)
{
	return (struct libc_found){
		.object = (const struct libc_object *)object->map,
		.start = object->start,
		.end = object->end,
		.bias = object->bias,
		.dynamic = object->dynamic,
		.unwind_header = object->unwind_header,
	};
}

COLD static bool find_in_list(uintptr_t address, struct libc_found *ret)
{
	/* The lock of the modules may be held. The kernel only copies: it waits for nobody. */
	const struct lock *held = CHECKED ? check_lock_set_aside() : NULL;
	long pid = sys_may(SYS_READ | SYS_THREADS) ? sys_getpid() : -1; /* -1: nothing is read */
	struct known object;
	bool is_found = recall(pid, address, &object) || search(pid, address, &object);

	if (CHECKED)
		check_lock_put_back(held);
	if (!is_found)
		return false;
	*ret = found_of(&object);
	return true;
}

/* Looked up by name: a program linked with us may run with an older glibc. */
void libc_find_start(void)
{
	struct known last;

	libc_musl = &musl_debug != NULL ||
		    (debug_of_executable() != NULL && lookup_first(MUSL_DEBUG) != NULL);
	if (libc_is_musl() && __atomic_load_n(&known_used, __ATOMIC_RELAXED) == 0)
		search(AT_START, 0, &last);
	else if (!libc_is_musl())
		find_object =
			verify_is_old() ? NULL : (find_object_fn *)lookup_first("_dl_find_object");
}

bool libc_find_again(uintptr_t address, struct libc_found *ret)
{
	struct known object;

	if (!libc_is_musl())
		return libc_find(address, ret);
	if (!recall(AT_START, address, &object))
		return false;
	*ret = found_of(&object);
	return true;
}

bool libc_find(uintptr_t address, struct libc_found *ret)
{
	struct found_object found;

	if (find_object == NULL)
		return find_in_list(address, ret);
	if (find_object((void *)address, &found) != 0)
		return false;
	*ret = (struct libc_found){
		.object = (const struct libc_object *)found.map,
		.start = (uintptr_t)found.start,
		.end = (uintptr_t)found.end,
		.bias = found.map->l_addr,
		.dynamic = found.map->l_ld,
		.unwind_header = found.unwind_header,
	};
	return true;
}
