/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Result files, optionally gzip; see output.h. */
#define LOG_DOMAIN "out_file"
#include "export/output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"

#define DEFLATE_BUF_SZ (256 * 1024)
#define TEXT_BUF_SZ (256 * 1024)
/* Trace text is so regular that level 1 gives a ratio of 15 or more; higher levels cost more than
 * they win. */
#define DEFLATE_LEVEL 1
#define GZIP_WINDOW_BITS (15 + 16) /* 16: a gzip header instead of zlib's */

struct out_file {
	const char *path;
	int fd, err;
	bool gzip, reader_left;
	z_stream z;
	unsigned char *zbuf;
};

static int log_first(struct out_file *of, int err, const char *what)
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

void out_file__open(const struct output_args *args, struct out_file **out)
{
	struct out_file *of = xcalloc(1, sizeof(*of));

	of->path = args->path;
	of->fd = args->fd;
	of->gzip = ends_with(of->path, ".gz");
	if (of->gzip) {
		of->zbuf = xmalloc(DEFLATE_BUF_SZ);
		if (deflateInit2(&of->z, DEFLATE_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
				 Z_DEFAULT_STRATEGY) != Z_OK)
			mem__end(0);
	}
	*out = of;
}

static int write_all(struct out_file *of, const void *data, size_t len)
{
	int err = of->err || of->reader_left ? 0 : new_file__write(of->fd, data, len);

	if (err == -EPIPE && of->fd == STDOUT_FILENO) { /* as in std_out__end() */
		of->reader_left = true;
		err = 0;
	}
	return err ? log_first(of, err, "cannot write") : of->err;
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
			return log_first(of, -EIO, "cannot compress");
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

static ssize_t stream_to_file(void *of, const char *data, size_t len)
{
	return out_file__write(of, data, len) ? 0 : (ssize_t)len;
}

FILE *out_file__stream(struct out_file *of)
{
	return mem__check(fopencookie(of, "w", (cookie_io_functions_t){ .write = stream_to_file }));
}

int out_file__end(struct out_file *of)
{
	if (of->gzip && !of->err)
		deflate_all(of, NULL, 0, Z_FINISH);
	return of->err;
}

int out_file__end_stream(struct out_file *of, FILE *f)
{
	fclose(f);
	return out_file__end(of);
}

void out_file__open_json(const struct output_args *args, struct out_file **out, struct jsonw *w)
{
	out_file__open(args, out);
	jsonw__init(w, out_file__write, *out, TEXT_BUF_SZ);
}

int out_file__end_json(struct out_file *of, struct jsonw *w)
{
	int err = jsonw__flush(w);

	return err ? err : out_file__end(of);
}

void out_file__free(struct out_file *of)
{
	if (!of)
		return;
	if (of->gzip)
		deflateEnd(&of->z);
	free(of->zbuf);
	free(of);
}
