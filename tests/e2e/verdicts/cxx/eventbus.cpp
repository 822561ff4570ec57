// SPDX-License-Identifier: Apache-2.0
// A chat server: sessions come and go, and listen to an event bus for changes of the configuration.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

class EventBus {
public:
    using Handler = std::function<void(int)>;
    using Token = std::list<Handler>::iterator;

    Token subscribe(const std::string &topic, Handler handler)
    {
        auto &handlers = topics_[topic];
        return handlers.insert(handlers.end(), std::move(handler));
    }
    void unsubscribe(const std::string &topic, Token token) { topics_[topic].erase(token); }
    void publish(const std::string &topic, int value)
    {
        for (auto &handler : topics_[topic])
            handler(value);
    }

private:
    std::map<std::string, std::list<Handler>> topics_;
};

struct Session {
    explicit Session(unsigned number) : id(number) { std::memset(inbox, 0, sizeof inbox); }
    unsigned id;
    int verbosity = 0;
    bool open = true;
    char inbox[1500];
};

class ChatServer {
public:
    void run_round()
    {
        for (int i = 0; i < 5; i++)
            open_session();
        for (auto &session : active_)
            deliver(*session);
        while (active_.size() > 30)
            close_session();
        if (++round_ % 50 == 0)
            bus_.publish("config", round_);
    }

private:
    __attribute__((noinline)) void open_session()
    {
        auto session = std::make_shared<Session>(next_id_++);
        bus_.subscribe("config", [session](int level) {
            if (session->open)
                session->verbosity = level;
        });
        active_.push_back(session);
    }

    __attribute__((noinline)) void close_session()
    {
        active_.front()->open = false;
        active_.pop_front();
    }

    __attribute__((noinline)) void deliver(Session &session)
    {
        std::string message = "message for session " + std::to_string(session.id) + " in round " + std::to_string(round_);
        std::memcpy(session.inbox, message.data(), message.size());
    }

    EventBus bus_;
    std::deque<std::shared_ptr<Session>> active_;
    unsigned next_id_ = 1;
    int round_ = 0;
};

int main(int argc, char **argv)
{
    using clock = std::chrono::steady_clock;
    const std::chrono::duration<double> length(argc > 1 ? std::atof(argv[1]) : 4.0);
    const auto start = clock::now();
    ChatServer server;
    while (clock::now() - start < length) {
        server.run_round();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return 0;
}
