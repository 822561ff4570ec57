/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the target starts or becomes. Our variables are not in the target's environment; they are added to what
 * a started program gets, if it can be recorded and is to be. */
#ifndef RECORDER_EXEC_H
#define RECORDER_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "recorder/slot.h"

/* The program's environment, also before libc has been initialised. Never NULL. */
char **exec_environ(void);

/* The collector's socket, hidden or not; NULL: there is none. */
const char *exec_socket(void);

/* Takes our variables out of the environment. Once, at start-up, before anything else can have kept a copy. */
void exec_hide(void);

/* The environment for a program: envp itself, or a copy with our variables that stays valid until the slot's next call.
 * path: the program's file; NULL = unknown, envp is returned. With search, it is looked up as execvp does.
 * slot: NULL in a fork's child that has no profile and, becoming another program, needs none. */
char *const *exec_environment(struct slot *slot, const char *path, bool search, char *const *envp);

/* Room for the arguments of a program, apart from the environment's; NULL: none. */
char **exec_arguments(struct slot *slot, size_t bytes);
#endif
