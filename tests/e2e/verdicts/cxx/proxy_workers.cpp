// SPDX-License-Identifier: Apache-2.0
// A proxy with two worker processes. The number of connections follows a wave; buffers come from a pool with a limit on spares.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using Buffer = std::vector<char>;

class BufferPool {
public:
    std::unique_ptr<Buffer> take()
    {
        if (spares_.empty())
            return make_buffer();
        auto buffer = std::move(spares_.back());
        spares_.pop_back();
        return buffer;
    }
    void give_back(std::unique_ptr<Buffer> buffer)
    {
        if (spares_.size() < 40)
            spares_.push_back(std::move(buffer));
    }

private:
    __attribute__((noinline)) static std::unique_ptr<Buffer> make_buffer() { return std::make_unique<Buffer>(8192); }
    std::vector<std::unique_ptr<Buffer>> spares_;
};

struct Connection {
    std::string peer;
    std::unique_ptr<Buffer> upstream, downstream;
};

class Worker {
public:
    explicit Worker(unsigned seed) : random_(seed) {}
    void run_round(unsigned round)
    {
        double load = 0.5 + 0.5 * std::sin(round * 2 * 3.14159265358979 / 20);
        auto wanted = static_cast<std::size_t>(20 + 80 * load);
        while (connections_.size() < wanted)
            accept_connection();
        while (connections_.size() > wanted)
            drop_connection(random_() % connections_.size());
        for (int i = 0; i < 8; i++)
            drop_connection(random_() % connections_.size());
        for (auto &connection : connections_)
            (*connection->upstream)[round % 8192] = (*connection->downstream)[(round * 7) % 8192];
    }

private:
    __attribute__((noinline)) void accept_connection()
    {
        auto connection = std::make_unique<Connection>();
        connection->peer = "client-" + std::to_string(random_() % 100000) + ".customers.example:443";
        connection->upstream = pool_.take();
        connection->downstream = pool_.take();
        connections_.push_back(std::move(connection));
    }
    __attribute__((noinline)) void drop_connection(std::size_t index)
    {
        std::swap(connections_[index], connections_.back());
        pool_.give_back(std::move(connections_.back()->upstream));
        pool_.give_back(std::move(connections_.back()->downstream));
        connections_.pop_back();
    }
    std::mt19937 random_;
    BufferPool pool_;
    std::vector<std::unique_ptr<Connection>> connections_;
};

static int run_worker(unsigned number, std::chrono::steady_clock::time_point end)
{
    Worker worker(number);
    for (unsigned round = 0; std::chrono::steady_clock::now() < end; round++) {
        worker.run_round(round);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return 0;
}

int main(int argc, char **argv)
{
    const std::chrono::duration<double> length(argc > 1 ? std::atof(argv[1]) : 4.0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(length);
    for (unsigned number = 0; number < 2; number++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0)
            return run_worker(number, end);
    }
    int status = 0, failed = 0;
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
