/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Processes of another user: they cannot reach a sender's socket and, if the permissions let them,
 * are refused by the kernel's credentials of the peer, with a reason at both ends. A receiver does
 * not accept them as senders either. If both ends admit others, these get the pictures, but cannot
 * write them. */
#include "actor.h"
#include "stream/sender/sender.h"
#include "wire/unix/unix.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define NOBODY 65534
#define OTHER 4242

static struct background background;

static struct sockaddr_un name_of(const char *address)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    WORKS(gpud_socket_resolve(address, name.sun_path, &e));
    return name;
}

/* As any other user does. */
static void knock(const void *address)
{
    struct gpud_message message;
    become(NOBODY, 0);
    int fd = raw_dial(address);
    if (fd < 0) {
        say("errno %d", errno);
        return;
    }
    CHECK(raw_receive(fd, &message, 10 * GPUD_SEC) && message.type == GPUD_MESSAGE_REFUSE &&
              strstr(message.refuse.reason, "set access=group:NAME or access=all on the sender"),
          "another user is not refused");
    CHECK(raw_wait_hangup(fd, 10 * GPUD_SEC), "the other user is still heard");
    say("refused");
}

static void expect_at_the_door(const char *path, const char *what)
{
    char at[120];
    struct actor nobody;
    snprintf(at, sizeof(at), "unix:%s", path);
    actor_fork(&nobody, knock, at);
    actor_await(&nobody, what);
    actor_finish(&nobody);
}

static void strangers_at_a_sender(void)
{
    struct sockaddr_un name = name_of(BACKGROUND_ADDRESS);
    char denied[20];
    snprintf(denied, sizeof(denied), "errno %d", EACCES);
    expect_at_the_door(name.sun_path, denied);
    /* Its folder is open: the socket itself is not. */
    char folder[sizeof(name.sun_path)];
    snprintf(folder, sizeof(folder), "%s", name.sun_path);
    *strrchr(folder, '/') = '\0';
    CHECK(chmod(folder, 0755) == 0 && chmod(getenv("XDG_RUNTIME_DIR"), 0755) == 0, "chmod");
    expect_at_the_door(name.sun_path, denied);
    /* So is the socket. */
    CHECK(chmod(name.sun_path, 0666) == 0, "chmod");
    raw_log_clear();
    expect_at_the_door(name.sun_path, "refused");
    CHECK(raw_log_says("(65534) may not receive from root (0)", GPUD_SEC) ||
              raw_log_says("user 65534 may not receive from root (0)", 0),
          "it is not logged");
    CHECK(chmod(name.sun_path, 0600) == 0 && chmod(folder, 0700) == 0, "chmod");
}

static void listen_as_nobody(const void *part)
{
    const struct sockaddr_un *name = part;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0 &&
              bind(fd, (const struct sockaddr *)name, sizeof(*name)) == 0 && listen(fd, 8) == 0,
          "the impostor does not listen: %s", strerror(errno));
    say("ready");
    stay();
}

/* An impostor listens where a sender is expected. */
static void strangers_that_send(void)
{
    char folder[] = "/tmp/gpudirect-users-XXXXXX", address[64];
    struct actor impostor;
    CHECK(mkdtemp(folder) && chmod(folder, 0777) == 0, "a folder");
    snprintf(address, sizeof(address), "unix:%s/impostor", folder);
    struct sockaddr_un name = name_of(address);
    actor_fork(&impostor, listen_as_nobody, &name);
    actor_await(&impostor, "ready");
    struct gpud_frame *frame;
    struct gpud_receiver *receiver = NEW_RECEIVER(background.context, .address = address);
    EXPECT(GPUD_NO_ACCESS, "and this is root (0): set access=group:NAME or access=all here too",
           gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));
    gpud_receiver_destroy(&receiver);
    actor_kill(&impostor);
    unlink(name.sun_path);
    rmdir(folder);
}

