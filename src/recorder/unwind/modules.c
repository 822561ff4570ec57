/* SPDX-License-Identifier: Apache-2.0 */
/* The module log. See modules.h.
 *
 * Owns: LIVE_MODULES, written under rules_lock. own[] of an entry: its object, its unwind table, and the segment that contains
 * the table. Facts that only the kernel knows are read before the lock is taken; under the lock the object is checked again,
 * because ld.so may have unloaded it meanwhile. Invariant: no two entries that are not marked as unmapped overlap. An object
 * that is loaded again at the same address (same build id, same bias) gets its old entry back, so that a loop of dlopen and
 * dlclose does not fill the table. */
#include "recorder/unwind/modules.h"

#include <elf.h>

#include "recorder/arch/scan.h"
#include "recorder/lookup.h"
#include "recorder/python/interpreter.h"
#include "recorder/unwind/rules.h"
#include "recorder/sys.h"

enum { OWN_OBJECT, OWN_EH_FRAME, OWN_START, OWN_END };
enum { MODULE_IDS = 1 << 16, PATH_BYTES = 4 << 10 };

PROCESS_STATE uint32_t modules_generation = 1;
uintptr_t loader_start, loader_bytes;
uintptr_t recorder_start, recorder_bytes;

static char executable[PATH_BYTES]; /* zero-terminated */
static struct { /* from the kernel; asking libc again would cost a forked child two pages */
	uintptr_t headers;
	uint64_t count, entry_bytes;
	bool has_loader;
} program;

void modules_extent(const void *address, uintptr_t *ret_start, uintptr_t *ret_bytes)
{
	struct libc_found object;

	if (!libc_find((uintptr_t)address, &object))
		return;
	*ret_start = object.start;
	*ret_bytes = object.end - object.start;
}

static void find_recorder(void)
{
	if (modules_is_linked_in()) {
		recorder_start = (uintptr_t)recorder_code_begin;
		recorder_bytes = (uintptr_t)(recorder_code_end - recorder_code_begin);
		return;
	}
	modules_extent((const void *)(uintptr_t)modules_find_loader, &recorder_start,
		       &recorder_bytes);
}

void modules_find_loader(void)
{
	libc_find_start();
	if (libc_loader_function() != NULL)
		modules_extent(lookup_first(libc_loader_function()), &loader_start, &loader_bytes);
	find_recorder();
}

bool modules_same(const void *a, const void *b)
{
	uintptr_t start = 0, bytes = 0;

	if (a == NULL || b == NULL)
		return false;
	modules_extent(a, &start, &bytes);
	return (uintptr_t)b - start < bytes;
}

/* If started as "ld.so program", the kernel's executable is ld.so and the program is the first argument. */
static void name_from_arguments(void)
{
	const char *const *arguments = (const char *const *)(libc_argument_count() + 1);
	const char *name = arguments[0];
	uint32_t bytes = 0;

	for (; name != NULL && name[bytes] && bytes < PATH_BYTES - 1; bytes++)
		executable[bytes] = name[bytes];
	executable[bytes] = 0;
}

void modules_start(void)
{
	long bytes = sys_readlink("/proc/self/exe", executable, PATH_BYTES - 1);

	executable[sys_failed(bytes) ? 0 : bytes] = 0;
	program.headers = sys_auxiliary(AT_PHDR);
	program.count = sys_auxiliary(AT_PHNUM);
	program.entry_bytes = sys_auxiliary(AT_PHENT);
	program.has_loader = sys_auxiliary(AT_BASE) != 0;
	if (!program.has_loader)
		name_from_arguments();
	if (libc_is_musl())
		arch_scan_start();
}

void modules_reset(void)
{
	__atomic_add_fetch(&modules_generation, 1, __ATOMIC_RELAXED);
}

/* True if [at, at + bytes) is readable: for headers and notes, which are small. */
static bool readable(uintptr_t at, uint64_t bytes)
{
	enum { BYTES_MAX = 64 * 1024 };

	if (bytes > BYTES_MAX || at > UINTPTR_MAX - BYTES_MAX)
		return false;
	for (uintptr_t page = at & ~(uintptr_t)(ARCH_PAGE - 1); page < at + bytes;
	     page += ARCH_PAGE) {
		if (!sys_readable(page))
			return false;
	}
	return true;
}

