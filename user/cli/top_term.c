/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The terminal of ptbpf top: its modes, its signals, its keys. Plain control sequences, which every
 * terminal of the last decades knows (ECMA-48 and xterm's alternate screen), and no library: the
 * screen is written as a whole, and terminfo's files are not where the static program runs.
 */
#include "cli/top_term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/new_file.h"
#include "base/text.h"

/* Alternate screen, no cursor, no line that wraps; and back. */
#define OPEN "\033[?1049h\033[?25l\033[?7l"
#define CLOSE "\033[0m\033[?7h\033[?25h\033[?1049l"
/* What lies between is shown at once where the terminal can (synchronized output). */
#define BEGIN "\033[?2026h\033[H"
#define END "\033[J\033[?2026l"

static struct termios saved;
static bool has_keys, is_open;
static volatile sig_atomic_t resized, stopped, continued;

static void on_resize(int sig)
{
	(void)sig;
	resized = 1;
}

static void on_stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static void on_continue(int sig)
{
	(void)sig;
	continued = 1;
}

/* poll() ends with EINTR at each. */
static void handle(int sig, void (*fn)(int sig))
{
	sigaction(sig, &(struct sigaction){ .sa_handler = fn }, NULL);
}

static void put(const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno != EINTR)
			return;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

void top_term__open(void)
{
	static bool registered;
	struct termios raw;

	has_keys = !tcgetattr(STDIN_FILENO, &saved);
	if (has_keys) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	}
	put(OPEN, strlen(OPEN));
	is_open = true;
	handle(SIGWINCH, on_resize);
	handle(SIGTSTP, on_stop);
	handle(SIGCONT, on_continue);
	if (!registered)
		atexit(top_term__close);
	mem__set_cleanup(top_term__close);
	registered = true;
}

void top_term__close(void)
{
	if (!is_open)
		return;
	is_open = false;
	put(CLOSE, strlen(CLOSE));
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}

bool top_term__has_keys(void)
{
	return has_keys;
}

void top_term__size(int *columns, int *lines)
{
	struct winsize ws;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col || !ws.ws_row)
		ws = (struct winsize){ .ws_col = 80, .ws_row = 24 };
	*columns = ws.ws_col;
	*lines = ws.ws_row;
}

void top_term__show(const char *text, size_t len)
{
	size_t cap = len + sizeof(BEGIN) + sizeof(END);
	char *all = xmalloc(cap);
	size_t n = (size_t)snprintf(all, cap, "%s%.*s%s", BEGIN, (int)len, text, END);

	put(all, n);
	free(all);
}

bool top_term__resized(void)
{
	bool was = resized;

	resized = 0;
	return was;
}

bool top_term__wants_stop(void)
{
	return stopped;
}

void top_term__stop(void)
{
	stopped = 0;
	handle(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	continued = 0;
}

bool top_term__continued(void)
{
	bool was = continued;

	continued = 0;
	return was;
}

/* ---- keys ---- */

static const struct {
	const char *bytes; /* behind ESC */
	int key;
} sequences[] = {
	{ "[A", KEY_UP },       { "OA", KEY_UP },
	{ "[B", KEY_DOWN },     { "OB", KEY_DOWN },
	{ "[C", '>' },          { "OC", '>' },
	{ "[D", '<' },          { "OD", '<' },
	{ "[5~", KEY_PAGE_UP }, { "[6~", KEY_PAGE_DOWN },
	{ "[H", KEY_HOME },     { "OH", KEY_HOME },
	{ "[1~", KEY_HOME },    { "OP", '?' },
	{ "[11~", '?' },        { "OS", '/' },
	{ "[14~", '/' },        { "[17~", '>' },
	{ "[Z", KEY_BACK_TAB },
};

/* The key at the begin of buf; *used: its bytes. What is not known is 0. */
static int decode(const char *buf, size_t len, size_t *used)
{
	*used = 1;
	if (buf[0] != '\033' || len == 1)
		return (unsigned char)buf[0];
	for (size_t i = 0; i < sizeof(sequences) / sizeof(*sequences); i++) {
		size_t n = strlen(sequences[i].bytes);

		if (len > n && !memcmp(buf + 1, sequences[i].bytes, n)) {
			*used = n + 1;
			return sequences[i].key;
		}
	}
	while (*used < len && (*used < 3 || (unsigned char)buf[*used - 1] < '@'))
		++*used; /* the rest of a sequence */
	return 0;
}

uint32_t top_term__keys(int *keys, uint32_t max)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char buf[64];
	ssize_t len = 0;
	uint32_t n = 0;

	/* after a SIGSTOP the terminal may be as others want it: a read would wait for a line */
	if (has_keys && poll(&p, 1, 0) > 0)
		len = read(STDIN_FILENO, buf, sizeof(buf));
	for (size_t at = 0, used; len > 0 && at < (size_t)len && n < max; at += used)
		keys[n++] = decode(buf + at, (size_t)len - at, &used);
	return n;
}
