// SPDX-License-Identifier: Apache-2.0
// A gateway whose routing table is reloaded every 100 ms; three threads keep the table they started a request with.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Route {
    std::string backend;
    std::vector<std::string> middlewares;
    unsigned weight = 1;
};

class RoutingTable {
public:
    explicit RoutingTable(unsigned version) { load(version); }
    const Route *find(const std::string &path) const
    {
        auto it = routes_.find(path);
        return it == routes_.end() ? nullptr : &it->second;
    }

private:
    __attribute__((noinline)) void load(unsigned version)
    {
        for (unsigned i = 0; i < 2500; i++) {
            Route route;
            route.backend = "http://backend-" + std::to_string((i + version) % 97) + ".service.internal:8080/";
            route.middlewares = {"authenticate-by-token", "compress", "rate-limit-per-client"};
            route.weight = version;
            routes_.emplace("/service/" + std::to_string(i) + "/resource", std::move(route));
        }
    }
    std::map<std::string, Route> routes_;
};

class Gateway {
public:
    Gateway() : table_(std::make_shared<const RoutingTable>(0)) {}
    std::shared_ptr<const RoutingTable> snapshot()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return table_;
    }
    __attribute__((noinline)) void reload(unsigned version)
    {
        auto fresh = std::make_shared<const RoutingTable>(version);
        std::lock_guard<std::mutex> guard(lock_);
        table_.swap(fresh);
    }

private:
    std::mutex lock_;
    std::shared_ptr<const RoutingTable> table_;
};

static Gateway *gateway;
static std::atomic<bool> stopping{false};

static void serve_requests(unsigned number)
{
    std::size_t served = 0;
    while (!stopping) {
        auto table = gateway->snapshot();
        for (unsigned i = 0; i < 30; i++) {
            std::string path = "/service/" + std::to_string((served * 13 + number) % 2600) + "/resource";
            if (const Route *route = table->find(path))
                served += route->backend.size();
            served++;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
}

int main(int argc, char **argv)
{
    const std::chrono::duration<double> length(argc > 1 ? std::atof(argv[1]) : 4.0);
    const auto start = std::chrono::steady_clock::now();
    gateway = new Gateway;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; i++)
        threads.emplace_back(serve_requests, i);
    for (unsigned round = 1; std::chrono::steady_clock::now() - start < length; round++) {
        if (round % 5 == 0)
            gateway->reload(round / 5);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    stopping = true;
    for (auto &thread : threads)
        thread.join();
    return 0;
}
