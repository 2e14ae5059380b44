/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The state of one pass over a capture, shared by the files of the model: threads with their stacks
 * of open slices, open annotations, forward operators that wait for their backward node.
 */
#ifndef MODEL_MODEL_PRIV_H
#define MODEL_MODEL_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "args/schema.h"
#include "base/containers.h"
#include "model/facts.h"
#include "model/session.h"
#include "ptb_event.h"

/*
 * Which tensor and which storage an address means at a time. Allocators reuse addresses, so an
 * address alone says nothing: a number is given when an address is first seen and again after its
 * object has ended. The numbers are a property of the records alone, whatever is exported of them.
 * Private to the model.
 *
 * Ends are recorded (PTB_REC_TENSOR_END; frees of memory, where these are). Where they are not, in
 * older captures, in builds of torch without such a function and after records were lost, the
 * schema decides: a result that is no argument and was not seen inside the operator is new, unless
 * the schema says that it is an alias.
 */

struct seen_table {
	struct hashmap by_addr; /* (address, process) -> index */
	struct seen_object *v;
	uint32_t cnt, cap;
	uint32_t unused; /* index + 1 of the first unused one, 0: none */
};

struct tensor_ids {
	struct seen_table tensors, storages;
	struct hashmap programs; /* tgid -> number of programs that ran in it before */
	struct op_schemas schemas;
	uint32_t next; /* the last number given */
	bool ends;     /* ends of tensors are recorded */
	/* tensors and storages beyond LIMIT_TENSORS, which have a new number each time */
	uint64_t over;
};

struct tensor_place {
	uint32_t tgid;
	uint64_t ts_ns, begin_ns; /* now; when the operator around it began */
	uint64_t lost_until;      /* records may be missing before this */
	enum tensor_role role;
};

void tensor_ids__clear(struct tensor_ids *ids);
/* Replaces the addresses of TensorImpls in a checked payload by numbers: the tensor's in the low,
 * its storage's in the high 32 bits. */
void tensor_ids__name(struct tensor_ids *ids, const struct tensor_place *at, uint64_t *words,
		      uint32_t cnt);
void tensor_ids__end(struct tensor_ids *ids, const struct ptb_tensor_end *r);
/* An allocator took the data back. */
void tensor_ids__freed(struct tensor_ids *ids, uint32_t tgid, uint64_t data);
/* Another program runs in the process, or it ended. */
void tensor_ids__new_program(struct tensor_ids *ids, uint32_t tgid);
/* What the operator's results are, by its schema's text, which lives as long as ids. */
enum tensor_role tensor_ids__role(struct tensor_ids *ids, const char *schema);

/* Between any two times of a thread: readers that keep microseconds in a double are, late in the
 * quarter that traces count from, off by up to 1 ns at each. */
#define GAP_NS 3

/* What an open slice carries beside its name and time; only where something was recorded. args.c */
struct args {
	struct args *next;  /* in model.spare_args */
	uint64_t *words;    /* inputs */
	const char *shapes; /* text of theirs, NULL: not made yet; memory.c */
	uint32_t cnt, cap;
	uint32_t in_flags;       /* VALUES_* */
	struct slice_values out; /* in the record of the exit that is being handled */
	int64_t seq;             /* what torch would stamp the operator with; has_seq */
	uint64_t fw_parent;
	uint32_t fwd_tid;
	bool has_seq;
};

/* One open slice, or what is open and makes none, or none any more (hidden). */
struct entry {
	uint64_t sp; /* stack pointer at the entry; frames only */
	uint64_t begin_ns;
	uint64_t id, parent; /* id 0: hidden */
	uint64_t handle;     /* annotations: address of the RecordFunction object */
	uint64_t fwd_thread;
	uint32_t stack, fwd_stack; /* see struct slice */
	uint64_t child_ns;
	uint64_t fwd_pos; /* position + 1 in the thread's waiting forwards, 0: none */
	int64_t seq;
	const char *name, *overload;
	const char *inner; /* NODE: name of the slice of its own function */
	const char *schema;
	struct args *args;        /* NULL: none */
	struct entry_memory *mem; /* memory_sums.c; NULL: memory is not recorded */
	uint32_t child_cnt;       /* closed ones */
	uint32_t func, depth;
	uint32_t within; /* 0: nothing of model.when; else 1 and its ancestors that are, too */
	uint32_t cat, kind, scope, flags;
	bool annotation; /* lives in time, not on the machine's stack */
	bool rf;   /* recorded by the agent: all such are annotations in that sense; rf_slices.c */
	bool deep; /* ... and in model.deep */
	bool hidden, hides_children;
	bool synthetic; /* no function of its own: ends with the frame below it */
	bool no_exit;   /* its function has no exit probe */
	bool is_address;
	bool is_step;      /* an annotation that says that it is a step */
	bool backward;     /* see struct slice */
	uint32_t call_cnt; /* calls to CUDA's API directly in it; gpu_link.c */
	uint64_t call_ns;
	uint64_t device_ns; /* GPU work launched by them and charged to it */
};

