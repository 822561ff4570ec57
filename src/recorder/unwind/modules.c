/* SPDX-License-Identifier: Apache-2.0 */
/* The module log. See modules.h.
 *
 * Owns: LIVE_MODULES, written under rules_lock. own[] of an entry: the object's descriptor, its dynamic section, its unwind table,
 * and the segment that contains the table. An entry matches an object only if its addresses and all of these match: malloc may give
 * the next object the same descriptor. The low bits of the descriptor's address are enum object_flags.
 *
 * Facts that only the kernel knows are read before the lock is taken. The object is checked again under the lock, because ld.so may
 * have unloaded it in between. Invariant: no two entries that are not marked as unmapped overlap. An object that is loaded again at
 * the same address (same build id, same bias) reuses its entry. So a loop of dlopen and dlclose does not fill the table. */
#include "recorder/unwind/modules.h"

#include <elf.h>

#include "recorder/arch/scan.h"
#include "recorder/lookup.h"
#include "recorder/python/interpreter.h"
#include "recorder/sampling/mode.h"
#include "recorder/unwind/rules.h"
#include "recorder/sys.h"

enum object_flags { OBJECT_PERMANENT = 1, OBJECT_WATCHED = 2, OBJECT_FLAGS = 3 };
enum { OWN_OBJECT, OWN_DYNAMIC, OWN_EH_FRAME, OWN_SEGMENT };
enum { MODULE_IDS = 1 << 16, PATH_BYTES = 4 << 10 };

PROCESS_STATE uint32_t modules_generation = 1;
PROCESS_STATE uint32_t modules_unwatched;
static PROCESS_STATE bool any_watched, loads_missed;
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
	lookup_find_permanent();
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
	modules_unwatched = 0;
	any_watched = loads_missed = false;
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
	uint64_t bias = object->bias;
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
			end = object->bias + segment[i].p_vaddr + segment[i].p_filesz;
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

static const char *path_of(struct slot *slot, const struct libc_found *object, uint32_t *ret_bytes)
{
	const char *path = libc_path(object->object), *whole;

	if (path == NULL || path[0] == 0)
		path = executable;
	if (path[0] != '/' && (whole = path_of_mapping(slot, object)) != NULL)
		path = whole;
	*ret_bytes = 0;
	while (*ret_bytes < PATH_BYTES && path[*ret_bytes])
		++*ret_bytes;
	return path;
}

static void store_path(struct slot *slot, struct live_module *module,
		       const struct libc_found *object)
{
	uint32_t bytes;
	const char *path = path_of(slot, object, &bytes);
	uint64_t at = memory_append(LIVE_STRINGS, bytes, 1);

	if (at == UINT64_MAX)
		return; /* no memory: the object stays unnamed */
	__builtin_memcpy(memory.region[LIVE_STRINGS] + at, path, bytes);
	module->path_at = (uint32_t)at;
	module->path_bytes = bytes;
}

/* True if the table's header and both ends of its segment are readable, or a seccomp filter forbids the check. */
static bool is_readable_table(const struct cfi_table *table)
{
	return !sys_may(SYS_PROBE) ||
	       (sys_readable((uintptr_t)table->header) && sys_readable((uintptr_t)table->start) &&
		sys_readable((uintptr_t)table->end - 1));
}

/* Returns the loaded segment that contains the unwind information. The loader knows only the code range of a program with a hole between its
 * segments. */
static struct cfi_table find_unwind_table(const struct libc_found *object)
{
	struct cfi_table table = { .header = object->unwind_header };
	unsigned count;
	const Elf64_Phdr *segment = program_headers(object, &count);

