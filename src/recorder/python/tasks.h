/* SPDX-License-Identifier: Apache-2.0 */
/* Labels the allocations of a thread that runs an asyncio task with task=NAME: record --python-tasks.
 *
 * Since 3.14 the thread state points to the running task. Only the type of a task is cached: the next task, and its name, may reuse
 * the address, so the name is compared at every allocation. */
#ifndef RECORDER_PYTHON_TASKS_H
#define RECORDER_PYTHON_TASKS_H

#include <stdbool.h>

/* At startup, and in a forked child. */
void python_tasks_start(bool wanted);
#endif