/* --- two users -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/gpudirect-two-users-XXXXXX", address[80];
static const char *device = "host"; /* of both ends */

/* Sends as NOBODY. For each line, which its log must contain soon, it says whether it does. */
static void send_as_nobody(const void *access)
{
    become(NOBODY, 0);
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = address, .device = device, .access = access,
                   .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    CONFIGURE(sender, "GRAY8", 64, 64);
    say("ready");
    for (const char *says = ""; says;) {
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, 10 * GPUD_SEC);
        WORKS(gpud_sender_submit(sender, &frame, 10 * GPUD_SEC, &e));
        if (!is_told(5 * GPUD_MSEC) || !(says = hear()))
            continue;
        bool said = raw_log_says(says, 10 * GPUD_SEC);
        if (!said)
            raw_log_print();
        say(said ? "logged" : "not logged");
    }
    gpud_sender_destroy(&sender);
}

static struct actor start_sender(const char *access)
{
    struct actor sender;
    actor_fork(&sender, send_as_nobody, access);
    actor_await(&sender, "ready");
    return sender;
}

struct receiving {
    gid_t group;
    const char *access;
};

/* What the user OTHER, as a member of that group, gets from the sender. */
static void receive_as_other(const void *part)
{
    const struct receiving *receiving = part;
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    become(OTHER, receiving->group);
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = address, .device = device, .access = receiving->access);
    enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_SEC, &frame, &error);
    if (status == GPUD_OK)
        gpud_frame_release(&frame);
    say("%s: %s", gpud_status_string(status), error.reason);
    gpud_receiver_destroy(&receiver);
}

static void expect_from(struct actor *sender, gid_t group, const char *access,
                        enum gpud_status status, const char *says, const char *log)
{
    struct actor receiver;
    char begins[100];
    int length = snprintf(begins, sizeof(begins), "%s: ", gpud_status_string(status));
    actor_fork(&receiver, receive_as_other, &(struct receiving){group, access});
    CHECK(strncmp(actor_hear(&receiver), begins, (size_t)length) == 0 &&
              (status == GPUD_OK || strstr(receiver.said + length, says)),
          "with access=%s and group %u: \"%s\"; \"%s%s\" was expected", access, group,
          receiver.said, begins, says);
    actor_finish(&receiver);
    if (!log)
        return;
    actor_tell(sender, "%s", log);
    CHECK(strcmp(actor_hear(sender), "logged") == 0, "the sender's log does not say \"%s\"", log);
}

/* The socket is open, however its sender made it. */
static void open_socket(void)
{
    CHECK(chmod(address + strlen("unix:"), 0666) == 0, "chmod: %s", strerror(errno));
}

static void two_users(void)
{
    char sender[GPUD_USER_MAX], receiver[GPUD_USER_MAX], text[200], refusal[200];
    gpud_user_name(NOBODY, sender);
    gpud_user_name(OTHER, receiver);
    snprintf(refusal, sizeof(refusal), "%s may not receive from %s", receiver, sender);

    struct actor child = start_sender("user");
    snprintf(text, sizeof(text), "belongs to %s and does not let in %s", sender, receiver);
    expect_from(&child, 0, "all", GPUD_NO_ACCESS, text, NULL);
    open_socket();
    expect_from(&child, 0, "all", GPUD_NO_ACCESS, refusal, refusal);
    actor_finish(&child);

    child = start_sender("all");
    snprintf(text, sizeof(text),
             "belongs to %s, and this is %s: set access=group:NAME or access=all", sender,
             receiver);
    /* It says goodbye with the same words. */
    expect_from(&child, 0, "user", GPUD_NO_ACCESS, text, text);
    snprintf(text, sizeof(text), "belongs to %s, who is not in the group %u, and this is %s",
             sender, OTHER, receiver);
    expect_from(&child, 0, "group:4242", GPUD_NO_ACCESS, text, NULL);
    expect_from(&child, 0, "group:65534", GPUD_OK, "", "connected by map");
    expect_from(&child, 0, "all", GPUD_OK, "", NULL);
    actor_finish(&child);

    child = start_sender("group:65534");
    snprintf(text, sizeof(text), "belongs to %s and does not let in %s", sender, receiver);
    expect_from(&child, 0, "all", GPUD_NO_ACCESS, text, NULL);
    if (groups_are_told(OTHER, NOBODY))
        expect_from(&child, NOBODY, "all", GPUD_OK, "", "connected by map");
    else
        expect_from(&child, NOBODY, "all", GPUD_NO_ACCESS, "and the group 65534", NULL);
    open_socket();
    expect_from(&child, 0, "all", GPUD_NO_ACCESS, refusal, refusal);
    expect_from(&child, 0, "all", GPUD_NO_ACCESS, "and the group 65534", NULL);
    actor_finish(&child);
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
    int fd = raw_dial(address);
    CHECK(fd >= 0, "connect: %s", strerror(errno));
    raw_hello(message);
    CHECK(raw_send_message(fd, message) && raw_receive(fd, message, 10 * GPUD_SEC), "no answer");
    return fd;
}

