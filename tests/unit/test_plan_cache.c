/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cached plans: a plan that was written is read again; a damaged, foreign or writable one is not. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "plan/plan_priv.h"
#include "suite.h"

static void keep(const struct plan_key *key, const char *where, const struct torch_plan *plan)
{
	uint8_t *image = NULL;
	size_t len = 0;

	plan_cache__encode(plan, &image, &len);
	plan_cache__store(key, where, image, len);
	free(image);
}

static char dir[] = "/tmp/ptbpf-cache-test.XXXXXX";
static char path[256];
static struct plan_key key;
static struct torch_plan *plan;

#define CUDA_ARGS                                                                                  \
	(PTB_CUDA_ARGS(PTB_CUDA_GRAPH, PTB_CUDA_NO_KIND, 2) | PTB_CUDA_RESULT | PTB_API_TAG(127))

/* of a build with short strings */
static const struct ptb_rf_cfg good_rf = { .size = 344,
					   .fn_off = 160,
					   .fn_index_off = 192,
					   .seq_off = 200,
					   .inputs_off = 208,
					   .outputs_off = 280,
					   .fwd_thread_off = 304,
					   .thread_off = 88,
					   .scope_off = 96,
					   .handle_off = 312 };

static void make_plan(void)
{
	size_t n = (size_t)snprintf(path, sizeof(path), "%s/", dir);

	key.known = true;
	memset(key.digest, 0xa5, sizeof(key.digest));
	for (size_t k = 0; k < sizeof(key.digest); k++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, "a5");
	snprintf(path + n, sizeof(path) - n, ".plan");
	plan = calloc(1, sizeof(*plan));
	plan->funcs = calloc(3, sizeof(*plan->funcs));
	plan->sites = calloc(5, sizeof(*plan->sites));
	plan->classes = calloc(2, sizeof(*plan->classes));
	plan->progs = calloc(2, sizeof(*plan->progs));
	plan->func_cnt = 3;
	plan->site_cnt = 5;
	plan->class_cnt = 2;
	plan->prog_cnt = 2;
	for (uint32_t i = 0; i < 3; i++)
		plan->funcs[i] = (struct plan_func){ .name = strdup(i ? "aten::x" : ""),
						     .addr = 0x1000 + i,
						     .lib = TORCH_LIB_CPU,
						     .kind = PTB_FUNC_OP,
						     .handle = 77 + i,
						     .reason = i == 2 ? PTB_REFUSE_NO_EXIT : 0,
						     .schema = i == 1 ? strdup("aten::x() -> ()") : NULL,
						     .unplaced = (uint16_t)(7 * i) };
	for (uint32_t i = 0; i < 5; i++)
		plan->sites[i] = (struct plan_site){ .offset = 0x2000 + i,
						     .func = i % 3,
						     .lib = TORCH_LIB_CPU,
						     .prog = PTB_PROG_OP_EXIT,
						     .role = PTB_ROLE_EXIT,
						     .insn = 0x70,
						     .args = i % 3,
						     .len = 2,
						     .bytes = { 0x74, (uint8_t)i } };
	plan->sites[3].prog = PTB_PROG_API_EXIT; /* names no program */
	plan->sites[3].args = PTB_API_ARGS(0, PTB_API_NONE, 1) | PTB_API_TAG(127);
	plan->sites[4].prog = PTB_PROG_CUDA_ENTER;
	plan->sites[4].args = CUDA_ARGS;
	plan->progs[0] =
		(struct ptb_arg_prog){ .in_cnt = 1, .out_cnt = 1, .stack_words = 26, .result_loc = 0 };
	plan->progs[0].ops[0] = (struct ptb_arg_op){ .op = PTB_ARG_WORDS,
						     .loc = { 6, 31, PTB_LOC_NONE },
						     .as = PTB_VAL_INTS };
	plan->progs[0].ops[1] = (struct ptb_arg_op){ .op = PTB_ARG_PTR_TENSOR, .val_off = 8 };
	plan->progs[1] = (struct ptb_arg_prog){ .result_loc = PTB_LOC_NONE };
	for (uint32_t i = 0; i < 2; i++)
		plan->classes[i] = (struct plan_addr_name){
			.name = strdup("a::B"), .addr = 9 + i, .lib = TORCH_LIB_CPU, .what = (uint8_t)i
		};
	plan->layout.node_seq_off = 24;
	plan->layout.seq_tls_disp = 0x1d0;
	plan->layout.rf = good_rf;
	plan->layout.singletons[TORCH_LIB_PYTHON] = 5;
	plan->names_a = 3;
}

