/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finding the torch libraries of a process wherever they come from: renamed, deleted, replaced,
 * behind another root or mount namespace, with and without the right to read /proc/PID/map_files;
 * and the refusals. The library is a small one that defines what real ones are recognised by.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target/elf.h"
#include "target/proc_info.h"
#include "target/torch.h"

#define OP "_ZN2at4_ops3add4callEv"

static char tmp[64];

/* ---- children that map the library ---- */

struct child {
	pid_t pid;
	uint64_t op; /* address of OP in it */
};

static void wait_for_death(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* setup() runs in the child before it loads the library; false: not possible here. */
static bool child__start(struct child *c, const char *path, bool (*setup)(const char *path))
{
	int fds[2];

	c->op = 0;
	if (pipe(fds))
		return false;
	fflush(stdout);
	c->pid = fork();
	if (!c->pid) {
		void *lib = NULL;

		if (!setup || setup(path))
			lib = dlopen(path, RTLD_NOW);
		c->op = lib ? (uint64_t)(uintptr_t)dlsym(lib, OP) : 0;
		if (write(fds[1], &c->op, sizeof(c->op)) != sizeof(c->op))
			_exit(1);
		wait_for_death();
	}
	close(fds[1]);
	if (read(fds[0], &c->op, sizeof(c->op)) != sizeof(c->op))
		c->op = 0;
	close(fds[0]);
	return c->op;
}

static void child__stop(const struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

static bool copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	char buf[65536];
	ssize_t n;
	bool ok = in >= 0 && out >= 0;

	while (ok && (n = read(in, buf, sizeof(buf))) > 0)
		ok = write(out, buf, (size_t)n) == n;
	close(in);
	close(out);
	return ok;
}

static const char *tmp_path(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", tmp, name);
	return path;
}

static bool find_op(const struct elf_sym *sym, void *arg)
{
	if (!sym->defined || strcmp(sym->name, OP))
		return true;
	*(uint64_t *)arg = sym->addr;
	return false;
}

/* All three roles are this file, and addresses computed from it are those the child has. */
static void check_found(const struct child *c, const char *path)
{
	enum torch_proc_why why;
	struct torch_proc *tp;
	struct elf_file *ef;
	uint64_t addr = 0;

	CU_ASSERT_EQUAL(torch_proc__peek(c->pid), 1);
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(c->pid, &tp, &why), 0);
	CU_ASSERT_EQUAL(why, TORCH_PROC_OK);
	CU_ASSERT(torch_proc__ready(tp));
	for (int role = 0; role < TORCH_LIB_CXX; role++) {
		const struct torch_lib *lib = &tp->libs[role];
		uint8_t zero[BUILD_ID_MAX] = { 0 };

		CU_ASSERT_FATAL(lib->present);
		CU_ASSERT_STRING_EQUAL(lib->path, path);
		CU_ASSERT(c->op >= lib->text_start && c->op < lib->text_end);
		CU_ASSERT(memcmp(lib->build_id, zero, sizeof(zero)) != 0);
		CU_ASSERT_EQUAL_FATAL(elf_file__open(lib->access_path, &ef), 0);
		elf_file__for_each_sym(ef, find_op, &addr);
		CU_ASSERT_EQUAL(addr + lib->load_bias, c->op);
		elf_file__close(ef);
	}
	torch_proc__free(tp);
}

static void check_refused(pid_t pid, int err, enum torch_proc_why expect)
{
	enum torch_proc_why why;
	struct torch_proc *tp;

	CU_ASSERT_EQUAL(torch_proc__open(pid, &tp, &why), err);
	CU_ASSERT_PTR_NULL(tp);
	CU_ASSERT_EQUAL(why, expect);
}

/* ---- rights: root's, or without the two that open map_files ---- */

static void set_map_files_right(bool on)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	CU_ASSERT_FATAL(!syscall(SYS_capget, &head, data));
	if (on) {
		data[0].effective = data[0].permitted;
		data[1].effective = data[1].permitted;
	} else {
		data[0].effective &= ~(1u << CAP_SYS_ADMIN);
		data[1].effective &= ~CAP_TO_MASK(CAP_CHECKPOINT_RESTORE);
	}
	CU_ASSERT_FATAL(!syscall(SYS_capset, &head, data));
}

static void check_found_both_ways(const struct child *c, const char *path)
{
	check_found(c, path);
	set_map_files_right(false);
	check_found(c, path);
	set_map_files_right(true);
}

/* ---- addresses ---- */

