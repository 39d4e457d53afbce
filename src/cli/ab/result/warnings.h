/* SPDX-License-Identifier: MIT */
/* warnings: what a reader of a result has to know before the figures. */
#ifndef PINPOOL_CLI_AB_RESULT_WARNINGS_H
#define PINPOOL_CLI_AB_RESULT_WARNINGS_H

#include "cli/ab/result/result.h"

void warnings_collect(struct ab_result *result);

#endif