static bool same_plan(const struct torch_plan *a, const struct torch_plan *b)
{
	if (a->func_cnt != b->func_cnt || a->site_cnt != b->site_cnt ||
	    a->class_cnt != b->class_cnt || a->names_a != b->names_a ||
	    a->names_b_only != b->names_b_only || a->names_disagree != b->names_disagree ||
	    memcmp(&a->layout, &b->layout, sizeof(a->layout)) ||
	    memcmp(a->sites, b->sites, a->site_cnt * sizeof(*a->sites)))
		return false;
	if (a->prog_cnt != b->prog_cnt || memcmp(a->progs, b->progs, a->prog_cnt * sizeof(*a->progs)))
		return false;
	for (uint32_t i = 0; i < a->func_cnt; i++)
		if (!a->funcs[i].schema != !b->funcs[i].schema ||
		    (a->funcs[i].schema && strcmp(a->funcs[i].schema, b->funcs[i].schema)) ||
		    a->funcs[i].unplaced != b->funcs[i].unplaced ||
		    strcmp(a->funcs[i].name, b->funcs[i].name) || a->funcs[i].addr != b->funcs[i].addr ||
		    a->funcs[i].lib != b->funcs[i].lib || a->funcs[i].kind != b->funcs[i].kind ||
		    a->funcs[i].reason != b->funcs[i].reason || a->funcs[i].handle != b->funcs[i].handle)
			return false;
	for (uint32_t i = 0; i < a->class_cnt; i++)
		if (strcmp(a->classes[i].name, b->classes[i].name) ||
		    a->classes[i].addr != b->classes[i].addr || a->classes[i].what != b->classes[i].what)
			return false;
	return true;
}

static void keep_and_read(struct torch_plan **got)
{
	*got = NULL;
	keep(&key, dir, plan);
	plan_cache__read(&key, dir, got);
}

TEST("round trip")
{
	struct plan_key other = key;
	struct torch_plan *got;

	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT(got == NULL);
	keep(&key, dir, plan);
	CU_ASSERT_EQUAL_FATAL(plan_cache__read(&key, dir, &got), 0);
	CU_ASSERT(got->from_cache);
	CU_ASSERT(same_plan(plan, got));
	torch_plan__free(got);
	/* other files; files that are known by name only */
	other.digest[FILE_HASH_SZ - 1]++;
	CU_ASSERT(plan_cache__read(&other, dir, &got) < 0);
	CU_ASSERT(!plan_key__same(&key, &other));
	CU_ASSERT(plan_key__same(&key, &key));
	other = key;
	other.known = false;
	CU_ASSERT(plan_cache__read(&other, dir, &got) < 0);
	CU_ASSERT(!plan_key__same(&other, &other));
}

static uint32_t mode_of(const char *name)
{
	struct stat st;

	return stat(name, &st) ? 0 : st.st_mode & 07777;
}

/* The directory is root's alone, or nothing is read from it and nothing put there. */
TEST("the directory is root's alone")
{
	char away[300];
	struct torch_plan *got;

	CU_ASSERT_EQUAL(mode_of(dir), 0700);
	CU_ASSERT_EQUAL(mode_of(path), 0600);
	CU_ASSERT_EQUAL(chmod(dir, 0755), 0); /* as ptbpf made it once */
	CU_ASSERT_EQUAL(plan_cache__read(&key, dir, &got), 0);
	torch_plan__free(got);
	CU_ASSERT_EQUAL(mode_of(dir), 0700);
	CU_ASSERT_EQUAL(chmod(dir, 0770), 0);
	CU_ASSERT_EQUAL(plan_cache__read(&key, dir, &got), -EPERM);
	CU_ASSERT_EQUAL(chmod(dir, 01777), 0);
	CU_ASSERT_EQUAL(plan_cache__read(&key, dir, &got), -EPERM);
	CU_ASSERT_EQUAL(unlink(path), 0);
	keep(&key, dir, plan);
	CU_ASSERT_EQUAL(access(path, F_OK), -1);
	CU_ASSERT_EQUAL(chmod(dir, 0700), 0);
	CU_ASSERT_EQUAL(chown(dir, 12345, 0), 0);
	CU_ASSERT_EQUAL(plan_cache__read(&key, dir, &got), -EPERM);
	CU_ASSERT_EQUAL(chown(dir, 0, 0), 0);
	snprintf(away, sizeof(away), "%s.away", dir); /* by a link */
	CU_ASSERT_EQUAL_FATAL(rename(dir, away), 0);
	CU_ASSERT_EQUAL(symlink(away, dir), 0);
	keep(&key, dir, plan);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(unlink(dir), 0);
	CU_ASSERT_EQUAL_FATAL(rename(away, dir), 0);
	CU_ASSERT_EQUAL(access(path, F_OK), -1);
	keep(&key, dir, plan);
}

