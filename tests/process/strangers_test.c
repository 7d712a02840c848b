/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What other users can do to a sender that lets them in, and what they cannot: while they try, a
 * receiver of the sender's own user loses no frame. Group membership is checked on connect: a user
 * that leaves the group keeps the link until it ends, and cannot reconnect. */
#include "actor.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#define OWNER 4301
#define MEMBER 4302
#define STRANGER 4303
#define GROUP 4400
#define PATIENCE (20 * GPUD_SEC)

static char folder[] = "/tmp/gpudirect-strangers-XXXXXX", address[80], path[60];

/* --- the sender and its own receiver ---------------------------------------------------------- */

static void send_all(const void *access)
{
    become(OWNER, GROUP);
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    struct gpud_sender *sender = NEW_SENDER(context, .address = address, .access = access);
    struct gpud_layout layout = CONFIGURE(sender, "GRAY8", 64, 64);
    say("it listens");
    WORKS(gpud_sender_wait(sender, 1, PATIENCE, &e));
    for (uint64_t number = 1; !is_told(0); number++) {
        SEND_LENT(sender, &layout, number);
        gpud_test_nap(1);
    }
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
}

/* None may be missing. For each line it says how many it has, once three more have come. */
static void receive_all(const void *unused)
{
    become(OWNER, 0);
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = address);
    uint64_t last = 0;
    for (unsigned got = 0, wanted = 0;;) {
        struct gpud_frame *frame;
        if (is_told(0)) {
            if (!hear())
                break;
            wanted = got + 3;
        }
        if (gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, NULL) != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        CHECK(!last || info.sequence == last + 1, "frame %llu after %llu",
              (unsigned long long)info.sequence, (unsigned long long)last);
        last = info.sequence;
        gpud_frame_release(&frame);
        if (++got == wanted)
            say("%u", got);
    }
    gpud_receiver_destroy(&receiver);
}

static struct actor sender, receiver;

static void goes_on(void)
{
    actor_tell(&receiver, "three more");
    actor_hear(&receiver);
}

static void begin(const char *access)
{
    actor_fork(&sender, send_all, access);
    actor_await(&sender, "it listens");
    actor_fork(&receiver, receive_all, NULL);
    goes_on();
}

static void finish(void)
{
    goes_on();
    actor_finish(&sender);
    actor_finish(&receiver);
    SAY("%s frames undisturbed", receiver.said);
}

static void act(void (*play)(const void *part))
{
    struct actor actor;
    actor_fork(&actor, play, NULL);
    actor_finish(&actor);
}

/* --- a process that leaves the group ---------------------------------------------------------- */

static void connect_as_member(struct gpud_receiver **to, struct gpud_context *context,
                              enum gpud_status wanted, const char *says)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    *to = NEW_RECEIVER(context, .address = address, .access = "all");
    enum gpud_status status = gpud_receiver_acquire(*to, PATIENCE, &frame, &error);
    CHECK(status == wanted && strstr(error.reason, says), "\"%s\", \"%s\"; \"%s\" was expected",
          gpud_status_string(status), error.reason, says);
    if (status == GPUD_OK)
        gpud_frame_release(&frame);
}

/* Only the effective user changes, so that groups can still be dropped. */
static void become_a_member_that_can_leave(void)
{
    gid_t group = GROUP;
    prctl(PR_SET_KEEPCAPS, 1);
    if (setgroups(1, &group) < 0 || setresgid(MEMBER, MEMBER, MEMBER) < 0 ||
        setresuid(MEMBER, MEMBER, MEMBER) < 0)
        _exit(255);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 1);
    /* Kept by KEEPCAPS, but not in effect. */
    struct {
        uint32_t version;
        int pid;
    } header = {0x20080522, 0};
    struct {
        uint32_t effective, permitted, inheritable;
    } caps[2] = {{1u << 6, 1u << 6, 0}, {0, 0, 0}}; /* CAP_SETGID */
    if (syscall(SYS_capset, &header, caps) < 0)
        _exit(254);
}

static void leave_group(const void *unused)
{
    struct gpud_receiver *first, *second;
    gid_t own = MEMBER;
    become_a_member_that_can_leave();
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    connect_as_member(&first, context, GPUD_OK, "");
    CHECK(setgroups(1, &own) == 0, "setgroups: %s", strerror(errno));
    for (unsigned i = 0; i < 50; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(first, PATIENCE);
        gpud_frame_release(&frame);
    }
    connect_as_member(&second, context, GPUD_NO_ACCESS, "does not let in");
    gpud_receiver_destroy(&second);
    gpud_receiver_destroy(&first);
}

/* --- what a stranger cannot ------------------------------------------------------------------- */

#define DENIED(call) \
    CHECK((call) < 0 && (errno == EPERM || errno == EACCES), "%s: %s", #call, strerror(errno))

static void touch_the_process(void)
{
    char name[64], byte;
    struct iovec here = {&byte, 1}, there = {(void *)folder, 1};
    DENIED(ptrace(PTRACE_ATTACH, sender.pid, NULL, NULL));
    DENIED(ptrace(PTRACE_SEIZE, sender.pid, NULL, NULL));
    DENIED(process_vm_readv(sender.pid, &here, 1, &there, 1, 0));
    DENIED(process_vm_writev(sender.pid, &here, 1, &there, 1, 0));
    DENIED(kill(sender.pid, 0));
    snprintf(name, sizeof(name), "/proc/%d/mem", (int)sender.pid);
    DENIED(open(name, O_RDWR | O_CLOEXEC));
    for (int fd = 0; fd < 32; fd++) {
        snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)sender.pid, fd);
        DENIED(open(name, O_RDONLY | O_CLOEXEC));
    }
    int pidfd = (int)syscall(SYS_pidfd_open, sender.pid, 0);
    if (pidfd >= 0)
        DENIED(syscall(SYS_pidfd_getfd, pidfd, 3, 0));
}

