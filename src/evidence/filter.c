/* SPDX-License-Identifier: MIT */
/* filter: see filter.h. Format: proc_pid_status(5), "Seccomp:\t2" under a filter. */
#include "evidence/filter.h"

#include "base/base.h"
#include "evidence/textfile.h"

bool filter_may_kill_sigsafe(void)
{
    static _Atomic(bool) is_filtered;
    char mode[16];
    int found;

    if (load_relaxed(&is_filtered))
        return true;
    found = textfile_find_sigsafe("/proc/thread-self/status", "Seccomp:\t", mode, sizeof mode);
    if (found < 0)
        return true;
    if (found == 0 || mode[0] == '0') /* a kernel without seccomp has no such line */
        return false;
    store_relaxed(&is_filtered, true);
    return true;
}
