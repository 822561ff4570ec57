// SPDX-License-Identifier: Apache-2.0
//
// One function for each container; how often each asks for memory does not depend on the level of optimization.
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#define NOINLINE __attribute__((noinline))

struct Blob {
	long a[4];
	std::vector<int> inner;
	Blob() : inner(100)
	{
	}
};

struct Owner {
	void *p;
	NOINLINE Owner() : p(malloc(77))
	{
	}
};

static NOINLINE void grow_blobs(
	std::vector<Blob> &v) // 1, 2, 4, 8, 16: 5 calls, and 10 vectors inside
{
	for (int i = 0; i < 10; i++)
		v.emplace_back();
}

static NOINLINE void grow_vectors(
	std::vector<std::vector<short>> &v) // 1 call; copies of the inner one: 3
{
	std::vector<short> inner(10);
	v.reserve(2);
	v.push_back(inner);
	v.push_back(inner);
}

static NOINLINE void grow_string(std::string &s) // 2 calls
{
	s += "a long string that does not fit into the small buffer of it";
	s.append(1000, 'x');
}

static NOINLINE void fill_map(std::map<int, std::string> &m) // 20 nodes, 20 strings
{
	for (int i = 0; i < 20; i++)
		m[i] = std::string(40, 'x');
}

static NOINLINE void fill_set(std::set<long> &s)
{
	for (int i = 0; i < 20; i++)
		s.insert(i);
}

static NOINLINE void fill_hash_map(std::unordered_map<int, Blob *> &m) // 20 nodes and 2 tables
{
	for (int i = 0; i < 20; i++)
		m[i] = nullptr;
}

static NOINLINE void fill_hash_set(std::unordered_set<int> &s)
{
	for (int i = 0; i < 20; i++)
		s.insert(i);
}

static NOINLINE void fill_lists(std::list<double> &l, std::forward_list<double> &f)
{
	for (int i = 0; i < 20; i++) {
		l.push_back(i);
		f.push_front(i);
	}
}

static NOINLINE void fill_deque(std::deque<short> &d)
{
	for (int i = 0; i < 2000; i++)
		d.push_back(1);
}

static NOINLINE std::shared_ptr<Blob> make_shared_blob()
{
	return std::make_shared<Blob>();
}

static NOINLINE std::shared_ptr<Owner> share_owner(Owner *owner) // its counter
{
	return std::shared_ptr<Owner>(owner);
}

static NOINLINE std::unique_ptr<Blob> make_unique_blob()
{
	return std::make_unique<Blob>();
}

static NOINLINE std::function<int()> make_function(long a, long b, long c)
{
	return [=] { return static_cast<int>(a + b + c); };
}

int main()
{
	std::vector<Blob> blobs;
	std::vector<std::vector<short>> vectors;
	std::string string;
	std::map<int, std::string> map;
	std::set<long> set;
	std::unordered_map<int, Blob *> hash_map;
	std::unordered_set<int> hash_set;
	std::list<double> list;
	std::forward_list<double> forward;
	std::deque<short> deque;

	grow_blobs(blobs);
	grow_vectors(vectors);
	grow_string(string);
	fill_map(map);
	fill_set(set);
	fill_hash_map(hash_map);
	fill_hash_set(hash_set);
	fill_lists(list, forward);
	fill_deque(deque);
	auto shared = make_shared_blob();
	auto owner = share_owner(new Owner);
	auto unique = make_unique_blob();
	auto function = make_function(1, 2, 3);
	free(owner->p);
	return function() == 6 && shared && unique ? 0 : 1;
}
