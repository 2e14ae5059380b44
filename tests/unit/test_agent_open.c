/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent, as it is built, in this process beside a mock libtorch: which operators it says are open, at any moment.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent_host.h"
#include "suite.h"

#define ADDR(p) ((uint64_t)(uintptr_t)(p))

static void attach(unsigned int requests)
{
	host__configure_right();
	CU_ASSERT_FATAL(host__attach(requests));
	CU_ASSERT(host__ctl()->state & PTB_AGENT_OPEN_ON);
}

/* The innermost one; NULL: none. */
static const struct ptb_open_op *innermost(void)
{
	const struct ptb_open_ops *o = host__open();

	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	return o->h.cnt ? &o->ops[o->h.cnt - 1] : NULL;
}

static uint64_t named(const struct mock_rf *rf)
{
	const struct ptb_open_op *op = innermost();

	return op && op->rf == ADDR(rf) ? op->name : 0;
}

static struct first_records h;

static const char *name_of(uint64_t name)
{
	for (uint32_t i = 0; i < h.cnt; i++)
		if (h.r[i].kind == PTB_AREC_NAME && h.r[i].schema == name)
			return h.r[i].text;
	return "";
}

TEST("operators in one another")
{
	struct mock_rf op, note, backward, inner;
	uint64_t names[3];

	attach(REQUEST(OPEN));
	CU_ASSERT_FALSE(host__ctl()->state & PTB_AGENT_OPS_ON);
	CU_ASSERT_PTR_NULL(host__open()); /* nothing has begun on this thread */
	host__be_schema(&op, &mock_add);
	host__be_text(&note, "an annotation");
	host__be_text(&backward, "AddBackward0");
	backward.scope = 1;
	host__be_schema(&inner, &mock_neg);
	CU_ASSERT(host__begin(&op));
	names[0] = named(&op);
	CU_ASSERT_FALSE(host__begin(&note)); /* torch does not even call it */
	CU_ASSERT(named(&op) && host__begin(&backward));
	names[1] = named(&backward);
	CU_ASSERT(host__begin(&inner));
	names[2] = named(&inner);
	host__end(&inner);
	CU_ASSERT_EQUAL(named(&backward), names[1]);
	host__end(&backward);
	host__end(&note);
	CU_ASSERT_EQUAL(named(&op), names[0]);
	host__end(&op);
	CU_ASSERT_PTR_NULL(innermost());
	host__run_op(&mock_add);
	CU_ASSERT(host__detach());
	CU_ASSERT_PTR_NULL(host__open());
	CU_ASSERT_EQUAL(host__counts().registered, 0);
	h.cnt = 0;
	host__each(PTB_CHUNK_OPS, collect_records, &h);
	CU_ASSERT_EQUAL(h.cnt, 3); /* names, once each, and nothing else */
	CU_ASSERT_STRING_EQUAL(name_of(names[0]), "aten::add");
	CU_ASSERT_STRING_EQUAL(name_of(names[1]), "AddBackward0");
	CU_ASSERT_STRING_EQUAL(name_of(names[2]), "aten::neg");
	CU_ASSERT_NOT_EQUAL(names[0] & names[1] & names[2] & PTB_OPEN_NAME, 0);
}

static void *end_it(void *rf)
{
	host__end(rf);
	return NULL;
}

