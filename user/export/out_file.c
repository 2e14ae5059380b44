/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Result files by way of a temporary file and a rename, optionally gzip; see out_file.h. */
#define LOG_DOMAIN "out_file"
#include "export/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"

#define DEFLATE_BUF_SZ (256 * 1024)
/* Trace text is so regular that level 1 gives a ratio of 15 or more; higher levels cost more than they win. */
#define DEFLATE_LEVEL 1
#define GZIP_WINDOW_BITS (15 + 16) /* 16: a gzip header instead of zlib's */

struct out_file {
	char *path; /* where the result appears; symbolic links resolved */
	char *tmp;  /* NULL: written directly */
	int fd;
	int err;
	bool gzip;
	z_stream z;
	unsigned char *zbuf;
};

static int fail(struct out_file *of, int err, const char *what)
{
	if (!of->err) {
		of->err = err;
		pr_error("%s '%s': %s", what, of->path, errstr(err));
	}
	return of->err;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/*
 * A link is followed first: renaming over /dev/stdout would replace the link itself. Whatever is no
 * regular file keeps its inode and is opened in place.
 */
static int choose_paths(struct out_file *of, const char *path)
{
	struct stat st;
	bool exists = !stat(path, &st);

	if (!*path)
		return -ENOENT;
	if (exists && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (exists && !S_ISREG(st.st_mode))
		return 0;
	if (exists) {
		char *real = realpath(path, NULL);

		if (!real)
			return -errno;
		free(of->path);
		of->path = real;
	}
	of->tmp = malloc(strlen(of->path) + sizeof(".tmp"));
	if (!of->tmp)
		return -ENOMEM;
	sprintf(of->tmp, "%s.tmp", of->path);
	return 0;
}

static int open_fd(struct out_file *of)
{
	if (!of->tmp) {
		of->fd = open(of->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	} else {
		/* a file left by a killed run goes; O_EXCL does not follow what others plant there */
		unlink(of->tmp);
		of->fd = open(of->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	}
	return of->fd < 0 ? -errno : 0;
}

int out_file__open(const char *path, struct out_file **out)
{
	struct out_file *of = calloc(1, sizeof(*of));
	int err = -ENOMEM;

	if (!of)
		return -ENOMEM;
	of->fd = -1;
	of->path = strdup(path);
	if (!of->path)
		goto fail;
	err = choose_paths(of, path);
	if (!err)
		err = open_fd(of);
	if (err)
		goto fail;
	if (ends_with(path, ".gz")) {
		err = -ENOMEM;
		of->zbuf = malloc(DEFLATE_BUF_SZ);
		if (!of->zbuf || deflateInit2(&of->z, DEFLATE_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
					      Z_DEFAULT_STRATEGY) != Z_OK)
			goto fail;
		of->gzip = true;
	}
	*out = of;
	return 0;
fail:
	pr_error("cannot create '%s': %s", path, errstr(err));
	out_file__free(of);
	return err;
}

static int write_all(struct out_file *of, const void *data, size_t len)
{
	const char *p = data;

	while (len && !of->err) {
		ssize_t n = write(of->fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(of, n < 0 ? -errno : -EIO, "cannot write");
		p += n;
		len -= (size_t)n;
	}
	return of->err;
}

static int deflate_all(struct out_file *of, const void *data, size_t len, int flush)
{
	int rc;

	of->z.next_in = (z_const Bytef *)(uintptr_t)data;
	of->z.avail_in = (uInt)len;
	do {
		of->z.next_out = of->zbuf;
		of->z.avail_out = DEFLATE_BUF_SZ;
		rc = deflate(&of->z, flush);
		if (rc == Z_STREAM_ERROR)
			return fail(of, -EIO, "cannot compress");
		if (write_all(of, of->zbuf, DEFLATE_BUF_SZ - of->z.avail_out))
			return of->err;
	} while (!of->z.avail_out || (flush == Z_FINISH && rc != Z_STREAM_END));
	return 0;
}

int out_file__write(void *arg, const void *data, size_t len)
{
	struct out_file *of = arg;
	const char *p = data;

	if (!of->gzip)
		return write_all(of, data, len);
	while (len && !of->err) { /* zlib counts in 32 bits */
		size_t n = len < (1U << 30) ? len : 1U << 30;

		deflate_all(of, p, n, Z_NO_FLUSH);
		p += n;
		len -= n;
	}
	return of->err;
}

int out_file__commit(struct out_file *of)
{
	if (of->gzip && !of->err)
		deflate_all(of, NULL, 0, Z_FINISH);
	/* a full or remote file system may tell only now that it did not take the bytes */
	if (of->fd >= 0 && close(of->fd) && errno != EINTR)
		fail(of, -errno, "cannot write");
	of->fd = -1;
	if (!of->err && of->tmp && rename(of->tmp, of->path))
		fail(of, -errno, "cannot rename the temporary file to");
	if (of->tmp) {
		if (of->err)
			unlink(of->tmp);
		free(of->tmp);
		of->tmp = NULL;
	}
	return of->err;
}

void out_file__free(struct out_file *of)
{
	if (!of)
		return;
	if (of->gzip)
		deflateEnd(&of->z);
	if (of->fd >= 0) {
		close(of->fd);
		if (of->tmp)
			unlink(of->tmp);
	}
	free(of->zbuf);
	free(of->tmp);
	free(of->path);
	free(of);
}
