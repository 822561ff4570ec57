// SPDX-License-Identifier: Apache-2.0
//
// The other unit of scenes.cc: with link-time optimization its functions are inlined there.
#include <cstdlib>

#define BARRIER __asm__ volatile("" ::: "memory")

extern void *volatile kept;
int puts_away; // what it does beyond scenes.cc keeps it from being folded into a function there

// gcc's DWARF 4 loses what is inlined at the very start of a section: an empty range there ends the list.
void first_of_the_unit()
{
	BARRIER;
}

static void put_away(size_t size)
{
	kept = malloc(size); // @1006.0 put_away
	puts_away++;
	BARRIER;
}

void in_other_unit(size_t size)
{
	put_away(size); // @1006.1 in_other_unit
	BARRIER;
}
