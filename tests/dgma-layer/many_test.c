/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Thousands of small buffers in a process that may have few descriptors, all open in a second one.
 */

#include "common.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

static void whole(ssize_t (*transfer)(int, void *, size_t), int fd)
{
    char *at = (char *)addresses;
    for (size_t left = sizeof addresses; left > 0;) {
        ssize_t n = transfer(fd, at, left);
        CHECK(n > 0);
        at += n;
        left -= (size_t)n;
    }
}

static ssize_t give(int fd, void *from, size_t size)
{
    return write(fd, from, size);
}

/* Opens all, then writes its number into each and signals. */
static void child_writes(void)
{
    AUTO(close_cl) struct cl cl = open_cl(120);
    limit_descriptors();
    whole(read, STDIN_FILENO);
    for (cl_uint i = 0; i < BUFFERS; i++)
        mems[i] = new_external(&cl, PAGE, &addresses[i]);
    for (cl_uint i = 0; i < BUFFERS; i++) {
        CHECK_CL(CL_SUCCESS,
                 clEnqueueFillBuffer(cl.queue, mems[i], &i, sizeof i, 0, PAGE, 0, NULL, NULL));
        CHECK_CL(CL_SUCCESS, cl.write_signal(cl.queue, mems[i], i + 1, 0, 0, NULL, NULL));
    }
    CHECK_CL(CL_SUCCESS, clFinish(cl.queue));
    for (cl_uint i = 0; i < BUFFERS; i++)
        CHECK_CL(CL_SUCCESS, clReleaseMemObject(mems[i]));
}

static void start_writer(void)
{
    int to[2];
    CHECK(pipe(to) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        close(to[0]);
        close(to[1]);
        execl("/proc/self/exe", "many", "writes", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    whole(give, to[1]);
    close(to[1]);
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
    CHECK_CL(CL_SUCCESS,
             cl.make_resident(cl.queue, BUFFERS, mems, CL_TRUE, addresses, 0, NULL, NULL));
    start_writer();
    for (cl_uint i = 0; i < BUFFERS; i++) {
        cl_uint words[PAGE / sizeof(cl_uint)];
        CHECK_CL(CL_SUCCESS, cl.wait_signal(cl.queue, mems[i], i + 1, 0, NULL, NULL));
        CHECK_CL(CL_SUCCESS, clEnqueueReadBuffer(cl.queue, mems[i], CL_TRUE, 0, sizeof words, words,
                                                 0, NULL, NULL));
        CHECK(words[0] == i && words[PAGE / sizeof(cl_uint) - 1] == i);
    }
    int status;
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (cl_uint i = 0; i < BUFFERS; i++)
        CHECK_CL(CL_SUCCESS, clReleaseMemObject(mems[i]));
    for (cl_uint i = 0; i < BUFFERS; i += 97)
        wait_until_gone(&addresses[i]);
    return 0;
}
