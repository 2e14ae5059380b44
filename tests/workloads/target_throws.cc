// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A C++ program whose exceptions pass through probed frames: "throws N" on stdin, "done <checksum>"
// back.
#include "site_func.h"

#include <stdexcept>
#include <string>

extern "C" long site_outer(long n);
extern "C" long site_inner(long n);
extern "C" long outer_body(long n);
extern "C" long inner_body(long n);

static uint64_t sum;

extern "C" long inner_body(long n)
{
	std::string kept = "destroyed by unwinding " + std::to_string(n);

	if (n % 4)
		throw std::runtime_error(kept);
	return (long)kept.size();
}
SITE_FUNC(site_inner, inner_body);

extern "C" long outer_body(long n)
{
	struct count_exit {
		~count_exit()
		{
			sum++;
		}
	} guard;

	return site_inner(n);
}
SITE_FUNC(site_outer, outer_body);

static void throws(long cnt)
{
	for (long i = 0; i < cnt; i++) {
		try {
			sum = sum * 31 + (uint64_t)site_outer(i);
		} catch (const std::runtime_error &e) {
			sum = sum * 33 + strlen(e.what());
		}
	}
}

int main()
{
	char line[256];
	long n;

	SITE_PRINT(site_outer);
	SITE_PRINT(site_inner);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "throws %ld", &n) != 1)
			return 2;
		sum = 0;
		throws(n);
		printf("done %lu\n", (unsigned long)sum);
		fflush(stdout);
	}
	return 0;
}
