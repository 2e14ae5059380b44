/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Measures the cost of a probe hit on this host. A child calls a function with one site of each
 * kind that ptbpf probes (`push`, conditional jump), with and without the probes. The times are
 * processor time of the child, so that a busy machine disturbs little. Never touches a target.
 */
#define LOG_DOMAIN "cost"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/probe_impl.h"

#define CALLS_PER_ROUND 1000
#define HITS_PER_CALL 2
#define ROUNDS 5
#define DEADLINE_MS 2000 /* all of it takes less than 30 ms unless the machine is overloaded */

/* void ptb_cost_target(void) is alone in its section, so that the compiler cannot copy or inline
 * it. */
__asm__(".pushsection .text.ptb_cost,\"ax\",@progbits\n"
	".balign 16\n"
	".type ptb_cost_target, @function\n"
	"ptb_cost_target:\n"
	"ptb_cost_push:\n"
	"	push %rbx\n"
	"	xor %ebx, %ebx\n"
	"	test %ebx, %ebx\n"
	"ptb_cost_jcc:\n"
	"	jne 1f\n"
	"1:	pop %rbx\n"
	"	ret\n"
	".size ptb_cost_target, . - ptb_cost_target\n"
	".popsection\n");
extern const char ptb_cost_push[], ptb_cost_jcc[];
void ptb_cost_target(void);

struct find {
	uintptr_t addr;
	uint64_t off;
	const char *path;
	bool found;
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct find *f = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD || f->addr < begin || f->addr >= begin + ph->p_filesz)
			continue;
		f->off = f->addr - begin + ph->p_offset;
		f->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
		f->found = true;
		return 1;
	}
	return 0;
}

int probe_cost__sites(const char **path, uint64_t *push_off, uint64_t *jcc_off)
{
	struct find f = { .addr = (uintptr_t)ptb_cost_push };

	dl_iterate_phdr(find_segment, &f);
	if (!f.found)
		return -ENOENT;
	*path = f.path;
	*push_off = f.off;
	*jcc_off = f.off + (uint64_t)(ptb_cost_jcc - ptb_cost_push);
	return 0;
}

/* ---- the child: one round per byte that it reads, with async-signal-safe calls only ---- */

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

__attribute__((noreturn)) static void child_main(int in, int out)
{
	uint64_t ns;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(in, &byte, 1) == 1) {
		uint64_t start = thread_cpu_ns();

		for (int i = 0; i < CALLS_PER_ROUND; i++)
			ptb_cost_target();
		ns = thread_cpu_ns() - start;
		if (write(out, &ns, sizeof(ns)) != (ssize_t)sizeof(ns))
			break;
	}
	_exit(0);
}

/* ---- the parent ---- */

struct runner {
	pid_t pid;
	int to, from;
	uint64_t deadline_ns;
};

static int runner__start(struct runner *r)
{
	int down[2], up[2], err;

	if (pipe2(down, O_CLOEXEC))
		return -errno;
	if (pipe2(up, O_CLOEXEC)) {
		err = -errno;
		close(down[0]);
		close(down[1]);
		return err;
	}
	r->pid = fork();
	if (r->pid == 0) {
		close(down[1]);
		close(up[0]);
		child_main(down[0], up[1]);
	}
	err = -errno;
	close(down[0]);
	close(up[1]);
	r->to = down[1];
	r->from = up[0];
	r->deadline_ns = clock__mono_ns() + DEADLINE_MS * 1000000ull;
	return r->pid < 0 ? err : 0;
}

static void runner__stop(struct runner *r)
{
	close(r->to); /* the child reads the end and exits */
	if (r->pid > 0) {
		if (clock__mono_ns() >= r->deadline_ns)
			kill(r->pid, SIGKILL);
		while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(r->from);
}

/* Median of ROUNDS rounds in ns; negative errno. */
static int64_t runner__median(struct runner *r, const struct probe_cost_ops *ops)
{
	uint64_t ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct pollfd pfd = { .fd = r->from, .events = POLLIN };
		uint64_t now = clock__mono_ns(), left;
		int n;

		left = now < r->deadline_ns ? (r->deadline_ns - now) / 1000000 : 0;
		if (write(r->to, "", 1) != 1)
			return -EPIPE;
		n = poll(&pfd, 1, (int)left);
		if (n <= 0)
			return n ? -errno : -ETIMEDOUT;
		if (read(r->from, &ns[i], sizeof(ns[i])) != (ssize_t)sizeof(ns[i]))
			return -EPIPE;
		ops->drain(ops->arg);
		for (int j = i; j > 0 && ns[j - 1] > ns[j]; j--) {
			uint64_t tmp = ns[j];

			ns[j] = ns[j - 1];
			ns[j - 1] = tmp;
		}
	}
	return (int64_t)ns[ROUNDS / 2];
}

int64_t probe_cost__measure(const struct probe_cost_ops *ops)
{
	struct runner r = { .pid = -1 };
	int64_t bare, probed = 0;
	int err = runner__start(&r);

	if (err)
		return err;
	bare = runner__median(&r, ops);
	if (bare >= 0) {
		err = ops->attach(ops->arg, r.pid);
		probed = err ? err : runner__median(&r, ops);
	}
	runner__stop(&r);
	if (bare < 0)
		return bare;
	if (probed < 0)
		return probed;
	if (probed <= bare)
		return -ERANGE;
	return (probed - bare) * 1000 / (CALLS_PER_ROUND * HITS_PER_CALL);
}
