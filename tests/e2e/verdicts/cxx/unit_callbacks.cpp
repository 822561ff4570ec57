// SPDX-License-Identifier: Apache-2.0
// A strategy game: units are trained, fight, and fall. What happens when one is hit is a callback of the unit.
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

struct Unit {
    int number = 0;
    int health = 100;
    std::array<float, 16> transform{};
    std::array<float, 190> animation{};
    std::function<void(int)> on_hit;
};

class Battlefield {
public:
    __attribute__((noinline)) void train_unit(int number)
    {
        auto unit = std::make_shared<Unit>();
        unit->number = number;
        unit->health = 20 + number * 37 % 170;
        unit->transform[0] = unit->transform[5] = unit->transform[10] = 1.0f;
        unit->on_hit = [unit](int damage) { unit->health -= damage; };
        units_.push_back(std::move(unit));
    }
    __attribute__((noinline)) void fight()
    {
        for (auto& unit : units_)
            unit->on_hit(static_cast<int>(random_() % 12));
    }
    __attribute__((noinline)) std::size_t bury_the_fallen()
    {
        std::size_t before = units_.size();
        std::vector<std::shared_ptr<Unit>> alive;
        for (auto& unit : units_)
            if (unit->health > 0)
                alive.push_back(unit);
        units_.swap(alive);
        return before - units_.size();
    }
    std::size_t size() const { return units_.size(); }

private:
    std::vector<std::shared_ptr<Unit>> units_;
    std::minstd_rand random_{99};
};

int main(int argc, char** argv)
{
    const double length = argc > 1 ? std::strtod(argv[1], nullptr) : 4.0;
    const auto start = std::chrono::steady_clock::now();
    auto frame_due = start;
    Battlefield field;
    int number = 0;
    std::size_t fallen = 0;
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < length) {
        while (field.size() < 140)
            field.train_unit(++number);
        field.fight();
        fallen += field.bury_the_fallen();
        frame_due += std::chrono::milliseconds(10);
        std::this_thread::sleep_until(frame_due);
    }
    return fallen > static_cast<std::size_t>(number);
}
