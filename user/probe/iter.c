/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Programs without an attachment: one program of the object loaded alone, and iterators, which are
 * read like files. */
#define LOG_DOMAIN "probe"
#include "base/log.h"

#include <errno.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/probe_impl.h"
#include "ptbpf.skel.h"

int load_alone(struct ptbpf_bpf *skel, const struct bpf_program *only)
{
	struct bpf_program *prog;
	struct bpf_map *map;

	bpf_object__for_each_program(prog, skel->obj) bpf_program__set_autoload(prog, prog == only);
	bpf_object__for_each_map(map, skel->obj) if (!bpf_map__is_internal(map))
		bpf_map__set_autocreate(map, false);
	return ptbpf_bpf__load(skel);
}

ssize_t iter__read(int fd, void *buf, size_t len)
{
	ssize_t n;

	do
		n = read(fd, buf, len);
	while (n < 0 && (errno == EAGAIN || errno == EINTR));
	return n < 0 ? -errno : n;
}

int iter__run(const struct bpf_link *link)
{
	int fd = bpf_iter_create(bpf_link__fd(link));
	char buf[64];
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = iter__read(fd, buf, sizeof(buf));
	while (n > 0);
	close(fd);
	return (int)n;
}

int iter__run_tasks(const struct bpf_link *link)
{
	int err = iter__run(link);

	if (err)
		pr_warn("cannot iterate over the tasks of this machine: %s", errstr(err));
	return err;
}
