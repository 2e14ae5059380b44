/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sections of the man pages beside options: rows, in the order of the page. Of docs.c alone. */
#ifndef CLI_MAN_PAGES_H
#define CLI_MAN_PAGES_H

struct man_row {
	const char *section, *tag, *text;
	const char *commands; /* whose pages have it, too, beside the main one; "": all */
};

#define RUNS "attach record"

/* clang-format off */
static const struct man_row man_reading[] = {
	{ "READING THE TABLE", "Self CPU",
	  "The time in the operator itself, without the operators that it called. All times are of the clock on the wall: "
	  "a thread that waits in an operator spends its time there.", RUNS " report" },
	{ "READING THE TABLE", "CPU total",
	  "The time with the operators that it called. An operator that calls another one shares this time with it, so the column's sum means nothing.",
	  RUNS " report" },
	{ "READING THE TABLE", "%",
	  "The share of the column before it in the time that stands below the table: the sum of Self CPU of all rows.", RUNS " report" },
	{ "READING THE TABLE", "Calls, CPU time avg",
	  "How often it was called, and CPU total for each call.", RUNS " report" },
	{ "READING THE TABLE", "ProfilerStep*",
	  "The steps of the training loop. Their Self CPU is the time of a step in no operator: Python, the data loader, waits.", RUNS " report" },
	{ "READING THE TABLE", "Self CUDA, CUDA total",
	  "The time of GPU kernels, copies and fills that the operator started, where the agent recorded them.", RUNS " report" },
	{ "READING THE SUMMARY", "the length of the window, and the process",
	  "How long was recorded, and of what.", RUNS },
	{ "READING THE SUMMARY", "lost, not visible",
	  "Records that found no room in the ring buffers, and operators in functions that cannot be probed. Where figures lack something, the next line says what, and the exit code is 3. "
	  "--ringbuf makes room, --sample-stacks needs none.", RUNS },
	{ "READING THE SUMMARY", "left by an exception",
	  "Calls that ended without a return. Their end is that of the call around them.", RUNS },
	{ "READING THE SUMMARY", "cost",
	  "The hits of probes times the measured cost of one, as a share of the window: a lower bound, since the caches of a job are colder.", RUNS },
};

static const struct man_row man_around[] = {
	{ "ENVIRONMENT", "PTBPF_STEP_ON",
	  "In the environment of the traced process: the annotation that ends a step, in place of --step-on.", RUNS " sample" },
	{ "ENVIRONMENT", "CUDA_INJECTION64_PATH, LD_PRELOAD",
	  "In the environment of the traced process: the path of libptbpf_agent.so starts it with the agent, the first of both where it uses CUDA.", RUNS " sample" },
	{ "ENVIRONMENT", "PTBPF_WINDOW, PTBPF_CAPTURE, PTBPF_TRACE, PTBPF_EXIT",
	  "Given to the command of --on-window: the window's number, its files and its exit code.", "sample" },
	{ "ENVIRONMENT", "NO_COLOR, TERM",
	  "A value of the first, or 'dumb', switches colours off. There are none where standard output is no terminal.", "ps attach record status report" },
	{ "ENVIRONMENT", "COLUMNS",
	  "How wide texts are that fit the terminal, where there is none.", "ps attach record status report" },
	{ "FILES", "ptbpf-PID-TIME.ptb, ptbpf-PID-TIME.pt.trace.json.gz",
	  "The capture and the Chrome trace, without --output and --trace. All files have mode 0600.", RUNS },
	{ "FILES", "windows.jsonl", "The log in --dir: a line of JSON for each window.", "sample" },
	{ "FILES", "/run/ptbpf", "Control sockets.", "sample trigger status" },
	{ "FILES", "/etc/ptbpf.conf", "The configuration of the service.", "sample" },
	{ "FILES", "/var/cache/ptbpf", "The cached analysis of libraries: which instructions are probed.", RUNS " sample doctor" },
	{ "SIGNALS", "SIGINT, SIGTERM, SIGHUP",
	  "Before the window they end the command without a file. In the window they end the window, and what was recorded is written. "
	  "After it they end the output in progress; the capture is complete. A second one ends the command at once.", RUNS },
	{ "SIGNALS", "SIGINT, SIGTERM",
	  "End it after the window in hand and its files; a second one ends that window now.", "sample" },
	{ "SIGNALS", "SIGHUP", "With --config reads the file again, for the next window.", "sample" },
	{ "SIGNALS", "SIGUSR1", "With --flight writes what is held.", "attach" },
	{ "SIGNALS", "SIGKILL", "The Linux kernel removes the probes; the job runs on.", RUNS " sample" },
	{ "EXIT STATUS", "0", "Done.", "" },
	{ "EXIT STATUS", "1", "Failed, or interrupted before a result was complete.", "" },
	{ "EXIT STATUS", "2", "Wrong usage.", "" },
	{ "EXIT STATUS", "3", "Done, but something is missing; the last line on standard error says what.", "" },
	{ "EXIT STATUS", "4", "A step is slower than --fail-above allows.", "diff" },
};
/* clang-format on */

#endif /* CLI_MAN_PAGES_H */
