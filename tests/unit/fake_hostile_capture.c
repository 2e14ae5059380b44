/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes CAPTURE: every text in it steers terminals, ends lines and quotes, is markup and is no UTF-8; META records
 * that a lenient parser takes for JSON. For tests/unit/test_hostile_texts.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed_capture.h"

/* clang-format off */
#define EVIL                                                                                                        \
	"\n\rINJECTED\x1b[2J\x1b]0;t\x07\x7f\x9b" "31m\xc2\x9b" "1m\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b\xe2\x80\xa8" \
	"\xff\xfe\xed\xa0\x80</script><b>\"'\\{}"
/* clang-format on */

static void bad_meta(struct builder *b)
{
	static char deep[3000];

	memset(deep, '[', 900);
	memset(deep + 900, ']', 900);
	builder__meta(b, "host",
		      "\"h\xff\x1b\\u0007"
		      "\"");
	builder__meta(b, "version", "\"" EVIL "\"");
	builder__meta(b, "activities", deep);
	builder__meta(b, "row_limit", "1e999");
	builder__meta(b, "sort_by", "\"x\xff\n\x1b[31mINJECTED\"");
	builder__meta(b, "step_on", "\"aten::add.Tensor\xff\x1b\"");
	builder__meta(b, "torch",
		      "{\"a\": 1, \"a\": 2, \"n\": 1e999, \"i\": -1e400, \"z\": 007, \"s\": \"\xff\n\", \"\x01\xff\": []}");
	builder__meta(b, "kernel", "full\", \"totals\": {}, \"x\": \"");
	builder__meta(b, "agent",
		      "[{\"pid\": 1e999, \"gpu\": true, \"gpu_why\": \"w\xff\x1b[31m\nINJECTED\", \"source\": \"a\xc2\x9b\"}, "
		      "{\"pid\": 1, \"gpu_why\": \"\x1b[31m\nINJECTED\"}]");
	builder__meta(b, "distributedInfo",
		      "{\"backend\": \"\xff\n\x1b\", \"rank\": 1e999, \"world_size\": 1e999}");
	builder__job(b, 1,
		     "{\"ns_pid\": 1e999, \"cgroup\": \"/\xff\x1b[31m\nINJECTED\", \"container_id\": [1], \"pod_uid\": \"\xc2\x9b\", "
		     "\"x\x1b\": 1, \"environment\": {\"RANK\": -1, \"WORLD_SIZE\": 1e400, \"LOCAL_RANK\": 0.5, \"SECRET\": 1, "
		     "\"MASTER_ADDR\": \"\x1b[31m\nINJECTED\", \"PT_PROFILER_JOB_NAME\": \"\xff\x1b\n\"}, "
		     "\"distributed\": {\"backend\": \"\x1b[31m\nINJECTED\", \"rank\": 0, \"world_size\": 1, \"pg_count\": 1e999, "
		     "\"pg_config\": [1, {\"pg_name\": \"\xff\x1b[31m\nINJECTED\", \"pg_size\": -1, \"ranks\": {\"x\x1b\": 1e999}}]}}");
}

int main(int argc, char **argv)
{
	struct builder *b = seed_capture__new(EVIL);
	struct ptb_gpu_device d = { .name = 1 };
	char cmd[512];
	int rc;

	if (argc != 2)
		return 2;
	d.name = builder__name(b, "GPU" EVIL);
	builder__thread(b, 1, 1);
	builder__ring_rec(b, &d.h, PTB_REC_GPU_DEVICE, sizeof(d), 91000);
	builder__refused(b, "refused" EVIL, PTB_FUNC_OP, 1);
	builder__thread_name(b, 1, 1, "main" EVIL);
	builder__counter(b, PTB_CNT_HITS, UINT64_MAX);
	builder__counter(b, PTB_CNT_COST_PS, UINT64_MAX);
	bad_meta(b);
	snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", builder__path(b), argv[1]);
	rc = system(cmd);
	builder__free(b);
	return rc ? 1 : 0;
}
