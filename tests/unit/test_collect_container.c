/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* The names of containers in lines of /proc/PID/cgroup, as the runtimes write them. */
#include "collect/container.h"

#include <stdlib.h>
#include <unistd.h>

#include "collect/procfs.h"
#include "unit.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void expect(const char *groups, const char *name)
{
	char *found = container_in_groups(groups);

	if (name)
		assert_string_equal(found, name);
	else
		assert_null(found);
	free(found);
}

static void the_id_of_docker_containerd_crio_and_podman_is_found(void **state)
{
	(void)state;
	expect("12:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", "0123456789ab");
	expect("0::/system.slice/docker-" ID ".scope\n", "0123456789ab");
	expect("0::/kubepods.slice/kubepods-burstable.slice/"
	       "kubepods-burstable-pod2f0c2e4b_8a2c_4a3b_9d55_1c1f6c0d9a11.slice/cri-containerd-" ID
	       ".scope\n",
	       "0123456789ab");
	expect("4:memory:/kubepods/besteffort/pod2f0c2e4b-8a2c-4a3b-9d55-1c1f6c0d9a11/" ID "\n",
	       "0123456789ab");
	expect("0::/machine.slice/libpod-" ID ".scope/container\n", "0123456789ab");
	expect("0::/kubepods.slice/crio-" ID ".scope\n", "0123456789ab");
}

static void lxc_and_nspawn_give_names(void **state)
{
	(void)state;
	expect("0::/lxc.payload.web-1/system.slice/cron.service\n", "web-1");
	expect("3:memory:/lxc/web-1\n", "web-1");
	expect("0::/machine.slice/machine-deb12.scope/payload\n", "deb12");
}

static void other_groups_are_no_containers(void **state)
{
	(void)state;
	expect("", NULL);
	expect("0::/\n", NULL);
	expect("0::/user.slice/user-1000.slice/session-3.scope\n", NULL);
	expect("0::/system.slice/deadbeef.service\n", NULL);
	expect("0::/x/" ID "0\n", NULL); /* one digit too many */
}

static void this_process_is_in_no_other_container_than_itself(void **state)
{
	(void)state;
	assert_null(container_name(getpid()));
	assert_null(container_root(getpid()));
	assert_int_equal(procfs_own_pid(getpid()), getpid());
	assert_int_equal(procfs_own_pid(1 << 30), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_id_of_docker_containerd_crio_and_podman_is_found),
		cmocka_unit_test(lxc_and_nspawn_give_names),
		cmocka_unit_test(other_groups_are_no_containers),
		cmocka_unit_test(this_process_is_in_no_other_container_than_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
