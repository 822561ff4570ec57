// SPDX-License-Identifier: Apache-2.0
// Two worker processes answer queries for time series, and remember the answers.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

class SeriesService {
public:
    explicit SeriesService(unsigned seed) : state_(seed) {}

    __attribute__((noinline)) double answer(unsigned tenant, unsigned long from, unsigned long to)
    {
        const std::string key =
            "tenant=" + std::to_string(tenant) + "&from=" + std::to_string(from) + "&to=" + std::to_string(to);
        auto known = memo_.find(key);
        if (known == memo_.end()) {
            const std::vector<double> rows = run_query(tenant, 40 + random() % 120);
            known = memo_.emplace(key, rows).first;
        }
        double sum = 0;
        for (double row : known->second)
            sum += row;
        return sum;
    }
    unsigned random()
    {
        state_ = state_ * 1664525u + 1013904223u;
        return state_ >> 10;
    }

private:
    __attribute__((noinline)) std::vector<double> run_query(unsigned tenant, std::size_t count)
    {
        std::vector<double> rows(count);
        for (std::size_t i = 0; i < count; i++)
            rows[i] = std::sqrt(static_cast<double>(tenant + i));
        return rows;
    }

    std::map<std::string, std::vector<double>> memo_;
    unsigned state_;
};

using clock_type = std::chrono::steady_clock;

static void serve(unsigned seed, clock_type::time_point start, clock_type::time_point end)
{
    auto* service = new SeriesService(seed);
    double all = 0;
    while (clock_type::now() < end) {
        for (int i = 0; i < 5; i++) {
            // "The last hour" ends now, in microseconds.
            unsigned long now = static_cast<unsigned long>((clock_type::now() - start).count() / 1000);
            all += service->answer(service->random() % 20, now, now + 3600000000ul);
        }
        all += service->answer(7, 0, 86400000000ul);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    _exit(std::isnan(all) ? 1 : 0);
}

int main(int argc, char** argv)
{
    const auto start = clock_type::now();
    const auto end = start + std::chrono::duration_cast<clock_type::duration>(
                                 std::chrono::duration<double>(argc > 1 ? std::atof(argv[1]) : 4.0));
    int failed = 0;
    for (unsigned worker = 0; worker < 2; worker++) {
        const pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0)
            serve(worker + 1, start, end);
    }
    for (int worker = 0; worker < 2; worker++) {
        int status = 0;
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    }
    return failed;
}
