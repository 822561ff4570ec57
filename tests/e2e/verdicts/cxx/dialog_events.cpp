// SPDX-License-Identifier: Apache-2.0
// A user interface: dialogs open and close all the time, and listen for a change of the theme while they are open.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

using Handler = std::function<void(int)>;

class EventBus {
public:
    __attribute__((noinline)) long subscribe(const std::string& topic, Handler handler)
    {
        topics_[topic].push_back({++last_token_, std::move(handler)});
        return last_token_;
    }
    __attribute__((noinline)) void unsubscribe(const std::string& topic, long token)
    {
        topics_[topic].remove_if([token](const Subscription& s) { return s.token == token; });
    }
    __attribute__((noinline)) void emit(const std::string& topic, int argument)
    {
        for (auto& s : topics_[topic])
            s.handler(argument);
    }

private:
    struct Subscription {
        long token;
        Handler handler;
    };
    std::map<std::string, std::list<Subscription>> topics_;
    long last_token_ = 0;
};

struct Layout {
    int widgets[130];
    char title[48];
};

static long repaints;

class Dialog {
public:
    __attribute__((noinline)) Dialog(EventBus& bus, int number) : bus_(bus)
    {
        Layout layout{};
        layout.widgets[number % 130] = number;
        std::strcpy(layout.title, "Preferences");
        key_token_ = bus.subscribe("key", [this](int key) { pressed_ += key; });
        theme_token_ = bus.subscribe("theme", [layout](int theme) { repaints += layout.widgets[theme] + theme; });
    }
    __attribute__((noinline)) ~Dialog()
    {
        bus_.unsubscribe("key", key_token_);
    }
    void type(int key) { bus_.emit("key", key); }

private:
    EventBus& bus_;
    long key_token_ = 0;
    long theme_token_ = 0;
    long pressed_ = 0;
};

int main(int argc, char** argv)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(argc > 1 ? std::atof(argv[1]) : 4.0);
    EventBus bus;
    for (int round = 0; clock::now() < end; round++) {
        for (int i = 0; i < 9; i++) {
            Dialog dialog(bus, round + i);
            dialog.type(i);
        }
        if (round % 64 == 0)
            bus.emit("theme", round / 64 % 130);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return 0;
}
