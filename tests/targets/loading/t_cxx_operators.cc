// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17 -fno-exceptions -fsized-deallocation
// Proves that operator new and delete in all their forms are counted once each, aligned as asked, and pair up.
#include "target.h"
#include <new>

using std::align_val_t;
using std::nothrow;

static constexpr align_val_t A64{ 64 }, A4096{ 4096 };

static struct truth truths[] = {
	TRUTH(plain_new),	    TRUTH(array_new),
	TRUTH(nothrow_new),	    TRUTH(nothrow_array_new),
	TRUTH(aligned_new),	    TRUTH(aligned_array_new),
	TRUTH(aligned_nothrow_new), TRUTH(aligned_nothrow_array_new),
};

extern "C" {
#define NEW(name, index, expression)                                                               \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = expression;                                                              \
		KEEP(p);                                                                           \
		CHECK(p);                                                                          \
		truth_take(&truths[index], n);                                                     \
		return p;                                                                          \
	}
NEW(plain_new, 0, operator new(n))
NEW(array_new, 1, operator new[](n))
NEW(nothrow_new, 2, operator new(n, nothrow))
NEW(nothrow_array_new, 3, operator new[](n, nothrow))
NEW(aligned_new, 4, operator new(n, A64))
NEW(aligned_array_new, 5, operator new[](n, A4096))
NEW(aligned_nothrow_new, 6, operator new(n, A64, nothrow))
NEW(aligned_nothrow_array_new, 7, operator new[](n, A64, nothrow))
}

static void *(*const take[])(size_t) = {
	plain_new,   array_new,		nothrow_new,	     nothrow_array_new,
	aligned_new, aligned_array_new, aligned_nothrow_new, aligned_nothrow_array_new,
};

/* Every way to delete that fits the way to new. */
static void give_back(int form, int way, void *p, size_t n)
{
	switch (form * 3 + way) {
	case 0:
		operator delete(p);
		break;
	case 1:
		operator delete(p, n);
		break;
	case 2:
		operator delete(p, nothrow);
		break;
	case 3:
		operator delete[](p);
		break;
	case 4:
		operator delete[](p, n);
		break;
	case 5:
		operator delete[](p, nothrow);
		break;
	case 6:
		operator delete(p);
		break;
	case 7:
		operator delete(p, n);
		break;
	case 8:
		operator delete(p, nothrow);
		break;
	case 9:
		operator delete[](p);
		break;
	case 10:
		operator delete[](p, n);
		break;
	case 11:
		operator delete[](p, nothrow);
		break;
	case 12:
		operator delete(p, A64);
		break;
	case 13:
		operator delete(p, n, A64);
		break;
	case 14:
		operator delete(p, A64, nothrow);
		break;
	case 15:
		operator delete[](p, A4096);
		break;
	case 16:
		operator delete[](p, n, A4096);
		break;
	case 17:
		operator delete[](p, A4096, nothrow);
		break;
	case 18:
		operator delete(p, A64);
		break;
	case 19:
		operator delete(p, n, A64);
		break;
	case 20:
		operator delete(p, A64, nothrow);
		break;
	case 21:
		operator delete[](p, A64);
		break;
	case 22:
		operator delete[](p, n, A64);
		break;
	default:
		operator delete[](p, A64, nothrow);
		break;
	}
}

int main()
{
	for (int form = 0; form < 8; form++) {
		uintptr_t alignment = form < 4 ? 16 : form == 5 ? 4096 : 64;
		for (int i = 0; i < 120; i++) {
			size_t n = static_cast<size_t>(i * 53 % 5000);
			void *p = take[form](n);
			uintptr_t least = n == 0 && form < 4 ? 8 : alignment; // jemalloc 5.2
			CHECK(reinterpret_cast<uintptr_t>(p) % least == 0);
			memset(p, 1, n);
			if (i % 4 == 3)
				continue;
			give_back(form, i % 4, p, n);
			truth_drop(&truths[form], n);
		}
		truth_print(&truths[form], "");
	}
	operator delete(nullptr);
	operator delete[](nullptr, align_val_t{ 64 });
	return 0;
}
