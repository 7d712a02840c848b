/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes of another user: they cannot reach a sender's socket, and where they can, because
 * somebody opened the way, they are turned away by the kernel's word of who they are. A receiver
 * does not listen to them either. */
#include "../check.h"
#include "raw.h"
#include "steady.h"
#include "wire/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static struct steady steady;

static struct sockaddr_un name_of(const char *address)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    WORKS(gpud_address_resolve(address, name.sun_path, &e));
    return name;
}

/* errno of a connection by another user; 0: it was made, and ended by the other side. */
static int connect_as_nobody(const struct sockaddr_un *name)
{
    pid_t child = fork();
    if (child == 0) {
        char byte;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(255);
        if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) < 0)
            _exit(errno);
        alarm(10); /* and not a word is heard */
        _exit(recv(fd, &byte, 1, 0) <= 0 ? 0 : 254);
    }
    int state;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state), "the other user is still heard");
    return WEXITSTATUS(state);
}

static void strangers_at_a_sender(void)
{
    struct sockaddr_un name = name_of(STEADY_ADDRESS);
    CHECK_EQUAL(connect_as_nobody(&name), EACCES);
    /* Its folder is open: the socket itself is not. */
    char folder[sizeof(name.sun_path)];
    snprintf(folder, sizeof(folder), "%s", name.sun_path);
    *strrchr(folder, '/') = '\0';
    CHECK(chmod(folder, 0755) == 0 && chmod(getenv("XDG_RUNTIME_DIR"), 0755) == 0, "chmod");
    CHECK_EQUAL(connect_as_nobody(&name), EACCES);
    /* So is the socket. */
    CHECK(chmod(name.sun_path, 0666) == 0, "chmod");
    raw_log_clear();
    CHECK_EQUAL(connect_as_nobody(&name), 0);
    CHECK(raw_log_says("belongs to user 65534, not 0: turned away", GPUD_SEC), "nobody said so");
    CHECK(chmod(name.sun_path, 0600) == 0 && chmod(folder, 0700) == 0, "chmod");
    raw_log_clear();
}

/* An impostor listens where a sender is expected. */
static void strangers_that_send(void)
{
    int ready[2];
    char byte, folder[] = "/tmp/gpudirect-users-XXXXXX", address[64];
    CHECK(mkdtemp(folder) && chmod(folder, 0777) == 0 && pipe2(ready, O_CLOEXEC) == 0, "a folder");
    snprintf(address, sizeof(address), "unix:%s/impostor", folder);
    struct sockaddr_un name = name_of(address);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
            bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 || listen(fd, 8) < 0 ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1, "the impostor does not listen");
    struct gpud_receiver *receiver;
    struct gpud_frame *frame;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = address;
    WORKS(gpud_receiver_create(steady.context, &params, &receiver, &e));
    EXPECT(GPUD_NO_ACCESS, "belongs to user 65534",
           gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));
    gpud_receiver_destroy(&receiver);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child, "no such child");
    close(ready[0]);
    close(ready[1]);
    unlink(name.sun_path);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    static const struct steady_test tests[] = {
        {"another user's receivers", strangers_at_a_sender},
        {"another user's sender", strangers_that_send},
    };
    if (argc < 3 && geteuid() != 0) {
        SAY("skipped: only root can be another user for a moment");
        return 77;
    }
    return steady_main(&steady, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
