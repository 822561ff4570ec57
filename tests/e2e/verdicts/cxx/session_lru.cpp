// SPDX-License-Identifier: Apache-2.0
// A web tier's session cache: the most recently used sessions stay, the others go.
#include <chrono>
#include <cstdlib>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>

struct Session {
    std::string id;
    std::string user_agent;
    std::string basket;
};

class SessionCache {
public:
    explicit SessionCache(std::size_t limit) : limit_(limit) {}

    __attribute__((noinline)) Session& get(const std::string& id)
    {
        auto found = index_.find(id);
        if (found != index_.end()) {
            order_.splice(order_.begin(), order_, found->second);
            return order_.front();
        }
        order_.push_front(load(id));
        index_[id] = order_.begin();
        if (index_.size() > limit_)
            evict();
        return order_.front();
    }

private:
    __attribute__((noinline)) Session load(const std::string& id)
    {
        Session session;
        session.id = id;
        session.user_agent = "Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0";
        session.basket.assign(200 + random_() % 700, 'b');
        return session;
    }
    __attribute__((noinline)) void evict()
    {
        index_.erase(order_.back().id);
        order_.pop_back();
    }

    std::size_t limit_;
    std::list<Session> order_;
    std::unordered_map<std::string, std::list<Session>::iterator> index_;
    std::mt19937 random_{5};
};

static std::string session_id(unsigned long n)
{
    return "session-0123456789abcdef-" + std::to_string(n * 2654435761ul);
}

int main(int argc, char** argv)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(argc > 1 ? std::atof(argv[1]) : 4.0);
    auto* cache = new SessionCache(1600);
    unsigned long newest = 0, bytes = 0;
    while (newest < 1600)
        cache->get(session_id(newest++));
    while (clock::now() < end) {
        for (unsigned long i = 0; i < 15; i++) {
            bytes += cache->get(session_id(newest++)).basket.size();
            bytes += cache->get(session_id(newest - 1 - i * 40)).basket.size();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(8));
    }
    return bytes == 0;
}
