/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Perf-event uprobes, one per site: the last resort, without uprobe_multi and without tracefs. The
 * same plan and cookies, two file descriptors a site. The kernel closes them one by one, each after
 * a grace period or two (0.03-0.1 s), so thousands take minutes to go: the user is warned beforehand.
 */
#define LOG_DOMAIN "attach"
#include "base/cancel.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "probe/probe_impl.h"

#define FDS_PER_SITE 2 /* the perf event and the link */
#define SLOW_SITES 300
#define CLOSED_PER_MINUTE 500
#define FDS_RESERVE 512  /* everything else */
#define REF_CTR_SHIFT 32 /* kernel: PERF_UPROBE_REF_CTR_OFFSET_SHIFT */

static uint64_t read_u64(const char *path)
{
	uint64_t v = 0;
	FILE *f = fopen(path, "re");

	if (f) {
		if (fscanf(f, "%" SCNu64, &v) != 1)
			v = 0;
		fclose(f);
	}
	return v;
}

static void warn_of_detach(uint64_t sites)
{
	if (sites < SLOW_SITES)
		return;
	pr_warn("this kernel removes the %" PRIu64
		" probes one by one: that will take up to %" PRIu64 " minutes",
		sites, sites / CLOSED_PER_MINUTE + 1);
	pr_hint("boot Linux 6.10 or later, or let ptbpf use tracefs (CAP_SYS_ADMIN)");
}

int attach_perf__raise_limit(uint64_t sites)
{
	uint64_t nr_open = read_u64("/proc/sys/fs/nr_open");
	uint64_t want = sites * FDS_PER_SITE + FDS_RESERVE;
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return -errno;
	warn_of_detach(sites);
	if (lim.rlim_cur >= want)
		return 0;
	if (nr_open && want > nr_open) {
		pr_error("%" PRIu64 " probes need %" PRIu64
			 " file descriptors, the system allows %" PRIu64,
			 sites, want, nr_open);
		pr_hint("raise it: sysctl fs.nr_open=%" PRIu64, want);
		return -EMFILE;
	}
	lim.rlim_cur = want;
	if (lim.rlim_max < want)
		lim.rlim_max = want;
	if (setrlimit(RLIMIT_NOFILE, &lim)) {
		int err = -errno;

		pr_error("cannot raise the limit of open files to %" PRIu64 ": %s", want, errstr(err));
		pr_hint("start ptbpf with a higher limit: ulimit -n %" PRIu64, want);
		return err;
	}
	return 0;
}

/* The perf event of one site and, on it, the program. */
static int link_site(const struct attach_req *req, const struct probe_site *site, struct probe_link *out)
{
	LIBBPF_OPTS(bpf_perf_event_opts, opts, .bpf_cookie = PTB_COOKIE(req->proc, site->id, site->args));
	struct perf_event_attr attr = {
		.type = (uint32_t)read_u64("/sys/bus/event_source/devices/uprobe/type"),
		.size = sizeof(attr),
		.config = site->semaphore << REF_CTR_SHIFT,
		.uprobe_path = (uintptr_t)req->path,
		.probe_offset = site->offset,
	};
	int err, fd = attr.type ? shielded__perf_open(&attr, req->tgid) : -1;

	if (!attr.type)
		return -EOPNOTSUPP;
	if (fd < 0)
		return -errno;
	*out = (struct probe_link){ .lib = bpf_program__attach_perf_event_opts(req->prog, fd, &opts),
				    .shielded = true };
	if (out->lib) /* owns fd */
		return 0;
	err = -errno;
	shielded__close(fd);
	return err;
}

int attach_perf__sites(struct attach_req *req)
{
	for (uint32_t i = 0; i < req->cnt; i++) {
		struct probe_site *site = req->sites[i];
		struct probe_link link;
		int err;

		if (cancel__pending())
			return -ECANCELED;
		err = link_site(req, site, &link);
		if (!err) {
			err = link_list__add(req->links, link);
			if (err)
				return err;
			req->attached++;
			continue;
		}
		if (attach__is_hard_error(err)) {
			if (err == -EMFILE || err == -ENFILE)
				pr_error("out of file descriptors after %u of %u probes in '%s'", i,
					 req->cnt, req->path);
			return err;
		}
		pr_debug("kernel refused site %u at 0x%" PRIx64 " of '%s': %s", site->id,
			 site->offset, req->path, errstr(err));
		site->refused = true;
	}
	return 0;
}
