/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Infers types from the TABLE of containers below.
 *
 * The walk goes from the innermost frame outwards. The first container found owns the block; outer
 * frames may only refine it: the public class of an internal one, or a container built on it (a String
 * is built on a Vec, which is built on a RawVec). So a string copied by a vector of strings is a
 * string, not a vector. The walk ends at the program's own code, or where a container constructs an
 * element.
 *
 * Each location is classified at most once.
 */
#include "analysis/result/types.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/result/type_names.h"
#include "base/compiler.h"
#include "util/intern.h"
#include "util/vector.h"

enum { ARGUMENTS_MAX = 8 };

enum family {
	NONE,
	ALLOCATOR, /* only the element type is known: any outer frame refines it */
	VECTOR,
	DEQUE,
	LIST,
	TREE,
	HASH,
	STRING,
	SHARED,
	FUNCTION,
	OTHER,
	RAW_VEC,
	VEC,
	BOX,
	RAW_TABLE,
	HASH_MAP,
	HASH_SET,
	B_TREE,
	ELEMENT, /* a container constructs an element: ends the walk */
	MADE,	 /* the type of a single object: ends the walk */
};

/* How to build the type from the template arguments. */
enum form {
	PLAIN,	    /* the name alone */
	ONE,	    /* name<first> */
	TWO,	    /* name<first, second> */
	FIRST,	    /* the first argument itself */
	TREE_NODES, /* <key, value, ...>: a map if the value is a pair, else a set */
	HASH_NODES,
	COUNTED, /* make_shared for shared objects, else an allocator */
};

struct type_row {
	const char *name;  /* prefix of the function's name */
	const char *shown; /* name to show */
	enum form form;
	enum family family, made_of;
	bool internal; /* the public class is more informative */
};

