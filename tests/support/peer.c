/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/count.h"
#include "support/make.h"
#include "support/peer.h"

#include "support/check.h"
#include "support/picture.h"
#include "support/spawn_again.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int64_t gpud_test_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * GPUD_SEC + now.tv_nsec;
}

void gpud_test_nap(int64_t ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * GPUD_MSEC};
    nanosleep(&nap, NULL);
}

/* --- leaks ------------------------------------------------------------------------------------ */

static unsigned count_maps(void)
{
    unsigned count = 0;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file))
        count += strstr(line, "memfd:gpudirect") != NULL;
    if (file)
        fclose(file);
    return count;
}

/* Between hosts rdma_cm opens a card once for the process, with two descriptors, and one thread
 * sees to connections that end. */
static bool is_more(struct baseline now, struct baseline before)
{
    unsigned network = getenv("GPUD_TEST_ADDRESS") != NULL;
    return now.fds > before.fds + 2 * network || now.maps > before.maps ||
           now.threads > before.threads + network;
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* A sanitizer starts a thread of its own with the first thread of a process. */
static void start_first_thread(void)
{
    pthread_t thread = NEW_THREAD(end_at_once, NULL);
    pthread_join(thread, NULL);
}

static struct baseline count_all(void)
{
    if (getenv("GPUD_TEST_NO_LEAKS"))
        return (struct baseline){0};
    return (struct baseline){
        .fds = count_fds(),
        .maps = count_maps(),
        .threads = count_entries("/proc/self/task"),
    };
}

struct baseline baseline_take(void)
{
    start_first_thread();
    return count_all();
}

void baseline_check_at(const char *file, int line, struct baseline before)
{
    struct baseline now;
    int64_t until = gpud_test_now() + 20 * GPUD_SEC;
    do {
        now = count_all();
        if (!is_more(now, before))
            return;
        gpud_test_nap(10);
    } while (gpud_test_now() < until);
    FAIL("(%s:%d) a leak: descriptors %u → %u, shared maps %u → %u, threads %u → %u", file, line,
         before.fds, now.fds, before.maps, now.maps, before.threads, now.threads);
}

void peer_wait_for_returns(struct gpud_sender *sender)
{
    struct gpud_link_info link = {.size = sizeof(link)};
    PEER_UNTIL("the receiver gives its frames back", 20000,
               gpud_sender_list_links(sender, &link, 1) == 0 || link.held == 0);
}

/* --- the peer's side -------------------------------------------------------------------------- */

static struct peer_board *own;

static void note(enum gpud_event event, uint32_t kind, uint32_t epoch, uint64_t value)
{
    unsigned at = atomic_load(&own->notes);
    if (at < PEER_NOTES) {
        own->note[at] = (struct peer_note){event, kind, epoch, atomic_load(&own->last), value};
        atomic_store(&own->notes, at + 1);
    }
}

static void on_event(void *user, enum gpud_event event, const void *data)
{
    uint64_t value = 0;
    if (event == GPUD_EVENT_CONNECTED) {
        atomic_store(&own->first, 0); /* another sender counts anew */
        atomic_fetch_add(&own->connected, 1);
        note(event, 0, 0, 0);
    } else if (event == GPUD_EVENT_FORMAT) {
        const struct gpud_format_event *format = data;
        note(event, format->media.kind, format->epoch, media_value(&format->media));
    } else {
        const struct gpud_user_event *told = data;
        memcpy(&value, told->data, told->size < sizeof(value) ? told->size : sizeof(value));
        note(event, told->kind, 0, value);
    }
}

/* --- large metas ------------------------------------------------------------------------------ */

#define LARGE_META_MAX 65536 /* a sender's, unless it says otherwise */

/* That of the frame with this number: every third one has one, up to the largest. */
static size_t large_meta_of(uint64_t number, uint8_t bytes[LARGE_META_MAX])
{
    size_t size = number % 3 == 0 ? 1 + number * 7919 % LARGE_META_MAX : 0;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(number + i / 251);
    return size;
}

/* Of a frame that tell() described. */
static bool is_told(const struct gpud_frame_info *info)
{
    return info->offset != UINT64_MAX && info->pts_ns == info->offset * 1000;
}

static bool has_its_large_meta(const struct gpud_frame_info *info)
{
    uint8_t wanted[LARGE_META_MAX];
    if (!is_told(info))
        return true;
    size_t size = large_meta_of(info->offset, wanted);
    return info->large_meta_size == size &&
           (size == 0 || memcmp(info->large_meta, wanted, size) == 0);
}

static void check_picture(struct gpud_frame *frame)
{
    uint32_t plane, row, byte;
    void *data;
    struct gpud_error error = {.reason = ""};
    struct gpud_frame_info info = INFO(frame, frame);
    if (own->orders.by_lines)
        gpud_frame_wait_lines(frame, info.layout.height, 10 * GPUD_SEC, NULL);
    if (gpud_frame_map(frame, GPUD_READ, 10 * GPUD_SEC, &data, &error) != GPUD_OK) {
        gpud_frame_get_info(frame, &info);
        if (info.flags & GPUD_FRAME_CORRUPTED) {
            atomic_fetch_add(&own->corrupted, 1); /* and said so */
            return;
        }
        if (atomic_fetch_add(&own->wrong, 1) == 0)
            snprintf(own->wrong_text, sizeof(own->wrong_text),
                     "frame %llu cannot be mapped: %.100s", (unsigned long long)info.sequence,
                     error.reason);
        return;
    }
    gpud_frame_get_info(frame, &info);
    if (info.bytes < info.layout.size) /* a block */
        info.layout.plane[0].row_bytes = (uint32_t)info.bytes;
    if (info.flags & GPUD_FRAME_CORRUPTED)
        atomic_fetch_add(&own->corrupted, 1);
    else if (!picture_check(&info.layout, data, info.offset, &plane, &row, &byte) &&
             atomic_fetch_add(&own->wrong, 1) == 0)
        snprintf(own->wrong_text, sizeof(own->wrong_text),
                 "frame %llu (%s %ux%u), picture %llu of %llu, the first received %llu, slot %u: "
                 "plane %u, row %u, byte %u is %02x",
                 (unsigned long long)info.sequence, info.layout.format, info.layout.width,
                 info.layout.height,
                 (unsigned long long)picture_find(&info.layout, data, info.offset),
                 (unsigned long long)info.offset, atomic_load(&own->first), info.slot, plane, row,
                 byte, ((const uint8_t *)data)[info.layout.plane[plane].offset + byte]);
    if (!has_its_large_meta(&info) && atomic_fetch_add(&own->wrong, 1) == 0)
        snprintf(own->wrong_text, sizeof(own->wrong_text), "frame %llu: another large meta",
                 (unsigned long long)info.sequence);
    gpud_frame_unmap(frame);
}

static void take(struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    unsigned long long last = atomic_load(&own->last);
    if (atomic_load(&own->first) == 0) {
        atomic_store(&own->first, info.sequence);
    } else if (info.sequence <= last) {
        atomic_fetch_add(&own->repeated, 1);
    } else {
        uint64_t gap = info.sequence - last - 1;
        atomic_fetch_add(&own->gaps, gap);
        if (info.dropped - atomic_load(&own->reported) != gap)
            atomic_fetch_add(&own->unreported, 1);
    }
    if (info.flags & GPUD_FRAME_DISCONTINUITY)
        atomic_fetch_add(&own->discontinuities, 1);
    check_picture(frame);
    atomic_store(&own->last, info.sequence);
    atomic_store(&own->last_value, info.offset);
    atomic_store(&own->reported, info.dropped);
    atomic_store(&own->last_time, gpud_test_now());
    atomic_fetch_add(&own->bytes, info.bytes);
    atomic_fetch_add(&own->frames, 1);
}

static void make_child_if_ordered(void)
{
    int how = atomic_load(&own->child);
    if (!how || atomic_load(&own->child_pid))
        return;
    pid_t pid = how == PEER_FORK ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    CHECK(pid >= 0, "no child: %s", strerror(errno));
    for (alarm(240); pid == 0;)
        pause();
    atomic_store(&own->child_pid, pid);
}

static void play_receiver(struct gpud_context *context)
{
    const struct peer_orders *orders = &own->orders;
    struct gpud_frame *held[PEER_FRAMES_HELD];
    uint32_t count = 0;
    struct gpud_error error = {.reason = ""};
    struct gpud_receiver *receiver = NEW_RECEIVER(
        context, .address = orders->address, .psk_file = peer_key(),
        .device = orders->device[0] ? orders->device : NULL,
        .route = orders->route[0] ? orders->route : NULL, .slots = orders->slots,
        .slow_receiver = orders->slow_receiver, .require_direct = orders->require_direct,
        .on_event = on_event, .by_lines = orders->by_lines);
    atomic_store(&own->ready, true);
    while (!atomic_load(&own->leave)) {
        make_child_if_ordered();
        bool paused = atomic_load(&own->paused);
        atomic_store(&own->resting, paused);
        if (paused) {
            gpud_test_nap(1);
            continue;
        }
        struct gpud_frame *frame;
        enum gpud_status status = gpud_receiver_acquire(receiver, 50 * GPUD_MSEC, &frame, &error);
        if (status == GPUD_OK) {
            take(frame);
            held[count++] = frame;
            if (count > orders->hold) {
                check_picture(held[0]); /* it must not have changed meanwhile */
                gpud_frame_release(&held[0]);
                memmove(held, held + 1, --count * sizeof(held[0]));
            }
            if (orders->nap)
                gpud_test_nap(orders->nap / GPUD_MSEC);
        } else if (status == GPUD_CLOSED) {
            note((enum gpud_event)0, 0, 0, 0);
            if (atomic_fetch_add(&own->ends, 1) + 1 == orders->leave_after)
                break;
        } else if (status != GPUD_TIMEOUT) {
            snprintf(own->reason, sizeof(own->reason), "%s", error.reason);
            atomic_store(&own->status, status);
            atomic_fetch_add(status == GPUD_PEER ? &own->lost : &own->refusals, 1);
            atomic_store(&own->first, 0); /* another sender counts anew */
        }
    }
    own->info.size = sizeof(own->info);
    gpud_receiver_get_info(receiver, &own->info);
    gpud_receiver_destroy(&receiver);
    /* Frames outlive the receiver. */
    while (count) {
        check_picture(held[--count]);
        gpud_frame_release(&held[count]);
    }
}

static void play_sender(struct gpud_context *context)
{
    const struct peer_orders *orders = &own->orders;
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = orders->address, .psk_file = peer_key(),
                   .device = orders->device[0] ? orders->device : NULL,
                   .route = orders->route[0] ? orders->route : NULL, .slots = orders->slots,
                   .slow_receiver = orders->slow_receiver);
    struct gpud_layout layout = LAYOUT("UYVY", orders->width, orders->height, 0);
    WORKS(gpud_sender_configure(sender, PICTURE_AT(&layout, 25), &e));
    atomic_store(&own->ready, true);
    for (uint64_t number = 1; !atomic_load(&own->leave); number++) {
        make_child_if_ordered();
        SEND_LENT(sender, &layout, number);
        atomic_store(&own->last_value, number);
        atomic_fetch_add(&own->frames, 1);
        if (orders->nap)
            gpud_test_nap(orders->nap / GPUD_MSEC);
    }
    WORKS(gpud_sender_send_eos(sender, &e));
    own->sender_info.size = sizeof(own->sender_info);
    gpud_sender_get_info(sender, &own->sender_info);
    gpud_sender_destroy(&sender);
}

