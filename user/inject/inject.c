/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which way a library is loaded into a running process; see inject.h. */
#include "inject/inject.h"

const char *inject__way_text(enum inject_way way)
{
	switch (way) {
	case INJECT_REMOTE_EXEC:
		return "remote execution (PEP 768)";
	case INJECT_PTRACE:
		return "ptrace";
	case INJECT_NONE:
		break;
	}
	return "";
}
