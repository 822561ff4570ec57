// SPDX-License-Identifier: Apache-2.0
// A language server: parses a changed file into an arena that dies with the parse; identifiers are interned for good, from a fixed vocabulary.
#include <chrono>
#include <cstdlib>
#include <memory_resource>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

constexpr unsigned vocabulary = 4000;

class Interner {
public:
    __attribute__((noinline)) std::string_view intern(std::string_view text)
    {
        auto it = names_.find(std::string(text));
        if (it == names_.end())
            it = names_.emplace(text).first;
        return *it;
    }
    std::size_t size() const { return names_.size(); }

private:
    std::unordered_set<std::string> names_;
};

struct Node {
    std::string_view name;
    unsigned line;
    std::pmr::vector<Node *> children;
    Node(std::string_view text, unsigned at, std::pmr::memory_resource *arena) : name(text), line(at), children(arena) {}
};

__attribute__((noinline)) static Node *new_node(std::pmr::memory_resource *arena, std::string_view name, unsigned line)
{
    return new (arena->allocate(sizeof(Node), alignof(Node))) Node(name, line, arena);
}

__attribute__((noinline)) static std::string read_file(unsigned version, unsigned words)
{
    std::string text;
    for (unsigned i = 0; i < words; i++) {
        text += "some_identifier_" + std::to_string((i * 31 + version * 17) % vocabulary);
        text += i % 12 == 11 ? '\n' : ' ';
    }
    return text;
}

__attribute__((noinline)) static std::size_t parse_file(Interner &interner, const std::string &text)
{
    std::pmr::monotonic_buffer_resource arena(8192);
    Node *root = new_node(&arena, "file", 0);
    Node *statement = root;
    unsigned line = 1;
    std::size_t nodes = 1;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = text.find_first_of(" \n", at);
        Node *node = new_node(&arena, interner.intern(std::string_view(text).substr(at, end - at)), line);
        if (statement == root) {
            root->children.push_back(node);
            statement = node;
        } else {
            statement->children.push_back(node);
        }
        if (text[end] == '\n') {
            line++;
            statement = root;
        }
        nodes++;
        at = end + 1;
    }
    return nodes;
}

int main(int argc, char **argv)
{
    const auto start = std::chrono::steady_clock::now();
    const double seconds = argc > 1 ? std::atof(argv[1]) : 4.0;
    Interner interner;
    parse_file(interner, read_file(0, vocabulary));
    std::size_t nodes = 0;
    for (unsigned version = 1; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; version++) {
        nodes += parse_file(interner, read_file(version, 500 + version % 7 * 500));
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
    return nodes == 1 || interner.size() != vocabulary;
}
