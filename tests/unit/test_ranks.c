/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every kind of record: what the model makes of a capture does not change where it is one of two. All else of ranks is in tests/cases/ranks. */
#include <string.h>

#include "capture_builder.h"
#include "ranks/join.h"
#include "ranks/remap.h"
#include "seed_capture.h"
#include "slice_log.h"
#include "suite.h"

/* On another machine, where the same was recorded. */
static struct builder *other_capture(void)
{
	struct builder *b = builder__new(1000, 2000);

	builder__meta(b, "boot_id", "\"other\"");
	builder__meta(b, "args", "\"full\"");
	builder__meta(b, "profile_memory", "true");
	builder__meta(b, "kernel_memory", "true");
	builder__clock(b, 1000, 2000, 1);
	builder__process(b, 100, "python3", "python3.11", 1000);
	return b;
}

static void every_kind(void)
{
	struct builder *seed = seed_capture__new(""), *other = other_capture();
	const char *paths[] = { builder__path(other), builder__path(seed) };
	struct slice_log *one = slice_log__run(builder__session(seed, NULL)), *joined;
	struct session *s;
	struct join *j;
	const int fds[] = { capture__open(paths[0]), capture__open(paths[1]) };
	const struct join_opts opts = { .paths = paths, .cnt = 2, .fds = fds };
	uint32_t n = 0;

	CU_ASSERT_FATAL(!join__open(&opts, &j));
	CU_ASSERT_FATAL(!session__open(join__reader(j), NULL, &s));
	joined = slice_log__run(s);
	for (uint32_t i = 0; i < joined->cnt; i++) {
		const struct slice *sl = &joined->slices[i], *old;

		CU_ASSERT_FATAL(n < one->cnt);
		old = &one->slices[n++];
		CU_ASSERT_STRING_EQUAL(sl->name, old->name);
		CU_ASSERT_EQUAL(sl->end_ns - sl->begin_ns, old->end_ns - old->begin_ns);
		CU_ASSERT_EQUAL(sl->begin_ns, old->begin_ns + 1000); /* the seed's clock pair */
		CU_ASSERT(sl->tid == old->tid + REMAP_PIDS && sl->flags == old->flags &&
			  sl->seq == old->seq);
	}
	CU_ASSERT_EQUAL(n, one->cnt);
	CU_ASSERT(!memcmp(&joined->totals, &one->totals, sizeof(one->totals)));
	slice_log__free(one);
	slice_log__free(joined);
	session__free(s);
	join__close(j);
	builder__free(seed);
	builder__free(other);
}

int main(void)
{
	static const CU_TestInfo tests[] = { { "every kind", every_kind }, CU_TEST_INFO_NULL };

	return run_suite("ranks", tests);
}
