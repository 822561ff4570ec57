/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -pthread */
/* Proves that the environment is the program's own while system() runs, which may take long: what another thread sets,
 * changes and takes away meanwhile stays so, and nothing of the recorder's is left in it. */
#include "target.h"
#include <pthread.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void *shell(void *command)
{
	CHECK(system(command) == 0);
	return NULL;
}

static size_t entries(void)
{
	size_t n = 0;

	while (environ[n] != NULL)
		n++;
	return n;
}

/* What a program without the recorder cannot have, and each name once. */
static void check_clean(void)
{
	for (char **entry = environ; *entry != NULL; entry++) {
		size_t name = strcspn(*entry, "=");

		CHECK(name > 0 && (*entry)[name] == '=');
		CHECK(strncmp(*entry, "HEAPGAUGE_HANDOVER", 18) != 0);
		CHECK(strncmp(*entry, "LD_PRELOAD=", 11) != 0);
		for (char **other = environ; other != entry; other++)
			CHECK(strncmp(*other, *entry, name + 1) != 0);
	}
}

/* Runs `meanwhile` when the shell is there, which says so by a byte. */
static void during_shell(void (*meanwhile)(void))
{
	char command[] = "echo >&7; read x <&8", byte;
	int begun[2], go_on[2];
	pthread_t thread;

	CHECK(pipe(begun) == 0 && pipe(go_on) == 0);
	CHECK(dup2(begun[1], 7) == 7 && dup2(go_on[0], 8) == 8);
	CHECK(pthread_create(&thread, NULL, shell, command) == 0);
	CHECK(read(begun[0], &byte, 1) == 1);
	meanwhile();
	CHECK(write(go_on[1], "\n", 1) == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(close(begun[i]) == 0 && close(go_on[i]) == 0);
	CHECK(close(7) == 0 && close(8) == 0);
}

static void change_in_place(void)
{
	CHECK(setenv("CHANGED", "new", 1) == 0 && unsetenv("TAKEN") == 0);
}

static void add(void)
{
	CHECK(setenv("ADDED", "yes", 1) == 0);
}

static void look(void)
{
	CHECK(getenv("KEPT") != NULL);
}

int main(void)
{
	unsetenv("LD_PRELOAD"); /* of the harness */
	CHECK(setenv("KEPT", "kept", 1) == 0 && setenv("TAKEN", "x", 1) == 0);
	CHECK(setenv("CHANGED", "old", 1) == 0);
	size_t before = entries();

	during_shell(look);
	CHECK(entries() == before);
	check_clean();
	during_shell(change_in_place);
	CHECK(entries() == before - 1 && getenv("TAKEN") == NULL);
	CHECK(strcmp(getenv("CHANGED"), "new") == 0);
	check_clean();
	during_shell(add);
	during_shell(look); /* would write over what was left of the recorder's there */
	CHECK(entries() == before && strcmp(getenv("ADDED"), "yes") == 0);
	CHECK(strcmp(getenv("KEPT"), "kept") == 0 && strcmp(getenv("CHANGED"), "new") == 0);
	check_clean();
	free(take(100));
	truth_drop(&truth, 100);
	truth_print(&truth, "");
	return 0;
}
