// SPDX-License-Identifier: Apache-2.0
// Frames of sensors go through bounded queues: one reader, three filters, one writer with a sliding window.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

struct Frame {
    unsigned sensor = 0;
    std::vector<float> samples;
};

template <typename T> class BoundedQueue {
public:
    explicit BoundedQueue(std::size_t limit) : limit_(limit) {}
    void put(T item)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        not_full_.wait(lock, [this] { return items_.size() < limit_; });
        items_.push_back(std::move(item));
        not_empty_.notify_one();
    }
    bool get(T& item)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        not_empty_.wait(lock, [this] { return closed_ || !items_.empty(); });
        if (items_.empty())
            return false;
        item = std::move(items_.front());
        items_.pop_front();
        not_full_.notify_one();
        return true;
    }
    void close()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        not_empty_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable not_full_, not_empty_;
    std::deque<T> items_;
    std::size_t limit_;
    bool closed_ = false;
};

using FramePtr = std::unique_ptr<Frame>;

__attribute__((noinline)) static FramePtr read_frame(unsigned number)
{
    auto frame = std::make_unique<Frame>();
    frame->sensor = number % 12;
    frame->samples.resize(500 + number * 31 % 300);
    std::iota(frame->samples.begin(), frame->samples.end(), static_cast<float>(number));
    return frame;
}

__attribute__((noinline)) static FramePtr smooth_frame(const Frame& in)
{
    auto out = std::make_unique<Frame>();
    out->sensor = in.sensor;
    for (std::size_t i = 1; i < in.samples.size(); i++)
        out->samples.push_back((in.samples[i - 1] + in.samples[i]) / 2);
    return out;
}

class Window {
public:
    __attribute__((noinline)) void add(FramePtr frame)
    {
        frames_.push_back(std::move(frame));
        if (frames_.size() > 300)
            frames_.pop_front();
    }
    double latest() const { return frames_.back()->samples.back(); }

private:
    std::deque<FramePtr> frames_;
};

int main(int argc, char** argv)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(argc > 1 ? std::atof(argv[1]) : 4.0);
    BoundedQueue<FramePtr> raw(32), smooth(32);
    double result = 0;
    std::vector<std::thread> filters;
    for (int i = 0; i < 3; i++)
        filters.emplace_back([&] {
            FramePtr frame;
            while (raw.get(frame))
                smooth.put(smooth_frame(*frame));
        });
    std::thread writer([&] {
        Window window;
        FramePtr frame;
        while (smooth.get(frame)) {
            window.add(std::move(frame));
            result += window.latest();
        }
    });
    unsigned number = 0;
    for (int i = 0; i < 320; i++) // what the device stored before we connected
        raw.put(read_frame(number++));
    while (clock::now() < end) {
        for (int i = 0; i < 12; i++)
            raw.put(read_frame(number++));
        std::this_thread::sleep_for(std::chrono::milliseconds(14));
    }
    raw.close();
    for (auto& filter : filters)
        filter.join();
    smooth.close();
    writer.join();
    return result < 0;
}
