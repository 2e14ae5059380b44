/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * main() of a fuzzer that is built without libFuzzer:  fuzz_NAME [ITERATIONS [SEED]]
 * Random inputs, each a mutation of an earlier one, so that values of one input meet again in the next.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static uint64_t interesting(void)
{
	static const uint64_t values[] = { 0,          1,          8,         16,    24,
					   64,         255,        4095,      65535, 1u << 31,
					   UINT32_MAX, 1ull << 63, UINT64_MAX };

	return values[(size_t)random() % (sizeof(values) / sizeof(*values))];
}

static void mutate(uint8_t *data, size_t *len)
{
	size_t width = 1u << random() % 4, at = (size_t)random() % (INPUT_MAX - 8);
	uint64_t value = random() % 2 ? interesting() : (uint64_t)random();

	memcpy(data + (*len > 8 ? at % (*len - 8) : 0), &value, width);
	if (random() % 8 == 0)
		*len = (size_t)random() % INPUT_MAX;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 2000;
	uint8_t data[INPUT_MAX], *exact;
	size_t len = INPUT_MAX;

	srandom(argc > 2 ? (unsigned int)atol(argv[2]) : 1);
	for (long i = 0; i < n; i++) {
		for (size_t k = 0; i % 64 == 0 && k < sizeof(data); k++)
			data[k] = (uint8_t)random();
		for (size_t k = (size_t)random() % 16; k; k--)
			mutate(data, &len);
		exact = malloc(len ? len : 1); /* so that the sanitizer sees what is read beyond it */
		if (!exact)
			return 1;
		memcpy(exact, data, len);
		LLVMFuzzerTestOneInput(exact, len);
		free(exact);
	}
	printf("%ld inputs\n", n);
	return 0;
}
