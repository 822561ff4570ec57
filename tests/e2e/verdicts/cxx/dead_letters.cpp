// SPDX-License-Identifier: Apache-2.0
// A message broker with one producer and three consumers. What a consumer cannot handle becomes a dead letter.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Message {
    unsigned number;
    std::string body;
};

class Broker {
public:
    __attribute__((noinline)) void publish(Message message)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        space_.wait(lock, [this] { return queue_.size() < 200; });
        queue_.push_back(std::move(message));
        arrived_.notify_one();
    }
    __attribute__((noinline)) bool take(Message& message)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        arrived_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty())
            return false;
        message = std::move(queue_.front());
        queue_.pop_front();
        space_.notify_one();
        return true;
    }
    __attribute__((noinline)) void reject(const Message& message, const char* reason)
    {
        std::lock_guard<std::mutex> lock(dead_mutex_);
        dead_letters_.emplace_back(std::string(reason) + ": " + message.body);
    }
    void close()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        arrived_.notify_all();
    }

private:
    std::mutex mutex_, dead_mutex_;
    std::condition_variable arrived_, space_;
    std::deque<Message> queue_;
    std::list<std::string> dead_letters_;
    bool closed_ = false;
};

static std::atomic<unsigned long> handled{0};

static void consume(Broker& broker)
{
    Message message;
    while (broker.take(message)) {
        if (message.body.find("}") == std::string::npos)
            broker.reject(message, "truncated");
        else
            handled += message.body.size();
    }
}

int main(int argc, char** argv)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(argc > 1 ? std::atof(argv[1]) : 4.0);
    Broker broker;
    std::vector<std::thread> consumers;
    for (int i = 0; i < 3; i++)
        consumers.emplace_back(consume, std::ref(broker));
    unsigned number = 0;
    while (clock::now() < end) {
        for (int i = 0; i < 20; i++) {
            number++;
            std::string body = "{\"order\": " + std::to_string(number) + ", \"note\": \"";
            body.append(300 + number * 37 % 900, 'n');
            if (number % 3 != 0)
                body += "\"}";
            broker.publish({number, std::move(body)});
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(9));
    }
    broker.close();
    for (auto& consumer : consumers)
        consumer.join();
    return 0;
}
