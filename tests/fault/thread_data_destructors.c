/* SPDX-License-Identifier: MIT */
/*
 * thread_data_destructors: threads end while the destructors of their thread-specific data, in all
 * the rounds that the C library makes of them, still free, resize and allocate. In the end nothing
 * is left behind. Ends with a dump, in which the script looks that no slice is live.
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { KEYS = 8, THREADS = 400, AT_ONCE = 8, GROWTH_KIB_MAX = 8 << 10 };

static pthread_key_t keys[KEYS];

/* What a key holds: slices of its own, and how many rounds of destructors it asks for. */
struct holding {
    void *slices[4];
    unsigned rounds_left;
    unsigned key;
};

static void destroy(void *argument)
{
    struct holding *holding = argument;
    void *passing = malloc(6000);

    REQUIRE(passing != NULL && test_is_filled(holding->slices[0], 2000, holding->key));
    free(holding->slices[holding->rounds_left % 4]);
    holding->slices[holding->rounds_left % 4] = realloc(passing, 12000);
    REQUIRE(holding->slices[holding->rounds_left % 4] != NULL);
    if (holding->rounds_left-- > 1) {
        REQUIRE(pthread_setspecific(keys[holding->key], holding) == 0);
        test_fill(holding->slices[0], 2000, holding->key);
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        free(holding->slices[i]);
    free(holding);
}

static void *run(void *argument)
{
    for (unsigned i = 0; i < KEYS; i++) {
        struct holding *holding = malloc(sizeof *holding + 1500);

        REQUIRE(holding != NULL);
        holding->key = i;
        holding->rounds_left = 1 + i % PTHREAD_DESTRUCTOR_ITERATIONS;
        for (unsigned k = 0; k < 4; k++)
            REQUIRE((holding->slices[k] = malloc(2000 + 5000 * k)) != NULL);
        test_fill(holding->slices[0], 2000, i);
        REQUIRE(pthread_setspecific(keys[i], holding) == 0);
    }
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t threads[AT_ONCE];
    size_t early_kib = 0, late_kib;

    for (unsigned i = 0; i < KEYS; i++)
        REQUIRE(pthread_key_create(&keys[i], destroy) == 0);
    for (unsigned done = 0; done < THREADS; done += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&threads[i], NULL, run, NULL) == 0);
        for (unsigned i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
        if (done == THREADS / 4 / AT_ONCE * AT_ONCE)
            early_kib = test_status_kib("VmRSS:");
    }
    late_kib = test_status_kib("VmRSS:");
    if (late_kib > early_kib + GROWTH_KIB_MAX)
        test_fail("# from %zu to %zu KiB resident", early_kib, late_kib);
    if (test_argument(argc, argv, 1, 0) != 0)
        test_dump(SIGUSR1);
    return 0;
}