void peer_main(int argc, char **argv)
{
    own = peer_board_open("--peer", argc, argv, sizeof(*own));
    if (!own)
        return;
    /* Drivers keep what they opened once: only what a second life leaves behind is a leak. */
    struct gpud_device *device;
    struct gpud_context *context = NEW_CONTEXT();
    WORKS(
        gpud_device_open(context, own->orders.device[0] ? own->orders.device : NULL, &device, &e));
    struct baseline before = baseline_take();
    if (own->orders.sends)
        play_sender(context);
    else
        play_receiver(context);
    struct baseline after;
    int64_t until = gpud_test_now() + 10 * GPUD_SEC;
    do {
        after = baseline_take();
        after.threads = 0; /* drivers' own come and go */
    } while (is_more(after, before) && gpud_test_now() < until && (gpud_test_nap(5), true));
    if (is_more(after, before)) {
        own->leaked_fds = after.fds > before.fds ? after.fds - before.fds : 0;
        own->leaked_maps = after.maps > before.maps ? after.maps - before.maps : 0;
    }
    gpud_device_close(&device);
    gpud_context_destroy(&context);
    atomic_store(&own->done, true);
    exit(0);
}

/* --- the test's side -------------------------------------------------------------------------- */

void *peer_board_make(size_t size, int *fd)
{
    *fd = memfd_create("board", MFD_CLOEXEC);
    CHECK(*fd >= 0 && ftruncate(*fd, (off_t)size) == 0, "memfd_create: %s", strerror(errno));
    void *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    CHECK(board != MAP_FAILED, "mmap: %s", strerror(errno));
    return board;
}