/* The folder is the sender's, and others may enter it. */
static void touch_the_files(void)
{
    char lock[96];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(lock, sizeof(lock), "%s.lock", path);
    DENIED(open(lock, O_RDWR | O_CLOEXEC));
    DENIED(open(lock, O_RDONLY | O_CLOEXEC));
    DENIED(unlink(lock));
    DENIED(unlink(path));
    DENIED(rename(path, lock));
    DENIED(chmod(path, 0777));
    DENIED(chown(path, STRANGER, STRANGER));
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 && errno == EADDRINUSE, "bind: %s",
          strerror(errno));
    close(fd);
}

static void open_raw(struct raw *raw, enum raw_step to)
{
    *raw = (struct raw){.fd = raw_dial(address), .page_fd = -1};
    CHECK(raw->fd >= 0, "connect: %s", strerror(errno));
    raw_to(raw, RAW_CONNECTED, to);
}

/* Its violations end its own link. */
static void lie_in_words(void)
{
    for (unsigned lie = 0; lie < 4; lie++) {
        AUTO(raw_close) struct raw raw;
        open_raw(&raw, RAW_STREAMING);
        struct gpud_receiver_half *half = &raw.page->receiver;
        if (lie == 0)
            atomic_fetch_add(&half->claimed, 100);
        else if (lie == 1)
            atomic_fetch_add(&half->returned, 100);
        else if (lie == 2)
            memset((void *)half, 0xff, sizeof(*half));
        else
            CHECK(fallocate(raw.page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                            sizeof(*half)) == 0,
                  "fallocate");
        CHECK(raw_wait_hangup(raw.fd, PATIENCE), "lie %u does not end the link", lie);
    }
}

static void be_a_stranger(const void *group)
{
    become(STRANGER, group ? GROUP : 0);
    touch_the_process();
    touch_the_files();
    lie_in_words();
    /* Queries follow the same rule; half a handshake, at any step, occupies no other user's slot.
     */
    for (int step = RAW_CONNECTED; step < RAW_STEPS; step++) {
        AUTO(raw_close) struct raw raw;
        open_raw(&raw, (enum raw_step)step);
    }
}

/* A user whom no sender admits: it cannot even reach the socket, whatever it knows. */
static void be_kept_out(const void *unused)
{
    become(STRANGER, 0);
    CHECK(raw_dial(address) < 0 && errno == EACCES, "connect: %s", strerror(errno));
    touch_the_process();
    touch_the_files();
}

static void strangers(bool told)
{
    struct actor in_group;
    SAY("a stranger that access=all lets in");
    begin("all");
    act(be_a_stranger);
    finish();
    SAY("a stranger that access=group:4400 keeps out");
    begin("group:4400");
    act(be_kept_out);
    if (told) {
        actor_fork(&in_group, be_a_stranger, "in the group");
        actor_finish(&in_group);
    }
    finish();
}

/* --- a world-writable folder --------------------------------------------------------------------
 */

static void squat(const void *unused)
{
    char lock[96];
    become(STRANGER, 0);
    snprintf(lock, sizeof(lock), "%s.lock", path);
    int fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    CHECK(fd >= 0 && fchmod(fd, 0666) == 0 && flock(fd, LOCK_EX) == 0, "a lock: %s",
          strerror(errno));
    say("ready");
    stay();
    unlink(lock);
}

static void want_the_name(const void *unused)
{
    struct gpud_sender *wanted = NULL;
    struct gpud_error error = {.reason = ""};
    become(OWNER, 0);
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    enum gpud_status status = gpud_sender_create(
        context, WITH_SIZE(gpud_sender_params, .address = address, .access = "all"), &wanted,
        &error);
    CHECK(status != GPUD_OK && strstr(error.reason, path) && strlen(error.reason) > 20,
          "\"%s\", \"%s\"", gpud_status_string(status), error.reason);
    SAY("  %s", error.reason);
}

/* A stranger that takes the name first keeps it, which the sender reports; it never writes to it.
 */
static void squatters(void)
{
    struct actor squatter;
    CHECK(chmod(folder, 01777) == 0, "chmod");
    actor_fork(&squatter, squat, NULL);
    actor_await(&squatter, "ready");
    act(want_the_name);
    actor_finish(&squatter);
    CHECK(chmod(folder, 0755) == 0, "chmod");
}

int main(void)
{
    if (geteuid() != 0)
        SKIP("only root can be another user for a moment");
    alarm(550);
    setenv("GPUDIRECT_LOG", "error", 0);
    CHECK(mkdtemp(folder) && chmod(folder, 0755) == 0 && chown(folder, OWNER, OWNER) == 0,
          "a folder");
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(address, sizeof(address), "unix:%s", path);
    bool told = groups_are_told(STRANGER, GROUP);
    strangers(told);
    if (told) {
        SAY("a group that a process leaves while it receives");
        begin("group:4400");
        act(leave_group);
        finish();
    }
    CASE("a name that a stranger took first, in a folder that all may write", squatters());
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
    return 0;
}
