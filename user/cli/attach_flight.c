/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* attach --flight: SIGUSR1, and what the program that sends it has to say about why. */
#define LOG_DOMAIN "attach"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "cli/attach_window.h"
#include "ptb_event.h"
#include "record/recorder.h"
#include "record/run.h"

#define NOTES_MAX 4096
/* after the end of the targets, which may be what the request is about */
#define LAST_REQUEST_MS 3000

static volatile sig_atomic_t wanted; /* SIGUSR1 has come */

static void on_usr1(int sig)
{
	(void)sig;
	wanted = 1;
}

int attach_flight__open(void)
{
	struct sigaction act = { .sa_handler = on_usr1 };

	return sigaction(SIGUSR1, &act, NULL) ? -errno : 0;
}

static void take_note(struct recorder *rec, char *line, char *trigger, size_t cap)
{
	static const char *const keys[] = { "trigger", "event", "switched_off" };
	char *text = strchr(line, '=');

	if (!text)
		return;
	*text++ = '\0';
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(line, keys[i]))
			recorder__meta_text(rec, line, text);
	if (!strcmp(line, "trigger"))
		snprintf(trigger, cap, "%s", text);
}

bool attach_notes__read(int fd, struct recorder *rec, int wait_ms, char *trigger, size_t cap)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = cancel__fd(), .events = POLLIN } };
	char buf[NOTES_MAX], *line = buf, *end;
	size_t len = 0;
	ssize_t n = 1;

	trigger[0] = '\0';
	while (n > 0 && len + 1 < sizeof(buf) && poll(p, 2, wait_ms) > 0 && p[0].revents) {
		n = read(fd, buf + len, sizeof(buf) - len - 1);
		len += n > 0 ? (size_t)n : 0;
	}
	buf[len] = '\0';
	for (; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		take_note(rec, line, trigger, cap);
	}
	return len > 0;
}

static void release(const struct run_cfg *cfg, struct run *run, int wait_ms)
{
	char trigger[32] = "", why[64] = "SIGUSR1";

	if (cfg->notes_fd && !attach_notes__read(cfg->notes_fd, run__recorder(run), wait_ms,
						 trigger, sizeof(trigger)))
		return;
	if (trigger[0])
		snprintf(why, sizeof(why), "the event '%s'", trigger);
	run__release(run, why);
}

void attach_flight__tick(const struct run_cfg *cfg, struct run *run)
{
	if (!wanted)
		return;
	wanted = 0;
	if (run__is_holding(run))
		release(cfg, run, 0);
}

bool attach_flight__wanted(const struct run_cfg *cfg, struct run *run)
{
	if (cfg->notes_fd && run__is_holding(run) && run__stop_reason(run) == PTB_STOP_TARGET_EXIT)
		release(cfg, run, LAST_REQUEST_MS);
	return !cfg->notes_fd || !run__is_holding(run);
}
