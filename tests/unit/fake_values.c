/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The values of fake_session.h, without the functions of user/model. */
#include "fake_session.h"

static const struct session_process fake_process = { .tgid = 100,
						     .parent_tgid = 1,
						     .comm = "python",
						     .cmdline = "python train.py",
						     .exe = "python3.11",
						     .start_ns = 5000000000ULL };

struct session fake_session(void)
{
	return (struct session){
		.info = { .begin_ns = 5000000000ULL,
			  .end_ns = 6000000000ULL,
			  .mono_to_unix_ns = 1790900000000000000LL,
			  .stop_reason = PTB_STOP_DURATION,
			  .sealed = true,
			  .processes = &fake_process,
			  .process_cnt = 1,
			  .counter_cnt = PTB_CNT_MAP },
		.comm = "python",
	};
}

static const struct session_keys fake_keys = { .nested = FAKE_KEY_NESTED,
					       .no_strides = FAKE_KEY_SPARSE,
					       .sparse_csr = FAKE_KEY_CSR };

struct slice fake_slice(uint64_t id, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
	return (struct slice){ .id = id,
			       .tgid = 100,
			       .tid = 100,
			       .begin_ns = begin_ns,
			       .end_ns = end_ns,
			       .name = name,
			       .overload = "",
			       .cat = SLICE_CPU_OP,
			       .kind = PTB_FUNC_OP,
			       .schema = "",
			       .keys = &fake_keys,
			       .seq = -1 };
}
