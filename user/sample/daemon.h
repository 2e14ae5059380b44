/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared by the files of the daemon: its state, its windows, and the programs that it starts. */
#ifndef SAMPLE_DAEMON_H
#define SAMPLE_DAEMON_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"
#include "sample/child.h"
#include "sample/control.h"
#include "sample/event_watch.h"
#include "sample/http_server.h"
#include "sample/metrics.h"
#include "sample/proc_select.h"
#include "sample/sample.h"
#include "sample/schedule.h"
#include "sample/window_dir.h"

/* ---- window.c: one window, which a `ptbpf attach` records and exports ---- */

/* Why a window is recorded. */
struct window_trigger {
	const char *kind; /* "schedule", "request", or the name of an event; a literal */
	pid_t by_pid;     /* the client of a request; 0: it is not in this pid namespace */
	uid_t by_uid;
	pid_t event_pid;            /* the process in which the event happened */
	char event[EVENT_TEXT_MAX]; /* "": it was no event */
	uint64_t ignored;           /* events before it that opened no window */
};

/* The order for a window. Times are CLOCK_MONOTONIC, if nothing else is said. */
struct window_spec {
	const struct sample_settings *settings;
	uint64_t nr; /* in the log */
	struct window_trigger trigger;
	uint64_t cycle; /* of the schedule */
	pid_t pids[PROC_SELECT_MAX];
	uint32_t pid_cnt;
	uint64_t chosen_ns; /* the processes began before */
	uint32_t selected;  /* processes that match; 0: they are named */
	struct proc_facts facts[PROC_SELECT_MAX];
	pid_t left_out[PROC_SELECT_MAX]; /* processes that are not recorded this time */
	uint32_t left_out_cnt;
	/* it may cost what --max-overhead allows until then; 0: there is no limit */
	uint64_t limit_ns;
	uint64_t max_cost_ns[PROC_SELECT_MAX]; /* of each process, with limit_ns */
	bool apart;                   /* processes share no probes: one may have to lose them */
	uint64_t attach_ns, begin_ns; /* probes are attached, records are kept */
	uint64_t duration_ns;         /* 0: a number of steps ends it */
	uint64_t end_ns;  /* it ends by then, because the next one is due; 0: it does not matter */
	uint64_t real_ns; /* Unix time of the begin */
	bool measure;     /* the time of a step is measured, and nothing is recorded */
	struct step_wait step_wait; /* what is known of steps when it starts */
	bool held;  /* its begin is in the memory of a process that holds it, if there is one */
	bool hangs; /* the job does: it samples stacks */
	const char *off; /* "cpu" or "cuda": an activity that is switched off; NULL: none */
	char capture[PATH_MAX], trace[PATH_MAX]; /* trace "": none */
};

#define WINDOW_TEXT_MAX 1024

/* The state and the result of a window, as its process has reported them. */
struct window_report {
	pid_t reading;      /* the process whose libraries it reads, 0: none */
	uint32_t traced;    /* processes when the window began, 0: it has not begun */
	uint64_t late_ns;   /* how long after spec.begin_ns it began */
	uint64_t attach_ns; /* how long it took to attach to its processes */
	uint32_t ended; /* processes that ended before they were attached to, or before it began */
	uint32_t no_torch; /* processes that have not loaded PyTorch */
	bool sealed;       /* the capture is complete: what remains is export */
	bool has_result;
	struct { /* where steps are counted */
		/* CLOCK_MONOTONIC: the probes were there, and the last step that counts had ended;
		 * 0: never */
		uint64_t attached_ns, ended_ns;
		uint64_t step_ns; /* mean time of a step, 0: not known */
		bool none;        /* no step ended in time */
	} steps;
	bool cost_known; /* of each process, and the sum of the one that it has cost most */
	uint64_t cost_ns;
	struct window_charge {
		uint64_t ns;
		uint64_t cut_ns; /* CLOCK_MONOTONIC: when it lost its probes; 0: it has not */
		bool over;       /* it has cost what it may */
	} charges[PROC_SELECT_MAX];
	uint64_t fixed_ns; /* what placing and removing probes costs a process; 0: not known */
	/* the process that took most time to read and attach to; pid 0: none took too much */
	struct {
		pid_t pid;
		uint32_t strikes; /* of left_out__add() */
		uint64_t cpu_ns, ns;
	} slow;
	/* with has_result */
	uint64_t window_ns, slices, lost, step_cnt;
	double cost_share; /* negative: not measured */
	char stopped_by[64];
	bool shortened;
	char incomplete[WINDOW_TEXT_MAX]; /* what is missing, "": nothing */
};

