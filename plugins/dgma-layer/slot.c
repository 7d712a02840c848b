/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Detects dead owners. Each user has an empty file for locks, /dev/shm/gpudirect-dgma-UID: the
 * process that owns slot N holds a read lock on byte N; a process that removes a dead owner's files
 * holds a write lock meanwhile. A process needs one descriptor for any number of buffers.
 *
 * These are POSIX record locks because they belong to the process: a forked helper has the
 * descriptor but not the lock, so the owner's death shows at once, also after SIGKILL, and across
 * containers that share /dev/shm, where pids are meaningless. flock and OFD locks belong to the
 * open file, and would persist in the helper. But with record locks, any close of that file by the
 * process drops all its locks. So it is opened only here, once, and never closed; and it is never
 * removed, because a lock on a removed file has no effect. */

#include "slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "next.h"

static int lock_fd = -1;

/* Retried after a failure, which may have been a temporary lack of descriptors. */
bool dgma_slot_ready(void)
{
    if (lock_fd >= 0)
        return true;
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/gpudirect-dgma-%u", (unsigned)geteuid());
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        dgma_log("no bus addresses without the file %s for their locks: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        dgma_log("no bus addresses: %s is not a file of this user alone; remove it", path);
        errno = EPERM;
    } else {
        lock_fd = fd;
        return true;
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return false;
}

static bool set_lock(uint32_t slot, short type)
{
    if (!dgma_slot_ready())
        return false;
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(lock_fd, F_SETLK, &lock) == 0;
}

bool dgma_slot_own(uint32_t slot)
{
    return set_lock(slot, F_RDLCK);
}

bool dgma_slot_claim_dead(uint32_t slot)
{
    return set_lock(slot, F_WRLCK);
}

void dgma_slot_give(uint32_t slot)
{
    set_lock(slot, F_UNLCK);
}

bool dgma_slot_is_owned(uint32_t slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return dgma_slot_ready() && fcntl(lock_fd, F_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
}
