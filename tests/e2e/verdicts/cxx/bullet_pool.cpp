// SPDX-License-Identifier: Apache-2.0
// A shoot-'em-up: bullets come in waves, out of a pool that grows by slabs when it is empty and never shrinks.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

struct Bullet {
    float x, y, vx, vy;
    int frames_left;
    float trail[16];
    Bullet* next_free;
};

struct Hit {
    const Bullet* bullet;
    int target;
    float strength;
};

class BulletPool {
public:
    __attribute__((noinline)) Bullet* acquire()
    {
        if (free_ == nullptr)
            add_slab();
        Bullet* bullet = free_;
        free_ = bullet->next_free;
        return bullet;
    }
    __attribute__((noinline)) void release(Bullet* bullet)
    {
        bullet->next_free = free_;
        free_ = bullet;
    }

private:
    __attribute__((noinline)) void add_slab()
    {
        slabs_.push_back(std::make_unique<Bullet[]>(96));
        for (int i = 0; i < 96; i++)
            release(&slabs_.back()[i]);
    }
    std::vector<std::unique_ptr<Bullet[]>> slabs_;
    Bullet* free_ = nullptr;
};

class Shooter {
public:
    __attribute__((noinline)) void fire_wave(int count)
    {
        for (int i = 0; i < count; i++) {
            Bullet* b = pool_.acquire();
            *b = Bullet{0, 0, std::cos(static_cast<float>(i)), std::sin(static_cast<float>(i)), 2 + i % 6, {}, nullptr};
            active_.push_back(b);
        }
    }
    __attribute__((noinline)) void step()
    {
        std::vector<Hit> hits;
        std::size_t kept = 0;
        for (Bullet* b : active_) {
            b->x += b->vx;
            b->y += b->vy;
            b->trail[b->frames_left % 16] = b->x;
            if (b->x > 4.0f)
                hits.push_back({b, static_cast<int>(b->y), b->vx});
            if (--b->frames_left <= 0)
                pool_.release(b);
            else
                active_[kept++] = b;
        }
        active_.resize(kept);
        score_ += hits.size();
    }
    unsigned long score() const { return score_; }

private:
    BulletPool pool_;
    std::vector<Bullet*> active_;
    unsigned long score_ = 0;
};

int main(int argc, char** argv)
{
    using clock = std::chrono::steady_clock;
    const double length = argc > 1 ? std::atof(argv[1]) : 4.0;
    const auto start = clock::now();
    auto due = start;
    Shooter shooter;
    for (unsigned frame = 0; std::chrono::duration<double>(clock::now() - start).count() < length; frame++) {
        if (frame % 10 == 0)
            shooter.fire_wave(frame == 0 ? 6000 : 4200 + static_cast<int>(frame * 7919 % 1800));
        shooter.step();
        due += std::chrono::milliseconds(12);
        std::this_thread::sleep_until(due);
    }
    return shooter.score() == 1;
}