/* Searches one note segment for the build id. */
static bool build_id_in(const char *at, uint64_t bytes, struct live_module *module)
{
	const char *end = at + bytes;

	while (end - at >= (long)sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *note = (const Elf64_Nhdr *)(const void *)at;
		uint64_t name_bytes = ((uint64_t)note->n_namesz + 3) & ~3ull;
		uint64_t value_bytes = ((uint64_t)note->n_descsz + 3) & ~3ull;
		const char *name = at + sizeof *note;

		if (name_bytes + value_bytes > (uint64_t)(end - name))
			return false;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    __builtin_memcmp(name, "GNU", 4) == 0 &&
		    note->n_descsz <= sizeof module->build_id) {
			__builtin_memcpy(module->build_id, name + name_bytes, note->n_descsz);
			module->build_id_bytes = note->n_descsz;
			return true;
		}
		at = name + name_bytes + value_bytes;
	}
	return false;
}

/* Returns the program headers; ret_count 0: unreadable. The kernel provides those of the program. Those of objects mapped by
 * ld.so are usually in the first loaded page, but need not be. */
static const Elf64_Phdr *program_headers(const struct libc_found *object, unsigned *ret_count)
{
	uintptr_t base = object->start, at = program.headers;
	uint64_t count = program.count, bytes = program.entry_bytes;

	*ret_count = 0;
	if (!program.has_loader || !libc_is_executable(object->object)) {
		const Elf64_Ehdr *elf = (const Elf64_Ehdr *)base;

		if (!readable(base, sizeof *elf) ||
		    __builtin_memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0)
			return NULL;
		at = base + elf->e_phoff;
		count = elf->e_phnum;
		bytes = elf->e_phentsize;
	}
	if (bytes != sizeof(Elf64_Phdr) || !readable(at, count * sizeof(Elf64_Phdr)))
		return NULL;
	*ret_count = (unsigned)count;
	return (const Elf64_Phdr *)at;
}

static void read_build_id(const struct libc_found *object, struct live_module *module)
{
	uint64_t bias = libc_bias(object->object);
	unsigned count;
	const Elf64_Phdr *segment = program_headers(object, &count);

	for (unsigned i = 0; i < count; i++) {
		uintptr_t at = bias + segment[i].p_vaddr;

		if (segment[i].p_type == PT_NOTE && readable(at, segment[i].p_memsz) &&
		    build_id_in((const char *)at, segment[i].p_memsz, module))
			return;
	}
}

static char *write_hex(char *to, uintptr_t number)
{
	int digits = 1;

	while (digits < 16 && number >> (4 * digits) != 0)
		digits++;
	while (digits-- > 0)
		*to++ = "0123456789abcdef"[number >> (4 * digits) & 15];
	return to;
}

/* Returns the absolute path of an object that was opened by a path relative to the working directory of that time: the kernel
 * knows it. NULL: not available. */
static const char *path_of_mapping(struct slot *slot, const struct libc_found *object)
{
	char link[64] = "/proc/self/map_files/";
	uintptr_t start = object->start, end = 0;
	unsigned count;
	const Elf64_Phdr *segment = program_headers(object, &count);

	for (unsigned i = 0; i < count && end == 0; i++) {
		if (segment[i].p_type == PT_LOAD)
			end = libc_bias(object->object) + segment[i].p_vaddr + segment[i].p_filesz;
	}
	char *to = write_hex(link + sizeof "/proc/self/map_files/" - 1, start);

	*to++ = '-';
	*write_hex(to, memory_pages(end)) = 0;
	if (slot->path_area == NULL)
		slot->path_area = memory_scratch(PATH_BYTES);
	char *path = slot->path_area;

	if (end == 0 || path == NULL || !sys_may(SYS_OTHERS))
		return NULL;
	long bytes = sys_readlink(link, path, PATH_BYTES - 1);

	path[sys_failed(bytes) ? 0 : bytes] = 0;
	return path[0] == '/' ? path : NULL;
}

static void store_path(struct slot *slot, struct live_module *module,
		       const struct libc_found *object)
{
	const char *path = libc_path(object->object), *whole;
	uint32_t bytes = 0;

	if (path == NULL || path[0] == 0)
		path = executable;
	if (path[0] != '/' && (whole = path_of_mapping(slot, object)) != NULL)
		path = whole;
	while (bytes < PATH_BYTES && path[bytes])
		bytes++;
	uint64_t at = memory_append(LIVE_STRINGS, bytes, 1);

	if (at == UINT64_MAX)
		return; /* no memory: the object stays unnamed */
	__builtin_memcpy(memory.region[LIVE_STRINGS] + at, path, bytes);
	module->path_at = (uint32_t)at;
	module->path_bytes = bytes;
}

