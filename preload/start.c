/* SPDX-License-Identifier: MIT */
/* start: see start.h. */
#include "preload/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/objects.h"
#include "base/out.h"
#include "base/sys.h"
#include "evidence/dump.h"
#include "evidence/statsfile.h"
#include "preload/fork.h"
#include "preload/interpose.h"
#include "preload/next.h"
#include "preload/signals.h"
#include "preload/thread.h"

/* What is sealed: for whoever looks from outside, and for us. */
struct page {
    struct label label;
    struct options options;
};

static struct page unsealed; /* where it is made, and where it stays if sealing fails */
static const struct page *page = &unsealed;
const struct options *settings = &unsealed.options;

static struct utsname kernel;
static char exe[4096]; /* as long as a path can be */
static struct dump_context dump_context;

/* ---- settings -------------------------------------------------------------------------------- */

static const char *environment(const char *name)
{
    return libc.secure_getenv(name); /* nothing for a process with more rights than its user */
}

static void complain(const char *line)
{
    out_stderr_line_sigsafe(line);
}

/*
 * Sanitizers, LeakSanitizer alone among them, and Valgrind keep their own account of every block and must see
 * all of them; another allocator's in between makes them report nonsense.
 */
static bool is_checked_by_a_tool(void)
{
    const char *preload = environment("LD_PRELOAD");

    return objects_define("__asan_init") || objects_define("__tsan_init") || objects_define("__msan_init") ||
           objects_define("__hwasan_init") || objects_define("__lsan_init") ||
           (preload && strstr(preload, "vgpreload_"));
}

/* With more rights than its user a process writes no file and keeps its signals. */
static void read_options(void)
{
    options_read(&unsealed.options, environment, complain);
    if (is_checked_by_a_tool())
        unsealed.options.off = true;
    if (libc.getauxval(AT_SECURE) != 0) {
        unsealed.options.signal = 0;
        unsealed.options.stats = STATS_NONE;
        unsealed.options.dump_at_exit = unsealed.options.verbose = false;
    }
}

/*
 * Moves label and settings to read-only memory. It is a memfd's, because the name of that shows in
 * /proc/<pid>/maps for as long as the process lives, whatever the process does with its environment
 * (label.h). The descriptor is closed again at once.
 */
static void seal_page(void)
{
    char name[249 + 1]; /* the most that memfd_create takes */
    struct out out;
    void *sealed = NULL;
    int fd;

    if (sys_file_limit_bytes() < sizeof unsealed)
        return;
    out_init_sigsafe(&out, -1, name, sizeof name);
    out_text_sigsafe(&out, LABEL_NAME "signal=");
    out_u64_sigsafe(&out, (uint64_t)unsealed.options.signal);
    out_text_sigsafe(&out, ":dir=");
    out_text_sigsafe(&out, unsealed.options.dir);
    (void)out_finish_text_sigsafe(&out);
    fd = sys_memfd(name);
    if (fd < 0)
        return;
    if (sys_write_all(fd, &unsealed, sizeof unsealed) == 0 &&
        sys_map_file_sealed(fd, align_up(sizeof unsealed, sys_page_bytes()), &sealed) == 0) {
        page = sealed;
        settings = &page->options;
    }
    (void)sys_close(fd);
}

/* ---- start ----------------------------------------------------------------------------------- */

static void start_pool(void)
{
    struct pool_config config = {
        .tier_count = settings->pool_count,
        .min_bytes = settings->min_bytes,
        .decay_ns = settings->decay_ms * NS_PER_MS,
        .page_bytes = sys_page_bytes(),
        .reuses_holes = settings->policy == POLICY_REUSE,
    };

    memcpy(config.block_bytes, settings->block_bytes, sizeof config.block_bytes);
    pool_init(&pool, &config);
}

_Atomic(uint32_t) start_phase = NOT_STARTED;

static bool enter_phase(uint32_t from, uint32_t to)
{
    /* acquire: pairs with the releases in start_slow. */
    return atomic_compare_exchange_strong_explicit(&start_phase, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void leave_phase(uint32_t to)
{
    atomic_store_explicit(&start_phase, to, memory_order_release);
}

/*
 * The executable's preinit functions run before the C library itself is initialised: there is no
 * environment to read then. Until there is one the next allocator serves.
 */
bool start_slow(void)
{
    int errno_of_program = errno;

    if (enter_phase(NOT_STARTED, RESOLVING)) {
        next_resolve();
        operators_resolve();
        leave_phase(RESOLVED);
    }
    if (environ && enter_phase(RESOLVED, STARTING)) {
        read_options();
        label_fill(&unsealed.label, &pool, &unsealed.options);
        seal_page();
        fork_init();
        start_pool();
        thread_init();
        statsfile_begin(&pool, settings, &page->label);
        interpose_switch(settings->off);
        leave_phase(READY);
    }
    errno = errno_of_program;
    /* acquire: as in start_is_done. */
    return atomic_load_explicit(&start_phase, memory_order_acquire) == READY;
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

    (void)start_is_done();
    (void)sys_uname(&kernel);
    (void)sys_readlink("/proc/self/exe", exe, sizeof exe - 1);
    dump_context = (struct dump_context){
        .pool = &pool,
        .options = settings,
        .start_ns = sys_now_ns(),
        .next_path = next_path(),
        .kernel = kernel.release,
        .exe = exe,
    };
    dump_init(&dump_context);
    fork_install_handler();
    if (settings->signal != 0)
        signals_install(settings->signal, settings->signal_chain);
    if (settings->verbose)
        say_hello();
    errno = errno_of_program;
}

/* Another thread may be writing a dump: it goes round once more for us, if the process lives that long. */
static void write_last_dump(void)
{
    const uint64_t patience_ns = NS_PER_S;
    uint64_t mask = sys_block_signals();

    dump_write_sigsafe(DUMP_EXIT);
    dump_wait(patience_ns);
    sys_restore_signals(mask);
}

__attribute__((destructor)) static void library_unloaded(void)
{
    if (!fork_is_in_order())
        return;
    if (settings->dump_at_exit)
        write_last_dump();
    statsfile_end();
}
