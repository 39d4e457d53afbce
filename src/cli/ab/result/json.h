/* SPDX-License-Identifier: MIT */
/* json: result.json. */
#ifndef PINPOOL_CLI_AB_RESULT_JSON_H
#define PINPOOL_CLI_AB_RESULT_JSON_H

struct ab_result;

/* Writes DIR/result.json; ends the tool when it cannot. */
void json_write_result(const struct ab_result *result);

#endif
