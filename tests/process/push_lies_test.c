/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver that owns the host pages which a GPU's frames go by (route staged-push) lies about
 * them and in the words that give them back, while an honest receiver of the same sender loses no
 * frame. The sender pins no more of such pages than its frames need. False words end the receiver's
 * own link with a reason; removing its memory in mid-stream harms only itself. */
#include "actor.h"
#include "device/device.h"

#include <fcntl.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define ENTRIES 4 /* as raw_accept() has it */
#define SLOT UINT64_C(8192)
#define RING (ENTRIES * SLOT)

static struct background background;
static struct baseline running;

#define PUSH_TURNED_OUT(raw, says) turned_out_at(__FILE__, __LINE__, raw, says, 20 * GPUD_SEC)

/* An ACCEPT with this ring: memories of one file, said to be so large. */
static void accept_ring(struct raw *raw, int fd, uint64_t said, uint32_t memories, uint32_t slots,
                        uint64_t slot_size)
{
    struct gpud_message message;
    raw_accept(raw, &message);
    message.accept.ring = (struct gpud_ring_description){
        .slot_size = slot_size, .slots_per_memory = slots, .memories = memories};
    for (uint32_t i = 0; i < memories; i++)
        message.accept.ring.handle[i] =
            (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = fd, .size = said};
    CHECK(raw_send_message(raw->fd, &message), "ACCEPT is not sent");
}

static void open_streaming(struct raw *raw, int *ring)
{
    *ring = raw_memfd(RING, SEALS);
    raw_connect_as_gpu(raw, BACKGROUND_ADDRESS);
    accept_ring(raw, *ring, RING, 1, ENTRIES, SLOT);
    raw_to(raw, RAW_ACCEPTED, RAW_STREAMING);
}

/* --- rings that are none ---------------------------------------------------------------------- */

static void wrong_ring(const char *what, int fd, uint64_t said, uint32_t memories, uint32_t slots,
                       uint64_t slot_size, const char *says)
{
    struct raw raw;
    SAY("  %s", what);
    CHECK(fd >= 0, "no file for %s", what);
    raw_connect_as_gpu(&raw, BACKGROUND_ADDRESS);
    accept_ring(&raw, fd, said, memories, slots, slot_size);
    close(fd);
    PUSH_TURNED_OUT(&raw, says);
    background_goes_on(&background);
}

static void wrong_file(const char *what, int fd, uint64_t said, const char *says)
{
    wrong_ring(what, fd, said, 1, ENTRIES, SLOT, says);
}

/* What the driver opens once stays open, and so does the ring of the route that is offered where
 * this one fails: only what later ones leave is a leak. */
static void first_ones(void)
{
    struct raw raw;
    int ring;
    open_streaming(&raw, &ring);
    raw_close(&raw);
    close(ring);
    background_goes_on(&background);
    raw_log_clear();
    wrong_file("that is sealed against writing", raw_memfd(RING, SEALS | F_SEAL_WRITE), RING,
               "cannot map the peer's shared memory");
    running = baseline_take();
}

static void wrong_files(void)
{
    char file[] = "/dev/shm/gpud-push-lies-XXXXXX";
    wrong_file("shorter than its ring", raw_memfd(RING - 1, SEALS), RING, "bytes where");
    wrong_file("one page", raw_memfd(4096, SEALS), RING, "bytes where");
    wrong_file("empty", raw_memfd(0, SEALS), RING, "bytes where");
    wrong_file("said to be smaller", raw_memfd(RING, SEALS), 4096, "");
    wrong_file("said to be empty", raw_memfd(RING, SEALS), 0, "");
    wrong_file("said to be endless", raw_memfd(RING, SEALS), UINT64_MAX, "");
    wrong_file("without seals", raw_memfd(RING, 0), RING, "not sealed against shrinking");
    wrong_file("sealed against growing alone", raw_memfd(RING, F_SEAL_GROW), RING,
               "not sealed against shrinking");
    wrong_file("a device", open("/dev/zero", O_RDWR | O_CLOEXEC), RING, "not a memfd");
    int shm = mkstemp(file);
    unlink(file);
    CHECK(shm >= 0 && ftruncate(shm, RING) == 0, "mkstemp");
    wrong_file("a file that can shrink", shm, RING, "not sealed against shrinking");
}

/* Sparse files of any size cost a receiver nothing. */
static void wrong_sizes(void)
{
    static const struct {
        const char *what;
        uint32_t memories, slots;
        uint64_t slot_size;
        const char *says;
    } rings[] = {
        {"slots of a terabyte", 1, ENTRIES, UINT64_C(1) << 40, "slots of"},
        {"slots a page larger", 1, ENTRIES, SLOT + 4096, "is needed"},
        {"more slots than entries", 1, 64, SLOT, "is needed"},
        {"fewer slots than entries", 1, 1, SLOT, "is needed"},
        {"more memories", 64, ENTRIES, SLOT, "is needed"},
        {"no memory", 0, ENTRIES, SLOT, "0 memories"},
    };
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        uint64_t size = rings[i].slots * rings[i].slot_size;
        wrong_ring(rings[i].what, raw_memfd(size, SEALS), size, rings[i].memories, rings[i].slots,
                   rings[i].slot_size, rings[i].says);
    }
}