/* A forward operator that waits for the backward node with its number. */
struct fwd_entry {
	uint64_t seq, begin_ns;
	uint32_t state; /* enum fwd_state */
	uint32_t stack;
	bool within;
};
enum fwd_state { FWD_OPEN, FWD_DELIVERED, FWD_PAIRED };

struct thread {
	uint32_t tgid, tid;
	uint32_t idx;          /* in model.threads */
	uint32_t next_of_proc; /* index + 1 of the next one that lives in its process, 0: none */
	bool lives;            /* is in that list */
	struct entry *stack;
	uint32_t cnt, cap;
	uint32_t frames;      /* open entries that are no annotations */
	uint32_t hiding;      /* open entries that hide what is below them */
	uint64_t last_ns;     /* last begin or end given to a slice */
	uint64_t unprobed_ns; /* when its process lost its probes; UINT64_MAX: it did not */
	uint64_t max_sp;      /* highest stack pointer seen */
	uint64_t call_end_ns; /* latest end of its calls to CUDA's API so far */
	uint64_t logical;     /* torch's own id of it, from the agent; 0: not known */
	bool born;            /* began inside the window */
	bool seen;            /* an operator's or a scope's probe was hit in it */
	bool announced;       /* to the sinks */
	bool grad_made;       /* its grad mode's flags have been seen */

	/* slices that turn out to have been open when the window began, see thread_stack.c */
	uint64_t oab_next_ns, oab_floor_ns;
	uint32_t top_cnt; /* slices without an open ancestor (but the step) so far */
	uint64_t top_ns;  /* and their time */

	/* the exit just handled, to tolerate a second exit site on the same way out */
	uint32_t exit_func;
	uint64_t exit_sp;

	/* the name of a scope about to begin, and the last RecordFunction object without one */
	const char *scope_name;
	uint64_t scope_name_sp, scope_name_ns;
	uint32_t scope_name_flags;
	struct args *scope_args; /* and its arguments, valid as the name is */
	uint64_t ctor_handle;
	uint32_t ctor_scope;

	/* Python's stack at the record with this time; 0: none */
	uint64_t stack_ns;
	uint32_t stack_nr;
	uint32_t scope_stack; /* when scope_name was announced */

	const struct session_keys *keys;
	struct memory_thread *mem; /* memory_sums.c; NULL: memory is not recorded */

	const struct thread_steps *steps; /* NULL: it makes none */
	uint32_t step_end;                /* of their ends, the next one */
	uint64_t step_order; /* of a step that begins now: kept free whether or not one does */
	uint32_t step_nr;

	struct fwd_entry *fwd; /* fwd[fwd_head..fwd_cnt), ascending seq */
	uint32_t fwd_head, fwd_cnt, fwd_cap;
	uint64_t fwd_base; /* position of fwd[0] */
	bool fwd_listed;   /* in model.fwd_threads */
};

struct fwd_undecided { /* a backward node whose forward thread is not known yet */
	uint64_t seq, begin_ns;
	uint32_t tid;
	bool within;
};

#define FWD_UNDECIDED_MAX 16
struct fwd_link {        /* which OS thread a logical forward thread id means */
	bool by_agent;   /* not learnt */
	uint32_t thread; /* index in model.threads */
	uint32_t hits, misses;
	uint32_t undecided_cnt;
	struct fwd_undecided *undecided; /* FWD_UNDECIDED_MAX, while there are any */
};

struct model {
	struct session *s;
	struct facts *f;
	const struct session_sink *sinks;
	uint32_t sink_cnt;
	struct session_totals *totals;
	const char *when; /* of the session's options */
	uint64_t begin_ns, end_ns;
	uint64_t next_id; /* of a slice, and of a moment at which a step may begin */

	struct thread **threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_by_id; /* (tgid, tid) -> index */
	struct hashmap living;       /* tgid -> index + 1 of its first thread << 32, of its last */
	struct thread *last_thread;

	/* (tgid, RecordFunction*) -> index of the thread whose stack has it */
	struct hashmap handles;
	/* (index of a thread, RecordFunction*) -> how many are deep in its stack */
	struct hashmap deep;