/* Beyond the limit the oldest files are deleted, and the new one stays. */
TEST("the oldest go")
{
	uint64_t part = ((uint64_t)LIMIT_PLAN_CACHE_MIB << 20) / 4;
	char name[300];

	for (uint32_t i = 0; i < 6; i++) {
		struct timespec at[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
		int fd;

		snprintf(name, sizeof(name), "%s/%u.plan", dir, i);
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		CU_ASSERT_FATAL(fd >= 0);
		CU_ASSERT_EQUAL(ftruncate(fd, (off_t)part), 0);
		CU_ASSERT_EQUAL(futimens(fd, at), 0);
		close(fd);
	}
	keep(&key, dir, plan);
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	for (uint32_t i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "%s/%u.plan", dir, i);
		CU_ASSERT_EQUAL(access(name, F_OK), i < 3 ? -1 : 0);
		unlink(name);
	}
}

/* Written again and again, nothing but the plan is left in the directory. */
TEST("replacing")
{
	struct stat st;

	for (int i = 0; i < 3; i++)
		keep(&key, dir, plan);
	CU_ASSERT_EQUAL_FATAL(stat(dir, &st), 0);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(rmdir(dir), 0); /* fails if a temporary file stayed */
	keep(&key, dir, plan);          /* makes the directory */
	CU_ASSERT_EQUAL(access(path, R_OK), 0);
}

