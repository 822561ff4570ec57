/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* The names of containers in lines of /proc/PID/cgroup, as the runtimes write them. */
#include "collect/kernel/container.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "collect/kernel/map_line.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/recorded_processes.h"
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

static void files_of_profiles_are_known_by_their_names(void **state)
{
	(void)state;
	assert_true(recorded_file_name("/dev/shm/x/heapgauge.worker.12.1794736217.live\nnext"));
	assert_true(recorded_file_name("/run/heapgauge.w.1.2.live (deleted)"));
	assert_false(recorded_file_name("/run/heapgauge.w.1.2.live2"));
	assert_false(recorded_file_name("/run/heapgauge.d/other"));
	assert_false(recorded_file_name("/run/other.live"));
	assert_false(recorded_file_name("heapgauge.w.live")); /* of another root: no path */
	assert_false(recorded_file_name(""));
}

static void a_line_of_maps_names_its_file(void **state)
{
	struct map_line map;

	(void)state;
	assert_true(map_line_parse("7f00-7f01 rw-s 00001000 00:1b 267        /a b\n", &map));
	assert_int_equal(map.offset, 0x1000);
	assert_int_equal(map.device, makedev(0, 0x1b));
	assert_int_equal(map.inode, 267);
	assert_int_equal(strncmp(map.name, "/a b\n", 5), 0);
	assert_true(map_line_parse("7f00-7f01 rw-p 00000000 00:00 0\n", &map));
	assert_int_equal(map.inode, 0);
	assert_int_equal(map.name[0], '\n');
	assert_false(map_line_parse("7f00-7f01 rw-p 00000000 garbage\n", &map));
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
		cmocka_unit_test(files_of_profiles_are_known_by_their_names),
		cmocka_unit_test(a_line_of_maps_names_its_file),
		cmocka_unit_test(this_process_is_in_no_other_container_than_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