	uint32_t lost_pos;   /* losses that began before now */
	uint64_t lost_until; /* latest end of them */
	struct unprobed {    /* a process lost its probes */
		uint64_t ns;
		uint32_t tgid;
	} * unprobed; /* in order of time */
	uint32_t unprobed_cnt, unprobed_pos;

	uint64_t fwd_total;    /* waiting forwards, all threads */
	uint32_t *fwd_threads; /* indices of the threads that have some (or had: fwd_listed) */
	uint32_t fwd_thread_cnt, fwd_thread_cap;
	struct fwd_link *links;
	uint32_t link_cnt, link_cap;
	struct hashmap link_by_id; /* (tgid, logical thread) -> index */
	uint64_t next_flow;

	struct step_ends *step_ends;
	struct step_ids *step_ids;

	struct args *spare_args;
	struct tensor_ids tensors;
	uint64_t *result_words; /* the results of the slice that is emitted now */
	uint32_t result_cap;
	struct memory *memory;       /* NULL: memory is not recorded */
	struct gpu *gpu;             /* NULL: nothing of GPUs is recorded */
	uint32_t gpu_next;           /* calls before this one are placed */
	struct hashmap current_step; /* tgid -> number of the step that it is in */
	bool full;       /* results are recorded: what an Execution Trace needs is kept */
	bool agent_lost; /* records of the agent were lost, at times that are not known */
};

/* ---- threads.c ---- */

/* Finds or makes the thread; announces it to the sinks. */
struct thread *model__thread(struct model *m, uint32_t tgid, uint32_t tid);
struct thread *model__known_thread(struct model *m, uint32_t tgid, uint32_t tid);
/* A thread or process began, ended, or became another program. */
void model__task(struct model *m, const struct ptb_task *r);
/* The process has no probes any more: nothing that is open in it is known to go on. */
void model__unprobed(struct model *m, uint32_t tgid, uint64_t ts);
/* Of any record that is not in the window. */
void model__task_outside(struct model *m, const struct ptb_rec_hdr *h);
/* After the pass, where ptbpf came later than the program. */
void model__count_silent(struct model *m);

/* ---- thread_stack.c ---- */

/* The thread runs with this stack pointer now: frames at or below it are gone. */
void stack__at(struct model *m, struct thread *t, uint64_t sp, uint64_t ts);
/* Pushes a copy of proto (name, func, kind, ... are the caller's; id, parent, depth, begin are set
 * here). The entry, or NULL (the stack is too deep and it was counted). */
struct entry *stack__push_frame(struct model *m, struct thread *t, const struct entry *proto,
				uint64_t ts);
/* The same for an annotation, which may outlive what is below it. */
struct entry *stack__push_annotation(struct model *m, struct thread *t, const struct entry *proto,
				     uint64_t ts);
/* An exit site of func was reached; r carries the results. */
void stack__exit(struct model *m, struct thread *t, uint32_t func, const struct ptb_op_exit *r);
/* The innermost open frame of func; NULL if there is none. */
struct entry *stack__frame_of(struct thread *t, uint32_t func);
/* The annotation at index i ends now; keeps the nesting strict. */
void stack__end_annotation(struct model *m, struct thread *t, uint32_t i, uint64_t ts,
			   uint32_t flags);
/* Closes everything that is open on the thread. */
void stack__close_all(struct model *m, struct thread *t, uint64_t ts, uint32_t flags);
/* Closes the entry at the top. */
void stack__close_top(struct model *m, struct thread *t, uint64_t ts, uint32_t flags);
/* Reserves room for slices that were open before `at`, from which on the thread is watched. */
void stack__reserve_begin(struct thread *t, uint64_t at);
/* What begins next was open then: it and what follows may begin there. */
void stack__use_reserve(struct thread *t);
/* Could a record lost since begin_ns be the end of what was open then? */
bool stack__lost_since(const struct model *m, uint64_t begin_ns);
/* Innermost visible entry below index i, or NULL. */
struct entry *stack__visible_below(struct thread *t, uint32_t i);
/* Of a thread that nothing is known of; its texts are empty. */
static inline struct op_context op_context__none(uint32_t tgid, uint32_t tid)
{
	return (struct op_context){
		.tgid = tgid, .tid = tid, .op = "", .outer_op = "", .annotation = "", .step = -1
	};
}

/* What is open on the thread: slice, op_slice, op, outer_op, annotation of at are set where there
 * are any, the rest is not touched. entry: the innermost visible slice, op: operator, annotation:
 * that or a step; NULL: none. */
