/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver that owns the host pages which a GPU's frames go by (route staged-push) lies about
 * them and in the words that give them back, while an honest receiver of the same sender loses no
 * frame. False words end the receiver's own link with a reason; removing its memory in mid-stream
 * harms only itself. */
#include "device/device.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ADDRESS "push-lies"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define ENTRIES 4 /* as raw_accept() has it */
#define SLOT UINT64_C(8192)
#define RING (ENTRIES * SLOT)

static struct gpud_sender *sender;
static struct gpud_layout layout;
static struct peer honest;
static atomic_bool stop;
static atomic_ullong sent;

/* --- the stream ------------------------------------------------------------------------------- */

static void *stream(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        SEND_LENT(sender, &layout, atomic_fetch_add(&sent, 1) + 1);
        gpud_test_nap(1);
    }
    return NULL;
}

static void goes_on(void)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    PEER_UNTIL("only the honest receiver is connected", 20000,
               (gpud_sender_get_info(sender, &info), info.receivers == 1));
    unsigned long long at = atomic_load(&honest.board->frames);
    PEER_UNTIL("frames flow on", 20000, atomic_load(&honest.board->frames) > at + 2);
    CHECK_EQUAL(atomic_load(&honest.board->gaps), 0);
    CHECK_EQUAL(atomic_load(&honest.board->lost), 0);
    CHECK_EQUAL(atomic_load(&honest.board->wrong), 0);
}

/* --- the liar --------------------------------------------------------------------------------- */

static int make_ring(uint64_t size, int seals)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "a file: %s", strerror(errno));
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS: %s", strerror(errno));
    return fd;
}

/* An ACCEPT whose ring is this file; -1: the file of its ring page. */
static void accept_file(struct raw *raw, int fd, uint64_t said)
{
    struct gpud_message message;
    raw_accept(raw, &message);
    message.accept.ring = (struct gpud_ring_description){
        .slot_size = SLOT, .slots_per_memory = ENTRIES, .memories = 1};
    message.accept.ring.handle[0] = (struct gpud_handle){
        .type = GPUD_HANDLE_MEMFD, .fd = fd >= 0 ? fd : raw->page_fd, .size = said};
    CHECK(raw_send_message(raw->fd, &message), "ACCEPT is not sent");
}

static void turned_out(struct raw *raw, const char *what, const char *says)
{
    if (!raw_wait_hangup(raw->fd, 20 * GPUD_SEC) || !raw_log_says(says, 20 * GPUD_SEC)) {
        raw_log_print();
        FAIL("%s: the sender does not hang up and say \"%s\"", what, says);
    }
    raw_close(raw);
    raw_log_clear();
}

static void wrong_file(const char *what, int fd, uint64_t said, const char *says)
{
    struct raw raw;
    SAY("%s", what);
    CHECK(fd >= 0, "no file for %s", what);
    raw_connect_as_gpu(&raw, ADDRESS);
    accept_file(&raw, fd, said);
    close(fd);
    turned_out(&raw, what, says);
    goes_on();
}

static void wrong_files(void)
{
    char file[] = "/dev/shm/gpud-push-lies-XXXXXX";
    wrong_file("shorter than its ring", make_ring(RING - 1, SEALS), RING, "bytes where");
    wrong_file("one page", make_ring(4096, SEALS), RING, "bytes where");
    wrong_file("empty", make_ring(0, SEALS), RING, "bytes where");
    wrong_file("said to be smaller", make_ring(RING, SEALS), 4096, "");
    wrong_file("said to be empty", make_ring(RING, SEALS), 0, "");
    wrong_file("said to be endless", make_ring(RING, SEALS), UINT64_MAX, "");
    wrong_file("without seals", make_ring(RING, 0), RING, "not sealed against shrinking");
    wrong_file("sealed against growing alone", make_ring(RING, F_SEAL_GROW), RING,
               "not sealed against shrinking");
    wrong_file("a device", open("/dev/zero", O_RDWR | O_CLOEXEC), RING, "not a memfd");
    int shm = mkstemp(file);
    unlink(file);
    CHECK(shm >= 0 && ftruncate(shm, RING) == 0, "mkstemp");
    wrong_file("a file that can shrink", shm, RING, "not sealed against shrinking");
}

/* --- words ------------------------------------------------------------------------------------ */

static void open_streaming(struct raw *raw, int *ring)
{
    *ring = make_ring(RING, SEALS);
    raw_connect_as_gpu(raw, ADDRESS);
    accept_file(raw, *ring, RING);
    raw_to(raw, RAW_ACCEPTED, RAW_STREAMING);
}

typedef void lie_fn(struct gpud_receiver_half *half);

static void claims_ahead(struct gpud_receiver_half *half)
{
    atomic_fetch_add(&half->claimed, ENTRIES + 1);
}

static void claims_far_ahead(struct gpud_receiver_half *half)
{
    atomic_fetch_add(&half->claimed, UINT32_C(0x80000000));
}

static void claims_less(struct gpud_receiver_half *half)
{
    atomic_store(&half->claimed, 0);
}

static void returns_ahead(struct gpud_receiver_half *half)
{
    atomic_fetch_add(&half->returned, ENTRIES + 1);
}

static void returns_far_ahead(struct gpud_receiver_half *half)
{
    atomic_fetch_add(&half->returned, UINT32_C(0x80000000));
}

static void returns_less(struct gpud_receiver_half *half)
{
    atomic_store(&half->returned, 0);
}

static void returns_none_such(struct gpud_receiver_half *half)
{
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
        atomic_store(&half->given_back[i], ENTRIES);
    atomic_fetch_add(&half->claimed, 1);
    atomic_fetch_add(&half->returned, 1);
}