TEST("names")
{
	static const char *const names[] = {
		"libtorch_cpu.so",
		"libtorch_cpu-1a2b3c4d.so.2",
		"my libtorch.so",
		"lib\nc10\\012.so",
	};
	struct child c;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *path = tmp_path(names[i]);

		CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, path));
		CU_ASSERT_FATAL(child__start(&c, path, NULL));
		if (!strchr(path, '\\')) { /* "\012" in a name and a newline look the same in maps */
			check_found_both_ways(&c, path);
		} else {
			enum torch_proc_why why;
			struct torch_proc *tp;

			CU_ASSERT_EQUAL(torch_proc__open(c.pid, &tp, &why), 0);
			torch_proc__free(tp);
		}
		child__stop(&c);
		unlink(path);
	}
}

TEST("a name without information")
{
	const char *path = tmp_path("libsomething.so");
	struct child c;

	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, path));
	CU_ASSERT_FATAL(child__start(&c, path, NULL));
	check_refused(c.pid, -ENOENT, TORCH_PROC_NO_TORCH);
	child__stop(&c);
	unlink(path);
}

TEST("deleted and replaced")
{
	const char *path = tmp_path("libtorch_gone.so");
	struct child c;

	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, path));
	CU_ASSERT_FATAL(child__start(&c, path, NULL));
	unlink(path);
	check_found(&c, path);
	set_map_files_right(false);
	check_refused(c.pid, -ENOEXEC, TORCH_PROC_BAD_LIB);
	set_map_files_right(true);
	/* an equal file under the same name is still another one: probes in it would never fire */
	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, tmp_path("blocks the inode number")));
	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, tmp_path("libtorch_gone.so")));
	path = tmp_path("libtorch_gone.so");
	check_found(&c, path);
	set_map_files_right(false);
	check_refused(c.pid, -ENOEXEC, TORCH_PROC_BAD_LIB);
	set_map_files_right(true);
	child__stop(&c);
	unlink(path);
	unlink(tmp_path("blocks the inode number"));
}

static bool own_tmpfs(const char *path)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tmpfs", tmp, "tmpfs", 0, NULL) && copy_file(FAKE_TORCH_LIB, path);
}

TEST("mount namespace")
{
	const char *path = tmp_path("libtorch_cpu.so");
	struct child c;

	CU_ASSERT_FATAL(child__start(&c, path, own_tmpfs));
	CU_ASSERT(access(path, F_OK) != 0);
	check_found_both_ways(&c, path);
	/* the same path outside is another file and must not be mistaken for it */
	CU_ASSERT_FATAL(copy_file("/proc/self/exe", path));
	check_found_both_ways(&c, path);
	child__stop(&c);
	unlink(path);
}

static bool own_root(const char *path)
{
	(void)path;
	return !chroot(tmp) && !chdir("/");
}

TEST("chroot")
{
	struct child c;

	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, tmp_path("libtorch_cpu.so")));
	CU_ASSERT_FATAL(child__start(&c, "/libtorch_cpu.so", own_root));
	/* maps shows paths as its reader's root has them */
	check_found_both_ways(&c, tmp_path("libtorch_cpu.so"));
	child__stop(&c);
	unlink(tmp_path("libtorch_cpu.so"));
}

TEST("damaged")
{
	const char *path = tmp_path("libtorch_cpu.so");
	struct child c;
	int fd;

	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, path));
	CU_ASSERT_FATAL(child__start(&c, path, NULL));
	fd = open(path, O_WRONLY);
	CU_ASSERT(pwrite(fd, "\177FLE", 4, 0) == 4);
	close(fd);
	check_refused(c.pid, -ENOEXEC, TORCH_PROC_BAD_LIB);
	child__stop(&c);
	unlink(path);
}

/* ---- libraries of CUDA ---- */

static bool map_cudart(const char *torch)
{
	(void)torch;
	return dlopen(tmp_path("libcudart-1a2b3c4d.so.12"), RTLD_NOW) &&
	       dlopen(tmp_path("libwrapper.so"), RTLD_NOW); /* the same functions, another name */
}