static const struct type_row rows[] = {
	/* C++: libstdc++, libc++ */
	{ "std::__new_allocator", "std::allocator", COUNTED, ALLOCATOR, NONE, true },
	{ "__gnu_cxx::new_allocator", "std::allocator", COUNTED, ALLOCATOR, NONE, true },
	{ "std::allocator", "std::allocator", COUNTED, ALLOCATOR, NONE, true },
	{ "std::vector", "std::vector", ONE, VECTOR, NONE, false },
	{ "std::_Vector_base", "std::vector", ONE, VECTOR, NONE, true },
	{ "std::_Bvector_base", "std::vector<bool>", PLAIN, VECTOR, NONE, true },
	{ "std::__split_buffer", "std::vector", ONE, VECTOR, NONE, true },
	{ "std::priority_queue", "std::priority_queue", ONE, OTHER, VECTOR, false },
	{ "std::deque", "std::deque", ONE, DEQUE, NONE, false },
	{ "std::_Deque_base", "std::deque", ONE, DEQUE, NONE, true },
	{ "std::queue", "std::queue", ONE, OTHER, DEQUE, false },
	{ "std::stack", "std::stack", ONE, OTHER, DEQUE, false },
	{ "std::list", "std::list", ONE, LIST, NONE, false },
	{ "std::_List_base", "std::list", ONE, LIST, NONE, true },
	{ "std::__list_imp", "std::list", ONE, LIST, NONE, true },
	{ "std::forward_list", "std::forward_list", ONE, LIST, NONE, false },
	{ "std::_Fwd_list_base", "std::forward_list", ONE, LIST, NONE, true },
	{ "std::map", "std::map", TWO, TREE, NONE, false },
	{ "std::multimap", "std::multimap", TWO, TREE, NONE, false },
	{ "std::set", "std::set", ONE, TREE, NONE, false },
	{ "std::multiset", "std::multiset", ONE, TREE, NONE, false },
	{ "std::_Rb_tree", "std::", TREE_NODES, TREE, NONE, true },
	{ "std::__tree", "std::__tree", ONE, TREE, NONE, true },
	{ "std::unordered_map", "std::unordered_map", TWO, HASH, NONE, false },
	{ "std::unordered_multimap", "std::unordered_multimap", TWO, HASH, NONE, false },
	{ "std::unordered_set", "std::unordered_set", ONE, HASH, NONE, false },
	{ "std::unordered_multiset", "std::unordered_multiset", ONE, HASH, NONE, false },
	{ "std::_Hashtable", "std::unordered_", HASH_NODES, HASH, NONE, true },
	{ "std::__detail::_Map_base", "std::unordered_", HASH_NODES, HASH, NONE, true },
	{ "std::__detail::_Hashtable_alloc", "std::unordered_map or set", PLAIN, HASH, NONE, true },
	{ "std::__hash_table", "std::__hash_table", ONE, HASH, NONE, true },
	{ "std::basic_string", "std::basic_string", ONE, STRING, NONE, false },
	{ "std::string", "std::string", PLAIN, STRING, NONE, false },
	{ "std::basic_stringbuf", "std::stringstream", PLAIN, OTHER, STRING, false },
	{ "std::filesystem::path", "std::filesystem::path", PLAIN, OTHER, STRING, false },
	{ "std::basic_filebuf", "std::fstream", PLAIN, OTHER, NONE, false },
	{ "std::__shared_count", "std::shared_ptr", PLAIN, SHARED, NONE, true },
	{ "std::__shared_ptr", "std::shared_ptr", ONE, SHARED, NONE, true },
	{ "std::shared_ptr", "std::shared_ptr", ONE, SHARED, NONE, true },
	{ "std::make_shared", "std::make_shared", ONE, SHARED, SHARED, false },
	{ "std::allocate_shared", "std::allocate_shared", ONE, SHARED, SHARED, false },
	{ "std::make_unique", "", FIRST, MADE, NONE, false },
	{ "std::_Function_base", "std::function", PLAIN, FUNCTION, NONE, true },
	{ "std::_Function_handler", "std::function", ONE, FUNCTION, NONE, true },
	{ "std::function", "std::function", ONE, FUNCTION, NONE, false },
	{ "std::thread", "std::thread", PLAIN, OTHER, NONE, false },
	{ "std::promise", "std::promise", ONE, OTHER, SHARED, false },
	{ "std::_Construct", "", PLAIN, ELEMENT, NONE, false },
	{ "std::construct_at", "", PLAIN, ELEMENT, NONE, false },
	{ "std::__construct_at", "", PLAIN, ELEMENT, NONE, false },
	{ "std::uninitialized_copy", "", PLAIN, ELEMENT, NONE, false },
	{ "std::uninitialized_fill", "", PLAIN, ELEMENT, NONE, false },
	{ "std::uninitialized_fill_n", "", PLAIN, ELEMENT, NONE, false },

	/* Rust: alloc, std, hashbrown */
	{ "alloc::raw_vec::RawVecInner", "Vec<_>", PLAIN, RAW_VEC, NONE, true },
	{ "alloc::raw_vec::RawVec", "Vec", ONE, RAW_VEC, NONE, true },
	{ "alloc::vec::Vec", "Vec", ONE, VEC, RAW_VEC, false },
	{ "alloc::string::String", "String", PLAIN, STRING, VEC, false },
	{ "std::path::PathBuf", "PathBuf", PLAIN, OTHER, VEC, false },
	{ "std::ffi::os_str::OsString", "OsString", PLAIN, OTHER, VEC, false },
	{ "alloc::ffi::c_str::CString", "CString", PLAIN, OTHER, VEC, false },
	{ "alloc::collections::binary_heap::BinaryHeap", "BinaryHeap", ONE, OTHER, VEC, false },
	{ "alloc::collections::vec_deque::VecDeque", "VecDeque", ONE, DEQUE, RAW_VEC, false },
	{ "alloc::boxed::Box", "Box", ONE, BOX, NONE, true },
	{ "alloc::rc::Rc", "Rc", ONE, SHARED, BOX, false },
	{ "alloc::sync::Arc", "Arc", ONE, SHARED, BOX, false },
	{ "alloc::collections::linked_list::LinkedList", "LinkedList", ONE, LIST, BOX, false },
	{ "alloc::collections::btree::node", "BTreeMap<_, _>", PLAIN, B_TREE, BOX, true },
	{ "alloc::collections::btree::map::BTreeMap", "BTreeMap", TWO, B_TREE, BOX, false },
	{ "alloc::collections::btree::set::BTreeSet", "BTreeSet", ONE, OTHER, B_TREE, false },
	{ "hashbrown::raw::RawTableInner", "HashMap<_, _>", PLAIN, RAW_TABLE, NONE, true },
	{ "hashbrown::raw::RawTable", "HashMap<_, _>", PLAIN, RAW_TABLE, NONE, true },
	{ "hashbrown::map::HashMap", "HashMap", TWO, HASH_MAP, RAW_TABLE, true },
	{ "std::collections::hash::map::HashMap", "HashMap", TWO, HASH_MAP, RAW_TABLE, false },
	{ "hashbrown::set::HashSet", "HashSet", ONE, HASH_SET, HASH_MAP, true },
	{ "std::collections::hash::set::HashSet", "HashSet", ONE, HASH_SET, HASH_MAP, false },
};