struct window {
	struct window_spec spec;
	struct child child;
	bool counted; /* the steps and the end of it have been taken into account */
	pid_t struck; /* the last process that took it from the others; 0: none */
	struct window_report report;
	cJSON *done; /* the last line of its process; NULL: it has not come */
	struct {     /* the files of one that was held, until it ends; real_ns 0: it was not */
		char capture[PATH_MAX], trace[PATH_MAX];
		uint64_t real_ns;
	} held;
};

/* All its processes ended before it began: there was nothing to record. */
static inline bool window__all_ended(const struct window *w)
{
	return w->report.ended && w->report.ended == w->spec.pid_cnt;
}

/* Starts its process, as w->spec says; keep: as of child__start(). 0 or negative errno
 * (reported). */
int window__start(struct window *w, int keep);
/* --flight: records w->spec and keeps the last seconds in memory. 0 or negative errno
 * (reported). */
int window__hold(struct window *w, int keep);
/* Makes the process that holds the process of w. False: it does not hold, and nothing has
 * changed. */
bool window__release(struct window *held, struct window *w);
/* Ends one that is held, and drops it. */
void window__kill(struct window *w);
void window__read(struct window *w); /* what its process has reported */
/* Its process has ended, or is stuck. A signal that ended it is reported, and is SAMPLE_FAILED. */
enum sample_code window__end(struct window *w);
/* The file with the stacks of the threads of a job that hangs, "": it does not. Returns buf. */
const char *window__threads(const struct window_spec *spec, char *buf, size_t cap);

/* ---- the daemon ---- */

#define DAEMON_WINDOWS_MAX 4  /* at the same time, exports included */
#define DAEMON_COMMANDS_MAX 8 /* commands of --on-window at the same time */
#define DAEMON_PENDING_MAX 8  /* requested windows that wait for their time */
#define DAEMON_WAITERS_MAX (DAEMON_WINDOWS_MAX + DAEMON_PENDING_MAX)
#define DAEMON_LINES_MAX 4           /* lines of the log in a status */
#define DAEMON_SOURCES_MAX 512       /* kinds of events in a process; the oldest is forgotten */
#define DAEMON_LEAD_NS 2000000000ULL /* before probes are attached: programs and rings are made */

/* A window beside the schedule. */
struct window_request {
	struct window_trigger trigger;
	pid_t pids[PROC_SELECT_MAX];
	uint32_t pid_cnt;       /* 0: those that are selected when it begins */
	uint64_t named_ns;      /* CLOCK_MONOTONIC: when they were named; set by request__open() */
	uint64_t duration_ns;   /* 0: as long as those of the schedule */
	uint64_t start_real_ns; /* Unix time, 0: now */
	bool limited;           /* by --max-overhead */
	bool hangs, held;       /* as of struct window_spec */
};

/* The cost of windows for a process, as long as it lives; pid and start are its identity. */
struct cost_row {
	pid_t pid;
	uint64_t start; /* clock ticks since boot; 0: not known */
	double spent_ns;
	bool over;     /* it has lost its probes before the end of a window */
	uint64_t used; /* charges of all when it was charged last */
};

#define COST_ACCOUNT_MAX 4096 /* processes; the one that was charged least recently is forgotten */

struct cost_account { /* zeroed: empty */
	struct cost_row *rows;
	uint32_t cnt, cap;
	uint64_t charges;
};

