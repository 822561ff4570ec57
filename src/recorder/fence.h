/* SPDX-License-Identifier: Apache-2.0 */
/* Force-included before every file of the recorder: calls that are not allowed inside other people's programs
 * do not compile. System headers that mention these names come first. */
#ifndef RECORDER_FENCE_H
#define RECORDER_FENCE_H

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

#ifdef HEAPGAUGE_VERIFY
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#ifdef HEAPGAUGE_VERIFY_BY_STEPS
#include <unwind.h>
#endif
#endif

#undef alloca

#pragma GCC poison printf fprintf vfprintf sprintf vsprintf puts fputs fopen fclose fwrite fread   \
	fflush perror
#pragma GCC poison abort exit _exit quick_exit assert __assert_fail raise kill atexit on_exit
#pragma GCC poison setenv putenv unsetenv secure_getenv setlocale strerror strdup strndup
#pragma GCC poison dlopen dlclose dlsym dlerror dladdr dl_iterate_phdr backtrace
#pragma GCC poison open close read write socket connect sendmsg recvmsg send recv
#pragma GCC poison pthread_mutex_lock pthread_create pthread_key_create pthread_atfork pthread_once
#pragma GCC poison sigaction sigprocmask pthread_sigmask sleep usleep nanosleep getpid
#pragma GCC poison strcpy strcat strtok atoi alloca
#endif