/* The unwind information, with the loaded segment that contains it. The loader knows only the code range of a program with a
 * hole between its segments. */
static struct cfi_table read_unwind_table(const struct libc_found *object)
{
	struct cfi_table table = { .header = object->unwind_header };
	unsigned count;
	const Elf64_Phdr *segment = program_headers(object, &count);

	for (unsigned i = 0; i < count; i++) {
		uintptr_t at = libc_bias(object->object) + segment[i].p_vaddr;

		if (segment[i].p_type == PT_LOAD && (segment[i].p_flags & PF_R) &&
		    (uintptr_t)table.header - at < segment[i].p_filesz) {
			table.start = (const uint8_t *)at;
			table.end = table.start + segment[i].p_filesz;
			return table;
		}
	}
	table.start = (const uint8_t *)object->start;
	table.end = (const uint8_t *)object->end;
	return table;
}

static void describe(struct live_module *module, const struct libc_found *object)
{
	struct cfi_table unwind = read_unwind_table(object);

	*module = (struct live_module){
		.start = object->start,
		.end = object->end,
		.bias = libc_bias(object->object),
		.mapped_ms = clock_ms(),
		.own = { [OWN_OBJECT] = (uintptr_t)object->object,
			 [OWN_EH_FRAME] = (uintptr_t)unwind.header,
			 [OWN_START] = (uintptr_t)unwind.start,
			 [OWN_END] = (uintptr_t)unwind.end },
	};
	read_build_id(object, module);
}

static bool same_object(const struct live_module *a, const struct live_module *b)
{
	return a->bias == b->bias && a->start == b->start && a->end == b->end &&
	       a->build_id_bytes != 0 && a->build_id_bytes == b->build_id_bytes &&
	       __builtin_memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

static bool is_of(const struct live_module *known, const void *loaded)
{
	return __atomic_load_n(&known->unmapped_ms, __ATOMIC_ACQUIRE) == 0 &&
	       known->own[OWN_OBJECT] == (uintptr_t)loaded;
}

/* Returns the entry of the object with the loader's descriptor `loaded`, starting at an id; 0: none. */
static uint32_t object_of(const void *loaded, uint32_t id)
{
	uint64_t used = memory_used(LIVE_MODULES);

	for (; id < used; id++) {
		if (is_of(memory_module(id), loaded))
			return id;
	}
	return 0;
}

/* Returns the log entry of an object; 0: none. */
static uint32_t known_object(const struct libc_found *object)
{
	return object_of(object->object, 1);
}

/* Reuses the entry of an object that is back at its old address; 0: none. */
static uint32_t take_up_again(const struct live_module *module)
{
	for (uint32_t id = 1; id < memory_used(LIVE_MODULES); id++) {
		struct live_module *known = memory_module(id);

		if (known->unmapped_ms != 0 && same_object(known, module)) {
			/* The unwind table is unchanged: the same object at the same address. */
			known->own[OWN_OBJECT] = module->own[OWN_OBJECT];
			__atomic_store_n(&known->unmapped_ms, 0, __ATOMIC_RELEASE);
			return id;
		}
	}
	return 0;
}

/* A new entry; 0: no memory. */
static uint32_t append(const struct live_module *module)
{
	uint64_t used = MAX(memory_used(LIVE_MODULES), UINT64_C(1)); /* 0 is not a module */

	if (used >= MODULE_IDS || (used + 1) * sizeof *module > memory_opened(LIVE_MODULES)) {
		health_add(HEALTH_lost_modules);
		return 0;
	}
	*memory_module((uint32_t)used) = *module;
	__atomic_store_n(&memory.head->used[LIVE_MODULES], used + 1, __ATOMIC_RELEASE);
	return (uint32_t)used;
}

/* libc_find under rules_lock. The loader takes no lock of ours: of its change and our lock, each side stores its own before it looks for
 * the other's (is_being_added_to). */
static bool ask_after_lock(uintptr_t pc, struct libc_found *ret)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return libc_find_again(pc, ret);
}

static bool is_there_still(uintptr_t pc, const struct libc_found *object)
{
	struct libc_found now;

	return ask_after_lock(pc, &now) && now.object == object->object &&
	       now.start == object->start;
}

