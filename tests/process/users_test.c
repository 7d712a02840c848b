/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes of another user: they cannot reach a sender's socket and, if the permissions let them,
 * are refused by the kernel's credentials of the peer, with a reason at both ends. A receiver does
 * not accept them as senders either. If both ends admit others, these get the pictures, but cannot
 * write them. */
#include "background.h"
#include "stream/sender/sender.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/raw.h"
#include "wire/unix/unix.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define OTHER 4242

static struct background background;

static struct sockaddr_un name_of(const char *address)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    WORKS(gpud_socket_resolve(address, name.sun_path, &e));
    return name;
}

/* Turns this process into another user, with that supplementary group. */
static void become(uid_t user, gid_t group)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    test_alarm(60);
    if (setgroups(group ? 1 : 0, &group) < 0 || setresgid(user, user, user) < 0 ||
        setresuid(user, user, user) < 0)
        _exit(255);
    prctl(PR_SET_DUMPABLE, 1); /* or its own /proc/self is closed to it */
}

/* The errno of a connection by another user; 0: it was made, and the peer ended it with a REFUSE.
 */
static int connect_as_nobody(const struct sockaddr_un *name)
{
    pid_t child = fork();
    if (child == 0) {
        struct gpud_message message;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        become(NOBODY, 0);
        if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) < 0)
            _exit(errno);
        if (!raw_receive(fd, &message, 10 * GPUD_SEC) || message.type != GPUD_MESSAGE_REFUSE ||
            !strstr(message.refuse.reason, "set access=group:NAME or access=all on the sender"))
            _exit(254);
        _exit(raw_wait_hangup(fd, 10 * GPUD_SEC) ? 0 : 253);
    }
    int state;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state), "the other user is still heard");
    return WEXITSTATUS(state);
}

static void strangers_at_a_sender(void)
{
    struct sockaddr_un name = name_of(BACKGROUND_ADDRESS);
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
    CHECK(raw_log_says("(65534) may not receive from root (0)", GPUD_SEC) ||
              raw_log_says("user 65534 may not receive from root (0)", 0),
          "it is not logged");
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
        test_alarm(60);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
            bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 || listen(fd, 8) < 0 ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1, "the impostor does not listen");
    struct gpud_frame *frame;
    struct gpud_receiver *receiver = NEW_RECEIVER(background.context, .address = address);
    EXPECT(GPUD_NO_ACCESS, "and this is root (0): set access=group:NAME or access=all here too",
           gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));
    gpud_receiver_destroy(&receiver);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child, "no such child");
    close(ready[0]);
    close(ready[1]);
    unlink(name.sun_path);
    rmdir(folder);
}

/* --- two users -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/gpudirect-two-users-XXXXXX", address[80];
static const char *device = "host"; /* of both ends */

/* Sends forever, as NOBODY. For each text on the socket, which its log must contain soon, it
 * answers with a byte. */
static void sender_main(int control, const char *access)
{
    struct gpud_frame *frame;
    char says[200] = "";
    become(NOBODY, 0);
    struct gpud_context *context = raw_context();
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = address, .device = device, .access = access,
                   .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    struct gpud_layout layout = LAYOUT("GRAY8", 64, 64, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    CHECK(write(control, "r", 1) == 1, "write");
    for (;;) {
        struct pollfd wait = {.fd = control, .events = POLLIN};
        frame = ACQUIRE_SLOT(sender, 10 * GPUD_SEC);
        WORKS(gpud_sender_submit(sender, &frame, 10 * GPUD_SEC, &e));
        if (poll(&wait, 1, 5) != 1)
            continue;
        ssize_t got = read(control, says, sizeof(says) - 1);
        if (got <= 0)
            break;
        says[got] = '\0';
        bool said = raw_log_says(says, 10 * GPUD_SEC);
        if (!said)
            raw_log_print();
        CHECK(write(control, said ? "y" : "n", 1) == 1, "write");
    }
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    _exit(0);
}

static pid_t start_sender(const char *access, int *control)
{
    int ends[2];
    char byte;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        sender_main(ends[1], access);
    }
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1, "no sender with access=%s", access);
    *control = ends[0];
    return child;
}

static void stop_sender(pid_t child, int control)
{
    int state;
    close(control);
    CHECK(waitpid(child, &state, 0) == child && state == 0, "the sender ends with %x", state);
}

struct outcome {
    enum gpud_status status;
    char reason[GPUD_REASON_MAX];
};

