/* SPDX-License-Identifier: MIT */
/*
 * noisy: a command whose noise is known. `noisy STATE` prints ten figures around 1000, m0 to m9, that vary by
 * NOISE % from run to run (normal) and by DRIFT % slowly, over many runs, all together. CHANGE % is added to
 * all of them. STATE counts the runs, so that the same sequence of runs gives the same figures everywhere.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIGURES = 10, MEMORY_PIECES = 64, PIECE_BYTES = 3000 };

static const double pi = 3.14159265358979323846;

/* splitmix64, S. Vigna 2015 */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
    const double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * pi * uniform(state));
}

static double from_environment(const char *name)
{
    const char *text = getenv(name);
    return text ? atof(text) / 100 : 0;
}

/* The number of this run, counted in the file. */
static unsigned long count_run(const char *path)
{
    unsigned long count = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%lu", &count) != 1)
            count = 0;
        fclose(file);
    }
    file = fopen(path, "w");
    if (!file || fprintf(file, "%lu\n", count + 1) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return count;
}

int main(int argc, char **argv)
{
    static char *volatile pieces[MEMORY_PIECES]; /* so that there is something to carve */
    if (argc != 2)
        return 2;
    for (int i = 0; i < MEMORY_PIECES; i++)
        pieces[i] = malloc(PIECE_BYTES);
    const unsigned long run = count_run(argv[1]);
    uint64_t state = run * 1000003;
    const double noise = from_environment("NOISE"), drift = from_environment("DRIFT");
    const double level = 1000 * (1 + from_environment("CHANGE")) * (1 + drift * sin((double)run / 9));
    for (int i = 0; i < FIGURES; i++)
        printf("m%d: %.6f per second\n", i, level * (1 + noise * normal(&state)));
    for (int i = 0; i < MEMORY_PIECES; i++)
        free(pieces[i]);
    return 0;
}
