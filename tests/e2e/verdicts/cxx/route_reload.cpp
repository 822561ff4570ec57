// SPDX-License-Identifier: Apache-2.0
// A gateway whose table of routes is loaded anew every now and then; the requests use the table that was current when they came.
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Route {
    std::string upstream;
    std::vector<int> ports;
    int weight = 1;
};

class RouteTable {
public:
    __attribute__((noinline)) static std::shared_ptr<const RouteTable> load(unsigned generation)
    {
        auto table = std::make_shared<RouteTable>();
        const unsigned count = 3400 - generation * 131 % 400;
        for (unsigned i = 0; i < count; i++) {
            Route route;
            route.upstream = "backend-" + std::to_string(i % 90) + ".generation-" + std::to_string(generation) + ".internal";
            route.ports.assign({8000, 8001, 8002, static_cast<int>(9000 + i % 100)});
            table->routes_.emplace("/service/" + std::to_string(i) + "/v2/resources", std::move(route));
        }
        return table;
    }
    __attribute__((noinline)) std::string resolve(const std::string& path) const
    {
        auto found = routes_.find(path);
        if (found == routes_.end())
            return "404 " + path;
        return found->second.upstream + ":" + std::to_string(found->second.ports[path.size() % 4]) + path;
    }

private:
    std::map<std::string, Route> routes_;
};

int main(int argc, char** argv)
{
    const double length = argc > 1 ? std::atof(argv[1]) : 4.0;
    const auto start = std::chrono::steady_clock::now();
    unsigned generation = 0;
    std::size_t answered = 0;
    std::shared_ptr<const RouteTable> current = RouteTable::load(generation);
    for (unsigned round = 1; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < length; round++) {
        if (round % 14 == 2)
            current = RouteTable::load(++generation);
        const auto table = current;
        for (unsigned i = 0; i < 40; i++)
            answered += table->resolve("/service/" + std::to_string((round * 40 + i) % 3500) + "/v2/resources").size();
        std::this_thread::sleep_for(std::chrono::milliseconds(11));
    }
    return answered == 0;
}
