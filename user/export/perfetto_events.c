/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Events of a Perfetto trace: which track each is on, and its packets. Slices are two packets, work
 * of GPUs is one, a value of a counter is one on a track of its own.
 */
#include <stdio.h>

#include "export/chrome_priv.h"
#include "export/perfetto_priv.h"

static uint64_t file_time(const struct perfetto *p, uint64_t ts)
{
	uint64_t at = ts - p->origin;

	return at >> 63 ? 0 : at;
}

/* ---- tracks ---- */

static uint64_t process_track(struct perfetto *p, uint32_t pid, const char *name)
{
	struct perfetto_track *t = perfetto_file__track(&p->file, TRACK_OF_PROCESS, pid, 0);

	if (!t->uuid || name)
		perfetto_file__describe(&p->file, t,
					&(struct perfetto_about){ .kind = TRACK_OF_PROCESS,
								  .pid = pid,
								  .name = name });
	return t->uuid;
}

static uint64_t thread_track(struct perfetto *p, uint32_t pid, uint32_t tid, const char *name)
{
	struct perfetto_track *t = perfetto_file__track(&p->file, TRACK_OF_THREAD, pid, tid);

	if (t->uuid && !name)
		return t->uuid;
	process_track(p, pid, NULL);
	t = perfetto_file__track(&p->file, TRACK_OF_THREAD, pid, tid);
	perfetto_file__describe(&p->file, t,
				&(struct perfetto_about){ .kind = TRACK_OF_THREAD,
							  .pid = pid,
							  .tid = tid,
							  .name = name });
	return t->uuid;
}

/* A track with a name below another one, or below none. */
static struct perfetto_track *named_track(struct perfetto *p, enum track_kind kind, uint32_t owner,
					  uint64_t nr, const struct perfetto_about *about)
{
	struct perfetto_track *t = perfetto_file__track(&p->file, kind, owner, nr);

	if (!t->uuid)
		perfetto_file__describe(&p->file, t, about);
	return t;
}

static uint64_t global_track(struct perfetto *p, uint64_t nr, const char *name)
{
	return named_track(p, TRACK_ALL, 0, nr,
			   &(struct perfetto_about){ .kind = TRACK_ALL, .name = name })
		->uuid;
}

/*
 * perf(1) and the kernel's traces have the states in a table of their own, which wants each switch
 * of each CPU; a capture has the waits of the traced threads. So they are slices of a track beside
 * the thread's.
 */
static uint64_t state_track(struct perfetto *p, uint32_t pid, uint32_t tid)
{
	uint64_t parent = thread_track(p, pid, tid, NULL);

	return named_track(p, TRACK_STATE, pid, tid,
			   &(struct perfetto_about){
				   .kind = TRACK_STATE, .name = "thread state", .parent = parent })
		->uuid;
}

/* As chrome_gpu.c numbers them: the device, or behind all processes. */
static uint32_t device_of(const struct perfetto_event *ev)
{
	return (uint32_t)ev->pid % GPU_SORT_INDEX;
}

#define ROW_SYNC 1000000u /* rows are numbered by streams below it: chrome_gpu.c */

/* What is beside a GPU's work: for each kind a track of its row. */
static uint64_t row_track(struct perfetto *p)
{
	const struct perfetto_event *ev = &p->ev;
	struct perfetto_about about = { .kind = TRACK_DEVICE };
	uint32_t pid = (uint32_t)ev->pid;
	char name[96], of[32] = "CUPTI overhead";

	if (ev->pid >= 0)
		snprintf(of, sizeof(of), "GPU %u, beside its work", device_of(ev));
	about.name = of;
	about.parent = named_track(p, TRACK_DEVICE, pid, 0, &about)->uuid;
	snprintf(name, sizeof(name), "%s %u, %s",
		 ev->pid < 0            ? "thread" :
		 ev->tid >= OVERLAP_ROW ? "overlap" :
		 ev->tid == 1           ? "no stream, row" :
					  "stream",
		 ev->pid < 0 ? ev->tid : ev->tid % ROW_SYNC,
		 perfetto_file__text(&p->file, DICT_CATEGORY, ev->cat));
	about.kind = TRACK_ROW;
	about.name = name;
	return named_track(p, TRACK_ROW, pid, (uint64_t)ev->cat << 32 | ev->tid, &about)->uuid;
}

