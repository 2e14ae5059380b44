/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/job_json: what is taken over from a capture, and which rank it has as a whole. */
#include <string.h>

#include "export/job_json.h"
#include "suite.h"

static const char *written(const char *job)
{
	static struct jsonw_text out;
	const struct session_process p = { .job = job };
	struct jsonw w;

	out.len = 0;
	out.text[0] = '\0';
	CU_ASSERT_FATAL(!jsonw__init(&w, jsonw__to_text, &out, 256));
	jsonw__begin_obj(&w);
	job_json__write(&w, &p);
	jsonw__end_obj(&w);
	CU_ASSERT(!jsonw__flush(&w));
	jsonw__free(&w);
	return out.text;
}

static void test_write(void)
{
	static const struct {
		const char *job, *want;
	} rows[] = {
		{ NULL, "{}" },
		{ "", "{}" },
		{ "[]", "{}" },
		{ "{\"ns_pid\": 1", "{}" },
		{ "{}", "{\"job\": {\"environment\": {}}}" },
		{ "{\"environment\": {\"MASTER_ADDR\": \"a\\nb\", \"RANK\": 2}, \"cgroup\": \"/x\", \"ns_pid\": 7}",
		  "{\"job\": {\"ns_pid\": 7, \"cgroup\": \"/x\", \"environment\": {\"RANK\": 2, \"MASTER_ADDR\": \"a\\nb\"}}}" },
		{ "{\"environment\": {\"RANK\": \"2\", \"WORLD_SIZE\": -1, \"LOCAL_RANK\": 0.5, \"GROUP_RANK\": 1e999, \"SECRET\": 1, "
		  "\"MASTER_ADDR\": 7, \"SLURM_JOB_ID\": 4294967295, \"SLURM_PROCID\": 4294967296}, \"ns_pid\": [], \"cgroup\": null, \"y\": 1}",
		  "{\"job\": {\"environment\": {\"SLURM_JOB_ID\": 4294967295}}}" },
		{ "{\"environment\": [1, 2]}", "{\"job\": {\"environment\": {}}}" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CU_ASSERT_STRING_EQUAL(written(rows[i].job), rows[i].want);
}

#define RANK(rank, world) "{\"environment\": {\"RANK\": " rank ", \"WORLD_SIZE\": " world "}}"
#define SLURM(rank, world)                                                                         \
	"{\"environment\": {\"SLURM_PROCID\": " rank ", \"SLURM_STEP_NUM_TASKS\": " world "}}"

static void test_rank(void)
{
	struct session_process p[] = { { .tgid = 10, .job = "{}" },
				       { .tgid = 11, .job = SLURM("1", "4") },
				       { .tgid = 12, .job = RANK("5", "8") },
				       { .tgid = 13, .job = RANK("6", "8") } };
	struct session_info info = { .processes = p, .process_cnt = 4 };
	struct job_rank r;

	CU_ASSERT(job_json__rank(&info, 0, &r) && r.rank == 5 && r.world_size == 8);
	CU_ASSERT(job_json__rank(&info, 13, &r) && r.rank == 6 && r.world_size == 8);
	CU_ASSERT(job_json__rank(&info, 11, &r) && r.rank == 1 && r.world_size == 4 && r.by_slurm);
	CU_ASSERT_FALSE(job_json__rank(&info, 10, &r));
	CU_ASSERT_FALSE(job_json__rank(&info, 99, &r));
	info.process_cnt = 2;
	CU_ASSERT(job_json__rank(&info, 0, &r) && r.rank == 1 && r.by_slurm);
	info.process_cnt = 1;
	CU_ASSERT_FALSE(job_json__rank(&info, 0, &r));
	p[0].job = RANK("8", "8");
	CU_ASSERT_FALSE(job_json__rank(&info, 0, &r));
}

static void test_text(void)
{
	static char longer[JOB_TEXT_MAX + 100];
	struct session_process p[] = {
		{ .tgid = 1, .job = longer },
		{ .tgid = 2, .job = "{\"environment\": {\"PT_PROFILER_JOB_NAME\": \"n\"}}" }
	};
	struct session_info info = { .processes = p, .process_cnt = 2 };
	char text[JOB_TEXT_MAX + 1];

	strcpy(longer, "{\"environment\": {\"PT_PROFILER_JOB_NAME\": \"");
	memset(longer + strlen(longer), 'x', JOB_TEXT_MAX + 1);
	strcat(longer, "\"}}");
	CU_ASSERT(job_json__text(&info, 0, JOB_PT_PROFILER_JOB_NAME, text) && !strcmp(text, "n"));
	CU_ASSERT_FALSE(job_json__text(&info, 1, JOB_PT_PROFILER_JOB_NAME, text));
	CU_ASSERT_FALSE(job_json__text(&info, 0, JOB_PT_PROFILER_JOB_VERSION, text));
}

static const CU_TestInfo tests[] = {
	{ "written", test_write },
	{ "rank", test_rank },
	{ "text", test_text },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("job_json", tests);
}
