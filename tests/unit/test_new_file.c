/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* base/new_file: what other users have put into a directory leads nowhere; who owns the result. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/new_file.h"
#include "scratch_dir.h"

#define OTHER 12345 /* a user with fewer privileges */

static void make_dir(const char *name, mode_t mode, uid_t owner)
{
	CU_ASSERT_EQUAL_FATAL(mkdir(at(name), 0700), 0);
	CU_ASSERT_EQUAL_FATAL(chown(at(name), owner, owner), 0);
	CU_ASSERT_EQUAL_FATAL(chmod(at(name), mode), 0);
}

static void make_link(const char *name, const char *target, uid_t owner)
{
	CU_ASSERT_EQUAL_FATAL(symlink(target, at(name)), 0);
	CU_ASSERT_EQUAL_FATAL(lchown(at(name), owner, owner), 0);
}

static void put(const char *name, const char *text, uid_t owner)
{
	put_text(at(name), text);
	CU_ASSERT_EQUAL_FATAL(chown(at(name), owner, owner), 0);
}

/* Entries of a directory, hidden ones included. */
static size_t entries(const char *name)
{
	char pattern[300];
	size_t n = 0;
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/*", at(name));
	if (!glob(pattern, GLOB_PERIOD, NULL, &g)) {
		for (size_t i = 0; i < g.gl_pathc; i++) {
			const char *base = strrchr(g.gl_pathv[i], '/') + 1;

			n += strcmp(base, ".") != 0 && strcmp(base, "..") != 0;
		}
		globfree(&g);
	}
	return n;
}

/* Writes "new" to the file; the first error. */
static int try_write(const char *path, enum new_file_kind kind)
{
	struct new_file *nf;
	int err = new_file__check(path, kind);

	CU_ASSERT_EQUAL(new_file__open(path, kind, &nf), err);
	if (err)
		return err;
	CU_ASSERT_EQUAL(write(new_file__fd(nf), "new", 3), 3);
	err = new_file__commit(nf);
	new_file__free(nf);
	return err;
}

static void refused(const char *name, int want)
{
	CU_ASSERT_EQUAL(try_write(at(name), NEW_FILE_ANY), want);
	CU_ASSERT_EQUAL(try_write(at(name), NEW_FILE_REGULAR), want);
}

/* ---- links ---- */

/* The directory is another user's: this user's links are not followed, wherever in the path they are. */
TEST("links of another user")
{
	make_dir("home", 0755, OTHER);
	make_dir("home/real", 0755, OTHER);
	make_dir("etc", 0755, 0);
	put("etc/shadow", "precious", 0);
	make_link("home/out.ptb", at("etc/shadow"), OTHER);
	make_link("home/nothing.ptb", at("etc/cron"), OTHER);
	make_link("home/dir", at("etc"), OTHER);
	make_link("home/rel", "../etc", OTHER);
	refused("home/out.ptb", -ELOOP);
	refused("home/nothing.ptb", -ELOOP);
	refused("home/dir/new", -ELOOP);
	refused("home/rel/shadow", -ELOOP);
	refused("home/real/../rel/shadow", -ELOOP);
	CU_ASSERT_STRING_EQUAL(get_text(at("etc/shadow")), "precious");
	CU_ASSERT_EQUAL(entries("etc"), 1);
	CU_ASSERT_EQUAL(try_write(at("home/real/plain"), NEW_FILE_REGULAR), 0);
	CU_ASSERT_STRING_EQUAL(get_text(at("home/real/plain")), "new");
	CU_ASSERT_EQUAL(entries("home/real"), 1);
}

/* A link of root's counts for nothing below another user's directory, who can move it about. */
TEST("links below another user's directory")
{
	make_dir("lower", 0755, OTHER);
	make_dir("lower/roots", 0755, 0);
	make_dir("target", 0755, 0);
	make_link("lower/roots/link", at("target"), 0);
	refused("lower/roots/link/x", -ELOOP);
	CU_ASSERT_EQUAL(entries("target"), 0);
	make_dir("team", 0775, 0); /* of a group that others are in */
	CU_ASSERT_EQUAL(chown(at("team"), 0, OTHER), 0);
	make_link("team/link", at("target"), 0);
	refused("team/link/x", -ELOOP);
	CU_ASSERT_EQUAL(entries("target"), 0);
}

/* /tmp: links of root's are root's, those of others are not followed. */
TEST("a sticky directory")
{
	make_dir("sticky", 01777, 0);
	make_dir("place", 0755, 0);
	make_link("sticky/theirs", at("place"), OTHER);
	make_link("sticky/ours", at("place"), 0);
	refused("sticky/theirs/x", -ELOOP);
	CU_ASSERT_EQUAL(entries("place"), 0);
	CU_ASSERT_EQUAL(try_write(at("sticky/ours/x"), NEW_FILE_REGULAR), 0);
	CU_ASSERT_STRING_EQUAL(get_text(at("place/x")), "new");
	put("sticky/planted", "theirs", OTHER); /* not written to: replaced */
	CU_ASSERT_EQUAL(try_write(at("sticky/planted"), NEW_FILE_REGULAR), 0);
	CU_ASSERT_STRING_EQUAL(get_text(at("sticky/planted")), "new");
}

/* Where only root can have made it, a link is what the user means; it stays a link. */
TEST("own links")
{
	struct stat st;

	make_dir("own", 0755, 0);
	put("own/real", "old", 0);
	make_link("own/link", "real", 0);
	make_link("own/loop", "loop", 0);
	make_link("own/self", ".", 0);
	CU_ASSERT_EQUAL(try_write(at("own/self/self/link"), NEW_FILE_REGULAR), 0);
	CU_ASSERT_STRING_EQUAL(get_text(at("own/real")), "new");
	CU_ASSERT_EQUAL(lstat(at("own/link"), &st), 0);
	CU_ASSERT_TRUE(S_ISLNK(st.st_mode));
	refused("own/loop", -ELOOP);
	refused("own", -EISDIR);
	refused("own/", -EISDIR);
	refused("own/..", -EISDIR);
	refused("own/real/x", -ENOTDIR);
	refused("own/none/x", -ENOENT);
	CU_ASSERT_EQUAL(try_write("", NEW_FILE_ANY), -ENOENT);
	CU_ASSERT_EQUAL(try_write("/", NEW_FILE_ANY), -EISDIR);
}

/* ---- special files ---- */

/* Would wait for a reader for ever, or write into another program. */
TEST("pipes and devices")
{
	make_dir("pipes", 0755, OTHER);
	CU_ASSERT_EQUAL_FATAL(mkfifo(at("pipes/fifo"), 0666), 0);
	CU_ASSERT_EQUAL_FATAL(mknod(at("pipes/null"), S_IFCHR | 0666, 1 << 8 | 3), 0);
	CU_ASSERT_EQUAL_FATAL(mknod(at("pipes/disk"), S_IFBLK | 0666, 7 << 8 | 200), 0);
	CU_ASSERT_EQUAL(try_write(at("pipes/fifo"), NEW_FILE_ANY), -EPERM);
	CU_ASSERT_EQUAL(try_write(at("pipes/null"), NEW_FILE_ANY), -EPERM);
	CU_ASSERT_EQUAL(try_write(at("pipes/disk"), NEW_FILE_ANY), -EEXIST);
	CU_ASSERT_EQUAL(try_write(at("pipes/fifo"), NEW_FILE_REGULAR), -EEXIST);
	CU_ASSERT_EQUAL(mkfifo(at("fifo"), 0600), 0); /* root's: reported immediately that it has no reader */
	CU_ASSERT_EQUAL(new_file__check(at("fifo"), NEW_FILE_ANY), 0);
	{
		struct new_file *nf;
		int fd;

		CU_ASSERT_EQUAL(new_file__open(at("fifo"), NEW_FILE_ANY, &nf), -ENXIO);
		fd = open(at("fifo"), O_RDONLY | O_NONBLOCK);
		CU_ASSERT_EQUAL(try_write(at("fifo"), NEW_FILE_ANY), 0);
		close(fd);
	}
	CU_ASSERT_EQUAL(try_write("/dev/null", NEW_FILE_ANY), 0);
	CU_ASSERT_EQUAL(try_write("/dev/null", NEW_FILE_REGULAR), -EEXIST);
}

/* ---- who owns it, and who may read it ---- */

static void check_owner(const char *uid, const char *gid, uid_t want_uid, gid_t want_gid)
{
	struct stat st;

	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	if (uid)
		setenv("SUDO_UID", uid, 1);
	if (gid)
		setenv("SUDO_GID", gid, 1);
	CU_ASSERT_EQUAL(try_write(at("owned"), NEW_FILE_REGULAR), 0);
	CU_ASSERT_EQUAL_FATAL(stat(at("owned"), &st), 0);
	CU_ASSERT_EQUAL(st.st_uid, want_uid);
	CU_ASSERT_EQUAL(st.st_gid, want_gid);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
}

TEST("owner")
{
	mode_t old = umask(0);

	check_owner(NULL, NULL, 0, 0);
	check_owner("1000", "1001", 1000, 1001);
	check_owner("1000", NULL, 0, 0);
	check_owner("-1", "5", 0, 0);
	check_owner("4294967295", "5", 0, 0);
	check_owner("4294968296", "5", 0, 0); /* 1000 in 32 bits */
	check_owner("0x3e8", "5", 0, 0);
	check_owner("1000 ", "5", 0, 0);
	check_owner("", "", 0, 0);
	umask(old);
}

/* SUDO_UID is used for root only. */
TEST("owner without root")
{
	int status;
	pid_t pid;

	make_dir("mine", 0777, OTHER);
	pid = fork();
	if (!pid) {
		struct stat st;
		int err;

		setenv("SUDO_UID", "0", 1);
		setenv("SUDO_GID", "0", 1);
		if (setgid(OTHER) || setuid(OTHER))
			_exit(1);
		err = try_write(at("mine/x"), NEW_FILE_REGULAR);
		_exit(err || stat(at("mine/x"), &st) || st.st_uid != OTHER ? 2 : 0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
}

/* ---- directories ---- */

static int try_directory(const char *name, const char *caller)
{
	const char *reason;
	int fd;

	if (caller) {
		setenv("SUDO_UID", caller, 1);
		setenv("SUDO_GID", caller, 1);
	}
	fd = new_file__directory(at(name), &reason);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

TEST("directories")
{
	struct stat st;

	make_dir("dirs", 0755, OTHER);
	make_dir("dirs/theirs", 0700, OTHER);
	make_dir("dirs/ours", 0700, 0);
	make_dir("secret", 0700, 0);
	make_link("dirs/link", at("secret"), OTHER);
	make_link("dirs/ours/link", at("secret"), 0);
	CU_ASSERT_EQUAL(try_directory("dirs/link", NULL), -ELOOP);
	CU_ASSERT_EQUAL(try_directory("dirs/link", "12345"), -ELOOP);
	CU_ASSERT_EQUAL(try_directory("dirs/ours/link", NULL), -ELOOP);
	CU_ASSERT_EQUAL(try_directory("dirs/theirs", NULL), -EPERM);
	CU_ASSERT_EQUAL(try_directory("dirs/theirs", "1000"), -EPERM);
	CU_ASSERT_EQUAL(try_directory("dirs/theirs", "12345"), 0);
	CU_ASSERT_EQUAL(try_directory("dirs/ours", "12345"), 0);
	CU_ASSERT_EQUAL(try_directory("dirs/new", "12345"), 0);
	CU_ASSERT(!stat(at("dirs/new"), &st) && st.st_uid == OTHER && (st.st_mode & 07777) == 0700);
	CU_ASSERT(!stat(at("secret"), &st) && st.st_uid == 0);
	make_dir("group", 0775, OTHER);
	CU_ASSERT_EQUAL(try_directory("group", "12345"), 0);
	CU_ASSERT_EQUAL(chown(at("group"), 0, OTHER), 0);
	CU_ASSERT_EQUAL(try_directory("group", NULL), -EPERM);
	make_link("to_secret", at("secret/"), 0);
	CU_ASSERT_EQUAL(try_directory("to_secret", NULL), 0);
	CU_ASSERT_EQUAL(try_directory("secret/", NULL), 0);
	CU_ASSERT_EQUAL(try_directory("secret/a/b", NULL), -ENOENT);
}

/* Who owns a directory, or may write to it, renames what is in it: what was checked is not what is written to. */
TEST("directories below another user's")
{
	make_dir("above", 0755, OTHER);
	make_dir("above/ours", 0755, 0);
	make_dir("above/ours/w", 0700, 0);
	CU_ASSERT_EQUAL(try_directory("above/ours", NULL), -EPERM);
	CU_ASSERT_EQUAL(try_directory("above/ours/w", NULL), -EPERM);
	CU_ASSERT_EQUAL(try_directory("above/ours/w", "1000"), -EPERM);
	CU_ASSERT_EQUAL(try_directory("above/ours/w", "12345"), 0);
	CU_ASSERT_EQUAL(try_directory("above/ours/new", NULL), -EPERM);
	CU_ASSERT_EQUAL(access(at("above/ours/new"), F_OK), -1);
	make_dir("open", 0777, 0);
	make_dir("open/ours", 0700, 0);
	CU_ASSERT_EQUAL(try_directory("open/ours", NULL), -EPERM);
	make_dir("as_tmp", 01777, 0);
	make_dir("as_tmp/ours", 0700, 0);
	make_dir("as_tmp/theirs", 0755, OTHER);
	make_dir("as_tmp/theirs/ours", 0700, 0);
	CU_ASSERT_EQUAL(try_directory("as_tmp/ours", NULL), 0);
	CU_ASSERT_EQUAL(try_directory("as_tmp/theirs/ours", NULL), -EPERM);
}

/* ---- the time between ---- */

TEST("until the commit")
{
	struct new_file *nf;
	char partial[300];
	int fd;

	make_dir("wait", 0755, 0);
	put("wait/x", "old", 0);
	CU_ASSERT_EQUAL_FATAL(new_file__open(at("wait/x"), NEW_FILE_REGULAR, &nf), 0);
	CU_ASSERT_EQUAL(write(new_file__fd(nf), "new", 3), 3);
	CU_ASSERT_STRING_EQUAL(get_text(at("wait/x")), "old");
	fd = new_file__old(nf);
	CU_ASSERT_TRUE(fd >= 0);
	close(fd);
	CU_ASSERT_EQUAL(entries("wait"), 2);
	snprintf(partial, sizeof(partial), "%s", new_file__partial(nf));
	CU_ASSERT_EQUAL(access(partial, F_OK), 0);
	new_file__free(nf);
	CU_ASSERT_STRING_EQUAL(get_text(at("wait/x")), "old");
	CU_ASSERT_EQUAL(entries("wait"), 1);
	CU_ASSERT_EQUAL_FATAL(new_file__open(at("wait/x"), NEW_FILE_REGULAR, &nf), 0);
	new_file__keep(nf);
	new_file__free(nf);
	CU_ASSERT_EQUAL(entries("wait"), 2);
}

/* The longest name leaves room for what the partial name adds. */
TEST("long names")
{
	char name[300] = "long/";

	make_dir("long", 0755, 0);
	memset(name + 5, 'n', 256);
	CU_ASSERT_EQUAL(try_write(at(name), NEW_FILE_REGULAR), -ENAMETOOLONG);
	name[5 + 255] = '\0';
	CU_ASSERT_EQUAL(try_write(at(name), NEW_FILE_REGULAR), 0);
	CU_ASSERT_EQUAL(entries("long"), 1);
}

int main(void)
{
	if (geteuid()) {
		puts("SKIP: making files of another user needs root");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return run_suite_in_scratch("new_file");
}