/* libcudart is found by its name and what it defines; one that cannot be read costs nothing else. */
TEST("libcudart")
{
	enum torch_proc_why why;
	struct torch_proc *tp;
	struct child c;
	char torch[600];
	int fd;

	snprintf(torch, sizeof(torch), "%s", tmp_path("libtorch_cpu.so"));
	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, torch));
	CU_ASSERT_FATAL(copy_file(FAKE_CUDART_LIB, tmp_path("libwrapper.so")));
	CU_ASSERT_FATAL(copy_file(FAKE_CUDART_LIB, tmp_path("libcudart-1a2b3c4d.so.12")));
	CU_ASSERT_FATAL(child__start(&c, torch, map_cudart));
	check_found_both_ways(&c, torch);
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(c.pid, &tp, &why), 0);
	CU_ASSERT_FATAL(tp->cuda_cnt == 1 && tp->cuda[0].role == TORCH_LIB_CUDART); /* the driver is not mapped */
	CU_ASSERT_STRING_EQUAL(tp->cuda[0].lib.path, tmp_path("libcudart-1a2b3c4d.so.12"));
	CU_ASSERT(tp->cuda[0].lib.build_id_sz > 0);
	torch_proc__free(tp);
	fd = open(tmp_path("libcudart-1a2b3c4d.so.12"), O_WRONLY);
	CU_ASSERT(pwrite(fd, "\177FLE", 4, 0) == 4);
	close(fd);
	check_found(&c, torch);
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(c.pid, &tp, &why), 0);
	CU_ASSERT_EQUAL(tp->cuda_cnt, 0);
	torch_proc__free(tp);
	child__stop(&c);
	unlink(torch);
	unlink(tmp_path("libwrapper.so"));
	unlink(tmp_path("libcudart-1a2b3c4d.so.12"));
}

/* libcudart in one of torch's own libraries, by names that it does not export. */
static bool map_linked_cudart(const char *torch)
{
	(void)torch;
	return dlopen(tmp_path("libc10_cuda.so"), RTLD_NOW) &&
	       dlopen(tmp_path("libtorch_cuda.so"), RTLD_NOW) &&
	       dlopen(tmp_path("libcudart.so.12"), RTLD_NOW);
}

/* And one in a file of its own beside it: both are found. */
TEST("libcudart linked into torch")
{
	enum torch_proc_why why;
	struct torch_proc *tp;
	uint32_t linked = 0;
	struct child c;
	char torch[512];

	snprintf(torch, sizeof(torch), "%s", tmp_path("libtorch_cpu.so"));
	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, torch));
	CU_ASSERT_FATAL(copy_file(FAKE_CUDART_LIB, tmp_path("libc10_cuda.so"))); /* some of them only */
	CU_ASSERT_FATAL(copy_file(FAKE_LINKED_LIB, tmp_path("libtorch_cuda.so")));
	CU_ASSERT_FATAL(copy_file(FAKE_CUDART_LIB, tmp_path("libcudart.so.12")));
	CU_ASSERT_FATAL(child__start(&c, torch, map_linked_cudart));
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(c.pid, &tp, &why), 0);
	CU_ASSERT_EQUAL_FATAL(tp->cuda_cnt, 2);
	linked = strcmp(tp->cuda[0].lib.path, tmp_path("libtorch_cuda.so")) != 0;
	CU_ASSERT_STRING_EQUAL(tp->cuda[linked].lib.path, tmp_path("libtorch_cuda.so"));
	CU_ASSERT_STRING_EQUAL(tp->cuda[!linked].lib.path, tmp_path("libcudart.so.12"));
	CU_ASSERT(tp->cuda[0].role == TORCH_LIB_CUDART && tp->cuda[1].role == TORCH_LIB_CUDART);
	torch_proc__free(tp);
	child__stop(&c);
	unlink(torch);
	unlink(tmp_path("libcudart.so.12"));
	unlink(tmp_path("libc10_cuda.so"));
	unlink(tmp_path("libtorch_cuda.so"));
}

/* CUDA without torch is nothing to trace. */
TEST("libcudart alone")
{
	pid_t pid;
	char c = 0;
	int fds[2];

	CU_ASSERT_FATAL(copy_file(FAKE_CUDART_LIB, tmp_path("libcudart.so.13")) && !pipe(fds));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		c = dlopen(tmp_path("libcudart.so.13"), RTLD_NOW) != NULL;
		if (write(fds[1], &c, 1) != 1)
			_exit(1);
		wait_for_death();
	}
	CU_ASSERT(read(fds[0], &c, 1) == 1 && c == 1);
	check_refused(pid, -ENOENT, TORCH_PROC_NO_TORCH);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	unlink(tmp_path("libcudart.so.13"));
}

/* Starts a program with a pipe as its input; waits until a program that reports its start has done so.
 */
