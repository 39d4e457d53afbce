/* SPDX-License-Identifier: MIT */
/*
 * arm: one arm of a comparison, from its SPEC to the environment that its command is started in.
 *
 *   SPEC    part [+ part]...
 *   part    off | idle | POOLS[:POLICY] | lib:LIBRARY | env:NAME=VALUE
 *   POOLS   as PINPOOL_POOLS: 8k or 8k,64k
 *
 * Every arm starts from one environment, the base: what the tool was started with, without PINPOOL_*
 * and without libpinpool.so in LD_PRELOAD. Every run, of every arm, gets PINPOOL_STATS=1 and a
 * PINPOOL_DIR of its own: a run that should have pinpool proves it by the stats file there, and one
 * that should not have it by the absence of one.
 */
#ifndef PINPOOL_CLI_AB_ARM_H
#define PINPOOL_CLI_AB_ARM_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arm_kind { ARM_OFF, ARM_IDLE, ARM_POOLS };

struct arm {
    char *name;
    char *spec;
    enum arm_kind kind;
    char *pools;      /* PINPOOL_POOLS, or NULL */
    char *policy;     /* PINPOOL_POLICY, or NULL: the library's default */
    char *library;    /* another allocator, absolute path, or NULL */
    char **variables; /* "NAME=VALUE" of env:, later ones win */
    size_t variable_count;
    bool repeats_baseline; /* the arm that --aa adds */
};

/*
 * Parses "NAME=SPEC" or "SPEC", which is then its own name. Returns NULL, or why not, a sentence to
 * be freed; *arm is empty then. Looks for the library, which ends the tool when it is not there.
 */
char *arm_parse(struct arm *arm, const char *text);

/* The same arm under another name. */
struct arm arm_repeat(const struct arm *baseline, const char *name);

void arm_free(struct arm *arm);

/* "off", "8k:bump" -> a part of a file's name. To be freed. */
char *arm_file_name(const struct arm *arm);

/* A NULL-terminated list of "NAME=VALUE" that owns its texts. */
struct environment {
    char **variables;
    size_t count;
};

/* The environment that every arm starts from; *dropped says which variables were left out ("" for none). */
struct environment environment_base(char **dropped);
void environment_set(struct environment *environment, const char *name, const char *value);
const char *environment_get(const struct environment *environment, const char *name);
void environment_free(struct environment *environment);

/* The base, and what makes it this arm's. `pinpool` is the library's path; stats files go to `stats_dir`. */
struct environment arm_environment(const struct arm *arm, const struct environment *base, const char *pinpool,
                                   const char *stats_dir);

/* What an arm sets that the base does not, as a JSON array of texts; PINPOOL_DIR, different each run, is left
 * out. */
struct json_object *arm_environment_difference(const struct arm *arm, const struct environment *base,
                                               const char *pinpool);

#endif
