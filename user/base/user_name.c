/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See text.h. */
#include "base/text.h"

#include <pwd.h>
#include <stdio.h>

char *user_name(uid_t uid, char *buf, size_t cap)
{
	FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	snprintf(buf, cap, "%u", (unsigned)uid);
	while (f && (pw = fgetpwent(f)))
		if (pw->pw_uid == uid) {
			snprintf(buf, cap, "%s", pw->pw_name);
			break;
		}
	if (f)
		fclose(f);
	return buf;
}
