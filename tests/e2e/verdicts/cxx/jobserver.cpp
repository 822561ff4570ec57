// SPDX-License-Identifier: Apache-2.0
// A build farm coordinator: four worker threads take compile jobs from a queue and report what they did.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Job {
    unsigned id;
    std::string source;
};

struct JobRecord {
    unsigned id;
    unsigned warnings;
    std::string log;
};

class JobServer {
public:
    explicit JobServer(unsigned workers)
    {
        for (unsigned i = 0; i < workers; i++)
            threads_.emplace_back([this] { work(); });
    }
    ~JobServer()
    {
        {
            std::lock_guard<std::mutex> guard(lock_);
            stopping_ = true;
        }
        ready_.notify_all();
        for (auto &thread : threads_)
            thread.join();
    }
    void submit(Job job)
    {
        {
            std::lock_guard<std::mutex> guard(lock_);
            queue_.push_back(std::move(job));
        }
        ready_.notify_one();
    }
    std::size_t warnings() const { return warnings_; }

private:
    void work()
    {
        for (;;) {
            Job job;
            {
                std::unique_lock<std::mutex> guard(lock_);
                ready_.wait(guard, [this] { return stopping_ || !queue_.empty(); });
                if (queue_.empty())
                    return;
                job = std::move(queue_.front());
                queue_.pop_front();
            }
            std::string log = compile(job);
            record_completion(job, log);
        }
    }

    __attribute__((noinline)) std::string compile(const Job &job)
    {
        std::string log;
        for (unsigned i = 0; i < 10 + job.id % 20; i++)
            log += job.source + ":" + std::to_string(i * 11) + ": warning: unused variable 'tmp" + std::to_string(i) + "'\n";
        log.append(static_cast<std::size_t>(job.source.size()), '=');
        return log;
    }

    __attribute__((noinline)) void record_completion(const Job &job, const std::string &log)
    {
        std::lock_guard<std::mutex> guard(history_lock_);
        history_.push_back(JobRecord{job.id, job.id % 20, log});
        warnings_ += history_.back().warnings;
    }

    std::mutex lock_;
    std::condition_variable ready_;
    std::deque<Job> queue_;
    bool stopping_ = false;
    std::mutex history_lock_;
    std::deque<JobRecord> history_;
    std::atomic<std::size_t> warnings_{0};
    std::vector<std::thread> threads_;
};

int main(int argc, char **argv)
{
    const std::chrono::duration<double> length(argc > 1 ? std::atof(argv[1]) : 4.0);
    const auto start = std::chrono::steady_clock::now();
    JobServer server(4);
    unsigned id = 0;
    while (std::chrono::steady_clock::now() - start < length) {
        for (int i = 0; i < 6; i++, id++)
            server.submit(Job{id, "src/component_" + std::to_string(id % 300) + "/implementation.cpp"});
        std::this_thread::sleep_for(std::chrono::milliseconds(11));
    }
    return server.warnings() == static_cast<std::size_t>(-1);
}