/* What the user OTHER, as a member of that group, gets from the sender. */
static struct outcome receive(gid_t group, const char *access)
{
    struct outcome outcome = {.status = GPUD_IO, .reason = "it died"};
    int ends[2], state;
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        become(OTHER, group);
        struct gpud_context *context = raw_context();
        struct gpud_receiver *receiver =
            NEW_RECEIVER(context, .address = address, .device = device, .access = access);
        outcome.status = gpud_receiver_acquire(receiver, 20 * GPUD_SEC, &frame, &error);
        memcpy(outcome.reason, error.reason, sizeof(outcome.reason));
        if (outcome.status == GPUD_OK)
            gpud_frame_release(&frame);
        CHECK(write(ends[1], &outcome, sizeof(outcome)) == sizeof(outcome), "write");
        gpud_receiver_destroy(&receiver);
        gpud_context_destroy(&context);
        _exit(0);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &outcome, sizeof(outcome));
    close(ends[0]);
    CHECK(waitpid(child, &state, 0) == child && state == 0 && got == sizeof(outcome),
          "the receiver ends with %x", state);
    return outcome;
}

static void expect_from(int control, gid_t group, const char *access, enum gpud_status status,
                        const char *says, const char *log)
{
    char byte;
    struct outcome got = receive(group, access);
    CHECK(got.status == status && (status == GPUD_OK || strstr(got.reason, says)),
          "with access=%s and group %u: \"%s\", \"%s\"; \"%s\" was expected", access, group,
          gpud_status_string(got.status), got.reason, says);
    if (!log)
        return;
    CHECK(write(control, log, strlen(log)) > 0 && read(control, &byte, 1) == 1 && byte == 'y',
          "the sender's log does not say \"%s\"", log);
}

/* The socket is open, however its sender made it. */
static void open_socket(void)
{
    CHECK(chmod(address + strlen("unix:"), 0666) == 0, "chmod: %s", strerror(errno));
}

/* Some emulators do not report a peer's groups, and then groups admit no user. */
static bool groups_are_told(void)
{
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        socklen_t size = 0;
        become(OTHER, NOBODY);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
        int asked = getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, NULL, &size);
        _exit(asked < 0 && errno == ERANGE && size == sizeof(gid_t) ? 0 : 1);
    }
    int state;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state), "no answer about groups");
    return WEXITSTATUS(state) == 0;
}

static void two_users(void)
{
    char sender[GPUD_USER_MAX], receiver[GPUD_USER_MAX], text[200], refusal[200];
    int control;
    gpud_user_name(NOBODY, sender);
    gpud_user_name(OTHER, receiver);
    snprintf(refusal, sizeof(refusal), "%s may not receive from %s", receiver, sender);

    pid_t child = start_sender("user", &control);
    snprintf(text, sizeof(text), "belongs to %s and does not let in %s", sender, receiver);
    expect_from(control, 0, "all", GPUD_NO_ACCESS, text, NULL);
    open_socket();
    expect_from(control, 0, "all", GPUD_NO_ACCESS, refusal, refusal);
    stop_sender(child, control);

    child = start_sender("all", &control);
    snprintf(text, sizeof(text),
             "belongs to %s, and this is %s: set access=group:NAME or access=all", sender,
             receiver);
    /* It says goodbye with the same words. */
    expect_from(control, 0, "user", GPUD_NO_ACCESS, text, text);
    snprintf(text, sizeof(text), "belongs to %s, who is not in the group %u, and this is %s",
             sender, OTHER, receiver);
    expect_from(control, 0, "group:4242", GPUD_NO_ACCESS, text, NULL);
    expect_from(control, 0, "group:65534", GPUD_OK, "", "connected by map");
    expect_from(control, 0, "all", GPUD_OK, "", NULL);
    stop_sender(child, control);

    child = start_sender("group:65534", &control);
    snprintf(text, sizeof(text), "belongs to %s and does not let in %s", sender, receiver);
    expect_from(control, 0, "all", GPUD_NO_ACCESS, text, NULL);
    if (groups_are_told())
        expect_from(control, NOBODY, "all", GPUD_OK, "", "connected by map");
    else
        expect_from(control, NOBODY, "all", GPUD_NO_ACCESS, "and the group 65534", NULL);
    open_socket();
    expect_from(control, 0, "all", GPUD_NO_ACCESS, refusal, refusal);
    expect_from(control, 0, "all", GPUD_NO_ACCESS, "and the group 65534", NULL);
    stop_sender(child, control);
}

/* --- the frames of another user --------------------------------------------------------------- */

/* Whether the memory behind a descriptor can be written in any way. */
static bool can_write(int fd, size_t size)
{
    char self[32];
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data != MAP_FAILED || pwrite(fd, "x", 1, 0) == 1)
        return true;
    data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED || mprotect(data, size, PROT_READ | PROT_WRITE) == 0)
        return true;
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    int again = open(self, O_RDWR | O_CLOEXEC);
    return again >= 0 &&
           (mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED ||
            pwrite(again, "x", 1, 0) == 1 || ftruncate(again, 0) == 0);
}