static uint64_t track_of(struct perfetto *p)
{
	const struct perfetto_event *ev = &p->ev;
	uint32_t pid = (uint32_t)ev->pid;

	if (ev->is == CAT_ROW)
		return row_track(p);
	if (ev->elsewhere)
		return global_track(p, 0, "PyTorch Profiler");
	if (ev->scope == 'g')
		return global_track(p, 1, "ptbpf");
	if (ev->scope == 'p')
		return process_track(p, pid, NULL);
	if (ev->ph == 'T')
		return state_track(p, pid, ev->tid);
	return thread_track(p, pid, ev->tid, NULL);
}

/* ---- events ---- */

void perfetto_event__begin(struct perfetto *p)
{
	struct pb *b = &p->file.out;

	p->track = track_of(p);
	p->packet = perfetto_file__begin(&p->file, file_time(p, p->ev.begin), SEQUENCE_NEEDS_STATE);
	p->event = pb__begin(b, PACKET_TRACK_EVENT);
	pb__u64(b, EVENT_TRACK, p->track);
	if (p->ev.cat)
		pb__u64(b, EVENT_CATEGORY, p->ev.cat);
	pb__u64(b, EVENT_NAME, p->ev.name);
}

static void end_packet(struct perfetto *p)
{
	pb__end(&p->file.out, p->event);
	perfetto_file__end(&p->file, p->packet);
	p->packet = 0;
}

static void put_slice_end(struct perfetto *p)
{
	struct pb *b = &p->file.out;

	p->packet = perfetto_file__begin(&p->file, file_time(p, p->ev.begin) + p->ev.dur, 0);
	p->event = pb__begin(b, PACKET_TRACK_EVENT);
	pb__u64(b, EVENT_TRACK, p->track);
	pb__u64(b, EVENT_TYPE, TYPE_END);
	end_packet(p);
}

/* What stands at the end of an event that is drawn: what its args said of it. */
static void end_event(struct perfetto *p)
{
	const struct perfetto_event *ev = &p->ev;
	struct pb *b = &p->file.out;
	bool slice = ev->ph == 'X' || ev->ph == 'T';
	size_t part;

	pb__u64(b, EVENT_TYPE, slice ? TYPE_BEGIN : TYPE_INSTANT);
	if (ev->stack) {
		pb__u64(b, EVENT_CALLSTACK, ev->stack);
		if (ev->number[KEY_WEIGHT])
			pb__double(b, EVENT_CALLSTACK_WEIGHT, (double)ev->number[KEY_WEIGHT]);
	}
	if (ev->is == CAT_CALL && ev->number[KEY_CORRELATION]) {
		part = pb__begin(b, EVENT_GPU_CORRELATION);
		pb__u64(b, GPU_CORRELATION_SUBMITTED, ev->number[KEY_CORRELATION]);
		pb__end(b, part);
		p->owner_pids[ev->number[KEY_CORRELATION] >> 32 & (OWNERS_MAX - 1)] =
			(uint32_t)ev->pid;
	}
	end_packet(p);
	if (slice)
		put_slice_end(p);
}

/* An arrow belongs to slices that are written already: as in traces of Chrome itself. */
static void put_flow(struct perfetto *p)
{
	struct pb *b = &p->file.out;
	size_t legacy;

	perfetto_event__begin(p);
	legacy = pb__begin(b, EVENT_LEGACY);
	pb__u64(b, LEGACY_PHASE, (uint64_t)p->ev.ph);
	pb__u64(b, LEGACY_ID, p->ev.id);
	if (p->ev.enclosing)
		pb__u64(b, LEGACY_BIND_ENCLOSING, 1);
	pb__end(b, legacy);
	end_packet(p);
}

