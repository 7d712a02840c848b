/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Thousands of small buffers in a process that may have few descriptors, all open in a second one.
 */

#include "common.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BUFFERS = 3000, DESCRIPTORS = 64 };

static struct bus_address addresses[BUFFERS];
static cl_mem mems[BUFFERS];

static void limit_descriptors(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = DESCRIPTORS;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Opens all, then writes its number into each and signals. */
static void child_writes(void)
{
    AUTO(close_cl) struct cl cl = open_cl(120);
    limit_descriptors();
    take(STDIN_FILENO, addresses, sizeof addresses);
    for (cl_uint i = 0; i < BUFFERS; i++)
        mems[i] = new_external(&cl, PAGE, &addresses[i]);
    for (cl_uint i = 0; i < BUFFERS; i++) {
        OK(clEnqueueFillBuffer(cl.queue, mems[i], &i, sizeof i, 0, PAGE, 0, NULL, NULL));
        OK(cl.write_signal(cl.queue, mems[i], i + 1, 0, 0, NULL, NULL));
    }
    OK(clFinish(cl.queue));
    for (cl_uint i = 0; i < BUFFERS; i++)
        OK(clReleaseMemObject(mems[i]));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "writes") == 0) {
        child_writes();
        return 0;
    }
    AUTO(close_cl) struct cl cl = open_cl(120);
    limit_descriptors();
    for (cl_uint i = 0; i < BUFFERS; i++) {
        cl_int status;
        mems[i] = clCreateBuffer(cl.context, BUS_ADDRESSABLE, PAGE, NULL, &status);
        if (!mems[i])
            FAIL("buffer %u of %d: %d", i, BUFFERS, status);
    }
    OK(cl.make_resident(cl.queue, BUFFERS, mems, CL_TRUE, addresses, 0, NULL, NULL));
    struct child writer = start("writes");
    give(writer.to, addresses, sizeof addresses);
    for (cl_uint i = 0; i < BUFFERS; i++) {
        cl_uint words[PAGE / sizeof(cl_uint)];
        OK(cl.wait_signal(cl.queue, mems[i], i + 1, 0, NULL, NULL));
        read_back(cl.queue, mems[i], sizeof words, words);
        CHECK(words[0] == i && words[PAGE / sizeof(cl_uint) - 1] == i);
    }
    join(&writer);
    for (cl_uint i = 0; i < BUFFERS; i++)
        OK(clReleaseMemObject(mems[i]));
    for (cl_uint i = 0; i < BUFFERS; i += 97)
        wait_until_gone(&addresses[i]);
    return 0;
}