/* The classification of a location. */
struct said {
	bool known;
	const struct type_row *row; /* NULL: no container */
	uint32_t type;
};

struct types {
	struct locations *locations;
	struct intern texts;
	VECTOR(const char *) names; /* by type number */
	VECTOR(struct said) said;   /* by location id */
};

struct types *types_new(struct locations *locations)
{
	struct types *types = calloc(1, sizeof *types);

	if (!types)
		return NULL;
	types->locations = locations;
	if (!vector_push(&types->names, TYPE_UNKNOWN)) {
		types_free(types);
		return NULL;
	}
	return types;
}

void types_free(struct types *types)
{
	if (!types)
		return;
	vector_release(&types->said);
	vector_release(&types->names);
	intern_release(&types->texts);
	free(types);
}

/* "T", "K", "A2": a generic parameter. */
static bool is_parameter(struct span type)
{
	if (type.size == 0 || type.size > 2 || !isupper(type.data[0]))
		return false;
	return type.size == 1 || isdigit(type.data[1]);
}

/*
 * Substitutes generic parameters: a function's parameter list starts with those of its type, in the
 * same order. Unknown ones become "_".
 */
static void replace_parameters(struct span *arguments, size_t count, const char *known)
{
	struct span list[ARGUMENTS_MAX];
	size_t listed =
		known ? name_arguments(span_of(known, strlen(known)), list, ARGUMENTS_MAX) : 0;

	for (size_t i = 0, next = 0; i < count; i++) {
		if (!is_parameter(arguments[i]))
			continue;
		arguments[i] = next < listed ? list[next] : span_of("_", 1);
		next++;
	}
}

static struct span argument(const struct span *arguments, size_t count, size_t index)
{
	return index < count ? arguments[index] : span_of("_", 1);
}

/* "std::map<K, V>" for a tree or hash table of std::pair<K const, V>, "std::set<K>" for any other. */
static void append_nodes(struct buffer *out, const char *shown, const struct span *arguments,
			 size_t count)
{
	struct span value = argument(arguments, count, 1), pair[2];
	size_t begin = name_begins(value, "std::pair");
	bool is_map = begin &&
		      name_arguments(span_of(value.data + begin, value.size - begin), pair, 2) == 2;

	buffer_printf(out, "%s%s<", shown, is_map ? "map" : "set");
	type_append(out, argument(arguments, count, 0));
	if (is_map) {
		buffer_text(out, ", ");
		type_append(out, pair[1]);
	}
	buffer_char(out, '>');
}

static void append_counted(struct buffer *out, const char *shown, struct span element)
{
	size_t begin = name_begins(element, "std::_Sp_counted_ptr_inplace");
	struct span object;

	if (begin &&
	    name_arguments(span_of(element.data + begin, element.size - begin), &object, 1)) {
		shown = "std::make_shared";
		element = object;
	}
	buffer_printf(out, "%s<", shown);
	type_append(out, element);
	buffer_char(out, '>');
}

static void append_shown(struct buffer *out, const struct type_row *row, struct span list,
			 const char *known)
{
	struct span arguments[ARGUMENTS_MAX];
	size_t count = name_arguments(list, arguments, ARGUMENTS_MAX);

	replace_parameters(arguments, count, known);
	struct span first = argument(arguments, count, 0);

	switch (row->form) {
	case PLAIN:
		buffer_text(out, row->shown);
		break;
	case ONE:
		if (row->family == STRING && name_begins(first, "char") == first.size) {
			buffer_text(out, "std::string");
			break;
		}
		buffer_printf(out, "%s<", row->shown);
		type_append(out, first);
		buffer_char(out, '>');
		break;
	case TWO:
		buffer_printf(out, "%s<", row->shown);
		type_append(out, first);
		buffer_text(out, ", ");
		type_append(out, argument(arguments, count, 1));
		buffer_char(out, '>');
		break;
	case FIRST:
		type_append(out, first);
		break;
	case TREE_NODES:
	case HASH_NODES:
		append_nodes(out, row->shown, arguments, count);
		break;
	case COUNTED:
		append_counted(out, row->shown, first);
		break;
	}
}

/* Offset of the last component of a qualified name. */
static size_t last_part(struct span name)
{
	const char *text = (const char *)name.data;
	size_t depth = 0, last = 0;

	for (size_t at = 0; at + 1 < name.size; at++) {
		if (text[at] == '<' || text[at] == '(' || text[at] == '{')
			depth++;
		else if ((text[at] == '>' || text[at] == ')' || text[at] == '}') && depth > 0)
			depth--;
		else if (depth == 0 && text[at] == ':' && text[at + 1] == ':')
			last = at + 2;
	}
	return last;
}

