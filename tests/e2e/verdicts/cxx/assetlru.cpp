// SPDX-License-Identifier: Apache-2.0
// A file server with an LRU cache of 4 MB for its assets. Misses read the asset again; large assets displace many small ones.
#include <chrono>
#include <cstdlib>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Asset {
    unsigned id;
    std::string path;
    std::vector<unsigned char> bytes;
};

class AssetCache {
public:
    explicit AssetCache(std::size_t limit) : limit_(limit) {}

    const Asset &get(unsigned id)
    {
        auto it = index_.find(id);
        if (it != index_.end()) {
            order_.splice(order_.begin(), order_, it->second);
            return order_.front();
        }
        insert(read_asset(id));
        return order_.front();
    }
    std::size_t used() const { return used_; }

private:
    __attribute__((noinline)) static Asset read_asset(unsigned id)
    {
        std::size_t size = id % 29 == 0 ? 60000 : 900 + id * 97 % 9000;
        return Asset{id, "/var/www/static/asset-" + std::to_string(id) + ".bin", std::vector<unsigned char>(size, 1)};
    }
    __attribute__((noinline)) void insert(Asset &&asset)
    {
        used_ += asset.bytes.size();
        unsigned id = asset.id;
        order_.push_front(std::move(asset));
        index_.emplace(id, order_.begin());
        while (used_ > limit_)
            evict();
    }
    __attribute__((noinline)) void evict()
    {
        used_ -= order_.back().bytes.size();
        index_.erase(order_.back().id);
        order_.pop_back();
    }

    std::size_t limit_;
    std::size_t used_ = 0;
    std::list<Asset> order_;
    std::unordered_map<unsigned, std::list<Asset>::iterator> index_;
};

__attribute__((noinline)) static std::size_t send_asset(const Asset &asset)
{
    std::string head = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(asset.bytes.size()) + "\r\nX-Path: " + asset.path + "\r\n\r\n";
    std::vector<unsigned char> packet(head.begin(), head.end());
    packet.insert(packet.end(), asset.bytes.begin(), asset.bytes.end());
    return packet.size();
}

int main(int argc, char **argv)
{
    const std::chrono::duration<double> length(argc > 1 ? std::atof(argv[1]) : 4.0);
    const auto start = std::chrono::steady_clock::now();
    AssetCache cache(4000000);
    std::mt19937 random(7);
    std::geometric_distribution<unsigned> popular(0.0012);
    std::size_t sent = 0;
    for (unsigned id = 0; id < 1200; id++)
        cache.get(id);
    while (std::chrono::steady_clock::now() - start < length) {
        for (int i = 0; i < 40; i++)
            sent += send_asset(cache.get(popular(random)));
        std::this_thread::sleep_for(std::chrono::milliseconds(8));
    }
    return sent == 1;
}