pid_t peer_spawn(const char *word, int fd)
{
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 200);
    char *const argv[] = {"peer", (char *)word, "200", NULL};
    int failed = spawn_again(&pid, &actions, argv, environ);
    CHECK(failed == 0, "posix_spawn: %s", strerror(failed));
    posix_spawn_file_actions_destroy(&actions);
    close(fd);
    return pid;
}

void spawned_begin(void)
{
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    test_alarm(getenv("GPUD_TEST_LONG") ? 7200 : 240);
}

static void check_end(int state, int wanted)
{
    if (wanted)
        CHECK(WIFSIGNALED(state) && WTERMSIG(state) == wanted,
              "the other process had ended by itself: state %#x", (unsigned)state);
    else
        CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the other process failed: state %#x",
              (unsigned)state);
}

void spawned_kill(pid_t pid)
{
    int state = 0;
    kill(pid, SIGKILL);
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, &state, 0) == pid, "waitpid: %s", strerror(errno));
    check_end(state, SIGKILL);
}

static bool has_ended(pid_t pid, int wanted)
{
    int state = 0;
    pid_t got = waitpid(pid, &state, WNOHANG);
    CHECK(got == 0 || got == pid, "waitpid: %s", strerror(errno));
    if (got)
        check_end(state, wanted);
    return got;
}

