/* SPDX-License-Identifier: Apache-2.0 */
/* Between t_throw_across and its three libraries. */
#ifndef THROW_H
#define THROW_H
#include "target.h"
#include <stdexcept>
#include <string>

typedef int throw_leaf(int i);
typedef int throw_middle(int i, throw_leaf *leaf);

struct held { /* frees while the exception passes */
	explicit held(size_t n) : p(new char[n])
	{
		KEEP(p);
	}
	held(const held &) = delete;
	held &operator=(const held &) = delete;
	~held()
	{
		delete[] p;
	}
	char *p;
};
#endif
