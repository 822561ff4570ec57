// SPDX-License-Identifier: Apache-2.0
// A script engine: each request compiles a snippet into nested scopes, evaluates it, and drops the outermost scope.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Symbol {
    char name[24];
    long value;
};

struct Scope : std::enable_shared_from_this<Scope> {
    std::shared_ptr<Scope> parent;
    std::vector<std::shared_ptr<Scope>> children;
    unsigned count = 0;
    Symbol symbols[20];

    void declare(unsigned number, long value)
    {
        Symbol &symbol = symbols[count++ % 20];
        std::snprintf(symbol.name, sizeof symbol.name, "local_%u", number);
        symbol.value = value;
    }
    const Symbol *lookup(const char *name) const
    {
        for (unsigned i = 0; i < count; i++)
            if (std::strcmp(symbols[i].name, name) == 0)
                return &symbols[i];
        return parent ? parent->lookup(name) : nullptr;
    }
};

__attribute__((noinline)) static std::shared_ptr<Scope> open_child_scope(const std::shared_ptr<Scope> &outer)
{
    auto scope = std::make_shared<Scope>();
    scope->parent = outer;
    outer->children.push_back(scope);
    return scope;
}

__attribute__((noinline)) static std::vector<std::string> tokenize(unsigned snippet)
{
    std::vector<std::string> tokens;
    for (unsigned i = 0; i < 40; i++)
        tokens.push_back("token_number_" + std::to_string(snippet) + "_" + std::to_string(i));
    return tokens;
}

__attribute__((noinline)) static long compile_and_run(unsigned snippet)
{
    auto tokens = tokenize(snippet);
    auto global = std::make_shared<Scope>();
    global->declare(0, static_cast<long>(snippet));
    std::shared_ptr<Scope> current = global;
    for (unsigned depth = 1; depth <= 5; depth++) {
        current = open_child_scope(current);
        for (unsigned i = 0; i < 4; i++)
            current->declare(depth * 10 + i, static_cast<long>(tokens[i].size()));
    }
    const Symbol *found = current->lookup("local_0");
    return found ? found->value : 0;
}

int main(int argc, char **argv)
{
    using namespace std::chrono;
    const duration<double> length(argc > 1 ? std::strtod(argv[1], nullptr) : 4.0);
    const auto start = steady_clock::now();
    long sum = 0;
    for (unsigned snippet = 1; steady_clock::now() - start < length; snippet += 2) {
        sum += compile_and_run(snippet);
        sum += compile_and_run(snippet + 1);
        std::this_thread::sleep_for(milliseconds(10));
    }
    return sum < 0;
}
