/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The status of a `ptbpf sample` for people. */
#ifndef CLI_STATUS_TEXT_H
#define CLI_STATUS_TEXT_H

#include <stdio.h>

#include <cjson/cJSON.h>

/* status: an answer to CONTROL_STATUS (schemas/formats/status.schema.json); what it lacks is left out. Its texts are escaped. */
void status_text__put(FILE *out, const cJSON *status);

#endif /* CLI_STATUS_TEXT_H */