struct open_entries {
	struct entry *entry, *op, *annotation;
};
struct open_entries stack__context(const struct thread *t, struct op_context *at);
/* The same with all of at set, the process's step too; t: NULL if nothing is known of the thread.
 * enclosed: a slice is open on the thread. */
struct open_entries stack__whole_context(struct model *m, const struct thread *t, uint32_t tgid,
					 uint32_t tid, struct op_context *at);
/* A visible operator whose name is not known turned out to be torch's own helper: hides it. */
void stack__hide(struct model *m, struct thread *t, uint32_t i);

/* ---- session.c ---- */

/* Does it belong to no annotation that was asked for? Then it is counted, and not delivered. */
static inline bool model__leaves_out(struct model *m, bool within)
{
	if (!m->when || within)
		return false;
	m->totals->when_left_out++;
	return true;
}

/* Calls one function of each sink that has it. */
#define MODEL_EMIT(m, func, ...)                                                                   \
	do {                                                                                       \
		for (uint32_t i_ = 0; i_ < (m)->sink_cnt; i_++)                                    \
			if ((m)->sinks[i_].func)                                                   \
				(m)->sinks[i_].func((m)->sinks[i_].arg, __VA_ARGS__);              \
	} while (0)

/* Number of Python's stack at the record of the thread with this time, 0: none. */
static inline uint32_t thread__py_stack(const struct thread *t, uint64_t ts_ns)
{
	return t->stack_ns == ts_ns ? t->stack_nr : 0;
}

static inline uint32_t entry__py_stack(const struct entry *e)
{
	return e->stack ? e->stack : e->fwd_stack;
}

void model__deliver(struct model *m, struct thread *t, const struct entry *e, uint64_t end_ns);
void model__flow(struct model *m, const struct fwdbwd *fl);

/* ---- args.c ---- */

/* The record's values become the inputs of the entry, which is on the stack. */
void args__enter(struct model *m, struct thread *t, struct entry *e, const struct ptb_rec_hdr *h);
/* ... its results, until it is emitted. */
void args__exit(struct model *m, struct entry *e, const struct ptb_rec_hdr *h);
/* ... the numbers that the entry's inputs lack. */
void args__more(struct model *m, struct thread *t, const struct ptb_op_enter *r,
		const struct site_fact *site);
/* A scope was announced, or began with them: keeps its arguments for the annotation that
 * follows. */
void args__scope(struct model *m, struct thread *t, const struct ptb_rec_hdr *h);
/* The announced scope has begun as this entry. */
void args__take_scope(struct thread *t, struct entry *e);
/* The entry has none of its own; it has the same inputs as the one around it. */
void args__inherit(struct model *m, struct entry *e, const struct entry *from);
/* A backward node begins: what an Execution Trace says of its forward thread. */
void args__backward(struct model *m, struct thread *t, struct entry *e);
void args__put_into(const struct entry *e, struct slice *sl);
void args__free(struct model *m, struct args *a); /* NULL is fine */
void args__clear(struct model *m);

/* The entry's inputs; false: they were not recorded. */
bool args__inputs(const struct entry *e, struct slice_values *in);

/* ---- scopes.c ---- */
void scopes__name(struct model *m, struct thread *t, const struct ptb_scope_name *r);
void scopes__begin(struct model *m, struct thread *t, const struct ptb_scope_begin *r);
void scopes__end(struct model *m, struct thread *t, const struct ptb_scope_end *r);
void scopes__forget(struct model *m, struct thread *t, const struct entry *e);
/* Stack index of the open annotation with this object; NULL thread if there is none. */
struct thread *scopes__find_open(struct model *m, uint32_t tgid, uint64_t handle, uint32_t *idx);

/* ---- rf_slices.c ---- */
void rf__begin(struct model *m, struct thread *t, const struct ptb_rf_begin *r);
void rf__end(struct model *m, struct thread *t, const struct ptb_rf_end *r);
/* The entry leaves the stack. */
void rf__forget(struct model *m, const struct thread *t, const struct entry *e);
/* Is the object in model.handles, to be found from any thread? An operator's is on its own thread's
 * stack. */
static inline bool rf__is_listed(const struct entry *e)
{
	return e->kind != PTB_FUNC_OP;
}

/* ---- autograd_link.c ---- */
void autograd__seq(struct model *m, struct thread *t, const struct ptb_seq *r);
/* The entry has begun, with the number that is next on its thread. */
void autograd__stamped(struct model *m, struct thread *t, struct entry *e);
/* torch's own number of the thread. */
void autograd__logical(struct model *m, struct thread *t, uint64_t logical);
/* A slice that owns a number, or a backward node, was delivered. */
void autograd__forward_done(struct thread *t, const struct entry *e);
void autograd__backward_done(struct model *m, struct thread *t, const struct entry *e);
/* The thread that a backward node speaks of, as far as is known when it begins; NULL: not known. */
struct thread *autograd__forward_thread(struct model *m, const struct thread *t,
					const struct entry *e);
