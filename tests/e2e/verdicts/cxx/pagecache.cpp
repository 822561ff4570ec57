// SPDX-License-Identifier: Apache-2.0
// A web application that renders pages from a template and caches them by URL. The URLs carry a per-visitor token.
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

class PageCache {
public:
    const std::string *find(const std::string &url) const
    {
        auto it = pages_.find(url);
        return it == pages_.end() ? nullptr : &it->second;
    }
    __attribute__((noinline)) void store(const std::string &url, const std::string &page)
    {
        pages_[url] = page;
    }

private:
    std::map<std::string, std::string> pages_;
};

static PageCache &page_cache()
{
    static PageCache *cache = new PageCache;
    return *cache;
}

__attribute__((noinline)) static std::string render_page(unsigned article, unsigned visitor)
{
    std::string page = "<html><head><title>Article " + std::to_string(article) + "</title></head><body>";
    for (unsigned i = 0; i < 20 + article % 30; i++)
        page += "<p class=\"text\">paragraph " + std::to_string(i) + " of " + std::to_string(article) + "</p>";
    page += "<img src=\"/pixel?visitor=" + std::to_string(visitor) + "\"></body></html>";
    return page;
}

__attribute__((noinline)) static std::size_t handle_get(const std::string &url, unsigned article, unsigned visitor)
{
    if (const std::string *page = page_cache().find(url))
        return page->size();
    std::string page = render_page(article, visitor);
    page_cache().store(url, page);
    return page.size();
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? std::stod(argv[1]) : 4.0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    unsigned visitor = 0;
    std::size_t sent = 0;
    while (std::chrono::steady_clock::now() < end) {
        for (int i = 0; i < 5; i++, visitor++) {
            unsigned article = visitor * 7 % 100;
            std::string url = "/articles/" + std::to_string(article) + "?utm_source=mail&visitor=" + std::to_string(visitor);
            sent += handle_get(url, article, visitor);
            sent += handle_get(url, article, visitor);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(12));
    }
    return sent == 1;
}
