/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What other users can do to a sender that lets them in, and what they cannot: while they try, a
 * receiver of the sender's own user loses no frame. Group membership is checked on connect: a user
 * that leaves the group keeps the link until it ends, and cannot reconnect. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/raw.h"
#include "wire/unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWNER 4301
#define MEMBER 4302
#define STRANGER 4303
#define GROUP 4400
#define PATIENCE (20 * GPUD_SEC)

static char folder[] = "/tmp/gpudirect-strangers-XXXXXX", address[80], path[60];

/* Between all processes of the test. */
static struct board {
    atomic_bool stop, left_group, connect_again;
    atomic_ullong sent, got, gaps, member_got;
    atomic_int sender_says; /* 1: it streams */
} * board;

/* Turns this process into that user, in that group only. */
static void become(uid_t user, gid_t group)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(500);
    if (setgroups(group ? 1 : 0, &group) < 0 || setresgid(user, user, user) < 0 ||
        setresuid(user, user, user) < 0)
        _exit(255);
    prctl(PR_SET_DUMPABLE, 1); /* or its own /proc/self is closed to it */
}

static pid_t start(void (*run)(void), uid_t user, gid_t group)
{
    pid_t child = fork();
    if (child == 0) {
        if (user)
            become(user, group);
        run();
        _exit(0);
    }
    CHECK(child > 0, "fork");
    return child;
}

static void await_end(pid_t child, const char *what)
{
    int state;
    CHECK(waitpid(child, &state, 0) == child && state == 0, "%s ends with %x", what, state);
}

/* --- the sender and its own receiver ---------------------------------------------------------- */

static const char *access_rule;

static void send_all(void)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    struct gpud_sender *sender = NEW_SENDER(context, .address = address, .access = access_rule);
    struct gpud_layout layout = LAYOUT("GRAY8", 64, 64, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    atomic_store(&board->sender_says, 1);
    WORKS(gpud_sender_wait(sender, 1, PATIENCE, &e));
    while (!atomic_load(&board->stop)) {
        SEND_LENT(sender, &layout, atomic_fetch_add(&board->sent, 1) + 1);
        gpud_test_nap(1);
    }
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
}

/* Counts; until the stream ends. */
static void receive_all(void)
{
    struct gpud_context *context = raw_context();
    uint64_t last = 0;
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = address);
    while (!atomic_load(&board->stop)) {
        struct gpud_frame *frame;
        if (gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, NULL) != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        if (last && info.sequence != last + 1)
            atomic_fetch_add(&board->gaps, 1);
        last = info.sequence;
        atomic_fetch_add(&board->got, 1);
        gpud_frame_release(&frame);
    }
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
}

static void goes_on(void)
{
    unsigned long long at = atomic_load(&board->got);
    PEER_UNTIL("frames flow on", 20000, atomic_load(&board->got) > at + 2);
    CHECK_EQUAL(atomic_load(&board->gaps), 0);
}

static pid_t sender_pid, receiver_pid;

static void begin(const char *rule)
{
    memset(board, 0, sizeof(*board));
    access_rule = rule;
    sender_pid = start(send_all, OWNER, GROUP);
    PEER_UNTIL("the sender listens", 20000, atomic_load(&board->sender_says) == 1);
    receiver_pid = start(receive_all, OWNER, 0);
    goes_on();
}

static void finish(void)
{
    goes_on();
    atomic_store(&board->stop, true);
    await_end(sender_pid, "the sender");
    await_end(receiver_pid, "its own receiver");
    SAY("%llu frames undisturbed", atomic_load(&board->got));
}

/* --- a process that leaves the group ---------------------------------------------------------- */

static void connect_as_member(struct gpud_receiver **receiver, struct gpud_context *context,
                              enum gpud_status wanted, const char *says)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    *receiver = NEW_RECEIVER(context, .address = address, .access = "all");
    enum gpud_status status = gpud_receiver_acquire(*receiver, PATIENCE, &frame, &error);
    CHECK(status == wanted && strstr(error.reason, says), "\"%s\", \"%s\"; \"%s\" was expected",
          gpud_status_string(status), error.reason, says);
    if (status == GPUD_OK)
        gpud_frame_release(&frame);
}

static void leave_group(void)
{
    struct gpud_context *context = raw_context();
    struct gpud_receiver *first, *second;
    gid_t own = MEMBER;
    connect_as_member(&first, context, GPUD_OK, "");
    /* setgroups() is root's: this process came with the right to do that once. */
    CHECK(setgroups(1, &own) == 0, "setgroups: %s", strerror(errno));
    for (unsigned i = 0; i < 50; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(first, PATIENCE);
        gpud_frame_release(&frame);
    }
    connect_as_member(&second, context, GPUD_NO_ACCESS, "does not let in");
    gpud_receiver_destroy(&second);
    gpud_receiver_destroy(&first);
    gpud_context_destroy(&context);
}

/* Only the effective user changes, so that groups can still be dropped. */
static void member_that_leaves(void)
{
    gid_t group = GROUP;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(500);
    prctl(PR_SET_KEEPCAPS, 1);
    if (setgroups(1, &group) < 0 || setresgid(MEMBER, MEMBER, MEMBER) < 0 ||
        setresuid(MEMBER, MEMBER, MEMBER) < 0)
        _exit(255);
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
    leave_group();
}