/* A process or thread gets its name, which viewers show with its number. */
static void put_name(struct perfetto *p)
{
	uint32_t pid = (uint32_t)p->ev.pid, tid = p->ev.tid;
	const char *name;

	if (p->ev.pid < 0 || !session__process(p->s, pid))
		return; /* a device */
	if (p->ev.is == META_PROCESS)
		process_track(p, pid, p->name);
	if (p->ev.is != META_THREAD)
		return;
	name = session__thread_name(p->s, pid, tid);
	thread_track(p, pid, tid, *name ? name : session__thread_comm(p->s, pid, tid));
}

/* One value of a counter, which has its own track. */
void perfetto_event__counter(struct perfetto *p, double value)
{
	const char *counter = perfetto_file__text(&p->file, DICT_NAME, p->ev.name);
	const char *key = perfetto_file__text(&p->file, DICT_KEY, p->key_id);
	bool bytes = strcmp(key, "minor") && strcmp(key, "major"), only = !strcmp(key, "bytes");
	struct perfetto_about about = { .kind = TRACK_VALUE,
					.unit = bytes ? UNIT_BYTES : UNIT_COUNT,
					.parent = process_track(p, (uint32_t)p->ev.pid, NULL) };
	struct pb *b = &p->file.out;
	char name[128];

	snprintf(name, sizeof(name), "%s%s%s", counter, only ? "" : ", ", only ? "" : key);
	about.name = name;
	p->track = named_track(p, TRACK_VALUE, (uint32_t)p->ev.pid,
			       perfetto_file__intern(&p->file, DICT_NAME, name, strlen(name)),
			       &about)
			   ->uuid;
	p->packet = perfetto_file__begin(&p->file, file_time(p, p->ev.begin), 0);
	p->event = pb__begin(b, PACKET_TRACK_EVENT);
	pb__u64(b, EVENT_TRACK, p->track);
	pb__u64(b, EVENT_TYPE, TYPE_COUNTER);
	pb__double(b, EVENT_DOUBLE_VALUE, value);
	end_packet(p);
}

/* ---- work of GPUs ---- */

/* What names the context's process, and the stream, once each. */
static uint64_t intern_context(struct perfetto *p, uint32_t owner)
{
	uint64_t iid = (uint64_t)owner << 32 | (uint32_t)p->ev.number[KEY_CONTEXT];
	struct perfetto_track *t = perfetto_file__track(&p->file, TRACK_CONTEXT, owner, iid);
	size_t entry;

	iid++;
	if (t->uuid)
		return iid;
	t->uuid = 1;
	entry = pb__begin(&p->file.interned, INTERNED_CONTEXTS);
	pb__u64(&p->file.interned, INTERNED_IID, iid);
	pb__u64(&p->file.interned, CONTEXT_PID, p->owner_pids[owner & (OWNERS_MAX - 1)]);
	pb__u64(&p->file.interned, CONTEXT_API, CONTEXT_CUDA);
	pb__end(&p->file.interned, entry);
	return iid;
}

/* One for each row. Its text is its name, which two devices may share: so it has the device. */
static uint32_t intern_queue(struct perfetto *p)
{
	const struct perfetto_event *ev = &p->ev;
	uint32_t owner = (uint32_t)(ev->number[KEY_CORRELATION] >> 32);
	char name[96];
	int n = snprintf(name, sizeof(name), "GPU %u stream %u", device_of(ev),
			 (uint32_t)ev->number[KEY_STREAM]);

	if (owner)
		n += snprintf(name + n, sizeof(name) - (size_t)n, ", process %u",
			      p->owner_pids[owner & (OWNERS_MAX - 1)]);
	if (ev->tid >= OVERLAP_ROW)
		snprintf(name + n, sizeof(name) - (size_t)n, ", overlap %u", ev->tid - OVERLAP_ROW);
	return perfetto_file__intern(&p->file, DICT_GPU_SPECIFICATION, name, strlen(name));
}