/* It is sent the ring as every receiver is. */
static void grasp(const void *unused)
{
    struct gpud_message message;
    become(OTHER, 0);
    int fd = greet(&message);
    CHECK(message.type == GPUD_MESSAGE_HELLO && raw_receive(fd, &message, 10 * GPUD_SEC) &&
              message.type == GPUD_MESSAGE_OFFER,
          "no OFFER");
    const struct gpud_ring_description *ring = &message.offer.ring;
    CHECK(ring->memories > 0 && ring->handle[0].fd >= 0, "no ring");
    for (uint32_t i = 0; i < ring->memories; i++)
        CHECK(!can_write(ring->handle[i].fd, ring->slot_size), "another user can write the ring");
}

static void frames_are_read_only(void)
{
    struct actor sender = start_sender("all"), other;
    actor_fork(&other, grasp, NULL);
    actor_finish(&other);
    actor_finish(&sender);
}

#define WANTED 7

/* Occupies places as another user, and says how many it got. */
static void hoard(const void *user)
{
    struct gpud_message message;
    int got = 0;
    become(*(const uid_t *)user, 0);
    for (int i = 0; i < WANTED; i++) {
        greet(&message);
        bool placed = message.type == GPUD_MESSAGE_HELLO;
        CHECK(placed || (message.type == GPUD_MESSAGE_REFUSE &&
                         (strstr(message.refuse.reason, "other users have as many connections") ||
                          strstr(message.refuse.reason, "as one other user can have"))),
              "it is refused otherwise");
        got += placed;
    }
    say("%d", got);
    stay();
}

/* With any number of processes, one user cannot take the places of another, and together they leave
 * some for the sender's own user. */
static void places_of_others(void)
{
    int got[5];
    struct actor sender = start_sender("all"), other[5];
    for (int i = 0; i < 5; i++) {
        actor_fork(&other[i], hoard, &(uid_t){OTHER + (uid_t)i / 2});
        got[i] = atoi(actor_hear(&other[i]));
    }
    CHECK_EQUAL(got[0] + got[1], GPUD_PLACES_A_USER);
    CHECK_EQUAL(got[2] + got[3], GPUD_PLACES_A_USER);
    CHECK_EQUAL(got[4], GPUD_PLACES_FOREIGN - 2 * GPUD_PLACES_A_USER);
    for (int i = 0; i < 5; i++)
        actor_kill(&other[i]);
    actor_finish(&sender);
}

/* GPU memory that is mapped can be written, so it is not shared with another user. */
static void by_another_route(void)
{
    struct actor sender = start_sender("all");
    expect_from(&sender, 0, "all", GPUD_OK, "", "and the receiver is another user's");
    actor_finish(&sender);
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
