/* SPDX-License-Identifier: Apache-2.0 */
/* <heapgauge/heapgauge.h> for C++17 and later: a memory resource that tags, scopes around one call, and the rest of it as
 * objects that end with their block.
 *
 * Everything costs what the C functions cost, and nothing counts twice: a resource passes on to another, and what that one
 * takes from malloc or operator new is recorded there. */
#ifndef HEAPGAUGE_HPP
#define HEAPGAUGE_HPP

#include <cstddef>
#include <memory_resource>
#include <optional>
#include <utility>

#include <heapgauge/heapgauge.h>

namespace heapgauge
{

/* What the resource behind it allocates for its users belongs to the tag, below the scopes that are entered:
 *
 *	heapgauge::tagged_resource index{"index"};
 *	std::pmr::vector<int> numbers{&index};
 *
 * In front of a pool or a monotonic buffer it tags what it gets from it, which is recorded only when that one asks for
 * more. Behind one, as its upstream, it tags each of these. The name stays the caller's and must live as long. Threads
 * may share it if they may share the resource behind it. */
class tagged_resource : public std::pmr::memory_resource
{
      public:
	explicit tagged_resource(
		const char *name,
		std::pmr::memory_resource *upstream = std::pmr::get_default_resource()) noexcept
	    : tag_{ name, 0 }, upstream_(upstream)
	{
	}
	tagged_resource(const tagged_resource &) = delete;
	tagged_resource &operator=(const tagged_resource &) = delete;

	std::pmr::memory_resource *upstream_resource() const noexcept
	{
		return upstream_;
	}

      private:
	void *do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		scope entered{ tag_ };

		return upstream_->allocate(bytes, alignment);
	}
	/* Whose block it is was decided when it was allocated. */
	void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
	{
		upstream_->deallocate(block, bytes, alignment);
	}
	/* Without RTTI only itself: containers then copy where they could have moved. */
	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
#ifdef __cpp_rtti
		const auto *tagged = dynamic_cast<const tagged_resource *>(&other);

		return tagged != nullptr && *upstream_ == *tagged->upstream_;
#else
		return this == &other;
#endif
	}

	hg_tag tag_;
	std::pmr::memory_resource *upstream_;
};

/* An allocator of the program's own, which tells what it gives out: hg_pool_alloc and the others, with all blocks ending
 * when it does. */
class pool
{
      public:
	explicit pool(const char *name) noexcept : pool_(hg_pool_new(name))
	{
	}
	~pool()
	{
		hg_pool_end(pool_);
	}
	pool(const pool &) = delete;
	pool &operator=(const pool &) = delete;

	void alloc(const void *address, std::size_t bytes) const noexcept
	{
		hg_pool_alloc(pool_, address, bytes);
	}
	void resize(const void *old, const void *address, std::size_t bytes) const noexcept
	{
		hg_pool_resize(pool_, old, address, bytes);
	}
	void free(const void *address) const noexcept
	{
		hg_pool_free(pool_, address);
	}
	void reset() const noexcept
	{
		hg_pool_reset(pool_);
	}

      private:
	hg_pool pool_;
};

/* In front of a resource that keeps memory for itself, such as a pool or a monotonic buffer: each block that it gives out is
 * one of a pool of that name, beside the memory that it takes in turn.
 *
 *	std::pmr::monotonic_buffer_resource buffer;
 *	heapgauge::pool_resource requests{"requests", &buffer};
 *	std::pmr::vector<int> numbers{&requests}; */
class pool_resource : public std::pmr::memory_resource
{
      public:
	explicit pool_resource(const char *name, std::pmr::memory_resource *upstream =
							 std::pmr::get_default_resource()) noexcept
	    : pool_(name), upstream_(upstream)
	{
	}

	std::pmr::memory_resource *upstream_resource() const noexcept
	{
		return upstream_;
	}
	/* The resource behind it was released: all blocks are gone. */
	void released() const noexcept
	{
		pool_.reset();
	}

      private:
	void *do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		void *block = upstream_->allocate(bytes, alignment);

		pool_.alloc(block, bytes);
		return block;
	}
	void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
	{
		pool_.free(block);
		upstream_->deallocate(block, bytes, alignment);
	}
	/* What one gave out, another would not know. */
	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}

	pool pool_;
	std::pmr::memory_resource *upstream_;
};

/* Calls f in a scope and returns what it returns: `auto tree = heapgauge::in("parser", [&] { return parse(text); });` */
template <typename F> decltype(auto) in(const char *name, F &&f)
{
	scope entered{ name };

	return std::forward<F>(f)();
}

/* A label to the end of the block. */
class label
{
      public:
	label(const char *key, const char *value) noexcept : scope_(hg_enter_label(key, value))
	{
	}
	~label()
	{
		hg_leave(scope_);
	}
	label(const label &) = delete;
	label &operator=(const label &) = delete;

      private:
	hg_scope scope_;
};

/* The thread is in another context to the end of the block, and then in its own again. */
class in_context
{
      public:
	explicit in_context(hg_context context) noexcept : before_(hg_context_get())
	{
		hg_context_set(context);
	}
	~in_context()
	{
		hg_context_set(before_);
	}
	in_context(const in_context &) = delete;
	in_context &operator=(const in_context &) = delete;

      private:
	hg_context before_;
};

/* f, to be called wherever and whenever: it runs in the context of whoever called this.
 *	queue.push(heapgauge::carry([=] { handle(request); })); */
template <typename F> auto carry(F &&f)
{
	return [context = hg_context_get(),
		f = std::forward<F>(f)](auto &&...with) mutable -> decltype(auto) {
		in_context in{ context };

		return f(std::forward<decltype(with)>(with)...);
	};
}

/* What this thread allocates to the end of the block is not recorded. Inside another one it means nothing. */
class pause
{
      public:
	pause() noexcept
	{
		struct hg_stats now;

		stops_ = hg_stats(&now) && now.mode != HG_DORMANT;
		if (stops_)
			hg_stop(HG_THREAD);
	}
	~pause()
	{
		if (stops_)
			hg_start(HG_THREAD);
	}
	pause(const pause &) = delete;
	pause &operator=(const pause &) = delete;

      private:
	bool stops_;
};

/* hg_stats and hg_tag_stats; nothing without the recorder, or if nobody was in the tag yet. */
inline std::optional<struct hg_stats> stats() noexcept
{
	struct hg_stats now;

	return hg_stats(&now) ? std::optional{ now } : std::nullopt;
}

inline std::optional<struct hg_tag_stats> tag_stats(const char *path) noexcept
{
	struct hg_tag_stats now;

	return hg_tag_stats(path, &now) ? std::optional{ now } : std::nullopt;
}

} // namespace heapgauge

#endif