/* A backward node begins: it takes the Python stack of its forward operator. */
void autograd__take_stack(struct model *m, const struct thread *t, struct entry *e);
void autograd__thread_gone(struct model *m, struct thread *t);
void autograd__clear(struct model *m);

/* ---- gpu_link.c ---- */

/* Finds the context of the calls to CUDA's API that began before ts. */
void gpu__until(struct model *m, uint64_t ts);
/* After the last slice: emits everything. */
void gpu__emit(struct model *m);

/* ---- sched.c ---- */

/* A record of kind SCHED or SCHED_WAIT. */
void sched__record(struct model *m, struct thread *t, const struct ptb_rec_hdr *h);

/* ---- memory.c ---- */

/* Memory is recorded: before the first thread. */
void memory__open(struct model *m);
void memory__clear(struct model *m);
/* A record of kind MEM_ALLOC ... KMEM_EVENT. */
void memory__record(struct model *m, const struct ptb_rec_hdr *h);
/* Another program or process has the number now; drop_blocks: and nothing of the old one is
 * left. */
void memory__new_process(struct model *m, uint32_t tgid, bool drop_blocks);
/* Blocks that are live now, in order of allocation; malloc'ed. */
void memory__live(const struct model *m, struct memory_block **list, uint32_t *cnt);

/* ---- memory_sums.c; of threads and entries only where memory is recorded (mem is not NULL)
 * ---- */

void memory__thread_new(struct model *m, struct thread *t);
/* The sinks know the thread now; its first step has begun. */
void memory__thread_announced(struct thread *t);
/* Slices that were open before are emitted with what comes from here on. */
void memory__mark(struct thread *t);
/* A visible entry begins; sets e->mem. */
void memory__begin(struct model *m, struct thread *t, struct entry *e);
/* It ends: e->mem becomes what it is charged with. */
void memory__end(struct thread *t, const struct entry *e);
/* Entries that end from here on ended when `at` began, which is on top of them; NULL: they end
 * now. */
void memory__cut(struct thread *t, const struct entry *at);
/* It ends, or stays open, without a slice. */
void memory__hide(struct model *m, struct thread *t, struct entry *e);
void memory__drop(struct model *m, struct entry *e); /* frees e->mem */
/* e was open when the window began and ends now. */
void memory__open_at_begin(struct model *m, struct thread *t, struct entry *e);
void memory__put_into(const struct entry *e, struct slice *sl);

/* ---- steps.c ---- */
/* When steps end, by thread. */
struct step_ends {
	struct thread_steps {
		uint32_t tgid, tid;
		uint64_t *ends; /* in order */
		uint32_t cnt, cap;
	} * threads;
	uint32_t cnt, cap;
	/* (tgid, tid) -> index; not those of processes that announce steps themselves */
	struct hashmap by_thread;
	/* how long those took that ended when nothing but names of annotations was recorded */
	struct later_steps {
		uint32_t tgid, tid;
		uint64_t *ns; /* ascending */
		uint32_t cnt, cap;
	} * later;
	uint32_t later_cnt, later_cap;
	struct hashmap later_ids;
};
/* Finds them. Also the first and last time of all ring records. */
int steps__find(struct capture_reader *cr, struct facts *f, const struct session_opts *opts,
		bool agent_lost, struct step_ends *found, uint64_t *first_ns, uint64_t *last_ns);
void steps__clear(struct step_ends *found);
/* The derived steps of a run: their positions in the order of start, by SESSION_STEP_ID - id. */
struct step_ids {
	uint64_t *orders;
	uint32_t cnt, cap;
};
/* Number of a step, derived or not; -1: it is a partial one, which has none. */
int64_t steps__number(const struct entry *e);
/* A step began, or ended: which one its process is in. */
void steps__current(struct model *m, const struct thread *t, const struct entry *e, bool begins);
/* Id and position in the order of a step that begins now. */
uint64_t steps__new_id(struct model *m, const struct thread *t);
void steps__thread_begins(struct model *m, struct thread *t);
/* A step ends otherwise than by its mark: it is called a partial one. */
void steps__cut(struct model *m, struct entry *e);
/* Begins the next step, if one has ended and nothing else is open. */
void steps__advance(struct model *m, struct thread *t, uint64_t ts);

#endif /* MODEL_MODEL_PRIV_H */
