/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of libtorch that the agent calls, under its real symbol names, in C. A RecordFunction has a layout of
 * its own here, which the agent gets from the configuration only. Tests run operators with it.
 */
#ifndef TESTS_MOCK_TORCH_H
#define TESTS_MOCK_TORCH_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
/* clang-format on */

struct mock_ivalue {
	uint64_t payload, tag;
};

struct mock_schema { /* OperatorName: std::string name, overload name */
	const char *name;
	uint64_t name_len, name_room[2];
	const char *overload;
	uint64_t overload_len, overload_room[2];
	uint64_t inputs, outputs;
};

struct mock_rf {
	uint64_t vptr;
	void (*end)(const void *rf, void *context); /* of the callback that it began with */
	uint64_t thread;
	uint8_t scope, pad[7];
	union {
		struct {
			const char *text;
			uint64_t len, room[2];
		};
		const struct mock_schema *schema;
	};
	uint8_t is_schema, pad2[7];
	int64_t seq;
	const struct mock_ivalue *inputs;
	uint64_t input_cnt;
	const struct mock_ivalue *outputs, *outputs_end, *outputs_room;
	uint64_t fwd_thread, handle;
};

/* The callbacks, as torch would run them; false: none is registered, or it does not keep to its contract. */
bool mock__begin(struct mock_rf *rf);
void mock__end(struct mock_rf *rf);

struct mock_counts {
	uint32_t registered, added, removed;
	bool needs_inputs, needs_outputs;
};
struct mock_counts mock__counts(void);

#endif /* TESTS_MOCK_TORCH_H */