bool spawned_has_ended(pid_t pid)
{
    return has_ended(pid, 0);
}

void spawned_await_end(pid_t pid, int signal)
{
    PEER_UNTIL("the end of the other process", 30000, has_ended(pid, signal));
}

void *peer_board_open(const char *word, int argc, char **argv, size_t size)
{
    if (argc < 3 || strcmp(argv[1], word) != 0)
        return NULL;
    spawned_begin();
    int fd = atoi(argv[2]);
    void *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(board != MAP_FAILED, "no board");
    close(fd);
    return board;
}

void peer_start(struct peer *peer, const struct peer_orders *orders)
{
    int fd;
    peer->board = peer_board_make(sizeof(*peer->board), &fd);
    peer->board->orders = *orders;
    peer->pid = peer_spawn("--peer", fd);
}

void peer_check_at(const char *file, int line, const struct peer *peer)
{
    const struct peer_board *board = peer->board;
    if (atomic_load(&board->wrong))
        FAIL("(%s:%d) %llu wrong pictures, the first: %s", file, line, atomic_load(&board->wrong),
             board->wrong_text);
    if (atomic_load(&board->repeated))
        FAIL("(%s:%d) I1: %llu frames came twice or went back", file, line,
             atomic_load(&board->repeated));
    if (atomic_load(&board->unreported))
        FAIL("(%s:%d) I2: %llu times frames were missing that were not reported as dropped, or "
             "the other way round",
             file, line, atomic_load(&board->unreported));
}

