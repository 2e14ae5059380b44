/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include "inject/inject_priv.h"
int remote_exec__load(struct inject_job *job)
{
	refuse(job, "not yet");
	return -EAGAIN;
}
