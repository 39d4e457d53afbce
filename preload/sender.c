/* SPDX-License-Identifier: MIT */
/* sender: see sender.h. si_code: sigaction(2). */
#include "preload/sender.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/out.h"
#include "base/request.h"
#include "base/sys.h"
#include "evidence/filter.h"
#include "evidence/textfile.h"

enum { PATH_BYTES = 32, NAME_BYTES = 24 }; /* "/proc/4194304/comm"; a name has 15 bytes */

static struct {
    bool has_file;
    dev_t device;
    ino_t file;
} own;

/*
 * The processes that were forked from one another without becoming another program, each in place pid % FAMILY
 * of a page that they share. So a worker that signals its leader and is gone when the handler looks is known all
 * the same. A later process may take a place over, and a stranger may have a number that one of ours had, or one
 * of ours have become another program: while anything of it can be seen, that decides.
 */
enum { FAMILY = 1024 };

static _Atomic(int32_t) alone[FAMILY]; /* where no page can be shared */
static _Atomic(int32_t) *family = alone;

static _Atomic(int32_t) *place_of(int32_t pid)
{
    return &family[(uint32_t)pid % FAMILY];
}

/*
 * Verdicts of the last second, for programs that signal each other all day (PostgreSQL): pid, second, verdict
 * in one word. A pid is not used again so soon.
 */
static _Atomic(uint64_t) verdicts[16];

static void process_path(char path[PATH_BYTES], int32_t pid, const char *name)
{
    struct out out;

    out_init_sigsafe(&out, -1, path, PATH_BYTES);
    out_text_sigsafe(&out, "/proc/");
    out_u64_sigsafe(&out, (uint64_t)pid);
    out_text_sigsafe(&out, name);
    (void)out_finish_text_sigsafe(&out);
}

void sender_after_fork(void)
{
    int32_t pid = sys_getpid();

    store_relaxed(place_of(pid), pid);
}

void sender_init(void)
{
    struct stat file;
    void *page;

    if (sys_map_shared(sizeof alone, &page) == 0)
        family = page;
    sender_after_fork();
    own.has_file = sys_stat("/proc/self/exe", &file) == 0;
    if (own.has_file) {
        own.device = file.st_dev;
        own.file = file.st_ino;
    }
}

/* 1 of our executable, 0 of another, -1: it cannot be seen. */
static __attribute__((noinline)) int compare_files(int32_t pid)
{
    char path[PATH_BYTES];
    struct stat file;

    if (!own.has_file || filter_may_kill_sigsafe())
        return -1;
    process_path(path, pid, "/exe");
    if (sys_stat(path, &file) != 0)
        return -1;
    return file.st_dev == own.device && file.st_ino == own.file;
}

/* Likewise; also of a process that has ended and is not waited for yet. */
static __attribute__((noinline)) int compare_names(int32_t pid)
{
    char path[PATH_BYTES], name[NAME_BYTES], own_name[NAME_BYTES];

    process_path(path, pid, "/comm");
    if (textfile_read_sigsafe(path, name, sizeof name) <= 0 ||
        textfile_read_sigsafe("/proc/self/comm", own_name, sizeof own_name) <= 0)
        return -1;
    return strcmp(name, own_name) == 0;
}

static bool look_at_process(int32_t pid)
{
    int is_same = compare_files(pid);

    if (is_same < 0)
        is_same = compare_names(pid);
    return is_same < 0 ? load_relaxed(place_of(pid)) == pid : is_same == 1;
}

static bool is_same_program(int32_t pid)
{
    _Atomic(uint64_t) *place = &verdicts[(uint32_t)pid % (sizeof verdicts / sizeof verdicts[0])];
    uint64_t second = sys_now_coarse_ns() / NS_PER_S & 0x7fffffff;
    uint64_t known = load_relaxed(place), asked = (uint64_t)(uint32_t)pid << 32 | second << 1;
    bool is_same;

    if ((known & ~(uint64_t)1) == asked)
        return (known & 1) != 0;
    is_same = look_at_process(pid);
    store_relaxed(place, asked | is_same);
    return is_same;
}

/* What the kernel itself sends: by the program's timers and limits, or from a terminal or a power supply. */
static enum sender sender_in_kernel(int number)
{
    switch (number) {
    case SIGALRM:
    case SIGVTALRM:
    case SIGPROF:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGIO:
    case SIGURG:
        return SENDER_PROGRAM;
    default:
        return SENDER_OTHER;
    }
}

enum sender sender_of(const siginfo_t *info)
{
    uint64_t value = (uintptr_t)info->si_value.sival_ptr;

    switch (info->si_code) {
    case SI_QUEUE:
        if ((value & ~(uint64_t)REQUEST_MASK) == REQUEST_MAGIC)
            return SENDER_REQUEST;
        break;
    case SI_USER:
    case SI_TKILL:
        break;
    case SI_KERNEL:
        return sender_in_kernel(info->si_signo);
    default: /* timers, queues, descriptors that the program has set up to send it */
        return SENDER_PROGRAM;
    }
    if (info->si_pid == sys_getpid())
        return SENDER_PROGRAM;
    if (info->si_pid <= 0) /* from outside our pid namespace */
        return SENDER_OTHER;
    return is_same_program(info->si_pid) ? SENDER_PROGRAM : SENDER_OTHER;
}
