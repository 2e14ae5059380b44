/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * inject_tool PID ptrace|remote|any MS LIBRARY...: loads each library into the process and prints one line for
 * each: "loaded METHOD TRIES STOPPED_US" or "refused ERRNO: sentence". For tests, which check the target.
 * inject_tool calls: prints the system calls that it takes, one in a line: "NUMBER need|spare ARGUMENT=VALUE...",
 * the lower halves of those arguments that are known.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "inject/inject.h"
#include "inject/seccomp.h"

static int print_calls(void)
{
	struct seccomp_call call;
	bool spare;

	for (uint32_t i = 0; seccomp_check__call(i, &call, &spare); i++) {
		printf("%d %s", call.data.nr, spare ? "spare" : "need");
		for (uint32_t arg = 0; arg < 6; arg++)
			if (call.known & SECCOMP_KNOWN_LOW(arg))
				printf(" %" PRIu32 "=%" PRIu32, arg, (uint32_t)call.data.args[arg]);
		putchar('\n');
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct inject_opts opts = { .only = INJECT_NONE };
	struct inject_result res;
	int err, failed = 0;

	if (argc == 2 && !strcmp(argv[1], "calls"))
		return print_calls();
	if (argc < 5)
		return 2;
	log__enable_domains(getenv("PTBPF_DEBUG"));
	if (!strcmp(argv[2], "ptrace"))
		opts.only = INJECT_PTRACE;
	else if (!strcmp(argv[2], "remote"))
		opts.only = INJECT_REMOTE_EXEC;
	opts.limit_ns = strtoull(argv[3], NULL, 10) * 1000000;
	for (int i = 4; i < argc; i++) {
		opts.lib_path = argv[i];
		err = inject__load(atoi(argv[1]), &opts, &res);
		if (err)
			printf("refused %d: %s\n", -err, res.why);
		else
			printf("loaded %d %" PRIu32 " %" PRIu64 "\n", (int)res.method, res.tries,
			       res.stopped_ns / 1000);
		fflush(stdout);
		failed |= err;
	}
	return failed ? 1 : 0;
}
