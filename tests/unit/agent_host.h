/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * This process as the agent's host: mock_torch and the agent are loaded, its chunks are collected and can be
 * searched for records. One tracer at a time.
 */
#ifndef TESTS_AGENT_HOST_H
#define TESTS_AGENT_HOST_H

#include "../mock_torch/mock_torch.h"
#include "ptb_agent.h"

#define REQUEST(site) (1u << PTB_AGENT_SITE_##site)

/* Loads all; the functions of mock_torch are called through it. False: reason printed. */
bool host__load(void);
struct ptb_agent_ctl *host__ctl(void);
/* What it says of this thread's open operators; NULL: nothing. */
const struct ptb_open_ops *host__open(void);
bool host__begin(struct mock_rf *rf);
void host__end(struct mock_rf *rf);
struct mock_counts host__counts(void);

/* Settings that are right for mock_torch and arena__facts()'s values; written into the agent, whole. */
struct ptb_agent_cfg host__right_cfg(void);
void host__configure(const struct ptb_agent_cfg *cfg);

/* Raises requests (CHUNK always) and waits for the agent's answer; lowers them, waits, reads what came. */
bool host__attach(unsigned int requests);
bool host__detach(void);

/* Reads what another process of this program left when it ended without detaching. */
void host__read_of(int pid);

/* The chunks that came, in the order sent. */
const struct ptb_chunk *host__chunk(uint32_t i);
/* Calls fn for each record of chunks of this kind, 0: all. */
void host__each(enum ptb_chunk_kind kind,
		void (*fn)(const struct ptb_chunk *c, const struct ptb_arec *r, void *ctx), void *ctx);
uint32_t host__count(enum ptb_arec_kind kind);

/* Objects to run: "aten::add.Tensor" with three inputs, "aten::neg" with one. */
extern const struct mock_schema mock_add, mock_neg;
void host__be_schema(struct mock_rf *rf, const struct mock_schema *schema);
/* aten::neg in aten::add: both begin and end. */
void host__nest(struct mock_rf *outer, struct mock_rf *inner);
void host__be_text(struct mock_rf *rf, const char *text);
void host__run_op(const struct mock_schema *schema);
void host__configure_right(void);

/* The first records, for collect_records() with host__each(). */
struct first_records {
	struct {
		uint8_t kind, scope, flags;
		uint64_t rf, schema, fwd, stack, ticks, logical;
		int64_t seq;
		uint32_t len, tid;
		char text[300];
	} r[64];
	uint32_t cnt;
};
void collect_records(const struct ptb_chunk *c, const struct ptb_arec *r, void *first_records);

#endif /* TESTS_AGENT_HOST_H */
