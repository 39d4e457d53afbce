/* SPDX-License-Identifier: MIT */
/* plots: the pictures of a comparison, in DIR/plots. */
#ifndef PINPOOL_CLI_AB_RESULT_PLOTS_H
#define PINPOOL_CLI_AB_RESULT_PLOTS_H

#include "cli/ab/result/result.h"

struct pictures {
    struct picture {
        char *name; /* plots/NAME.svg */
        char *caption;
    } * items;
    size_t count;
    char *problem; /* why there are fewer than there should be, or NULL */
};

/* Distribution per arm of every measure that counts, curves of a service, throughput against memory. */
struct pictures plots_draw(const struct ab_result *result);
void pictures_free(struct pictures *pictures);

#endif