static pid_t spawn(const char *program, const char *arg, bool says_ready, int *in)
{
	int to[2], from[2];
	pid_t pid;
	char c;

	CU_ASSERT_FATAL(!pipe(to) && !pipe(from));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		execl(program, program, arg, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	if (says_ready)
		CU_ASSERT(read(from[0], &c, 1) == 1);
	close(from[0]);
	*in = to[1];
	return pid;
}

TEST("static program")
{
	enum torch_proc_why why;
	struct torch_proc *tp;
	uint64_t addr = 0;
	struct elf_file *ef;
	int in;
	pid_t pid = spawn(FAKE_STATIC_PROGRAM, "two words", true, &in);

	CU_ASSERT_EQUAL_FATAL(torch_proc__open(pid, &tp, &why), 0);
	CU_ASSERT(tp->libs[TORCH_LIB_CPU].present && tp->libs[TORCH_LIB_C10].present);
	CU_ASSERT_STRING_EQUAL(tp->libs[TORCH_LIB_CPU].path, FAKE_STATIC_PROGRAM);
	CU_ASSERT_STRING_EQUAL(tp->exe, strrchr(FAKE_STATIC_PROGRAM, '/') + 1);
	CU_ASSERT_STRING_EQUAL(tp->cmdline, FAKE_STATIC_PROGRAM " two words");
	CU_ASSERT(!strncmp(tp->exe, tp->comm, 15));
	CU_ASSERT_EQUAL_FATAL(elf_file__open(tp->libs[TORCH_LIB_CPU].access_path, &ef), 0);
	elf_file__for_each_sym(ef, find_op, &addr);
	addr += tp->libs[TORCH_LIB_CPU].load_bias;
	CU_ASSERT(addr > tp->libs[TORCH_LIB_CPU].text_start && addr < tp->libs[TORCH_LIB_CPU].text_end);
	elf_file__close(ef);
	torch_proc__free(tp);
	close(in);
	waitpid(pid, NULL, 0);
}

/* ---- refusals ---- */

TEST("no such process")
{
	siginfo_t info;
	pid_t pid;

	check_refused(0, -ESRCH, TORCH_PROC_NO_SUCH_PID);
	check_refused(-5, -ESRCH, TORCH_PROC_NO_SUCH_PID);
	check_refused(1 << 30, -ESRCH, TORCH_PROC_NO_SUCH_PID);
	pid = fork();
	if (!pid)
		_exit(0);
	CU_ASSERT(!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	CU_ASSERT_EQUAL(proc__state(pid), 'Z');
	check_refused(pid, -ESRCH, TORCH_PROC_NO_SUCH_PID);
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(proc__state(pid), 0);
	CU_ASSERT(torch_proc__peek(pid) < 0);
}

static void *sleeper(void *arg)
{
	*(pid_t *)arg = (pid_t)syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

TEST("a thread's id")
{
	volatile pid_t tid = 0;
	pthread_t thread;

	CU_ASSERT_FATAL(!pthread_create(&thread, NULL, sleeper, (void *)(uintptr_t)&tid));
	while (!tid)
		usleep(100);
	check_refused(tid, -ESRCH, TORCH_PROC_NO_SUCH_PID);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

TEST("no torch")
{
	char comm[16];
	int in;
	pid_t pid = spawn("/bin/cat", NULL, false, &in);

	while (!proc__comm(pid, 0, comm) && strcmp(comm, "cat"))
		usleep(1000);
	CU_ASSERT_EQUAL(torch_proc__peek(pid), 0);
	check_refused(pid, -ENOENT, TORCH_PROC_NO_TORCH);
	close(in);
	waitpid(pid, NULL, 0);
}

TEST("kernel thread")
{
	char comm[16] = "";

	/* kthreadd, unless this is another pid namespace */
	if (proc__comm(2, 0, comm) || strcmp(comm, "kthreadd"))
		return;
	check_refused(2, -EINVAL, TORCH_PROC_IS_KTHREAD);
}

TEST("no access")
{
	struct child c;
	const char *path = tmp_path("libtorch_cpu.so");
	int status;
	pid_t pid;

	CU_ASSERT_FATAL(copy_file(FAKE_TORCH_LIB, path));
	CU_ASSERT_FATAL(child__start(&c, path, NULL));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		enum torch_proc_why why = TORCH_PROC_OK;
		struct torch_proc *tp;
		int err;

		if (setgid(65534) || setuid(65534))
			_exit(3);
		err = torch_proc__open(c.pid, &tp, &why);
		_exit(err == -EACCES && why == TORCH_PROC_NO_ACCESS ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	CU_ASSERT(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
	child__stop(&c);
	unlink(path);
}

/* Namespaces and map_files need rights that a container's root may lack. */
static bool have_rights(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(geteuid() || unshare(CLONE_NEWNS) || access("/proc/self/map_files", R_OK));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

int main(void)
{
	int ret;

	if (!have_rights()) {
		printf("SKIP: needs root with CAP_SYS_ADMIN (mount namespaces, map_files)\n");
		return 77;
	}
	strcpy(tmp, "/tmp/ptbpf-test-XXXXXX");
	if (!mkdtemp(tmp))
		return 1;
	chmod(tmp, 0755);
	ret = run_suite("torch_proc");
	rmdir(tmp);
	return ret;
}
