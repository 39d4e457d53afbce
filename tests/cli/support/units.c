/* SPDX-License-Identifier: MIT */
/* units: the tool's small functions, where a known answer says more than a run of the tool. Writes TAP. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/procfs.h"
#include "cli/util.h"

static int count, failures;

static void ok(bool is_good, const char *sentence)
{
    count++;
    failures += !is_good;
    printf("%sok %d - %s\n", is_good ? "" : "not ", count, sentence);
}

static void same(const char *got, const char *wanted, const char *sentence)
{
    ok(strcmp(got, wanted) == 0, sentence);
    if (strcmp(got, wanted) != 0)
        printf("# got '%s', wanted '%s'\n", got, wanted);
}

static void bytes_are_shown_in_units(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1, "1 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"},
                 {1048524, "1023.9 KiB"}, /* the last that stays below 1024.0 */
                 {1048525, "1.0 MiB"},
                 {54945382, "52.4 MiB"},
                 {UINT64_C(1) << 40, "1.0 TiB"},
                 {UINT64_MAX, "16.0 EiB"}};
    char text[UTIL_TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        same(format_bytes(text, cases[i].bytes), cases[i].text, "an amount of bytes is shown in its unit");
}

static void sizes_are_shown_whole(void)
{
    char text[UTIL_TEXT_MAX];
    same(format_size(text, 0), "0 B", "no size");
    same(format_size(text, 1025), "1025 B", "a size that is no whole KiB stays in bytes");
    same(format_size(text, 65536), "64 KiB", "a block size in KiB");
    same(format_size(text, 4 << 20), "4 MiB", "a block size in MiB");
    same(format_size(text, UINT64_C(1) << 63), "8 EiB", "the largest power of two");
}

static void times_are_shown_in_units(void)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {{0, "0 ms"},
                 {999, "999 ms"},
                 {1000, "1 s"},
                 {1050, "1.0 s"},
                 {59999, "59.9 s"},
                 {60000, "1 min 00 s"},
                 {3599999, "59 min 59 s"},
                 {3600000, "1 h 00 min"},
                 {172799999, "47 h 59 min"},
                 {172800000, "2 d 00 h"}};
    char text[UTIL_TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        same(format_ms(text, cases[i].ms), cases[i].text, "a time is shown in its units");
}

static void printable(const char *text, const char *wanted, const char *sentence)
{
    CLEANUP_FREE char *got = text_printable(text);
    same(got, wanted, sentence);
}

static void text_of_others_is_made_harmless(void)
{
    printable("a b~", "a b~", "plain text stays");
    printable("\x1b[2J\t\x7f", "\\x1b[2J\\x09\\x7f", "control characters become numbers");
    printable("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "UTF-8 stays");
    printable("\xc2\x9b", "\\xc2\\x9b", "so do controls in UTF-8");
    printable("\xff\xc3", "\\xff\\xc3", "bytes that are no UTF-8 become numbers");
    printable("\xe2\x82", "\\xe2\\x82", "a character that is cut becomes numbers");
    printable("\xe0\x80\x9b\xc0\x9b", "\\xe0\\x80\\x9b\\xc0\\x9b",
              "characters in too long a form become numbers");
}

static void arrays_grow(void)
{
    uint32_t *items = NULL;
    bool all_there = true;
    for (size_t i = 0; i < 1000; i++) {
        items = must_grow(items, i, sizeof *items);
        items[i] = (uint32_t)i;
    }
    for (size_t i = 0; i < 1000; i++)
        all_there = all_there && items[i] == i;
    free(items);
    ok(all_there, "an array that grows keeps its items");
}

static void seconds_are_parsed_to_ns(void)
{
    uint64_t ns = 0;
    ok(parse_seconds("0.25", &ns) && ns == 250000000, "a quarter of a second");
    ok(parse_seconds(".5", &ns) && ns == 500000000, "half a second");
    ok(parse_seconds("3e1", &ns) && ns == UINT64_C(30000000000), "thirty seconds");
    ok(!parse_seconds("1e-12", &ns), "less than a ns is none");
    ok(!parse_seconds(" 1", &ns), "a space before it is not accepted");
}

struct search {
    uint64_t address;
    bool found, executable;
    char path[256];
    uint64_t size;
};

static void find_address(const struct procfs_map *map, void *context)
{
    struct search *search = context;
    if (search->address < map->start || search->address >= map->end)
        return;
    search->found = true;
    search->executable = map->executable;
    search->size = map->end - map->start;
    snprintf(search->path, sizeof search->path, "%s%s", map->path, map->deleted ? "|deleted" : "");
}

static void own_maps_are_read(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int fd = memfd_create("a b\nc (deleted)", MFD_CLOEXEC);
    void *map = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)page) == 0)
        map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    struct search search = {.address = (uintptr_t)map};
    ok(map != MAP_FAILED && procfs_visit_maps(getpid(), find_address, &search) == 0 && search.found,
       "a mapping of our own is found");
    ok(search.size == page && !search.executable, "with its size and protection");
    same(search.path, "/memfd:a b\nc (deleted)|deleted",
         "and a name with a space, a newline and \"(deleted)\"");
    search = (struct search){.address = (uintptr_t)own_maps_are_read};
    ok(procfs_visit_maps(getpid(), find_address, &search) == 0 && search.found && search.executable,
       "code is executable");
    close(fd);
}

static void ignore(int signal)
{
    (void)signal;
}

static void own_status_is_read(void)
{
    struct procfs_status status;
    sigset_t set;
    signal(SIGUSR1, ignore);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX);
    sigprocmask(SIG_BLOCK, &set, NULL);
    ok(procfs_read_status(getpid(), &status) == 0 && status.tgid == getpid() && status.own_pid == getpid(),
       "our process id");
    ok(strchr("RS", status.state) != NULL, "our state");
    ok(procfs_has_signal(status.caught, SIGUSR1) && !procfs_has_signal(status.caught, SIGUSR2),
       "what we catch");
    ok(procfs_has_signal(status.ignored, SIGUSR2) && !procfs_has_signal(status.ignored, SIGUSR1),
       "what we ignore");
    ok(procfs_has_signal(status.blocked, SIGRTMAX) && !procfs_has_signal(status.blocked, SIGUSR1),
       "what we block");
    unsigned threads = 0, blocking = 0;
    ok(procfs_count_blocking(getpid(), SIGRTMAX, &threads, &blocking) == 0 && threads == 1 && blocking == 1,
       "how many of our threads block it");
}

static void environments_are_searched(void)
{
    char text[] = "AB=1\0A=2\0NAME\0EMPTY=\0";
    const struct procfs_environ environment = {text, sizeof text - 1};
    const char *a = procfs_find_variable(&environment, "A");
    const char *empty = procfs_find_variable(&environment, "EMPTY");
    ok(a && strcmp(a, "2") == 0, "a name is not taken for the longer one before it");
    ok(empty && *empty == '\0', "a value may be empty");
    ok(!procfs_find_variable(&environment, "NAME"), "an entry without = is none");
    ok(!procfs_find_variable(&environment, "B"), "a name that is not there is not found");
}

int main(void)
{
    bytes_are_shown_in_units();
    sizes_are_shown_whole();
    times_are_shown_in_units();
    text_of_others_is_made_harmless();
    arrays_grow();
    seconds_are_parsed_to_ns();
    own_maps_are_read();
    own_status_is_read();
    environments_are_searched();
    printf("1..%d\n", count);
    return failures != 0;
}
