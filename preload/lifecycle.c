/* SPDX-License-Identifier: MIT */
/* lifecycle: see lifecycle.h. */
#include "preload/lifecycle.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/out.h"
#include "base/sys.h"
#include "evidence/dump.h"
#include "evidence/statsfile.h"
#include "preload/interpose.h"
#include "preload/next.h"
#include "preload/signals.h"

/* A heap that serves nothing: every size is sent to the slow path, where no block has room. */
#define GATE                                                                                                 \
    {                                                                                                        \
        .tiers = {.min_bytes = 0, .span_bytes = SIZE_MAX}, .pool = &pool, .counters = &pool.own_shared,      \
        .current = {                                                                                         \
            &block_closed,                                                                                   \
            &block_closed,                                                                                   \
            &block_closed,                                                                                   \
            &block_closed                                                                                    \
        }                                                                                                    \
    }

struct pool pool;
struct heap heap_none = GATE;
struct heap heap_busy = GATE;
struct heap heap_dying = GATE;
TLS struct heap *self = &heap_none;
TLS struct heap *mine;

static struct options options_unsealed; /* where they are read, and where they stay if sealing fails */
const struct options *settings = &options_unsealed;

static pthread_key_t thread_key;
static bool has_thread_key;
static struct utsname kernel;
static struct dump_context dump_context;

/* ---- settings -------------------------------------------------------------------------------- */

static const char *environment(const char *name)
{
    return secure_getenv(name); /* nothing for a process with more rights than its user */
}

static void complain(const char *line)
{
    out_stderr_line_sigsafe(line);
}

/*
 * Sanitizers and Valgrind keep their own account of every block and must see all of them; another
 * allocator's in between makes them report nonsense.
 */
static bool is_checked_by_a_tool(void)
{
    const char *preload = environment("LD_PRELOAD");

    return dlsym(RTLD_DEFAULT, "__asan_init") != NULL || dlsym(RTLD_DEFAULT, "__tsan_init") != NULL ||
           dlsym(RTLD_DEFAULT, "__msan_init") != NULL || dlsym(RTLD_DEFAULT, "__hwasan_init") != NULL ||
           (preload != NULL && strstr(preload, "vgpreload_") != NULL);
}

/* With more rights than its user a process writes no file and keeps its signals. */
static void read_options(void)
{
    options_read(&options_unsealed, environment, complain);
    if (is_checked_by_a_tool())
        options_unsealed.off = true;
    if (getauxval(AT_SECURE) != 0) {
        options_unsealed.signal = 0;
        options_unsealed.stats = options_unsealed.dump_at_exit = options_unsealed.verbose = false;
    }
}

/*
 * Moves the settings to read-only memory. It is a memfd's, because the name of that shows in
 * /proc/<pid>/maps for as long as the process lives, whatever the process does with its environment:
 * `pinpool dump` reads signal and directory from it. The descriptor is closed again at once.
 */
