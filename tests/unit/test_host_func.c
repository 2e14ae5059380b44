/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernels' names: by stubs and by handles of a library in this process, of the wheels' libtorch_cuda mapped
 * as a loader would, and of addresses that are nothing.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "fake_kernels.h"
#include "suite.h"
#include "target/elf.h"
#include "target/proc.h"
#include "target/torch.h"
#include "torch_env.h"

#define BASE ((uint8_t *)0x5a0000000000) /* where nothing else is */

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;
static int self; /* our own pidfd */

static void expect(struct host_funcs *hf, const void *addr, const char *name)
{
	char buf[4096];
	int err = host_funcs__kernel(hf, getpid(), self, (uint64_t)(uintptr_t)addr, buf, sizeof(buf));

	CU_ASSERT_EQUAL(err, name ? 0 : -ENOENT);
	CU_ASSERT_STRING_EQUAL(buf, name ? name : "");
	if (strcmp(buf, name ? name : "") != 0)
		printf(" %s instead of %s;", buf, name ? name : "nothing");
}

TEST("stubs")
{
	struct host_funcs *hf = host_funcs__new();
	struct fake_kernels k;

	CU_ASSERT_FATAL(hf != NULL && !fake_kernels__fill(&k, NULL, NULL));
	expect(hf, k.stubs[0], "void lib::kernel<4, float>(float const*, int)");
	expect(hf, k.stubs[1], "lib::other(int*, int*, int, long)");
	expect(hf, k.stubs[2], "plain");
	expect(hf, k.stubs[3], "no_kernel");
	expect(hf, (const char *)k.stubs[0] + 1, NULL);
	host_funcs__free(hf);
}

TEST("handles")
{
	struct host_funcs *hf = host_funcs__new();
	struct fake_kernels k;
	char buf[8];

	CU_ASSERT_FATAL(hf != NULL && !fake_kernels__fill(&k, BASE, BASE + 8));
	expect(hf, BASE, "lib::second(int*, int, long)");
	expect(hf, BASE + 8, "void third<long>(long)");
	expect(hf, (const void *)0x1234, NULL); /* a static variable, but no stub's */
	expect(hf, BASE + 16, NULL);
	fake_kernels__fill(&k, BASE, BASE + 16); /* requested later */
	expect(hf, BASE + 16, "void third<long>(long)");
	expect(hf, NULL, NULL);
	CU_ASSERT_EQUAL(host_funcs__kernel(hf, getpid(), self, (uintptr_t)BASE, buf, sizeof(buf)),
			-ENAMETOOLONG);
	CU_ASSERT_EQUAL(host_funcs__kernel(hf, getpid(), self, (uintptr_t)BASE, buf, 0), -EINVAL);
	host_funcs__free(hf);
}

/* Any launch, with any argument. */
TEST("addresses of nothing")
{
	static const uint64_t addrs[] = { 1,          0xfff,         0x7fffffffffff, 0x800000000000,
					  UINT64_MAX, UINT64_MAX - 7 };
	struct host_funcs *hf = host_funcs__new();
	uint64_t on_stack = 0;
	char buf[256];

	CU_ASSERT_FATAL(hf != NULL);
	for (uint32_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++)
		expect(hf, (const void *)(uintptr_t)addrs[i], NULL);
	expect(hf, &on_stack, NULL);
	CU_ASSERT(host_funcs__kernel(hf, 0x7ffffff0, -1, 0x400000, buf, sizeof(buf)) < 0);
	host_funcs__free(hf);
	host_funcs__free(NULL);
}

/* Handles that nobody has are searched for until the process's time is over; other processes have theirs. */
TEST("time that is over")
{
	struct host_funcs *hf = host_funcs__new();
	uint64_t begin = clock__mono_ns(), all = LIMIT_KERNEL_SEARCH_MS * 1000000ull;
	struct fake_kernels k;
	char buf[256];
	int err = -ENOENT;

	CU_ASSERT_FATAL(hf != NULL && !fake_kernels__fill(&k, NULL, NULL));
	for (uint64_t handle = 0x10000; err == -ENOENT && clock__mono_ns() - begin < 20 * all; handle++)
		err = host_funcs__kernel(hf, getpid(), self, handle, buf, sizeof(buf));
	CU_ASSERT_EQUAL(err, -ETIMEDOUT);
	CU_ASSERT(clock__mono_ns() - begin > all / 2);
	CU_ASSERT_EQUAL(host_funcs__kernel(hf, getpid(), self, (uintptr_t)k.stubs[2], buf, sizeof(buf)),
			-ETIMEDOUT);
	CU_ASSERT_EQUAL(host_funcs__kernel(hf, getppid(), self, 0x1234, buf, sizeof(buf)), -ENOENT);
	host_funcs__free(hf);
}

static int ask_child(struct host_funcs *hf, pid_t pid, int hold, const void *addr)
{
	char buf[256];

	return host_funcs__kernel(hf, pid, hold, (uint64_t)(uintptr_t)addr, buf, sizeof(buf));
}