struct daemon {
	const struct sample_settings *set;
	sample_reload_fn reload;
	void *reload_arg;
	int reload_fd;   /* SIGHUP; -1: that ends it */
	const char *off; /* as of struct window_spec: of the windows from now on */
	uint32_t signals;
	bool any, incomplete; /* a window was recorded; one was not, or not completely */

	struct window_dir dir;
	int holds[PROC_SELECT_MAX]; /* pidfds of set->pids */
	struct proc_list procs;     /* that are selected, with their turns */

	struct schedule schedule;
	struct step_wait step_wait;
	uint64_t start_ns;     /* when the schedule began */
	uint64_t next;         /* window of the schedule */
	uint64_t resumed;      /* cycles of it that an earlier ptbpf has recorded */
	uint64_t nr;           /* the next window in the log */
	uint64_t last_real_ns; /* in the file names of the window that ended last */
	uint64_t skipped;      /* windows since the last line of the log */
	struct window windows[DAEMON_WINDOWS_MAX];
	uint32_t window_cnt;
	struct {
		struct window_request request;
		uint64_t nr;
	} pending[DAEMON_PENDING_MAX];
	uint32_t pending_cnt;
	pid_t commands[DAEMON_COMMANDS_MAX];
	uint32_t command_cnt;

	/* --flight: a process that keeps the last seconds, until an event makes it a window's */
	struct {
		struct window window;
		uint64_t retry_ns; /* CLOCK_MONOTONIC: none is started before this */
	} hold;

	/* as of the last window; 0: not known */
	uint64_t attach_ns; /* how long it took to attach */
	double fixed_ns;    /* what it costs a process to place and remove its probes */
	struct cost_account account;

	struct { /* --open-on: `ptbpf follow`, which reports what is to open a window */
		struct child child;
		struct proc_list targets; /* turn 1: the child has its pid */
		uint64_t next_ns;         /* CLOCK_MONOTONIC: when processes are selected again */
		uint64_t start_ns;        /* of the child */
		/* none is started before this, so long after the end of one */
		uint64_t retry_ns, pause_ns;
		uint32_t followed; /* processes, as the child says */
		uint64_t cost_ns;  /* of the process that it has cost most */
		double spent_ns;   /* likewise, of children that have ended */
		bool paused;
		struct event_source { /* events of one kind in one process */
			pid_t pid;
			enum event_kind kind;
			uint64_t last_ns; /* when one opened a window; 0: none has */
			/* when the log said that one opens none; 0: not since last_ns */
			uint64_t said_ns;
		} sources[DAEMON_SOURCES_MAX];
		uint32_t source_cnt;
		uint64_t ignored; /* events since the last one that opened a window */
	} events;

	struct metrics metrics;
	uint64_t lost; /* records, in all windows */

	struct control {
		struct http_server *server; /* NULL: there is none */
		bool listens;               /* at the control socket */
		struct http_path path;
		struct {
			struct http_request *rq;
			uint64_t nr; /* of the window whose end it waits for */
		} waiters[DAEMON_WAITERS_MAX];
		uint32_t waiter_cnt;
		char *lines[DAEMON_LINES_MAX]; /* the last ones of the log, oldest first */
		uint32_t line_cnt;
		/* requests of windows, and those that are none */
		uint64_t triggers, refused, malformed;
		/* processes and files, as of listed_ns */
		uint64_t listed_ns;
		pid_t pids[PROC_SELECT_MAX];
		uint32_t pid_cnt, selected;
		uint64_t disk_bytes, disk_free;
	} control;
};

/* ---- daemon.c ---- */

/* Switches activities of the windows that begin from now on. NULL, or a sentence: why not. */
const char *daemon__toggle(struct daemon *d, const struct control_request *rq);

/* ---- begin.c: which processes a window has, and the windows of the schedule ---- */

/* Selects the processes of the window that begins now: spec->pids and spec->selected. */
void begin__select(struct daemon *d, struct window_spec *spec);
/* Chooses the names of its files, by its first process and spec->real_ns. False: they are too
 * long. */
