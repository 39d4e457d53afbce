/* SPDX-License-Identifier: MIT */
/* ab_warnings: what a reader of a result has to know before the figures. */
#ifndef PINPOOL_CLI_AB_WARNINGS_H
#define PINPOOL_CLI_AB_WARNINGS_H

#include "cli/ab_result.h"

void warnings_collect(struct ab_result *result);

#endif