/* The GPU's copies go where the words are. */
static void ring_in_its_page(void)
{
    struct raw raw;
    struct gpud_message message;
    raw_connect_as_gpu(&raw, BACKGROUND_ADDRESS);
    raw_accept(&raw, &message); /* which makes the page */
    accept_ring(&raw, raw.page_fd, RING, 1, ENTRIES, SLOT);
    PUSH_TURNED_OUT(&raw, "");
}

/* --- words ------------------------------------------------------------------------------------ */

/* The sender must be waiting for the receiver, which it does when the credits are used up. */
static void word_lies(void)
{
    enum { AHEAD, TO, ALL_ONES };
    static const struct {
        const char *what;
        int how; /* the words go ahead by this, or are set to it */
        uint32_t claimed, returned;
        uint32_t given_back; /* in each entry; 0: unchanged */
    } lies[] = {
        {"claims ahead", AHEAD, ENTRIES + 1, 0, 0},
        {"claims far ahead", AHEAD, UINT32_C(0x80000000), 0, 0},
        {"claims less than before", TO, 0, UINT32_MAX, 0},
        {"returns ahead", AHEAD, 0, ENTRIES + 1, 0},
        {"returns far ahead", AHEAD, 0, UINT32_C(0x80000000), 0},
        {"returns less than before", TO, UINT32_MAX, 0, 0},
        {"returns what there is not", AHEAD, 1, 1, ENTRIES},
        {"returns twice", AHEAD, 2, 2, 1},
        {"all ones", ALL_ONES, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct raw raw;
        int ring;
        SAY("  %s", lies[i].what);
        open_streaming(&raw, &ring);
        struct gpud_receiver_half *half = &raw.page->receiver;
        for (uint32_t k = 0; k < GPUD_PAGE_ENTRIES && lies[i].given_back; k++)
            atomic_store(&half->given_back[k], lies[i].given_back);
        if (lies[i].how == AHEAD) {
            atomic_fetch_add(&half->claimed, lies[i].claimed);
            atomic_fetch_add(&half->returned, lies[i].returned);
        } else if (lies[i].how == TO) { /* the one that is 0 */
            atomic_store(lies[i].claimed ? &half->returned : &half->claimed, 0);
        } else {
            memset((void *)half, 0xff, sizeof(*half));
        }
        PUSH_TURNED_OUT(&raw, "broke the protocol");
        close(ring);
        background_goes_on(&background);
    }
}

/* Words that are ignored: the stream continues until the hostile peer disconnects. */
static void idle_words(void)
{
    struct raw raw;
    int ring;
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
}

/* --- memory that goes away -------------------------------------------------------------------- */

static void punch(int fd, off_t from, off_t size)
{
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, size) == 0,
          "fallocate: %s", strerror(errno));
}

static void holes(void)
{
    struct raw raw;
    int ring;
    open_streaming(&raw, &ring);
    CHECK(ftruncate(ring, 0) < 0 && errno == EPERM, "it can shrink");
    for (int round = 0; round < 100; round++) {
        punch(ring, 0, RING);
        punch(raw.page_fd, offsetof(struct gpud_page, sender.descriptor) / 4096 * 4096 + 4096,
              4096);
        /* What it reads there is its own affair. */
        atomic_store(&raw.page->receiver.claimed, atomic_load(&raw.page->receiver.claimed));
        gpud_test_nap(1);
    }
    raw_close(&raw);
    close(ring);
}

static void hole_in_the_words(void)
{
    struct raw raw;
    int ring;
    raw_log_clear();
    open_streaming(&raw, &ring);
    punch(raw.page_fd, 0, sizeof(struct gpud_page));
    PUSH_TURNED_OUT(&raw, "broke the protocol");
    close(ring);
}

static void nothing_is_left(void)
{
    struct raw raw;
    int ring;
    open_streaming(&raw, &ring);
    raw_close(&raw);
    close(ring);
    background_goes_on(&background);
    BASELINE_CHECK(running);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"an honest one, and a ring that cannot be written", first_ones},
        {"rings of other files", wrong_files},
        {"rings of other sizes", wrong_sizes},
        {"a ring that is its own ring page", ring_in_its_page},
        {"words that lie", word_lies},
        {"release words and wake-ups that lie", idle_words},
        {"holes in mid-stream", holes},
        {"a hole in the words", hole_in_the_words},
        {"an honest one, and nothing is left", nothing_is_left},
    };
    background.device = "cuda:0";
    background.layout = LAYOUT("GRAY8", 128, 64, 0); /* SLOT bytes */
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
