/* SPDX-License-Identifier: MIT */
/* tool: the tool's small functions, where a known answer says more than a run of the tool. */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/kit/util.h"
#include "cli/system/procfs.h"

static void ok(bool is_good, const char *sentence)
{
    ck_assert_msg(is_good, "not so: %s", sentence);
}

static void same(const char *got, const char *wanted, const char *sentence)
{
    ck_assert_msg(strcmp(got, wanted) == 0, "%s: got '%s', wanted '%s'", sentence, got, wanted);
}

START_TEST(bytes_are_shown_in_units)
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
END_TEST

START_TEST(sizes_are_shown_whole)
{
    char text[UTIL_TEXT_MAX];
    same(format_size(text, 0), "0 B", "no size");
    same(format_size(text, 1025), "1025 B", "a size that is no whole KiB stays in bytes");
    same(format_size(text, 65536), "64 KiB", "a block size in KiB");
    same(format_size(text, 4 << 20), "4 MiB", "a block size in MiB");
    same(format_size(text, UINT64_C(1) << 63), "8 EiB", "the largest power of two");
}
END_TEST

START_TEST(times_are_shown_in_units)
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
END_TEST

static void printable(const char *text, const char *wanted, const char *sentence)
{
    CLEANUP_FREE char *got = text_printable(text);
    same(got, wanted, sentence);
}

START_TEST(text_of_others_is_made_harmless)
{
    printable("a b~", "a b~", "plain text stays");
    printable("\x1b[2J\t\x7f", "\\x1b[2J\\x09\\x7f", "control characters become numbers");
    printable("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "UTF-8 stays");
    printable("\xc2\x9b", "\\xc2\\x9b", "so do controls in UTF-8");
    printable("\xff\xc3", "\\xff\\xc3", "bytes that are no UTF-8 become numbers");
    printable("\xe2\x82", "\\xe2\\x82", "a character that is cut becomes numbers");
    printable("\xe0\x80\x9b\xc0\x9b", "\\xe0\\x80\\x9b\\xc0\\x9b",
              "characters in too long a form become numbers");
    printable("\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80",
              "halves of characters, and numbers beyond the last one, too");
    printable("\x07\x08\r\n\x1b]0;x\x07\x9b"
              "31m",
              "\\x07\\x08\\x0d\\x0a\\x1b]0;x\\x07\\x9b31m",
              "bells, backspaces, ends of lines, and the 8-bit form of ESC [");
    printable("\xe2\x80\xae"
              "txt.exe\xe2\x80\xac\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xef\xbb\xbf\xf3\xa0\x81\x81",
              "?txt.exe??????", "what turns a text around, or marks it unseen");
    printable("\xe2\x80\xa8\xe2\x80\xa9", "??", "the ends of line and paragraph of Unicode");
    printable("\xe2\x80\x8d\xd7\xa9\xe4\xb8\xad", "\xe2\x80\x8d\xd7\xa9\xe4\xb8\xad", "other scripts stay");
    printable("", "", "no text");
    CLEANUP_FREE char *once = text_printable("\x1b\xff\xe2\x80\xae");
    printable(once, once, "a second time it changes nothing");
    ok(text_is_utf8("a\x1b\xe2\x82\xac\xe2\x80\xae") && text_is_utf8(""), "UTF-8 is known, controls and all");
    ok(!text_is_utf8("\xe2\x82") && !text_is_utf8("\x9b") && !text_is_utf8("\xed\xa0\x80"),
       "and what is not");
}
END_TEST

/* Opens `path`, which has to be refused with `wanted`. */
static void refused(const char *path, uint64_t bytes_max, const char *wanted, const char *sentence)
{
    char *reason;
    const int fd = open_regular_file(path, bytes_max, &reason);
    ok(fd < 0 && reason, sentence);
    same(reason ? reason : "", wanted, "and why is said");
    free(reason);
}

START_TEST(only_files_are_opened)
{
    char directory[] = "/tmp/pinpool-units.XXXXXX", path[64], other[64];
    char *reason;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ok(mkdtemp(directory), "a directory to try it in");
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(other, sizeof other, "%s/link", directory);

    refused(path, 100, "No such file or directory", "no file");
    refused("", 100, "No such file or directory", "no name");
    refused(directory, 100, "Is a directory", "a directory");
    refused("/dev/zero", 100, "Is a device", "a device");
    ok(mkfifo(path, 0600) == 0 && symlink(path, other) == 0, "a FIFO and a link to it");
    refused(path, 100, "Is a FIFO", "a FIFO that nobody writes to");
    refused(other, 100, "Is a FIFO", "and by its link");
    unlink(path);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ok(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "a socket");
    refused(path, 100, "Is a socket", "it is refused");
    close(listener);
    unlink(path);

    const int made = open(path, O_WRONLY | O_CREAT, 0600);
    ok(made >= 0 && ftruncate(made, 4096) == 0, "a file of 4 KiB");
    const int fd = open_regular_file(other, 4096, &reason);
    ok(fd >= 0 && !reason, "is opened, by its link too, where 4 KiB are allowed");
    refused(path, 4095, "Is larger than 4095 B", "and refused where less are");
    FILE *stream = open_regular_stream(path, UINT64_MAX, &reason);
    ok(stream && !reason && fgetc(stream) == 0, "a stream reads it");
    if (stream)
        fclose(stream);
    if (ftruncate(made, (off_t)1 << 40) == 0)
        refused(path, 64 << 20, "Is larger than 64 MiB",
                "a file with a hole of 1 TiB is refused by its size");
    util_close(&fd);
    util_close(&made);
    unlink(path);
    unlink(other);
    rmdir(directory);
}
END_TEST

START_TEST(arrays_grow)
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
END_TEST

START_TEST(seconds_are_parsed_to_ns)
{
    uint64_t ns = 0;
    ok(parse_seconds("0.25", &ns) && ns == 250000000, "a quarter of a second");
    ok(parse_seconds(".5", &ns) && ns == 500000000, "half a second");
    ok(parse_seconds("3e1", &ns) && ns == UINT64_C(30000000000), "thirty seconds");
    ok(!parse_seconds("1e-12", &ns), "less than a ns is none");
    ok(!parse_seconds(" 1", &ns), "a space before it is not accepted");
}
END_TEST

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

START_TEST(own_maps_are_read)
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
    search = (struct search){.address = (uintptr_t)find_address};
    ok(procfs_visit_maps(getpid(), find_address, &search) == 0 && search.found && search.executable,
       "code is executable");
    close(fd);
}
END_TEST

static void ignore(int signal)
{
    (void)signal;
}

START_TEST(own_status_is_read)
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
END_TEST

START_TEST(environments_are_searched)
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
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tool");

    tcase_add_test(tests, bytes_are_shown_in_units);
    tcase_add_test(tests, sizes_are_shown_whole);
    tcase_add_test(tests, times_are_shown_in_units);
    tcase_add_test(tests, text_of_others_is_made_harmless);
    tcase_add_test(tests, only_files_are_opened);
    tcase_add_test(tests, arrays_grow);
    tcase_add_test(tests, seconds_are_parsed_to_ns);
    tcase_add_test(tests, own_maps_are_read);
    tcase_add_test(tests, own_status_is_read);
    tcase_add_test(tests, environments_are_searched);
    return run_unit_tests("tool", tests);
}
