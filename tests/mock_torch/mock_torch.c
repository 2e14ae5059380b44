/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See mock_torch.h. */
#include "mock_torch.h"

#include <pthread.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

struct mock_callback { /* at::RecordFunctionCallback */
	void *(*start)(void **context, const void *rf);
	void (*end)(const void *rf, void *context);
	double sampling;
	bool scopes[10];
	bool needs_inputs, needs_outputs, needs_ids;
};

EXPORT uint64_t add_global(struct mock_callback cb) __asm__("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
EXPORT void remove_callback(uint64_t handle) __asm__("_ZN2at14removeCallbackEm");
EXPORT const char *name(const struct mock_rf *rf) __asm__("_ZNK2at14RecordFunction4nameEv");
EXPORT uint64_t num_inputs(const struct mock_rf *rf) __asm__("_ZNK2at14RecordFunction10num_inputsEv");
EXPORT uint64_t num_outputs(const struct mock_rf *rf) __asm__("_ZNK2at14RecordFunction11num_outputsEv");
EXPORT void step_callbacks(void) __asm__("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE");
EXPORT uint64_t thread_id(void) __asm__("_ZN2at14RecordFunction15currentThreadIdEv");

struct entry {
	struct mock_callback callback;
	bool enabled;
	uint64_t handle;
};

/* at::GlobalCallbackManager as in memory: the agent searches for its lock. */
static struct {
	uint64_t version;
	struct entry *begin, *end, *room;
	pthread_mutex_t mutex;
} manager = { .version = 1, .mutex = PTHREAD_MUTEX_INITIALIZER };

static struct entry entries[4];
static struct mock_counts counts;
static uint64_t last_handle, last_thread;
static __thread uint64_t this_thread;

uint64_t add_global(struct mock_callback cb)
{
	uint64_t handle;

	pthread_mutex_lock(&manager.mutex);
	handle = ++last_handle;
	entries[0] = (struct entry){ cb, true, handle };
	manager.begin = entries;
	manager.end = entries + 1;
	manager.room = entries + 4;
	manager.version++;
	counts.registered++;
	counts.added++;
	counts.needs_inputs = cb.needs_inputs;
	counts.needs_outputs = cb.needs_outputs;
	pthread_mutex_unlock(&manager.mutex);
	return handle;
}

void remove_callback(uint64_t handle)
{
	pthread_mutex_lock(&manager.mutex);
	if (handle == last_handle && counts.registered) {
		counts.registered--;
		counts.removed++;
		manager.end = manager.begin;
		manager.version++;
	}
	pthread_mutex_unlock(&manager.mutex);
}

const char *name(const struct mock_rf *rf)
{
	return rf->is_schema ? rf->schema->name : rf->text;
}

uint64_t num_inputs(const struct mock_rf *rf)
{
	return rf->is_schema ? rf->schema->inputs : rf->input_cnt;
}

uint64_t num_outputs(const struct mock_rf *rf)
{
	return rf->is_schema ? rf->schema->outputs : (uint64_t)(rf->outputs_end - rf->outputs);
}

/* Only its name is used. */
void step_callbacks(void)
{
}

uint64_t thread_id(void)
{
	if (!this_thread)
		this_thread = __atomic_add_fetch(&last_thread, 1, __ATOMIC_RELAXED);
	return this_thread;
}

EXPORT bool mock__begin(struct mock_rf *rf)
{
	struct mock_callback cb = { 0 };
	void *context = rf;

	pthread_mutex_lock(&manager.mutex);
	if (manager.end > manager.begin)
		cb = manager.begin->callback;
	pthread_mutex_unlock(&manager.mutex);
	rf->end = NULL;
	if (!rf->thread) /* else another thread constructed it */
		rf->thread = thread_id();
	if (!cb.start || !cb.scopes[rf->scope] || cb.sampling < 1)
		return false;
	rf->end = cb.end;
	return cb.start(&context, rf) == &context && !context;
}

EXPORT void mock__end(struct mock_rf *rf)
{
	if (rf->end)
		rf->end(rf, NULL);
}

EXPORT struct mock_counts mock__counts(void)
{
	struct mock_counts c;

	pthread_mutex_lock(&manager.mutex);
	c = counts;
	pthread_mutex_unlock(&manager.mutex);
	return c;
}