/* Known names of a process that has ended are still returned; unknown ones are no longer searched for. */
TEST("a process that ended")
{
	struct host_funcs *hf = host_funcs__new(), *late = host_funcs__new();
	pid_t pid = fork();
	int hold;

	if (!pid)
		for (;;)
			pause();
	hold = pid_hold__open(pid);
	CU_ASSERT_FATAL(hf && late && pid > 0 && hold >= 0);
	CU_ASSERT_EQUAL(ask_child(hf, pid, hold, (const void *)(uintptr_t)run_suite), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(ask_child(hf, pid, hold, (const void *)(uintptr_t)ask_child), 0);
	usleep(100000); /* its mappings would be read again */
	CU_ASSERT_EQUAL(ask_child(hf, pid, hold, BASE), -ESRCH);
	CU_ASSERT_EQUAL(ask_child(hf, pid, hold, (const void *)(uintptr_t)ask_child), 0);
	CU_ASSERT_EQUAL(ask_child(late, pid, hold, (const void *)(uintptr_t)run_suite), -ESRCH);
	close(hold);
	host_funcs__free(hf);
	host_funcs__free(late);
}

/* ---- the wheels' libraries ---- */

struct wanted {
	const char *end; /* of the symbol's name */
	const char *part;
	uint8_t type;
	uint64_t addr;
	char name[4096];
};

static bool on_sym(const struct elf_sym *sym, void *arg)
{
	struct wanted *w = arg;
	size_t len = strlen(sym->name), end = strlen(w->end);

	if (!sym->defined || sym->type != w->type || !strstr(sym->name, w->part) || len < end ||
	    strcmp(sym->name + len - end, w->end) != 0 || len >= sizeof(w->name))
		return true;
	w->addr = sym->addr;
	strcpy(w->name, sym->name);
	return false;
}

/* The file's code at BASE, and memory of our own where its data would be. */
static bool map_like_loader(const char *path, const struct elf_file *ef, uint64_t data)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t addr, len, off;
	bool exec, done = false;

	for (uint32_t i = 0; fd >= 0 && elf_file__segment(ef, i, &addr, &len, &exec); i++) {
		off = elf_file__addr_to_off(ef, addr);
		if (!exec)
			continue;
		done = mmap(BASE + (addr & ~4095ULL), len + (addr & 4095), PROT_READ | PROT_EXEC,
			    MAP_PRIVATE | MAP_FIXED, fd, (off_t)(off & ~4095ULL)) != MAP_FAILED;
	}
	close(fd);
	data -= 1 << 20;
	return done && mmap(BASE + (data & ~4095ULL), 2 << 20, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void check_wheel(const struct torch_env *env)
{
	struct wanted handle = { .type = STT_OBJECT,
				 .part = "vectorized_elementwise_kernelILi4E",
				 .end = "E8__handle" };
	struct wanted stub = { .type = STT_FUNC, .part = "vectorized_elementwise_kernelILi4E", .end = "" };
	static const char want[] = "void at::native::vectorized_elementwise_kernel<4, ";
	struct host_funcs *hf = host_funcs__new();
	char path[600], buf[8192] = "";
	struct elf_file *ef;
	const struct wanted *w;
	uint64_t ask;

	snprintf(path, sizeof(path), "%s/libtorch_cuda.so", env->libs);
	CU_ASSERT_FATAL(hf != NULL);
	if (elf_file__open(path, &ef)) {
		host_funcs__free(hf);
		return;
	}
	elf_file__for_each_sym(ef, on_sym, &handle);
	elf_file__for_each_sym(ef, on_sym, &stub);
	w = handle.addr ? &handle : &stub;
	CU_ASSERT_FATAL(w->addr != 0);
	CU_ASSERT_FATAL(map_like_loader(path, ef, handle.addr ? handle.addr : 0x7000000000));
	ask = (uint64_t)(uintptr_t)BASE + w->addr;
	if (handle.addr) {
		*(uint64_t *)(BASE + handle.addr) = 0x600000001230;
		ask = 0x600000001230;
	}
	CU_ASSERT_EQUAL(host_funcs__kernel(hf, getpid(), self, ask, buf, sizeof(buf)), 0);
	CU_ASSERT_EQUAL(strncmp(buf, want, sizeof(want) - 1), 0);
	CU_ASSERT(!strstr(buf, "device_stub"));
	printf("\n    %s by %s: %.100s...", env->name, handle.addr ? "handle" : "stub", buf);
	CU_ASSERT_EQUAL(munmap(BASE, 1ULL << 40), 0);
	host_funcs__free(hf);
	elf_file__close(ef);
}

TEST("wheels")
{
	for (size_t i = 0; i < env_cnt; i++)
		check_wheel(&envs[i]);
	if (!env_cnt)
		printf("SKIP: no torch-* environment; ");
	printf("\n    ");
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	self = pid_hold__open(getpid());
	return run_suite("host_func");
}