static void put_dims(struct pb *b, uint32_t field, const uint32_t dims[3])
{
	size_t part = pb__begin(b, field);

	for (uint32_t i = 0; i < 3; i++)
		pb__u64(b, i + 1, dims[i]);
	pb__end(b, part);
}

static void put_launch(struct perfetto *p)
{
	struct pb *b = &p->file.out;
	size_t part = pb__begin(b, STAGE_LAUNCH);

	if (p->ev.has_dims) {
		put_dims(b, LAUNCH_GRID, p->ev.dims[0]);
		put_dims(b, LAUNCH_WORKGROUP, p->ev.dims[1]);
	}
	pb__raw(b, p->launch.p, p->launch.len);
	pb__end(b, part);
}

/* Its "event" is what its launch gives: a GPU correlation is one of all work of a call. */
static void put_work(struct perfetto *p)
{
	const struct perfetto_event *ev = &p->ev;
	uint64_t corr = ev->number[KEY_CORRELATION];
	const char *name = perfetto_file__text(&p->file, DICT_NAME, ev->name);
	uint32_t queue = intern_queue(p), stage, kernel = 0;
	uint64_t context = intern_context(p, (uint32_t)(corr >> 32));
	struct pb *b = &p->file.out;

	stage = perfetto_file__intern(&p->file, DICT_GPU_SPECIFICATION, name, strlen(name));
	if (ev->is == CAT_KERNEL)
		kernel = perfetto_file__intern(&p->file, DICT_KERNEL, name, strlen(name));
	p->packet = perfetto_file__begin(&p->file, file_time(p, ev->begin), SEQUENCE_NEEDS_STATE);
	p->event = pb__begin(b, PACKET_GPU_STAGE);
	pb__u64(b, STAGE_EVENT, corr ? corr : UINT64_MAX);
	pb__u64(b, STAGE_DURATION, ev->dur);
	pb__u64(b, STAGE_QUEUE, queue);
	pb__u64(b, STAGE_STAGE, stage);
	pb__u64(b, STAGE_GPU, device_of(ev));
	pb__u64(b, STAGE_CONTEXT, context);
	pb__u64(b, STAGE_SUBMISSION, (uint32_t)corr);
	if (kernel)
		pb__u64(b, STAGE_KERNEL, kernel);
	put_launch(p);
	end_packet(p);
}

void perfetto_event__finish(struct perfetto *p)
{
	switch (p->ev.ph) {
	case 's':
	case 'f':
		if (p->ev.is != CAT_LAUNCH_FLOW)
			put_flow(p);
		break;
	case 'M':
		put_name(p);
		break;
	case 'C':
		break;
	default:
		if (perfetto__is_work(p)) {
			put_work(p);
			break;
		}
		if (!p->packet) /* it has no args */
			perfetto_event__begin(p);
		end_event(p);
		break;
	}
}

/* The last one of the file: an instant at the window's begin. */
void perfetto_event__capture(struct perfetto *p)
{
	uint64_t track = global_track(p, 1, "ptbpf");
	struct pb *b = &p->file.out;

	p->packet = perfetto_file__begin(&p->file, PERFETTO_BEGIN_NS, SEQUENCE_NEEDS_STATE);
	p->event = pb__begin(b, PACKET_TRACK_EVENT);
	pb__u64(b, EVENT_TRACK, track);
	pb__u64(b, EVENT_TYPE, TYPE_INSTANT);
	pb__u64(b, EVENT_NAME, perfetto_file__intern(&p->file, DICT_NAME, "capture", 7));
	pb__raw(b, p->capture.p, p->capture.len);
	end_packet(p);
	perfetto_file__flush(&p->file);
}
