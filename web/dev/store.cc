// SPDX-License-Identifier: Apache-2.0
// The program in the pictures of docs/screenshots: a small store with a cache, an index and a parser. Several threads, a
// leak, some growth. -DENTRIES and -DSESSION make the older build that it is compared with.
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#ifndef ENTRIES
#define ENTRIES 4000
#endif
#ifndef SESSION
#define SESSION 4
#endif

struct Blob {
	std::vector<char> bytes;
	std::string key;
};

class Cache {
	std::unordered_map<std::string, std::shared_ptr<Blob>> entries;
	std::mutex lock;

public:
	void insert(const std::string &key, size_t size)
	{
		auto blob = std::make_shared<Blob>();
		blob->bytes.resize(size);
		blob->key = key;
		std::lock_guard<std::mutex> hold(lock);
		entries[key] = blob;
		if (entries.size() > ENTRIES)
			entries.erase(entries.begin());
	}
};

class Index {
	std::map<std::string, std::vector<int>> words;

public:
	void add(const std::string &word, int document)
	{
		words[word].push_back(document);
	}
	void clear() { words.clear(); }
};

static Cache cache;
static thread_local Index index_;
static std::vector<char *> sessions;
static std::mutex sessions_lock;

static std::string parse_header(const char *line)
{
	std::string copy(line);
	std::string name = copy.substr(0, copy.find(':'));
	return name + copy.substr(copy.find(':') + 2);
}

static void open_session(int number)
{
	char *session = static_cast<char *>(malloc(480));
	snprintf(session, 480, "session %d", number);
	std::lock_guard<std::mutex> hold(sessions_lock);
	sessions.push_back(session);
}

static void serve(int worker)
{
	for (int i = 0; i < 12000; i++) {
		std::string header = parse_header("Content-Type: application/octet-stream");
		cache.insert(header + std::to_string(worker * 100000 + i), 512 + (i * 37) % 8192);
		index_.add("word" + std::to_string(i % 700), i);
		if (i % SESSION == 0)
			open_session(i);
		if (i % 6000 == 5999)
			index_.clear();
		if (i % 100 == 0)
			std::this_thread::sleep_for(std::chrono::milliseconds(25));
	}
}

int main()
{
	std::vector<std::thread> workers;
	for (int i = 0; i < 4; i++)
		workers.emplace_back(serve, i);
	for (auto &worker : workers)
		worker.join();
	return 0;
}
