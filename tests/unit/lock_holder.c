/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See lock_holder.h. The server mounts in a mount namespace of its own, so nothing is left of it. */
#include "lock_holder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CUnit/CUnit.h>

#define PAGE 4096
#define LIFE_S 60

/* ---- the server ---- */

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
				   .size = node == 1 ? 0 : PAGE,
				   .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644,
				   .nlink = 1,
				   .blksize = PAGE };
}

/* Its length, or a negative errno. */
static int answer(const struct fuse_in_header *in, void *body)
{
	struct fuse_init_out *init = body;
	struct fuse_entry_out *entry = body;
	struct fuse_attr_out *attr = body;

	switch (in->opcode) {
	case FUSE_INIT:
		*init = (struct fuse_init_out){ .major = 7, .minor = 31, .max_write = PAGE };
		return sizeof(*init);
	case FUSE_LOOKUP:
		*entry = (struct fuse_entry_out){ .nodeid = 2, .attr = attributes(2) };
		return sizeof(*entry);
	case FUSE_GETATTR:
		*attr = (struct fuse_attr_out){ .attr = attributes(in->nodeid) };
		return sizeof(*attr);
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		return sizeof(struct fuse_open_out);
	case FUSE_READ:
		sleep(HOLD_S);
		return PAGE;
	case FUSE_RELEASE:
	case FUSE_FLUSH:
		return 0;
	default:
		return -ENOSYS;
	}
}

static void serve(int fd)
{
	static union {
		struct fuse_in_header head;
		char bytes[1 << 17];
	} in;
	static struct {
		struct fuse_out_header head;
		char body[PAGE];
	} out;

	while (read(fd, &in, sizeof(in)) > 0) {
		int len;

		if (in.head.opcode == FUSE_FORGET || in.head.opcode == FUSE_BATCH_FORGET ||
		    in.head.opcode == FUSE_INTERRUPT)
			continue;
		memset(&out, 0, sizeof(out));
		len = answer(&in.head, out.body);
		out.head.unique = in.head.unique;
		out.head.error = len < 0 ? len : 0;
		out.head.len = (uint32_t)(sizeof(out.head) + (size_t)(len < 0 ? 0 : len));
		if (write(fd, &out, out.head.len) < 0 && errno == ENODEV)
			return;
	}
}

/* ---- the process that holds its lock ---- */

static char *page;

static void *read_page(void *arg)
{
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char c;

	*(bool *)arg = pread(mem, &c, 1, (off_t)(uintptr_t)page) == 1;
	close(mem);
	return NULL;
}

static void *map_memory(void *arg)
{
	usleep((useconds_t)(uintptr_t)arg);
	mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return NULL;
}

static void hold(bool block, int to)
{
	pthread_t reader, writer;
	bool answered = false;

	pthread_create(&reader, NULL, read_page, &answered);
	if (block) /* its own stack is mapped before the lock is held, or the thread waits for it just so */
		pthread_create(&writer, NULL, map_memory, (void *)300000);
	pthread_join(reader, NULL);
	if (block)
		pthread_join(writer, NULL);
	(void)!write(to, answered ? "y" : "n", 1);
}

static void be_holder(const char *code, int fuse_file, int from, int to)
{
	int fd = open(code, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char command;
	pid_t self;

	alarm(LIFE_S);
	if (fd < 0 || fstat(fd, &st) ||
	    mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
	self = getpid();
	(void)!write(to, &self, sizeof(self));
	while (read(from, &command, 1) == 1) {
		if (!page)
			page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fuse_file, 0);
		(void)!write(to, &page, sizeof(page));
		if (command != 'm')
			hold(command == 'b', to);
	}
	_exit(0);
}

static void *serve_thread(void *arg)
{
	serve((int)(intptr_t)arg);
	return NULL;
}

static void be_server(const char *code, uid_t uid, int from, int to)
{
	char options[128], dir[] = "/tmp/ptbpf_lock.XXXXXX", path[64];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), file;
	pthread_t thread;
	pid_t pid;

	alarm(LIFE_S);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=0,allow_other",
		 fd, uid);
	if (fd < 0 || !mkdtemp(dir) || unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "fuse", 0, options))
		_exit(1);
	pthread_create(&thread, NULL, serve_thread, (void *)(intptr_t)fd);
	snprintf(path, sizeof(path), "%s/file", dir);
	file = open(path, O_RDONLY);
	pid = file < 0 ? -1 : fork();
	if (!pid) {
		close(fd);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_holder(code, file, from, to);
	}
	close(to);
	close(file);
	waitpid(pid, NULL, 0);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	_exit(0);
}

/* ---- the test's side ---- */

bool lock_holder__start(struct lock_holder *h, const char *code, uid_t uid)
{
	int to[2], from[2];

	memset(h, 0, sizeof(*h));
	CU_ASSERT_EQUAL_FATAL(pipe2(to, O_CLOEXEC), 0);
	CU_ASSERT_EQUAL_FATAL(pipe2(from, O_CLOEXEC), 0);
	h->server = fork();
	if (!h->server) {
		close(to[1]);
		close(from[0]);
		be_server(code, uid, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	h->to = to[1];
	h->from = from[0];
	if (read(h->from, &h->pid, sizeof(h->pid)) != sizeof(h->pid)) {
		lock_holder__end(h);
		return false;
	}
	return true;
}

static void command(struct lock_holder *h, char c)
{
	CU_ASSERT_EQUAL_FATAL(write(h->to, &c, 1), 1);
	CU_ASSERT_EQUAL_FATAL(read(h->from, &h->page, sizeof(h->page)), sizeof(h->page));
}

void lock_holder__map(struct lock_holder *h)
{
	command(h, 'm');
}

void lock_holder__hold(struct lock_holder *h, bool block)
{
	command(h, block ? 'b' : 'h');
	usleep(600000);
}

bool lock_holder__was_answered(struct lock_holder *h)
{
	char c = 0;

	CU_ASSERT_EQUAL(read(h->from, &c, 1), 1);
	return c == 'y';
}

void lock_holder__end(struct lock_holder *h)
{
	close(h->to);
	close(h->from);
	waitpid(h->server, NULL, 0);
}
