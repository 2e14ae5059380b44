/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/pb: bytes that protoc gives for the same values, lengths at each border of their size. */
#include <stdlib.h>

#include "export/pb.h"
#include "suite.h"

static void same(struct pb *b, const char *bytes, size_t len)
{
	CU_ASSERT_EQUAL_FATAL(b->len, len);
	CU_ASSERT_EQUAL(memcmp(b->p, bytes, len), 0);
	b->len = 0;
}

TEST("fields")
{
	struct pb b = { 0 };

	pb__u64(&b, 1, 0);
	pb__u64(&b, 1, 150);
	same(&b, "\x08\x00\x08\x96\x01", 5);
	pb__u64(&b, 16, (uint64_t)-1);
	same(&b, "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
	pb__double(&b, 3, 1.5);
	same(&b, "\x19\0\0\0\0\0\0\xf8\x3f", 9);
	pb__bytes(&b, 2, "testing", 7);
	same(&b, "\x12\x07testing", 9);
	free(b.p);
}

TEST("messages of all lengths")
{
	static const size_t sizes[] = { 0, 1, 127, 128, 16383, 16384, 2097151, 2097152 };
	static char data[2097152];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pb b = { 0 }, in = { 0 }, want = { 0 };
		size_t outer = pb__begin(&b, 1), inner = pb__begin(&b, 2);

		for (size_t n = 0; n < sizes[i]; n++)
			data[n] = (char)n;
		pb__raw(&b, data, sizes[i]);
		pb__end(&b, inner);
		pb__u64(&b, 3, 4);
		pb__end(&b, outer);
		/* the same by lengths that are known before */
		pb__bytes(&in, 2, data, sizes[i]);
		pb__u64(&in, 3, 4);
		pb__bytes(&want, 1, in.p, in.len);
		CU_ASSERT_EQUAL_FATAL(b.len, want.len);
		CU_ASSERT_EQUAL(memcmp(b.p, want.p, b.len), 0);
		free(b.p);
		free(in.p);
		free(want.p);
	}
}

SUITE("pb")