static void group_change(void)
{
    SAY("a group that a process leaves while it receives");
    begin("group:4400");
    await_end(start(member_that_leaves, 0, 0), "the member");
    goes_on();
    finish();
}

/* Some emulators do not report a peer's groups. */
static bool groups_are_told(void)
{
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        socklen_t size = 0;
        become(STRANGER, GROUP);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
        int asked = getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, NULL, &size);
        _exit(asked < 0 && errno == ERANGE && size == sizeof(gid_t) ? 0 : 1);
    }
    int state;
    CHECK(waitpid(child, &state, 0) == child, "no such child");
    return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

/* --- what a stranger cannot ------------------------------------------------------------------- */

#define DENIED(call) \
    CHECK((call) < 0 && (errno == EPERM || errno == EACCES), "%s: %s", #call, strerror(errno))

static void touch_the_process(void)
{
    char name[64], byte;
    struct iovec here = {&byte, 1}, there = {(void *)board, 1};
    DENIED(ptrace(PTRACE_ATTACH, sender_pid, NULL, NULL));
    DENIED(ptrace(PTRACE_SEIZE, sender_pid, NULL, NULL));
    DENIED(process_vm_readv(sender_pid, &here, 1, &there, 1, 0));
    DENIED(process_vm_writev(sender_pid, &here, 1, &there, 1, 0));
    DENIED(kill(sender_pid, 0));
    snprintf(name, sizeof(name), "/proc/%d/mem", (int)sender_pid);
    DENIED(open(name, O_RDWR | O_CLOEXEC));
    for (int fd = 0; fd < 32; fd++) {
        snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)sender_pid, fd);
        DENIED(open(name, O_RDONLY | O_CLOEXEC));
    }
    int pidfd = (int)syscall(SYS_pidfd_open, sender_pid, 0);
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
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memset(raw, 0, sizeof(*raw));
    raw->page_fd = -1;
    strcpy(name.sun_path, path);
    raw->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(raw->fd, (struct sockaddr *)&name, sizeof(name)) == 0, "connect: %s",
          strerror(errno));
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

/* Queries follow the same rule; half a handshake, at any step, occupies no other user's slot. */
static void stop_at_each_step(void)
{
    for (int step = RAW_CONNECTED; step < RAW_STEPS; step++) {
        AUTO(raw_close) struct raw raw;
        open_raw(&raw, (enum raw_step)step);
    }
}

static void be_a_stranger(void)
{
    touch_the_process();
    touch_the_files();
    lie_in_words();
    stop_at_each_step();
}

/* A user whom no sender admits: it cannot even reach the socket, whatever it knows. */
static void be_kept_out(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0 && errno == EACCES, "connect: %s",
          strerror(errno));
    close(fd);
    touch_the_process();
    touch_the_files();
}

static void strangers(void)
{
    SAY("a stranger that access=all lets in");
    begin("all");
    await_end(start(be_a_stranger, STRANGER, 0), "the stranger");
    finish();
    SAY("a stranger that access=group:4400 keeps out");
    begin("group:4400");
    await_end(start(be_kept_out, STRANGER, 0), "the stranger");
    if (groups_are_told()) {
        await_end(start(be_a_stranger, STRANGER, GROUP), "the stranger in the group");
    }
    finish();
}

/* --- a world-writable folder --------------------------------------------------------------------
 */

static void squat(void)
{
    char lock[96];
    snprintf(lock, sizeof(lock), "%s.lock", path);
    int fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    CHECK(fd >= 0 && fchmod(fd, 0666) == 0 && flock(fd, LOCK_EX) == 0, "a lock: %s",
          strerror(errno));
    atomic_store(&board->sender_says, 2);
    while (!atomic_load(&board->stop))
        gpud_test_nap(1);
    unlink(lock);
}

static void want_the_name(void)
{
    struct gpud_sender *sender = NULL;
    struct gpud_error error = {.reason = ""};
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    params.address = address;
    params.access = "all";
    enum gpud_status status = gpud_sender_create(context, &params, &sender, &error);
    CHECK(status != GPUD_OK && strstr(error.reason, path) && strlen(error.reason) > 20,
          "\"%s\", \"%s\"", gpud_status_string(status), error.reason);
    SAY("  %s", error.reason);
}

/* A stranger that takes the name first keeps it, which the sender reports; it never writes to it.
 */
static void squatters(void)
{
    SAY("a name that a stranger took first, in a folder that all may write");
    memset(board, 0, sizeof(*board));
    CHECK(chmod(folder, 01777) == 0, "chmod");
    pid_t squatter = start(squat, STRANGER, 0);
    PEER_UNTIL("the stranger has the lock", 20000, atomic_load(&board->sender_says) == 2);
    await_end(start(want_the_name, OWNER, 0), "the sender");
    atomic_store(&board->stop, true);
    await_end(squatter, "the stranger");
    CHECK(chmod(folder, 0755) == 0, "chmod");
}

int main(void)
{
    if (geteuid() != 0)
        SKIP("only root can be another user for a moment");
    alarm(550);
    setenv("GPUDIRECT_LOG", "error", 0);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED && mkdtemp(folder) && chmod(folder, 0755) == 0 &&
              chown(folder, OWNER, OWNER) == 0,
          "a folder");
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(address, sizeof(address), "unix:%s", path);
    strangers();
    if (groups_are_told())
        group_change();
    squatters();
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
    return 0;
}