/* Connects, and says HELLO; *message is what comes back. */
static int greet(struct gpud_message *message)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, address + strlen("unix:"));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
        _exit(2);
    raw_hello(message);
    if (!raw_send_message(fd, message) || !raw_receive(fd, message, 10 * GPUD_SEC))
        _exit(3);
    return fd;
}

/* It is sent the ring as every receiver is. */
static int grasp(void)
{
    struct gpud_message message;
    become(OTHER, 0);
    int fd = greet(&message);
    if (message.type != GPUD_MESSAGE_HELLO || !raw_receive(fd, &message, 10 * GPUD_SEC) ||
        message.type != GPUD_MESSAGE_OFFER)
        return 4;
    if (message.offer.ring.memories == 0 || message.offer.ring.handle[0].fd < 0)
        return 5;
    for (uint32_t i = 0; i < message.offer.ring.memories; i++)
        if (can_write(message.offer.ring.handle[i].fd, message.offer.ring.slot_size))
            return 6;
    return 0;
}

static void frames_are_read_only(void)
{
    int control, state;
    pid_t sender = start_sender("all", &control), child = fork();
    if (child == 0)
        _exit(grasp());
    CHECK(waitpid(child, &state, 0) == child && state == 0,
          "another user's grasp at the ring ends with %x", state);
    stop_sender(sender, control);
}

/* Occupies places as another user, and reports how many it got. */
static pid_t hoard(uid_t user, int count, int *got)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        struct gpud_message message;
        become(user, 0);
        for (int i = 0; i < count; i++) {
            greet(&message);
            if (message.type == GPUD_MESSAGE_HELLO)
                ++*got;
            else if (message.type != GPUD_MESSAGE_REFUSE ||
                     (!strstr(message.refuse.reason, "other users have as many connections") &&
                      !strstr(message.refuse.reason, "as one other user can have")))
                _exit(4);
        }
        CHECK(write(ends[1], got, sizeof(*got)) == sizeof(*got), "write");
        for (;;)
            pause();
    }
    close(ends[1]);
    CHECK(read(ends[0], got, sizeof(*got)) == sizeof(*got), "the hoarder died");
    close(ends[0]);
    return child;
}

/* With any number of processes, one user cannot take the places of another, and together they leave
 * some for the sender's own user. */
static void places_of_others(void)
{
    int control, got[5] = {0};
    pid_t sender = start_sender("all", &control), child[5];
    for (int i = 0; i < 5; i++)
        child[i] = hoard(OTHER + (uid_t)i / 2, 7, &got[i]);
    CHECK_EQUAL(got[0] + got[1], GPUD_PLACES_A_USER);
    CHECK_EQUAL(got[2] + got[3], GPUD_PLACES_A_USER);
    CHECK_EQUAL(got[4], GPUD_PLACES_FOREIGN - 2 * GPUD_PLACES_A_USER);
    for (int i = 0; i < 5; i++) {
        kill(child[i], SIGKILL);
        CHECK(waitpid(child[i], NULL, 0) == child[i], "no such child");
    }
    stop_sender(sender, control);
}

/* GPU memory that is mapped can be written, so it is not shared with another user. */
static void by_another_route(void)
{
    int control;
    pid_t sender = start_sender("all", &control);
    expect_from(control, 0, "all", GPUD_OK, "", "and the receiver is another user's");
    stop_sender(sender, control);
}

/* Before threads exist, because children inherit the state of this process. */
static void before_threads(void)
{
    char runtime[80];
    test_alarm(110);
    CHECK(mkdtemp(folder) && chmod(folder, 0777) == 0, "a folder");
    snprintf(address, sizeof(address), "unix:%s/s", folder);
    snprintf(runtime, sizeof(runtime), "%s/gpudirect", folder);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    if (strcmp(device, "host") == 0) {
        SAY("two users");
        two_users();
        SAY("the frames of another user");
        frames_are_read_only();
        SAY("places of other users");
        places_of_others();
    } else {
        SAY("two users on %s", device);
        by_another_route();
    }
    rmdir(runtime);
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"another user's receivers", strangers_at_a_sender},
        {"another user's sender", strangers_that_send},
    };
    if (argc < 3 && geteuid() != 0) {
        SAY("skipped: only root can be another user for a moment");
        return 77;
    }
    if (argc == 2 && strchr(argv[1], ':')) {
        device = argv[1];
        /* Where the build lies in a home that others may not enter, another user could not load the
         * driver in host memory from it. What is loaded already is found by its name. */
        CHECK(strncmp(device, "cuda", 4) != 0 || dlopen("libcuda.so.1", RTLD_NOW), "no driver: %s",
              dlerror());
        before_threads();
        return 0;
    }
    if (argc < 2)
        before_threads();
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