/* Length of a name without its template arguments. */
static size_t bare_bytes(struct span name)
{
	const uint8_t *list = name.size ? memchr(name.data, '<', name.size) : NULL;

	return list ? (size_t)(list - name.data) : name.size;
}

/* "Owner::Owner" is a constructor, "Pooled::operator new" allocates a Pooled. False: neither. */
static bool append_of_class(struct buffer *out, struct span name)
{
	size_t at = last_part(name);
	struct span method = span_of(name.data + at, name.size - at);

	if (at < 3)
		return false;
	struct span owner = span_of(name.data, at - 2);
	size_t outer = last_part(owner);
	struct span simple = span_of(owner.data + outer, owner.size - outer);

	if (name_begins(method, "operator new") || name_begins(method, "operator new[]")) {
		type_append(out, owner);
		return true;
	}
	if (bare_bytes(simple) == 0 || bare_bytes(simple) != bare_bytes(method) ||
	    memcmp(simple.data, method.data, bare_bytes(simple)) != 0)
		return false;
	buffer_text(out, "inside ");
	type_append(out, owner);
	return true;
}

/* The intern entry's value is the type number; 0 is reserved for TYPE_UNKNOWN. */
static bool number_of(struct types *types, struct span text, uint32_t *ret)
{
	struct intern_entry *entry = intern_entry(&types->texts, text);

	if (!entry)
		return false;
	if (!entry->value) {
		if (!vector_push(&types->names, entry->text))
			return false;
		entry->value = (void *)(uintptr_t)(types->names.count - 1);
	}
	*ret = (uint32_t)(uintptr_t)entry->value;
	return true;
}

static bool ask(struct types *types, const struct location *location, struct said *said)
{
	static const struct type_row of_class = { .family = MADE };
	struct span name = name_qualified(location->frame.full), subject = name_subject(name);
	struct buffer out = BUFFER_INIT;

	*said = (struct said){ .known = true };
	if (location->nameless)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(rows) && !said->row; i++) {
		size_t begin = name_begins(subject, rows[i].name);

		if (!begin)
			continue;
		said->row = &rows[i];
		append_shown(&out, said->row, span_of(subject.data + begin, subject.size - begin),
			     location->arguments);
	}
	if (!said->row && !location->runtime_frame && append_of_class(&out, name))
		said->row = &of_class;
	bool done = !out.failed && (!said->row || number_of(types, buffer_span(&out), &said->type));

	buffer_release(&out);
	return done;
}

static const struct said *said_by(struct types *types, const struct location *location)
{
	static const struct said unknown = { 0 };
	size_t id = location->frame.id;

	while (types->said.count <= id)
		if (!vector_push(&types->said, unknown))
			return NULL;
	struct said *said = &types->said.at[id];

	return said->known || ask(types, location, said) ? said : NULL;
}

/* Methods with such a name construct an element in place. */
static bool constructs(const struct location *location)
{
	struct span name = name_qualified(location->frame.full);
	size_t at = last_part(name);

	return name_begins(span_of(name.data + at, name.size - at), "construct") > 0;
}

/* Whether the walk continues past this location; `best` is the best classification so far. */
static bool listen(struct said *best, const struct said *said, const struct location *location)
{
	const struct type_row *now = best->row, *row = said->row;

	if (now && (constructs(location) || (row && row->family == ELEMENT)))
		return false;
	if (!row || row->family == ELEMENT)
		return location->runtime_frame || location->nameless;
	if (now && now->family != ALLOCATOR && row->family != now->family &&
	    row->made_of != now->family)
		return row->family == ALLOCATOR; /* less specific than `best` */
	if (now && row->family == now->family && !now->internal)
		return said->type == best->type;
	if (now && row->family == MADE && now->family != ALLOCATOR)
		return false;
	*best = *said;
	return row->family != MADE;
}

int types_of_stack(struct types *types, const struct profile_process *process, node_id node,
		   uint32_t *ret)
{
	struct said best = { 0 }; /* a copy: the vector may be reallocated */

	for (node_id n = node; n.v; n = profile_parent(process, n)) {
		struct location_chain chain = locations_of(types->locations, process, n);

		if (!chain.at)
			return -1;
		for (size_t i = 0; i < chain.count; i++) {
			const struct said *said = said_by(types, chain.at[i]);

			if (!said)
				return -1;
			if (!listen(&best, said, chain.at[i]))
				goto done;
		}
	}
done:
	*ret = best.type;
	return 0;
}

const char *types_name(const struct types *types, uint32_t number)
{
	ASSERT(number < types->names.count);
	return types->names.at[number];
}