/* In another order than they began, on another thread, after the request; more than there is room for. */
TEST("ends that are out of order")
{
	static struct mock_rf many[PTB_OPEN_MAX + 3];
	struct mock_rf a, b, c;
	pthread_t thread;

	attach(REQUEST(OPEN));
	host__be_schema(&a, &mock_add);
	host__be_schema(&b, &mock_neg);
	host__be_schema(&c, &mock_add);
	CU_ASSERT(host__begin(&a) && host__begin(&b) && host__begin(&c));
	host__end(&b);
	CU_ASSERT_NOT_EQUAL(named(&c), 0);
	host__end(&c);
	CU_ASSERT_NOT_EQUAL(named(&a), 0);
	CU_ASSERT(host__begin(&b));
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, end_it, &b), 0);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(host__open()->h.cnt, 2);
	CU_ASSERT_EQUAL(innermost()->rf, 0);
	host__end(&a);
	CU_ASSERT_PTR_NULL(innermost());
	for (uint32_t i = 0; i < PTB_OPEN_MAX + 3; i++) {
		host__be_schema(&many[i], &mock_add);
		CU_ASSERT(host__begin(&many[i]));
		CU_ASSERT_EQUAL(host__open()->h.over, i >= PTB_OPEN_MAX);
	}
	for (uint32_t i = PTB_OPEN_MAX + 3; i--;) {
		CU_ASSERT_EQUAL(host__open()->h.over, i >= PTB_OPEN_MAX - 1);
		host__end(&many[i]);
		CU_ASSERT_EQUAL(host__open()->h.over, i >= PTB_OPEN_MAX);
	}
	CU_ASSERT_PTR_NULL(innermost());
	CU_ASSERT(host__begin(&a));
	CU_ASSERT(host__detach());
	host__end(&a);
	attach(REQUEST(OPEN));
	CU_ASSERT_PTR_NULL(innermost()); /* what was open before is forgotten */
	CU_ASSERT(host__detach());
}

/* ---- at any moment ---- */

static struct mock_rf outer, inner;
static uint64_t outer_name, inner_name;
static volatile sig_atomic_t looks, wrong, found[3];

static void look(int sig)
{
	const struct ptb_open_ops *o = host__open();
	const struct ptb_open_op *op = NULL;
	uint32_t cnt = o ? o->h.cnt : 0;

	(void)sig;
	while (cnt && !op)
		op = o->ops[--cnt].rf ? &o->ops[cnt] : NULL;
	looks++;
	if (!op)
		found[0]++;
	else if (op->rf == ADDR(&outer) && op->name == outer_name)
		found[1]++;
	else if (op->rf == ADDR(&inner) && op->name == inner_name)
		found[2]++;
	else
		wrong++;
}

TEST("between any two instructions")
{
	const struct itimerspec every = { .it_value.tv_nsec = 50000, .it_interval.tv_nsec = 50000 };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t timer;

	attach(REQUEST(OPEN));
	host__be_schema(&outer, &mock_add);
	host__be_schema(&inner, &mock_neg);
	host__begin(&outer);
	outer_name = named(&outer);
	host__begin(&inner);
	inner_name = named(&inner);
	host__end(&inner);
	host__end(&outer);
	signal(SIGUSR1, look);
	CU_ASSERT_EQUAL_FATAL(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	timer_settime(timer, 0, &every, NULL);
	while (looks < 4000)
		for (uint32_t i = 0; i < 1000; i++)
			host__nest(&outer, &inner);
	timer_delete(timer);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(found[0] && found[1] && found[2]);
	CU_ASSERT(host__detach());
}

/* ---- with records; refusals ---- */

TEST("with records")
{
	attach(REQUEST(OPEN) | REQUEST(OPS));
	CU_ASSERT(host__ctl()->state & PTB_AGENT_OPS_ON);
	host__run_op(&mock_add);
	CU_ASSERT_PTR_NULL(innermost());
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__count(PTB_AREC_BEGIN), 1);
	CU_ASSERT_EQUAL(host__count(PTB_AREC_END), 1);
	CU_ASSERT_EQUAL(host__count(PTB_AREC_NAME), 2);
}

TEST("a wrong layout")
{
	struct ptb_agent_cfg cfg = host__right_cfg();

	cfg.rf.fn_off += 8;
	host__configure(&cfg);
	host__attach(REQUEST(OPEN));
	for (uint32_t i = 0; i < 30; i++) {
		host__run_op(&mock_add);
		CU_ASSERT_PTR_NULL(host__open());
		usleep(10000);
	}
	CU_ASSERT_EQUAL(host__ctl()->ops_why, PTB_AGENT_WHY_BAD_LAYOUT);
	CU_ASSERT_FALSE(host__ctl()->state & PTB_AGENT_OPEN_ON);
	CU_ASSERT(host__detach());
	CU_ASSERT_EQUAL(host__count(PTB_AREC_NAME), 0);
}

int main(void)
{
	if (!host__load())
		return 1;
	return run_suite("agent open");
}