bool begin__name_files(const struct daemon *d, struct window_spec *spec);
/* Says that a window is not recorded, which makes the run incomplete. */
void begin__skip(struct daemon *d, uint64_t nr, const char *why);
/*
 * Starts the next one of d->windows, whose spec has all but the names of files. 0 or negative
 * errno: `why` has the reason.
 */
int begin__launch(struct daemon *d, struct window *w, const char **why);
/* Starts the window that is due. Returns ns until the next one is, UINT64_MAX: there is none. */
uint64_t begin__follow_schedule(struct daemon *d);
/* When the next window of the schedule begins, in Unix time; 0: not known, or there is none. */
uint64_t begin__next_real_ns(const struct daemon *d);

/* ---- selected.c ---- */

void selected__say(const struct daemon *d); /* whose processes the windows will have */

/* ---- budget.c, cost_account.c: --max-overhead ---- */

/*
 * Sets what the window may cost each of its processes, and takes out those for which that is
 * nothing of use. False: none remains.
 */
bool budget__set(const struct daemon *d, struct window_spec *spec);
void budget__ended(struct daemon *d, const struct window *w);
/* what following events has cost a process, at most */
double budget__follow_ns(const struct daemon *d);
/* Keys of its line in the log: processes that lost their probes, and those that were left out. */
void budget__put(struct jsonw *j, const struct window *w);

/* Zeroes: nothing has been charged. */
struct cost_row cost_account__of(const struct cost_account *a, pid_t pid, uint64_t start);
void cost_account__charge(struct cost_account *a, pid_t pid, uint64_t start, double ns, bool over);
double cost_account__max_ns(const struct cost_account *a); /* of one process */
void cost_account__clear(struct cost_account *a);

/* ---- request.c: windows beside the schedule ---- */

/*
 * Opens a window now, or at its time: the only way to one that no schedule has. 0, or negative
 * errno: refused, and `why` has a sentence. Windows do not overlap.
 */
int request__open(struct daemon *d, const struct window_request *rq, uint64_t *nr, char *why,
		  size_t cap);
/* Starts the windows whose time has come. Returns ns until it is to be called again. */
uint64_t request__follow(struct daemon *d);
void request__drop_all(struct daemon *d);
uint64_t request__duration(const struct daemon *d); /* of one that does not say it */
/* Does a requested window take this time (CLOCK_MONOTONIC)? */
bool request__takes(const struct daemon *d, uint64_t begin_ns, uint64_t end_ns);

/* ---- hold.c: --flight ---- */

bool hold__is_ready(const struct daemon *d); /* it has the last seconds */
void hold__keep(struct daemon *d);           /* starts and ends it, as need be */
void hold__end(struct daemon *d);            /* what it holds is gone */

/* ---- events.c: --open-on ---- */

/*
 * Keeps the child running, and opens a window for an event. Returns ns until it is to be called
 * again, UINT64_MAX: only when the child reports something.
 */
uint64_t events__follow(struct daemon *d);
void events__stop(struct daemon *d);

/* ---- end.c: a window that has ended: its line in the log, --on-window, the quota ---- */

void end__window(struct daemon *d, uint32_t i);
/* In steps: it is sealed, or its process has ended, and the next window may be due. */
void end__count_steps(struct step_wait *sw, struct window *w);
/* Counts against a process that it takes the window from the others: the next ones do not have
 * it. */
void end__strike_slow(const struct daemon *d, struct window *w);
void end__trim(const struct daemon *d);
void end__reap_commands(struct daemon *d);

/* ---- control.c, status.c: what clients request by HTTP ---- */

/* Opens the servers of --control and --metrics. 0; negative errno (reported): one is required. */
int control__open(struct daemon *d);
/* A window has ended: its line of the log, for a status and for those who wait. */
void control__ended(struct daemon *d, uint64_t nr, const struct jsonw_text *line);
/* there will be no such window */
void control__gave_up(struct daemon *d, uint64_t nr, const char *why);
void control__close(struct daemon *d);
/* Writes the keys of a status into the open object. */
void status__write(struct daemon *d, struct jsonw *w);

#endif /* SAMPLE_DAEMON_H */
