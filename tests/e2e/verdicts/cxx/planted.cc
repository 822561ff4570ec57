// SPDX-License-Identifier: Apache-2.0
// planted SECONDS CASE: as planted.c, with what C++ programs do.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define NOINLINE __attribute__((noinline))

static std::chrono::duration<double> seconds;

static void rounds(const std::function<void()> &round)
{
	for (auto end = std::chrono::steady_clock::now() + seconds;
	     std::chrono::steady_clock::now() < end;) {
		round();
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
}

struct Session {
	char state[600];
};
static std::vector<std::unique_ptr<Session>> sessions;

NOINLINE static void open_session()
{
	sessions.push_back(std::make_unique<Session>());
}

static std::map<int, std::string> answers;

NOINLINE static void remember_answer(int id)
{
	answers[id] = std::string(700, 'a');
}

struct Widget {
	std::shared_ptr<Widget> peer;
	char pixels[900];
};

NOINLINE static void connect_widgets()
{
	auto left = std::make_shared<Widget>(), right = std::make_shared<Widget>();
	left->peer = right;
	right->peer = left;
}

static std::deque<std::string> history;

NOINLINE static void log_command(int number)
{
	history.emplace_back("command " + std::to_string(number) + std::string(500, '.'));
}

static std::list<int> order;
static std::unordered_map<int, std::pair<std::string, std::list<int>::iterator>> cache;

NOINLINE static void use_page(int page)
{
	auto found = cache.find(page);
	if (found != cache.end()) {
		order.splice(order.begin(), order, found->second.second);
		return;
	}
	order.push_front(page);
	cache[page] = { std::string(2000, 'p'), order.begin() };
	if (cache.size() > 300) {
		cache.erase(order.back());
		order.pop_back();
	}
}

static std::mutex lock;
static std::condition_variable changed;
static std::deque<std::unique_ptr<Session>> queue;
static bool ended;

NOINLINE static void produce()
{
	std::unique_lock<std::mutex> hold(lock);
	while (queue.size() < 1000)
		queue.push_back(std::make_unique<Session>());
	changed.notify_one();
}

static void consume()
{
	std::unique_lock<std::mutex> hold(lock);
	while (!ended) {
		changed.wait(hold);
		while (queue.size() > 500)
			queue.pop_front();
	}
}

NOINLINE static void rebuild_index(std::unordered_map<std::string, int> &index)
{
	std::unordered_map<std::string, int> fresh;
	for (int i = 0; i < 3000; i++)
		fresh["a rather long key number " + std::to_string(i)] = i;
	index.swap(fresh);
}

NOINLINE static void draw_frame(std::vector<char> &front, std::vector<char> &back)
{
	back.assign(400000, 1);
	front.swap(back);
}

int main(int, char **arguments)
{
	std::string name = arguments[2];
	int number = 0;

	seconds = std::chrono::duration<double>(std::stod(arguments[1]));
	auto repeat = [&](int times, const std::function<void()> &work) {
		rounds([&] {
			for (int i = 0; i < times; i++, number++)
				work();
		});
	};
	if (name == "leak_sessions")
		repeat(20, open_session);
	else if (name == "leak_answers")
		repeat(15, [&] { remember_answer(number); });
	else if (name == "leak_cycle")
		repeat(8, connect_widgets);
	else if (name == "leak_history")
		repeat(20, [&] { log_command(number); });
	else if (name == "bounded_lru")
		repeat(30, [&] { use_page(number * 7 % 1000); });
	else if (name == "bounded_queue") {
		std::thread consumer(consume);
		repeat(1, produce);
		lock.lock();
		ended = true;
		changed.notify_one();
		lock.unlock();
		consumer.join();
	} else if (name == "bounded_index") {
		std::unordered_map<std::string, int> index;
		repeat(1, [&] { rebuild_index(index); });
	} else if (name == "bounded_frames") {
		std::vector<char> front, back;
		repeat(1, [&] { draw_frame(front, back); });
	} else
		return 2;
	return 0;
}