void peer_finish_at(const char *file, int line, struct peer *peer)
{
    int state = 0;
    atomic_store(&peer->board->leave, true);
    int64_t until = gpud_test_now() + 30 * GPUD_SEC;
    pid_t got;
    while ((got = waitpid(peer->pid, &state, WNOHANG)) == 0 && gpud_test_now() < until)
        gpud_test_nap(1);
    if (got != peer->pid) {
        kill(peer->pid, SIGKILL);
        waitpid(peer->pid, NULL, 0);
        FAIL("(%s:%d) the other process hangs", file, line);
    }
    peer->pid = 0;
    if (!WIFEXITED(state) || WEXITSTATUS(state))
        FAIL("(%s:%d) the other process failed: %s %d", file, line,
             WIFEXITED(state) ? "status" : "signal",
             WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
    peer_check_at(file, line, peer);
    if (peer->board->leaked_fds || peer->board->leaked_maps)
        FAIL("(%s:%d) I4: the other process leaked %u descriptors and %u maps", file, line,
             peer->board->leaked_fds, peer->board->leaked_maps);
}

void peer_kill(struct peer *peer)
{
    kill(peer->pid, SIGKILL);
    kill(peer->pid, SIGCONT);
    waitpid(peer->pid, NULL, 0);
    peer->pid = 0;
}

void peer_forget(struct peer *peer)
{
    munmap(peer->board, sizeof(*peer->board));
    peer->board = NULL;
}

/* --- this process ----------------------------------------------------------------------------- */

static char runtime_dir[64];

static void *nothing(void *arg)
{
    return arg;
}

void runtime_make(void)
{
    /* The first thread brings one of the sanitizer's own, which stays: it is no leak. */
    pthread_t thread = NEW_THREAD(nothing, NULL);
    pthread_join(thread, NULL);
    snprintf(runtime_dir, sizeof(runtime_dir), "/tmp/gpud-test-XXXXXX");
    CHECK(mkdtemp(runtime_dir), "mkdtemp: %s", strerror(errno));
    setenv("XDG_RUNTIME_DIR", runtime_dir, 1);
}

void test_begin(unsigned seconds)
{
    test_alarm(seconds);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
}

int runtime_done(void)
{
    char sockets[80];
    snprintf(sockets, sizeof(sockets), "%s/gpudirect", runtime_dir);
    unsigned left = count_entries(sockets);
    CHECK(left == 0, "%u sockets or lock files are left in %s", left, sockets);
    rmdir(sockets);
    rmdir(runtime_dir);
    return 0;
}

const char *peer_address(const char *name)
{
    static char address[108];
    const char *base = getenv("GPUD_TEST_ADDRESS");
    snprintf(address, sizeof(address), "%s%s%s", base ? base : "", base ? "/" : "", name);
    return address;
}

uint16_t find_free_port(void)
{
    uint16_t port;
    CHECK(getrandom(&port, sizeof(port), 0) == sizeof(port), "getrandom: %m");
    for (int tries = 0; tries < 1000; tries++) {
        struct sockaddr_in6 any = {.sin6_family = AF_INET6};
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;
        port = (uint16_t)(10000 + (port + 1) % 20000);
        any.sin6_port = htons(port);
        CHECK(fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0,
              "socket: %m");
        bool is_free = bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0;
        close(fd);
        if (is_free)
            return port;
    }
    FAIL("no port is free");
}

void make_key(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0,
          "%s: %m", path);
}

const char *peer_key(void)
{
    return getenv("GPUD_TEST_KEY");
}

void peer_link_at(const char *file, int line, struct gpud_sender *sender,
                  struct gpud_receiver *receiver, unsigned receivers)
{
    for (int64_t until = gpud_test_now() + 30 * GPUD_SEC;
         gpud_sender_wait(sender, receivers, 0, NULL) != GPUD_OK;) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        if (gpud_receiver_acquire(receiver, 5 * GPUD_MSEC, &frame, &error) != GPUD_TIMEOUT)
            FAIL("(%s:%d) a link that is being made gives \"%s\"", file, line, error.reason);
        if (gpud_test_now() > until)
            FAIL("(%s:%d) %u receivers are not linked within 30 s", file, line, receivers);
    }
}