/* Returns the entry for the object at pc: another thread's, its previous one, or, if the path is known, a new one. Rules in
 * its range for addresses that had no object before are invalidated. 0: none, or no memory. */
static uint32_t enter(struct slot *slot, uintptr_t pc, const struct libc_found *object,
		      const struct live_module *module, bool has_path)
{
	uint32_t id = 0;

	if (!lock_acquire(&rules_lock, slot->id))
		return 0;
	if (is_there_still(pc, object) && (id = known_object(object)) == 0) {
		rules_invalidate(module->start, module->end, true);
		id = take_up_again(module);
		if (id == 0 && has_path)
			id = append(module);
	}
	lock_release(&rules_lock);
	return id;
}

/* If two threads add the same object at once, one stored path is wasted. */
static uint32_t add(struct slot *slot, uintptr_t pc, const struct libc_found *object)
{
	struct live_module module;

	describe(&module, object);
	uint32_t id = enter(slot, pc, object, &module, false);

	if (id != 0)
		return id;
	python_look_at(object->object);
	memory_open(LIVE_MODULES, (memory_used(LIVE_MODULES) + 8) * sizeof module);
	store_path(slot, &module, object);
	return enter(slot, pc, object, &module, true);
}

uint32_t modules_add_file(struct slot *slot, uint32_t path_at, uint32_t path_bytes)
{
	const struct live_module file = { .kind = LIVE_MODULE_PYTHON,
					  .mapped_ms = clock_ms(),
					  .path_at = path_at,
					  .path_bytes = path_bytes };
	uint32_t id = 0;

	memory_open(LIVE_MODULES, (memory_used(LIVE_MODULES) + 8) * sizeof file);
	if (lock_acquire(&rules_lock, slot->id)) {
		id = append(&file);
		lock_release(&rules_lock);
	}
	return id;
}

static struct cfi_table unwind_table_of(uint32_t id)
{
	const uint64_t *own = memory_module(id)->own;

	return (struct cfi_table){ (const uint8_t *)own[OWN_EH_FRAME],
				   (const uint8_t *)own[OWN_START], (const uint8_t *)own[OWN_END] };
}

void modules_find(struct slot *slot, uintptr_t pc, struct module_found *ret)
{
	struct libc_found object;

	*ret = (struct module_found){ 0 };
	if (!libc_find(pc, &object))
		return;
	ret->id = known_object(&object);
	if (ret->id == 0)
		ret->id = add(slot, pc, &object);
	if (ret->id == 0)
		return;
	ret->unwind = unwind_table_of(ret->id);
	ret->bias = libc_bias(object.object);
}

bool modules_is_of(uintptr_t pc, uint32_t id)
{
	struct libc_found object;

	if (!ask_after_lock(pc, &object))
		return id == 0;
	return id != 0 ? is_of(memory_module(id), object.object) : known_object(&object) == 0;
}

struct cfi_table modules_unwind_table(uintptr_t pc)
{
	struct libc_found object;

	if (!libc_find(pc, &object))
		return (struct cfi_table){ 0 };
	uint32_t id = known_object(&object);

	return id != 0 ? unwind_table_of(id) : read_unwind_table(&object);
}

/* True if another thread may be adding rules or objects right now, unaware of what the loader has done. If not, that thread asks the
 * loader after this: ask_after_lock. */
static bool is_being_added_to(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return lock_is_held(&rules_lock);
}

COLD void modules_loader_allocates(struct slot *slot)
{
	if ((!is_being_added_to() && !rules_have_orphans()) || !lock_acquire(&rules_lock, slot->id))
		return;
	rules_invalidate(0, UINTPTR_MAX, true);
	lock_release(&rules_lock);
}

COLD void modules_loader_frees(struct slot *slot, const void *block)
{
	if ((!is_being_added_to() && object_of(block, 1) == 0) ||
	    !lock_acquire(&rules_lock, slot->id))
		return;
	for (uint32_t id = 0; (id = object_of(block, id + 1)) != 0;) {
		struct live_module *known = memory_module(id);

		__atomic_store_n(&known->unmapped_ms, MAX(clock_ms(), (uint64_t)1),
				 __ATOMIC_RELAXED);
		rules_invalidate(known->start, known->end, false);
	}
	lock_release(&rules_lock);
}

const char *modules_file_of(const void *address)
{
	struct libc_found object;

	if (!libc_find((uintptr_t)address, &object))
		return "";
	const char *path = libc_path(object.object);

	return path[0] ? path : executable;
}
