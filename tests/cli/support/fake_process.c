/* SPDX-License-Identifier: MIT */
/*
 * fake_process: looks to the tool like a process with pinpool in it, or like one that nearly is, without the
 * library. It prints "ready" and its process id and waits; an alarm ends it if nobody else does.
 *
 *   lib=FILE      maps FILE as code             data=FILE    maps FILE as data
 *   page=TEXT     maps a memfd named pinpool:TEXT, with zeros in it
 *   rename=1      overwrites its environment, as programs do that set their title
 *   zombie=1      has a child that has ended, prints that one's process id, and waits
 *   catch=N       writes a dump on signal N     ignore=N     ignores signal N
 *   block=N       blocks signal N, in two threads
 *   dir=DIR       where dumps go                write=whole|cut|twice|none|exit   what the handler does
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char *dir = "/tmp";
static const char *what = "whole";
static char path[4096];

static const char begin[] = "{\"type\":\"dump\",\"format\":1,\"pid\":1,\"seq\":1,\"time_unix_ns\":1}\n";
static const char end[] = "{\"type\":\"end\",\"records\":1}\n";

static void fail(const char *name)
{
    perror(name);
    exit(1);
}

static void put(const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(3);
    close(fd);
}

static void write_dump(int signal)
{
    (void)signal;
    if (strcmp(what, "exit") == 0)
        _exit(0);
    if (strcmp(what, "none") == 0)
        return;
    put(begin);
    if (strcmp(what, "twice") == 0) { /* slowly, so that the tool sees it half done */
        struct timespec pause = {0, 200000000};
        nanosleep(&pause, NULL);
    }
    if (strcmp(what, "cut") != 0)
        put(end);
}

static void map_file(const char *name, int protection)
{
    const int fd = open(name, O_RDONLY);
    if (fd < 0 ||
        mmap(NULL, 4096, protection, protection & PROT_EXEC ? MAP_PRIVATE : MAP_SHARED, fd, 0) == MAP_FAILED)
        fail(name);
    close(fd);
}

static void map_page(const char *text)
{
    char name[256];
    snprintf(name, sizeof name, "pinpool:%s", text);
    const int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        fail(name);
    close(fd);
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void block(int signal)
{
    sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        fail("thread");
}

static void overwrite_environment(void)
{
    for (char **variable = environ; *variable; variable++)
        memset(*variable, 'x', strlen(*variable));
}

/* A child that has ended and is never waited for. */
static void make_zombie(void)
{
    siginfo_t info;
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child < 0 || waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0)
        fail("zombie");
    printf("ready %d\n", (int)child);
    fflush(stdout);
    wait_for_ever(NULL);
}

static void obey(char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        fail(word);
    *value++ = '\0';
    if (strcmp(word, "lib") == 0)
        map_file(value, PROT_READ | PROT_EXEC);
    else if (strcmp(word, "data") == 0)
        map_file(value, PROT_READ);
    else if (strcmp(word, "page") == 0)
        map_page(value);
    else if (strcmp(word, "catch") == 0)
        signal(atoi(value), write_dump);
    else if (strcmp(word, "ignore") == 0)
        signal(atoi(value), SIG_IGN);
    else if (strcmp(word, "block") == 0)
        block(atoi(value));
    else if (strcmp(word, "dir") == 0)
        dir = value;
    else if (strcmp(word, "write") == 0)
        what = value;
    else if (strcmp(word, "zombie") == 0)
        make_zombie();
    else if (strcmp(word, "rename") == 0)
        overwrite_environment();
    else
        fail(word);
}

int main(int argc, char **argv)
{
    alarm(60);
    for (int i = 1; i < argc; i++)
        obey(argv[i]);
    snprintf(path, sizeof path, "%s/pinpool.%d.7.jsonl", dir, (int)getpid());
    /* With the id that the outermost pid namespace has for it, where /proc is that one's. */
    char self[32] = "";
    if (readlink("/proc/self", self, sizeof self - 1) < 0)
        snprintf(self, sizeof self, "%d", (int)getpid());
    printf("ready %s\n", self);
    fflush(stdout);
    wait_for_ever(NULL);
}
