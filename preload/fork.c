/* SPDX-License-Identifier: MIT */
/* fork: see fork.h. */
#include "preload/fork.h"

#include "base/libc.h"
#include "base/sys.h"
#include "evidence/dump.h"
#include "preload/signals.h"
#include "preload/thread.h"

static struct fork_page without_page = {.word = FORK_LIVES_ON}; /* where pages can not be wiped */
struct fork_page *fork_page = &without_page;

void fork_init(void)
{
    void *page;

    if (sys_map(sys_page_bytes(), &page) != 0)
        return;
    if (sys_wipe_on_fork(page, sys_page_bytes()) != 0) {
        (void)sys_unmap(page, sys_page_bytes());
        return;
    }
    fork_page = page;
    store_relaxed(&fork_page->word, FORK_LIVES_ON);
}

/* The thread that forked, with all signals blocked: a handler of ours would find the child half in order. */
static void put_child_in_order(int32_t tid)
{
    pool_after_fork(&pool, mine, &self, tid);
    dump_after_fork_sigsafe();
    signals_after_fork();
}

/*
 * A child's first thread has the process's number. It alone comes past the test, so nobody does this twice.
 */
bool fork_child_starts(void)
{
    int32_t tid = sys_gettid();
    uint64_t mask;

    if (tid != sys_getpid())
        return false;
    mask = sys_block_signals();
    if (load_relaxed(&fork_page->word) != FORK_LIVES_ON) {
        put_child_in_order(tid);
        store_relaxed(&fork_page->was_wiped, 1);
        /* release: pairs with the acquire in fork_is_in_order. */
        atomic_store_explicit(&fork_page->word, FORK_LIVES_ON, memory_order_release);
    }
    sys_restore_signals(mask);
    return true;
}

static void forked(void)
{
    uint64_t mask;

    if (!fork_is_in_order() || load_relaxed(&fork_page->was_wiped) != 0)
        return;
    mask = sys_block_signals();
    put_child_in_order(sys_gettid());
    sys_restore_signals(mask);
}

/* What crtbegin.o defines in every shared object, for handlers to be taken off when it is unloaded. */
extern void *__dso_handle __attribute__((visibility("hidden")));

void fork_install_handler(void)
{
    (void)libc.register_atfork(NULL, NULL, forked, __dso_handle);
}
