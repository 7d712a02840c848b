/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When frames were submitted, in memory that the sender shares with its receivers: for frames that
 * a GPU marks, which cannot carry the time, and for elements, which do not report it. */
#include "bench.h"

#include <sys/mman.h>
#include <unistd.h>

#define SIZE (BENCH_SUBMIT_TIMES * sizeof(int64_t))

int bench_submit_times_create(void)
{
    int fd = memfd_create("gpudirect-bench", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, SIZE) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int64_t *bench_submit_times_map(const struct bench_job *job, bool writable)
{
    if (job->page < 0)
        return NULL;
    void *page =
        mmap(NULL, SIZE, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, job->page, 0);
    return page == MAP_FAILED ? NULL : page;
}
