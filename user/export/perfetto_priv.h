/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Perfetto's trace format; private to perfetto_*.c. Field numbers are those of Perfetto's
 * protos/perfetto/trace/, in the file that is named with each message; only those that are written.
 */
#ifndef EXPORT_PERFETTO_PRIV_H
#define EXPORT_PERFETTO_PRIV_H

#include "base/containers.h"
#include "export/output.h"
#include "export/pb.h"

/* clang-format off */
enum { TRACE_PACKET = 1 }; /* trace.proto */
enum packet_field { /* trace_packet.proto */
	PACKET_CLOCK_SNAPSHOT = 6, PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11, PACKET_INTERNED_DATA = 12, PACKET_SEQUENCE_FLAGS = 13,
	PACKET_GPU_STAGE = 53, PACKET_DEFAULTS = 59, PACKET_TRACK = 60,
	PACKET_FIRST_ON_SEQUENCE = 87,
};
#define SEQUENCE_CLEARED 1
#define SEQUENCE_NEEDS_STATE 2
enum { DEFAULTS_CLOCK = 58 }; /* trace_packet_defaults.proto */
enum clock_field { /* clock_snapshot.proto; clocks: common/builtin_clock.proto */
	SNAPSHOT_CLOCK = 1, SNAPSHOT_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIME = 2,
};
#define CLOCK_REALTIME_ID 1
#define CLOCK_MONOTONIC_ID 3
#define CLOCK_OWN_ID 128 /* the first of those that a trace defines itself */
enum track_field { /* track_event/{track,process,thread,counter}_descriptor.proto */
	TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5,
	TRACK_COUNTER = 8, TRACK_MERGE = 15,
	PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5,
	COUNTER_UNIT = 3,
};
#define TRACK_MERGE_NONE 2
#define UNIT_COUNT 2
#define UNIT_BYTES 3
enum event_field { /* track_event/track_event.proto, gpu/gpu_track_event.proto */
	EVENT_CATEGORY = 3, EVENT_ANNOTATION = 4, EVENT_LEGACY = 6, EVENT_TYPE = 9, EVENT_NAME = 10,
	EVENT_TRACK = 11, EVENT_DOUBLE_VALUE = 44, EVENT_CALLSTACK = 56,
	EVENT_CALLSTACK_WEIGHT = 57, EVENT_GPU_CORRELATION = 3000, GPU_CORRELATION_SUBMITTED = 1,
	LEGACY_PHASE = 2, LEGACY_ID = 6, LEGACY_BIND_ENCLOSING = 12,
};
enum event_type { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum annotation_field { ANNOTATION_DICT = 11, ANNOTATION_ARRAY = 12 }; /* debug_annotation */
enum stage_field { /* gpu/gpu_render_stage_event.proto */
	STAGE_EVENT = 1, STAGE_DURATION = 2, STAGE_CONTEXT = 5, STAGE_SUBMISSION = 10,
	STAGE_GPU = 11, STAGE_QUEUE = 13, STAGE_STAGE = 14, STAGE_KERNEL = 19, STAGE_LAUNCH = 21,
	LAUNCH_GRID = 1, LAUNCH_WORKGROUP = 2, LAUNCH_ARG = 3,
	CONTEXT_PID = 2, CONTEXT_API = 3, SPECIFICATION_CATEGORY = 4,
};
#define CONTEXT_CUDA 4
#define SPECIFICATION_COMPUTE 2
/* interned_data/interned_data.proto, gpu/gpu_interned_data.proto: IID and TEXT are those of most */
enum interned_field {
	INTERNED_IID = 1, INTERNED_TEXT = 2, INTERNED_FRAMES = 6, INTERNED_CONTEXTS = 23,
};
#define DICTIONARIES(X)                                                                            \
	X(DICT_CATEGORY, 1) X(DICT_NAME, 2) X(DICT_KEY, 3) X(DICT_FUNCTION, 5)                     \
	X(DICT_CALLSTACK, 7) X(DICT_GPU_SPECIFICATION, 24) X(DICT_VALUE, 29)                       \
	X(DICT_KERNEL, 1000) X(DICT_GPU_KEY, 1001)
enum dict {
#define X(name, field) name,
	DICTIONARIES(X)
#undef X
	DICT_CNT,
};
enum frame_field { FRAME_FUNCTION = 2, CALLSTACK_FRAME = 2 }; /* profiling/profile_common.proto */
/* clang-format on */

/* perfetto_file.c: packets, their dictionaries and tracks. */

enum track_kind {
	TRACK_OF_THREAD,
	TRACK_OF_PROCESS,
	TRACK_STATE,
	TRACK_ROW,
	TRACK_DEVICE,
	TRACK_ALL,
	TRACK_VALUE,
	TRACK_CONTEXT
};

/* When the window begins, by the file's own clock: times of a GPU may be before that. */
#define PERFETTO_BEGIN_NS 1000000000ULL

struct perfetto_track {
	uint64_t uuid; /* 0: new */
};

struct perfetto_file {
	struct out_file *of;
	struct pb out;
	struct pb interned; /* of the next packet */
	struct perfetto_dict *dicts;
	struct perfetto_track *tracks;
	uint32_t track_cnt, track_cap;
	struct hashmap track_ids;
};

void perfetto_file__init(struct perfetto_file *f, struct out_file *of);
void perfetto_file__free(struct perfetto_file *f);
void perfetto_file__flush(struct perfetto_file *f);
/* A packet is open from begin to end; what it refers to is interned before its end, its tracks are
 * found before its begin. */
size_t perfetto_file__begin(struct perfetto_file *f, uint64_t ts, uint32_t flags);
void perfetto_file__end(struct perfetto_file *f, size_t packet);
/* Id of the text; 0: the limit on memory does not allow it (of values only). */
uint32_t perfetto_file__intern(struct perfetto_file *f, enum dict which, const char *text,
			       size_t len);
const char *perfetto_file__text(const struct perfetto_file *f, enum dict which, uint32_t iid);
/* Until the next call; its uuid is 0 if it is new, and a packet describes it then. */
struct perfetto_track *perfetto_file__track(struct perfetto_file *f, enum track_kind kind,
					    uint32_t owner, uint64_t nr);
struct perfetto_about { /* what a track is of */
	enum track_kind kind;
	uint32_t pid, tid;
	const char *name; /* NULL: none */
	uint64_t parent;
	uint32_t unit;
};
void perfetto_file__describe(struct perfetto_file *f, struct perfetto_track *t,
			     const struct perfetto_about *about);
/* Any bytes, as UTF-8. */
void perfetto__put_text(struct pb *b, uint32_t field, const char *text, size_t len);

/* ---- events ---- */

#define DEPTH_MAX JSONW_DEPTH_MAX
#define OWNERS_MAX 64 /* a power of two; more processes than that on one GPU share their names */

/* What of the texts that chrome_*.c write is not written as it is, or not only. */
enum special {
	PLAIN,
	KEY_CORRELATION,
	KEY_CONTEXT,
	KEY_STREAM,
	KEY_WEIGHT,
	KEY_NUMBERS, /* those before it are remembered */
	KEY_LEFT_OUT = KEY_NUMBERS,
	KEY_CALL_STACK,
	KEY_NAME,
	KEY_GRID,
	KEY_BLOCK,
	CAT_CALL, /* may put work on a GPU */
	CAT_KERNEL,
	CAT_WORK, /* of a GPU */
	CAT_ROW,  /* beside it */
	CAT_LAUNCH_FLOW,
	META_PROCESS,
	META_THREAD,
	KEY_EVENTS,
};

/* Field numbers of one argument: DebugAnnotation, and ExtraComputeArg of GPU work. */
struct arg_fields {
	enum dict keys;
	uint32_t name, boolean, u64, i64, number, text, text_iid;
};

struct perfetto_event { /* one of chrome_*.c */
	char ph, scope;
	bool elsewhere; /* of no process */
	bool enclosing;
	uint8_t is; /* its category, or its name of metadata */
	uint32_t cat, name, tid;
	int64_t pid;
	uint64_t begin, dur, id;
	/* of its args */
	uint64_t number[KEY_NUMBERS];
	uint32_t dims[2][3], dim_cnt, stack;
	bool has_dims;
};

struct perfetto {
	struct perfetto_file file;
	const struct session *s;
	uint64_t origin; /* PERFETTO_BEGIN_NS by chrome_*.c's clock; may be "negative" */
	uint32_t depth;
	bool in_events;
	struct {
		size_t begin; /* of the message that is open there */
		bool array;
	} open[DEPTH_MAX];
	struct pb capture; /* annotations of what the trace says of all of it */
	struct pb launch;  /* arguments of GPU work */
	struct pb *to;
	const struct arg_fields *fields;
	char key[2];     /* of an event's own: its begin */
	uint32_t key_id; /* of an arg, in fields->keys; 0: an element of an array */
	uint8_t key_is;
	struct {
		uint8_t *is;
		uint32_t is_cnt, is_cap;
	} specials[DICT_CNT]; /* by id */
	struct pb text;       /* of which the pieces are not all there */
	bool in_text;
	uint32_t *frames;
	uint32_t frame_cnt, frame_cap;
	struct perfetto_event ev;
	char name[256];       /* that metadata gives */
	size_t packet, event; /* open ones */
	uint64_t track;
	/* whose correlations have this number in their upper half */
	uint32_t owner_pids[OWNERS_MAX];
};

static inline bool perfetto__is_work(const struct perfetto *p)
{
	return p->ev.is == CAT_KERNEL || p->ev.is == CAT_WORK;
}

/* perfetto_events.c: an event of chrome_*.c as packets, each with its track. */
void perfetto_event__begin(struct perfetto *p); /* one that is drawn, up to its args */
void perfetto_event__finish(struct perfetto *p);
void perfetto_event__counter(struct perfetto *p, double value); /* of the key */
void perfetto_event__capture(struct perfetto *p); /* what the trace says of all of it */

/* perfetto.c: what chrome_*.c write, as packets. */
struct chrome_clock;
struct perfetto *perfetto__new(const struct session *s, const struct chrome_clock *clock,
			       struct out_file *of);
void perfetto__free(struct perfetto *p);
void perfetto__take(void *p, const struct jsonw_token *t); /* a jsonw_take */

#endif /* EXPORT_PERFETTO_PRIV_H */