static void seal_settings(void)
{
    char name[249 + 1]; /* the most that memfd_create takes */
    struct out out;
    void *sealed = NULL;
    int fd;

    if (sys_file_limit_bytes() < sizeof options_unsealed)
        return;
    out_init_sigsafe(&out, -1, name, sizeof name);
    out_text_sigsafe(&out, "pinpool:signal=");
    out_u64_sigsafe(&out, (uint64_t)options_unsealed.signal);
    out_text_sigsafe(&out, ":dir=");
    out_text_sigsafe(&out, options_unsealed.dir);
    (void)out_finish_text_sigsafe(&out);
    fd = sys_memfd(name);
    if (fd < 0)
        return;
    if (sys_write_all(fd, &options_unsealed, sizeof options_unsealed) == 0 &&
        sys_map_file_sealed(fd, align_up(sizeof options_unsealed, sys_page_bytes()), &sealed) == 0)
        settings = sealed;
    (void)sys_close(fd);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void thread_ends(void *heap)
{
    (void)lifecycle_enter();
    mine = NULL; /* before others may have it: a fork in a signal handler looks here */
    heap_release(heap);
    lifecycle_leave(&heap_dying);
}

/*
 * pthread_setspecific may allocate (for keys beyond the first 32): `self` is busy then, so that
 * request goes to the next allocator.
 */
void lifecycle_attach(void)
{
    int errno_of_program = errno;
    struct heap *heap;

    (void)lifecycle_enter();
    heap = heap_acquire(&pool, &self, sys_gettid());
    if (heap != NULL && (!has_thread_key || pthread_setspecific(thread_key, heap) != 0)) {
        heap_release(heap); /* nobody would tell us when the thread ends */
        heap = NULL;
    }
    mine = heap;
    if (heap != NULL)
        store_relaxed(&heap->state,
                      HEAP_LIVE); /* again: a fork in a signal handler may just have put it up for adoption */
    lifecycle_leave(heap != NULL ? heap : &heap_dying);
    errno = errno_of_program;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static _Atomic(uint32_t) word_without_page = LIVES_ON; /* where pages can not be wiped */
_Atomic(uint32_t) *lifecycle_word = &word_without_page;

/* A page of its own, for it is lost in a child whole. */
static void make_word(void)
{
    void *page;

    if (sys_map(sys_page_bytes(), &page) != 0)
        return;
    if (sys_wipe_on_fork(page, sys_page_bytes()) != 0) {
        (void)sys_unmap(page, sys_page_bytes());
        return;
    }
    store_relaxed((_Atomic(uint32_t) *)page, LIVES_ON);
    lifecycle_word = page;
}

/*
 * There is no handler before a fork: it waits for nothing and nothing waits for it. What other threads
 * were in the middle of is told from the states of heaps and locks, here in the child, by the first
 * thread that comes by. That may be a thread which another library's handler has started: then heaps
 * in use can not be told from those of vanished threads, and nobody else gets them.
 */
static void put_child_in_order(void)
{
    static const char nobody;
    int32_t tid = sys_gettid();
    bool is_alone = tid == sys_getpid();

    /* A new thread may have the stack of a vanished one, and its &self: whatever is held is not its own. */
    pool_after_fork(&pool, mine, is_alone ? (const void *)&self : &nobody, tid, is_alone);
    dump_after_fork_sigsafe();
    signals_after_fork();
    statsfile_after_fork_sigsafe();
    heap_none.counters = heap_busy.counters = heap_dying.counters = pool.shared;
}

/* No signal comes in between: its handler, ours to begin with, would wait for the thread that it interrupts.
 */
void lifecycle_child_starts(void)
{
    int errno_of_program = errno;
    uint32_t expected = 0;
    sigset_t all, mask;

    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    /* acquire: pairs with the release below. */
    if (atomic_compare_exchange_strong_explicit(lifecycle_word, &expected, STARTS_AS_CHILD,
                                                memory_order_acquire, memory_order_acquire)) {
        put_child_in_order();
        atomic_store_explicit(lifecycle_word, LIVES_ON, memory_order_release);
    } else {
        while (atomic_load_explicit(lifecycle_word, memory_order_acquire) == STARTS_AS_CHILD)
            sched_yield();
    }
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    errno = errno_of_program;
}

static void forked(void)
{
    if (lifecycle_word == &word_without_page)
        put_child_in_order();
    else
        lifecycle_look_for_fork();
}

/* ---- start ----------------------------------------------------------------------------------- */

static void start_pool(void)
{
    struct pool_config config = {
        .tier_count = settings->pool_count,
        .min_bytes = settings->min_bytes,
        .decay_ns = settings->decay_ms * 1000000,
        .page_bytes = sys_page_bytes(),
    };

    memcpy(config.block_bytes, settings->block_bytes, sizeof config.block_bytes);
    if (settings->stats)
        config.counters_source = statsfile_counters_sigsafe;
    pool_init(&pool, &config);
    if (settings->stats)
        (void)statsfile_create_sigsafe(&pool, settings);
    heap_none.counters = heap_busy.counters = heap_dying.counters = pool.shared;
}

_Atomic(uint32_t) lifecycle_phase = NOT_STARTED;

static bool enter_phase(uint32_t from, uint32_t to)
{
    /* acquire: pairs with the releases in lifecycle_start_slow. */
    return atomic_compare_exchange_strong_explicit(&lifecycle_phase, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void leave_phase(uint32_t to)
{
    atomic_store_explicit(&lifecycle_phase, to, memory_order_release);
}

/*
 * The executable's preinit functions run before the C library itself is initialised: there is no
 * environment to read then. Until there is one the next allocator serves.
 */
bool lifecycle_start_slow(void)
{
    int errno_of_program = errno;

    if (enter_phase(NOT_STARTED, RESOLVING)) {
        next_resolve();
        operators_resolve();
        leave_phase(RESOLVED);
    }
    if (environ != NULL && enter_phase(RESOLVED, STARTING)) {
        read_options();
        seal_settings();
        make_word();
        start_pool();
        has_thread_key = pthread_key_create(&thread_key, thread_ends) == 0;
        interpose_switch(settings->off);
        leave_phase(READY);
    }
    errno = errno_of_program;
    /* acquire: as in lifecycle_start. */
    return atomic_load_explicit(&lifecycle_phase, memory_order_acquire) == READY;
}

static void say_hello(void)
{
    char line[1024], text[OPTIONS_TEXT_MAX];
    struct out out;

    out_init_sigsafe(&out, -1, line, sizeof line);
    out_text_sigsafe(&out, PINPOOL_VERSION);
    for (enum option_id id = 0; id < OPTION_COUNT; id++) {
        options_format_sigsafe(settings, id, text);
        out_text_sigsafe(&out, " ");
        out_text_sigsafe(&out, option_rows[id].name + strlen("PINPOOL_"));
        out_text_sigsafe(&out, "=");
        out_text_sigsafe(&out, text);
    }
    out_text_sigsafe(&out, " next=");
    out_text_sigsafe(&out, next_path());
    (void)out_finish_text_sigsafe(&out);
    out_stderr_line_sigsafe(line);
}

/* ---- the second half of start, and the end ---------------------------------------------------- */

__attribute__((constructor)) static void library_loaded(void)
{
    int errno_of_program = errno;

    (void)lifecycle_start();
    (void)uname(&kernel);
    dump_context = (struct dump_context){
        .pool = &pool,
        .options = settings,
        .start_ns = sys_now_ns(),
        .next_path = next_path(),
        .kernel = kernel.release,
    };
    dump_init(&dump_context);
    (void)pthread_atfork(NULL, NULL, forked);
    if (settings->signal != 0)
        signals_install(settings->signal, settings->signal_chain);
    if (settings->verbose)
        say_hello();
    errno = errno_of_program;
}

/* Another thread may be writing a dump: it goes round once more for us, if the process lives that long. */
static void write_last_dump(void)
{
    enum { WAITS_MAX = 1000, WAIT_US = 1000 };
    sigset_t all, mask;

    lifecycle_look_for_fork();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    dump_write_sigsafe(DUMP_EXIT);
    for (int waits = 0; dump_is_under_way() && waits < WAITS_MAX; waits++)
        (void)usleep(WAIT_US);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

__attribute__((destructor)) static void library_unloaded(void)
{
    if (settings->dump_at_exit)
        write_last_dump();
}