TEST("rights of the file")
{
	struct torch_plan *got;
	char other[300];

	CU_ASSERT_EQUAL(chmod(path, 0660), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(chmod(path, 0606), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(chmod(path, 0644), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(chmod(path, 0600), 0);
	CU_ASSERT_EQUAL(chown(path, 12345, 0), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(chown(path, 0, 0), 0);
	snprintf(other, sizeof(other), "%s/other", dir); /* by another name, and by a link */
	CU_ASSERT_EQUAL(link(path, other), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(symlink(other, path), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	CU_ASSERT_EQUAL(rename(other, path), 0);
	CU_ASSERT_EQUAL(plan_cache__read(&key, dir, &got), 0);
	torch_plan__free(got);
}

static size_t load(uint8_t *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, cap);

	if (fd >= 0)
		close(fd);
	return n < 0 ? 0 : (size_t)n;
}

static void store(const uint8_t *buf, size_t len)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(write(fd, buf, len), (ssize_t)len);
	close(fd);
}

TEST("damage")
{
	static uint8_t good[8192], bad[8192];
	size_t len = load(good, sizeof(good));
	struct torch_plan *got;

	CU_ASSERT_FATAL(len > 100 && len < sizeof(good));
	for (size_t i = 0; i < len; i++) { /* every byte */
		memcpy(bad, good, len);
		bad[i] ^= 0x41;
		store(bad, len);
		got = NULL;
		if (!plan_cache__read(&key, dir, &got) && !same_plan(plan, got))
			CU_FAIL("a damaged plan was believed");
		torch_plan__free(got);
	}
	for (size_t i = 0; i < len; i++) { /* every length */
		store(good, i);
		CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	}
	memcpy(bad, good, len);
	bad[len] = 0;
	store(bad, len + 1);
	CU_ASSERT(plan_cache__read(&key, dir, &got) < 0);
	store(good, len);
	CU_ASSERT_EQUAL(plan_cache__read(&key, dir, &got), 0);
	torch_plan__free(got);
}

/* Programs that the BPF side must not be given, in an undamaged image. */
TEST("argument programs")
{
	static const struct ptb_arg_op good = { .op = PTB_ARG_WORD,
						.loc = { 0, PTB_LOC_NONE, PTB_LOC_NONE } };
	struct ptb_arg_prog keep = plan->progs[0], *p = &plan->progs[0];
	uint32_t api_args = plan->sites[3].args;
	struct torch_plan *got;

	for (uint32_t round = 0; round < 9; round++) {
		*p = (struct ptb_arg_prog){ .in_cnt = 1, .result_loc = PTB_LOC_NONE };
		p->ops[0] = good;
		if (round == 1)
			p->ops[0].op = 0;
		else if (round == 2)
			p->ops[0].op = 200;
		else if (round == 3)
			p->ops[0].loc[2] = PTB_LOC_CNT;
		else if (round == 4)
			p->result_loc = PTB_LOC_CNT;
		else if (round == 5)
			p->stack_words = PTB_LOC_CNT;
		else if (round == 6)
			plan->sites[0].args = plan->prog_cnt + 1;
		else if (round == 7)
			plan->sites[3].args |= PTB_API_NO_EXIT; /* set at the attach, not in the plan */
		else if (round == 8)
			plan->sites[3].args = 1u << 20; /* more than a cookie holds */
		keep_and_read(&got);
		CU_ASSERT_EQUAL(got != NULL, round == 0);
		torch_plan__free(got);
		plan->sites[0].args = 0;
		plan->sites[3].args = api_args;
	}
	*p = keep;
	keep_and_read(&got);
	CU_ASSERT(got && same_plan(plan, got));
	torch_plan__free(got);
}

/* Only instructions that the kernel emulates are probed, for any image. */
TEST("instructions")
{
	static const struct {
		uint8_t len, bytes[PLAN_INSN_MAX];
		bool ok;
	} rounds[] = {
		{ 1, { 0x55 }, true },
		{ 2, { 0x41, 0x57 }, true },
		{ 5, { 0xe8, 1, 2, 3, 4 }, true },
		{ 0, { 0x55 }, false },
		{ 2, { 0x55 }, false },
		{ 1, { 0xc3 }, false },
		{ 3, { 0x48, 0x89, 0xe5 }, false },
		{ PLAN_INSN_MAX + 1, { 0x55 }, false },
	};
	struct plan_site keep_it = plan->sites[1];
	struct torch_plan *got;

	for (uint32_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
		plan->sites[1].len = rounds[i].len;
		memcpy(plan->sites[1].bytes, rounds[i].bytes, PLAN_INSN_MAX);
		keep_and_read(&got);
		CU_ASSERT_EQUAL(got != NULL, rounds[i].ok);
		CU_ASSERT(!got || same_plan(plan, got));
		torch_plan__free(got);
	}
	plan->sites[1] = keep_it;
}

/* Where a CUDA call's arguments are. */
TEST("CUDA calls' arguments")
{
	static const struct {
		uint32_t args;
		bool ok;
	} rounds[] = {
		{ CUDA_ARGS, true },
		{ CUDA_ARGS | PTB_API_NO_EXIT, false },
		{ PTB_CUDA_ARGS(PTB_CUDA_SHAPE_CNT, 0, 0), false },
		{ PTB_CUDA_ARGS(63, 0, 0), false },
		{ 1u << 20, false },
		{ 0, true },
	};
	struct torch_plan *got;

	for (uint32_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
		plan->sites[4].args = rounds[i].args;
		plan->sites[4].prog = i % 2 ? PTB_PROG_CUDA_EXIT : PTB_PROG_CUDA_ENTER;
		keep_and_read(&got);
		CU_ASSERT_EQUAL(got != NULL, rounds[i].ok);
		CU_ASSERT(!got || same_plan(plan, got));
		torch_plan__free(got);
	}
	plan->sites[4].args = CUDA_ARGS;
	plan->sites[4].prog = PTB_PROG_CUDA_ENTER;
}

/* What an agent would receive about RecordFunction: only possible offsets, or none. */
TEST("RecordFunction")
{
	struct plan_layout *l = &plan->layout;
	struct torch_plan *got;

	for (uint32_t i = 0; i < 10; i++) { /* each offset, elsewhere and unknown */
		uint16_t *field = (uint16_t *)&l->rf + i;
		uint16_t keep_it = *field;

		*field = i % 2 ? PTB_OFF_UNKNOWN : (uint16_t)(keep_it - 4);
		keep_and_read(&got);
		CU_ASSERT(got == NULL);
		torch_plan__free(got);
		*field = keep_it;
	}
	l->rf.old_string_abi = 1; /* then the others are wrong */
	keep_and_read(&got);
	CU_ASSERT(got == NULL);
	memset(&l->rf, 0xff, sizeof(l->rf));
	l->rf.size = 0; /* not derived */
	memset(l->no_rf_why, 'x', sizeof(l->no_rf_why));
	keep_and_read(&got);
	CU_ASSERT(got == NULL); /* a text without an end */
	l->no_rf_why[sizeof(l->no_rf_why) - 1] = 0;
	keep_and_read(&got);
	CU_ASSERT(got && same_plan(plan, got));
	torch_plan__free(got);
	memset(l->no_rf_why, 0, sizeof(l->no_rf_why));
	l->rf = good_rf;
	keep_and_read(&got);
	CU_ASSERT(got && !memcmp(&got->layout.rf, &good_rf, sizeof(good_rf)));
	torch_plan__free(got);
}

int main(void)
{
	int rc;

	if (geteuid()) {
		printf("SKIP: only files of root are believed, and this is not root\n");
		return 77;
	}
	if (!mkdtemp(dir))
		return 1;
	make_plan();
	rc = run_suite("plan_cache");
	torch_plan__free(plan);
	unlink(path);
	rmdir(dir);
	return rc;
}
