/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* quantity: numbers with units, and what is none. */
#include <errno.h>
#include <stddef.h>

#include "base/text.h"
#include "suite.h"

TEST("duration")
{
	static const char *const bad[] = { "",     "s",     "-1s",   "1d",   "1s ",
					   " 1s",  "1e30s", "nan",   "inf",  "0x",
					   "1,5s", "1m30",  "30s1m", "1m1m", "1m 30s" };
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = { { "5", 5000000000 },      { "5s", 5000000000 },
		     { "250ms", 250000000 },   { "7us", 7000 },
		     { "2m", 120000000000 },   { "1.5min", 90000000000 },
		     { "1h", 3600000000000 },  { "0", 0 },
		     { "1m30s", 90000000000 }, { "1h2m3s4ms", 3723004000000 } };
	uint64_t v;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CU_ASSERT(!quantity__duration(good[i].text, &v) && v == good[i].ns);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(quantity__duration(bad[i], &v), -EINVAL);
}

TEST("size")
{
	uint64_t v;

	CU_ASSERT(!quantity__size("4MiB", &v) && v == 4 << 20);
	CU_ASSERT(!quantity__size("64k", &v) && v == 64 << 10);
	CU_ASSERT(!quantity__size("1.5g", &v) && v == 3ULL << 29);
	CU_ASSERT(!quantity__size("100", &v) && v == 100);
	CU_ASSERT_EQUAL(quantity__size("4TiB", &v), -EINVAL);
	CU_ASSERT_EQUAL(quantity__size("-4", &v), -EINVAL);
}

TEST("percent")
{
	double v;

	CU_ASSERT(!quantity__percent("0.5%", &v) && v == 0.005);
	CU_ASSERT(!quantity__percent("100%", &v) && v == 1);
	CU_ASSERT_EQUAL(quantity__percent("0.5", &v), -EINVAL);
	CU_ASSERT_EQUAL(quantity__percent("%", &v), -EINVAL);
	CU_ASSERT_EQUAL(quantity__percent("-1%", &v), -EINVAL);
	CU_ASSERT_EQUAL(quantity__percent("1%%", &v), -EINVAL);
}

SUITE("quantity")
