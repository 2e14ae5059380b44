/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as CUPTI's activity records: each record is as long as its first byte times four. */
#include <stdlib.h>
#include <string.h>

#include "cupti/cupti_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cupti_decoder decoder = { 0 };
	union ptb_gpu_record out;

	while (len) {
		size_t n = (size_t)data[0] * 4 < len - 1 ? (size_t)data[0] * 4 : len - 1;
		void *exact = malloc(n ? n : 1);

		if (!exact)
			break;
		memcpy(exact, data + 1, n);
		cupti_decoder__take(&decoder, exact, n, 77, true, &out);
		free(exact);
		data += n + 1;
		len -= n + 1;
	}
	cupti_decoder__clear(&decoder);
	return 0;
}