	for (unsigned i = 0; i < count; i++) {
		uintptr_t at = object->bias + segment[i].p_vaddr;

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

static struct cfi_table no_unwind_table(uintptr_t start, uintptr_t end)
{
	return (struct cfi_table){ NULL, (const uint8_t *)start, (const uint8_t *)end };
}

/* Returns the unwind information, probed before its first read. Header NULL: none, and the range is that of the object. */
static struct cfi_table read_unwind_table(const struct libc_found *object)
{
	struct cfi_table table = find_unwind_table(object);

	if (table.header == NULL || table.header < table.start || table.header >= table.end ||
	    !is_readable_table(&table))
		return no_unwind_table(object->start, object->end);
	return table;
}

/* Packs the bytes of the segment before and after the table's header, 32 bits each. 0: no readable table. */
static uint64_t pack_segment(const struct cfi_table *table)
{
	if (table->header == NULL)
		return 0;
	return MIN((uint64_t)(table->header - table->start), (uint64_t)UINT32_MAX) << 32 |
	       MIN((uint64_t)(table->end - table->header), (uint64_t)UINT32_MAX);
}

static struct cfi_table unwind_table_of(uint32_t id)
{
	const struct live_module *known = memory_module(id);
	const uint64_t *own = known->own;
	const uint8_t *header = (const uint8_t *)own[OWN_EH_FRAME];

	if (own[OWN_SEGMENT] == 0)
		return no_unwind_table(known->start, known->end);
	return (struct cfi_table){ header, header - (own[OWN_SEGMENT] >> 32),
				   header + (uint32_t)own[OWN_SEGMENT] };
}

/* ---- watching ---- */

static bool is_first_definition(const char *name)
{
	return lookup_own(name) != NULL && lookup_before(name) == NULL;
}

bool modules_we_are_first(void)
{
	enum { UNKNOWN, NO, YES };
	static uint8_t known;
	uint8_t first = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (first == UNKNOWN) {
		first = is_first_definition("free") && is_first_definition("calloc") ? YES : NO;
		__atomic_store_n(&known, first, __ATOMIC_RELAXED);
	}
	return first == YES;
}

/* The loader calls the first definitions in the process. */
static bool loader_calls_us(void)
{
	return loader_bytes != 0 && modules_we_are_first();
}

/* True if every unloading gets to modules_loader_frees. Once the filter of frees is off, it stays off. */
static bool notices_frees(void)
{
	return loader_calls_us() && !sample_is_filtering();
}

bool modules_notice_loads(void)
{
	return libc_is_musl() || (loader_calls_us() && mode_is_exact() &&
				  !__atomic_load_n(&loads_missed, __ATOMIC_RELAXED));
}

void modules_miss_loads(void)
{
	__atomic_store_n(&loads_missed, true, __ATOMIC_RELAXED);
	__atomic_add_fetch(&modules_generation, 1, __ATOMIC_RELEASE);
}

/* The caller's stack has a frame in the object, so it is not unloaded before its entry is in the log. */
static uint64_t flags_of_object(const struct libc_object *object)
{
	if (lookup_is_permanent(object))
		return OBJECT_PERMANENT;
	return notices_frees() ? OBJECT_WATCHED : 0;
}

static uint64_t flags_of(const struct live_module *known)
{
	return __atomic_load_n(&known->own[OWN_OBJECT], __ATOMIC_RELAXED) & OBJECT_FLAGS;
}

static void add_unwatched(uint32_t count)
{
	__atomic_add_fetch(&modules_unwatched, count, __ATOMIC_RELAXED);
}

/* Sets OBJECT_WATCHED. Under the lock. */
static void watch(struct live_module *known)
{
	if (!(__atomic_fetch_or(&known->own[OWN_OBJECT], OBJECT_WATCHED, __ATOMIC_RELAXED) &
	      OBJECT_FLAGS))
		add_unwatched(UINT32_MAX);
	any_watched = true;
}

/* Makes the next walk verify the object. Any thread, without the lock. */
static void unwatch(struct live_module *known)
{
	if (__atomic_fetch_and(&known->own[OWN_OBJECT], ~(uint64_t)OBJECT_WATCHED,
			       __ATOMIC_RELAXED) &
	    OBJECT_WATCHED)
		add_unwatched(1);
}

/* ---- entries ---- */

static void describe(struct live_module *module, const struct libc_found *object)
{
	uint64_t flags = flags_of_object(object->object);
	struct cfi_table unwind = read_unwind_table(object);

	*module = (struct live_module){
		.start = object->start,
		.end = object->end,
		.bias = object->bias,
		.mapped_ms = clock_ms(),
		.own = { [OWN_OBJECT] = (uintptr_t)object->object | flags,
			 [OWN_DYNAMIC] = (uintptr_t)object->dynamic,
			 [OWN_EH_FRAME] = (uintptr_t)object->unwind_header,
			 [OWN_SEGMENT] = pack_segment(&unwind) },
	};
	read_build_id(object, module);
}

static bool same_object(const struct live_module *a, const struct live_module *b)
{
	return a->bias == b->bias && a->start == b->start && a->end == b->end &&
	       a->build_id_bytes != 0 && a->build_id_bytes == b->build_id_bytes &&
	       __builtin_memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

static bool is_loaded(const struct live_module *known)
{
	return __atomic_load_n(&known->unmapped_ms, __ATOMIC_ACQUIRE) == 0;
}

static bool has_descriptor(const struct live_module *known, const void *block)
{
	return (__atomic_load_n(&known->own[OWN_OBJECT], __ATOMIC_RELAXED) &
		~(uint64_t)OBJECT_FLAGS) == (uintptr_t)block &&
	       is_loaded(known);
}

static bool is_of(const struct live_module *known, const struct libc_found *object)
{
	return has_descriptor(known, object->object) &&
	       known->own[OWN_DYNAMIC] == (uintptr_t)object->dynamic &&
	       known->own[OWN_EH_FRAME] == (uintptr_t)object->unwind_header &&
	       known->start == object->start && known->end == object->end &&
	       known->bias == object->bias;
}

/* Returns the log entry of an object; 0: none. */
static uint32_t known_object(const struct libc_found *object)
{
	uint64_t used = memory_used(LIVE_MODULES);

	for (uint32_t id = 1; id < used; id++) {
		if (is_of(memory_module(id), object))
			return id;
	}
	return 0;
}

/* True if `block` is the descriptor of a loaded object in the log. */
static bool is_descriptor(const void *block)
{
	uint64_t used = memory_used(LIVE_MODULES);

	for (uint32_t id = 1; id < used; id++) {
		if (has_descriptor(memory_module(id), block))
			return true;
	}
	return false;
}

/* Marks an object as unmapped and invalidates its rules. Under the lock. */
static void mark_unmapped(struct live_module *known)
{
	watch(known); /* no longer counted as unwatched */
	__atomic_store_n(&known->unmapped_ms, MAX(clock_ms(), (uint64_t)1), __ATOMIC_RELAXED);
	rules_invalidate(known->start, known->end, false);
}

/* Marks objects whose addresses or descriptor another object has now. Never the executable: other objects may lie between its
 * segments. Under the lock. */
static void mark_replaced(const struct live_module *module)
{
	const void *executable_object = libc_first_object();
	const void *descriptor = (const void *)(module->own[OWN_OBJECT] & ~(uint64_t)OBJECT_FLAGS);

	for (uint32_t id = 1; id < memory_used(LIVE_MODULES); id++) {
		struct live_module *known = memory_module(id);
		bool overlaps = known->start < module->end && module->start < known->end;

		if (known->kind == LIVE_MODULE_ELF && is_loaded(known) &&
		    !has_descriptor(known, executable_object) &&
		    (overlaps || has_descriptor(known, descriptor)))
			mark_unmapped(known);
	}
}

/* Reuses the entry of an object that is back at its old address; 0: none. */
static uint32_t take_up_again(const struct live_module *module)
{
	for (uint32_t id = 1; id < memory_used(LIVE_MODULES); id++) {
		struct live_module *known = memory_module(id);

		if (known->unmapped_ms != 0 && same_object(known, module)) {
			__builtin_memcpy(known->own, module->own, sizeof known->own);
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

/* Counts a new or reused entry. Under the lock. */
static void count_watched(uint64_t flags)
{
	if (flags == 0)
		add_unwatched(1);
	else if (flags == OBJECT_WATCHED)
		any_watched = true;
}

/* Returns the entry for the object at pc: another thread's, its previous one, or, if the path is known, a new one. Rules in
 * its range for addresses that had no object before are invalidated. 0: none, or no memory. */
static uint32_t enter(struct slot *slot, uintptr_t pc, const struct live_module *module,
		      bool has_path)
{
	struct libc_found now;
	uint32_t id = 0;

	if (!lock_acquire(&rules_lock, slot->id))
		return 0;
	if (ask_after_lock(pc, &now) && is_of(module, &now) && (id = known_object(&now)) == 0) {
		mark_replaced(module);
		rules_invalidate(module->start, module->end, true);
		id = take_up_again(module);
		if (id == 0 && has_path)
			id = append(module);
		if (id != 0)
			count_watched(flags_of(module));
	}
	lock_release(&rules_lock);
	return id;
}

/* If two threads add the same object at once, one stored path is wasted. */
static uint32_t add(struct slot *slot, uintptr_t pc, const struct libc_found *object)
{
	struct live_module module;

	describe(&module, object);
	uint32_t id = enter(slot, pc, &module, false);

	if (id != 0)
		return id;
	python_look_at(object->object);
	memory_open(LIVE_MODULES, (memory_used(LIVE_MODULES) + 8) * sizeof module);
	store_path(slot, &module, object);
	return enter(slot, pc, &module, true);
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
	ret->bias = object.bias;
}

bool modules_is_of(uintptr_t pc, uint32_t id)
{
	struct libc_found object;

	if (!ask_after_lock(pc, &object))
		return id == 0;
	return id != 0 ? is_of(memory_module(id), &object) : known_object(&object) == 0;
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
	if (slot == NULL) {
		if (rules_have_orphans())
			modules_miss_loads();
		return;
	}
	if ((!is_being_added_to() && !rules_have_orphans()) || !lock_acquire(&rules_lock, slot->id))
		return;
	rules_invalidate(0, UINTPTR_MAX, true);
	lock_release(&rules_lock);
}

/* Marks the object with this descriptor as unmapped. If the lock is not available, the next walk verifies the object. */
COLD void modules_loader_frees(struct slot *slot, const void *block)
{
	if (slot == NULL && !any_watched)
		return; /* there may be no profile */
	if (!is_being_added_to() && !is_descriptor(block))
		return;
	bool locked = slot != NULL && lock_acquire(&rules_lock, slot->id);

	for (uint32_t id = 1; id < memory_used(LIVE_MODULES); id++) {
		if (has_descriptor(memory_module(id), block))
			(locked ? mark_unmapped : unwatch)(memory_module(id));
	}
	if (locked)
		lock_release(&rules_lock);
	else
		__atomic_add_fetch(&modules_generation, 1, __ATOMIC_RELEASE);
}

bool modules_is_watched(uint32_t id)
{
	return id != 0 ? flags_of(memory_module(id)) != 0 : modules_notice_loads();
}

/* Compares build IDs, or paths if there is no build ID. */
static bool is_unchanged(struct slot *slot, const struct live_module *known,
			 const struct libc_found *object)
{
	struct live_module now = { 0 };
	uint32_t bytes;

	read_build_id(object, &now);
	if (now.build_id_bytes != 0 || known->build_id_bytes != 0)
		return now.build_id_bytes == known->build_id_bytes &&
		       __builtin_memcmp(now.build_id, known->build_id, now.build_id_bytes) == 0;
	const char *path = path_of(slot, object, &bytes);

	return known->path_bytes == 0 ||
	       (bytes == known->path_bytes &&
		__builtin_memcmp(path, memory.region[LIVE_STRINGS] + known->path_at, bytes) == 0);
}

static void start_watching(struct slot *slot, struct live_module *known,
			   const struct libc_found *object)
{
	if (!lock_acquire(&rules_lock, slot->id))
		return;
	if (is_of(known, object))
		watch(known);
	lock_release(&rules_lock);
}

/* modules_verify of an address without an object. */
static bool verify_orphan(struct slot *slot, uintptr_t pc)
{
	struct libc_found object;

	if (modules_notice_loads() || !libc_find(pc, &object))
		return true;
	if (lock_acquire(&rules_lock, slot->id)) {
		rules_invalidate(object.start, object.end, true);
		lock_release(&rules_lock);
	}
	return false;
}

COLD bool modules_verify(struct slot *slot, uintptr_t pc, uint32_t id)
{
	struct live_module *known = memory_module(id);
	struct libc_found object;

	if (id == 0)
		return verify_orphan(slot, pc);
	if (flags_of(known) != 0 && is_loaded(known))
		return true;
	bool watched = notices_frees();

	if (libc_find(pc, &object) && is_of(known, &object) && is_unchanged(slot, known, &object)) {
		if (watched)
			start_watching(slot, known, &object);
		return true;
	}
	if (lock_acquire(&rules_lock, slot->id)) {
		mark_unmapped(known);
		lock_release(&rules_lock);
	}
	return false;
}

const char *modules_file_of(const void *address)
{
	struct libc_found object;

	if (!libc_find((uintptr_t)address, &object))
		return "";
	const char *path = libc_path(object.object);

	return path[0] ? path : executable;
}
