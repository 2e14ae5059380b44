/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A program without a loader: reports its start, and ends with its stdin. */
#include <unistd.h>

int main(void)
{
	char c;

	if (write(1, "r", 1) != 1)
		return 1;
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