static void tell(struct gpud_frame *frame, uint64_t number)
{
    struct gpud_frame_info info = INFO(frame, frame);
    uint8_t large[LARGE_META_MAX];
    info.offset = number;
    info.pts_ns = number * 1000;
    info.large_meta = large;
    info.large_meta_size = large_meta_of(number, large);
    WORKS(gpud_frame_set_info(frame, &info, &e));
}

void peer_order(void)
{
#ifdef __SANITIZE_THREAD__
    static atomic_uint word;
    atomic_fetch_add(&word, 1);
#endif
}

void frame_write(struct gpud_frame *frame, const struct gpud_layout *layout, uint64_t number)
{
    void *data = MAP_FRAME(frame, GPUD_WRITE, 60 * GPUD_SEC);
    picture_write(layout, data, number);
    gpud_frame_unmap(frame);
    tell(frame, number);
}

void frame_check_at(const char *file, int line, struct gpud_frame *frame,
                    const struct gpud_layout *layout, uint64_t number)
{
    struct gpud_frame_info info = INFO(frame, frame);
    uint32_t plane, row, byte;
    if (info.offset != number)
        FAIL("(%s:%d) frame %llu instead of %llu", file, line, (unsigned long long)info.offset,
             (unsigned long long)number);
    CHECK(has_its_large_meta(&info), "(%s:%d) frame %llu has another large meta", file, line,
          (unsigned long long)number);
    void *data = MAP_FRAME(frame, GPUD_READ, 60 * GPUD_SEC);
    peer_order();
    if (!picture_check(layout, data, number, &plane, &row, &byte))
        FAIL("(%s:%d) picture %llu: byte %u of row %u of plane %u is wrong", file, line,
             (unsigned long long)number, byte, row, plane);
    gpud_frame_unmap(frame);
}

void send_lent_at(const char *file, int line, struct gpud_sender *sender,
                  const struct gpud_layout *layout, uint64_t number)
{
    send_block_at(file, line, sender, layout, layout->size, number);
}

void send_block_at(const char *file, int line, struct gpud_sender *sender,
                   const struct gpud_layout *layout, uint64_t bytes, uint64_t number)
{
    struct gpud_layout used = *layout;
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    if (gpud_sender_acquire(sender, 60 * GPUD_SEC, &frame, &error) != GPUD_OK)
        FAIL("(%s:%d) no slot is lent for frame %llu: %s", file, line, (unsigned long long)number,
             error.reason);
    peer_order();
    if (bytes < layout->size) {
        WORKS(gpud_frame_set_size(frame, bytes, &e));
        used.plane[0].row_bytes = (uint32_t)bytes;
    }
    frame_write(frame, &used, number);
    peer_order();
    if (gpud_sender_submit(sender, &frame, 60 * GPUD_SEC, &error) != GPUD_OK)
        FAIL("(%s:%d) frame %llu is not taken: %s", file, line, (unsigned long long)number,
             error.reason);
    CHECK(!frame, "a submitted frame is still there");
}

void send_foreign_at(const char *file, int line, struct gpud_sender *sender,
                     struct gpud_device *host, const struct gpud_layout *layout, uint64_t number)
{
    struct gpud_layout other = *layout;
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    picture_stretch(&other);
    /* In mid-page, always: what begins with a page a device may pin, and copy by itself. */
    char *pages = aligned_alloc(4096, (64 + other.size + 4095) / 4096 * 4096), *data = pages + 64;
    CHECK(pages, "out of memory");
    memset(data, 0xdb, other.size);
    picture_write(&other, data, number);
    WORKS(gpud_memory_wrap(host, data, other.size, free, pages, &memory, &e));
    WORKS(gpud_frame_wrap(memory, 0, &other, &frame, &e));
    gpud_memory_unref(&memory);
    tell(frame, number);
    if (gpud_sender_submit(sender, &frame, 60 * GPUD_SEC, &error) != GPUD_OK)
        FAIL("(%s:%d) frame %llu: %s", file, line, (unsigned long long)number, error.reason);
}