static void returns_twice(struct gpud_receiver_half *half)
{
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
        atomic_store(&half->given_back[i], 1);
    atomic_fetch_add(&half->claimed, 2);
    atomic_fetch_add(&half->returned, 2);
}

static void all_ones(struct gpud_receiver_half *half)
{
    memset((void *)half, 0xff, sizeof(*half));
}

/* The sender must be waiting for the receiver, which it does when the credits are used up. */
static void word_lies(void)
{
    static const struct {
        const char *what;
        lie_fn *lie;
    } lies[] = {
        {"claims ahead", claims_ahead},
        {"claims far ahead", claims_far_ahead},
        {"claims less than before", claims_less},
        {"returns ahead", returns_ahead},
        {"returns far ahead", returns_far_ahead},
        {"returns less than before", returns_less},
        {"returns what there is not", returns_none_such},
        {"returns twice", returns_twice},
        {"all ones", all_ones},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct raw raw;
        int ring;
        SAY("words: %s", lies[i].what);
        open_streaming(&raw, &ring);
        lies[i].lie(&raw.page->receiver);
        turned_out(&raw, lies[i].what, "broke the protocol");
        close(ring);
        goes_on();
    }
}

/* Words that are ignored: the stream continues until the hostile peer disconnects. */
static void idle_words(void)
{
    struct raw raw;
    int ring;
    SAY("release words and wake-ups that lie");
    open_streaming(&raw, &ring);
    for (uint32_t round = 0; round < 200; round++) {
        struct gpud_receiver_half *half = &raw.page->receiver;
        for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
            atomic_store(&half->release[i].word, round % 2 ? UINT32_MAX : 0);
        atomic_store(&half->asleep, round * 0x01010101u);
        atomic_store(&half->kicks, round * 77);
        atomic_store(&half->latency, UINT32_MAX);
        memset((void *)&half->identity, (int)round, sizeof(half->identity));
        raw_to(&raw, RAW_READY_SENT, RAW_STREAMING);
    }
    raw_close(&raw);
    close(ring);
    goes_on();
    raw_log_clear();
}

/* --- memory that goes away -------------------------------------------------------------------- */

static void takes_memory_away(void)
{
    struct raw raw;
    int ring;
    SAY("holes in mid-stream");
    open_streaming(&raw, &ring);
    CHECK(ftruncate(ring, 0) < 0 && errno == EPERM, "it can shrink");
    for (int round = 0; round < 100; round++) {
        CHECK(fallocate(ring, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, RING) == 0,
              "fallocate: %s", strerror(errno));
        CHECK(fallocate(raw.page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        offsetof(struct gpud_page, sender.descriptor) / 4096 * 4096 + 4096,
                        4096) == 0,
              "fallocate: %s", strerror(errno));
        /* What it reads there is its own affair. */
        atomic_store(&raw.page->receiver.claimed, atomic_load(&raw.page->receiver.claimed));
        gpud_test_nap(1);
    }
    raw_close(&raw);
    close(ring);
    goes_on();
    raw_log_clear();
    SAY("a hole in the words");
    open_streaming(&raw, &ring);
    CHECK(fallocate(raw.page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    sizeof(struct gpud_page)) == 0,
          "fallocate: %s", strerror(errno));
    turned_out(&raw, "a hole in the words", "broke the protocol");
    close(ring);
    goes_on();
}

/* The GPU's copies go where the words are. */
static void ring_in_its_page(void)
{
    struct raw raw;
    SAY("a ring that is its own ring page");
    raw_connect_as_gpu(&raw, ADDRESS);
    accept_file(&raw, -1, RING);
    CHECK(raw_wait_hangup(raw.fd, 20 * GPUD_SEC), "the sender does not hang up");
    raw_close(&raw);
    goes_on();
    raw_log_clear();
}

/* --- the end ---------------------------------------------------------------------------------- */

static void finish(void)
{
    PEER_UNTIL("the last frame", 20000,
               atomic_load(&honest.board->last_value) == atomic_load(&sent));
    PEER_FINISH(&honest);
    CHECK(honest.board->gaps == 0 && honest.board->frames == sent,
          "the honest receiver has %llu of %llu frames", atomic_load(&honest.board->frames),
          atomic_load(&sent));
    SAY("%llu frames undisturbed", atomic_load(&sent));
    peer_forget(&honest);
}

int main(int argc, char **argv)
{
    struct gpud_context *context;
    struct peer_orders orders = {.address = ADDRESS};
    peer_main(argc, argv);
    alarm(550);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
    context = raw_context();
    sender = NEW_SENDER(context, .address = ADDRESS, .device = "cuda:0");
    layout = LAYOUT("GRAY8", 128, 64, 0); /* SLOT bytes */
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    peer_start(&honest, &orders);
    WORKS(gpud_sender_wait(sender, 1, 20 * GPUD_SEC, &e));
    pthread_t thread = NEW_THREAD(stream, NULL);
    /* What the driver opens once stays open, and so does the ring of the route that is offered
     * where this one fails. */
    struct raw raw;
    int ring;
    open_streaming(&raw, &ring);
    raw_close(&raw);
    close(ring);
    goes_on();
    raw_log_clear();
    wrong_file("that nobody may write", make_ring(RING, SEALS | F_SEAL_WRITE), RING,
               "cannot map the peer's shared memory");
    struct baseline running = baseline_take();

    wrong_files();
    word_lies();
    idle_words();
    takes_memory_away();
    ring_in_its_page();
    goes_on();
    BASELINE_CHECK(running);

    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    finish();
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
