/* SPDX-License-Identifier: MIT */
/* textfile: see textfile.h. */
#include "evidence/textfile.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/sys.h"

long textfile_read_sigsafe(const char *path, char *text, size_t size)
{
    int fd = sys_open(path, O_RDONLY, 0);
    ssize_t length = fd < 0 ? fd : sys_read(fd, text, size - 1);

    if (fd >= 0)
        (void)sys_close(fd);
    if (length > 0 && text[length - 1] == '\n')
        length--;
    text[length > 0 ? length : 0] = '\0';
    return length;
}

struct search {
    const char *key;
    size_t matched; /* bytes of the key, since the line began; more than it has: this line is another */
    char *value;
    size_t used, size;
};

/* True when the line is found and whole. */
static bool take_byte(struct search *search, char byte)
{
    size_t length = strlen(search->key);

    if (byte == '\n') {
        if (search->matched == length)
            return true;
        search->matched = 0;
    } else if (search->matched == length) {
        if (search->used + 1 < search->size)
            search->value[search->used++] = byte;
    } else if (search->matched < length && byte == search->key[search->matched]) {
        search->matched++;
    } else {
        search->matched = length + 1;
    }
    return false;
}

int textfile_find_sigsafe(const char *path, const char *key, char *value, size_t size)
{
    struct search search = {.key = key, .value = value, .size = size};
    int fd = sys_open(path, O_RDONLY, 0);
    bool is_found = false;
    char part[256];
    ssize_t got;

    if (fd < 0)
        return fd;
    while (!is_found && (got = sys_read(fd, part, sizeof part)) > 0)
        for (ssize_t at = 0; at < got && !is_found; at++)
            is_found = take_byte(&search, part[at]);
    (void)sys_close(fd);
    value[search.used] = '\0';
    return is_found;
}
