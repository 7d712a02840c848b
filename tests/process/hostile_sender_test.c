/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hostile sender tries every possible violation of the protocol against a receiver. Each is
 * refused with a reason, within a bounded time; the receiver then connects to the next sender,
 * and nothing is left open. With the argument `stalling` it makes the receiver wait for something
 * that will never arrive, or changes the format without notice. */
#include "actor.h"
#include "base/base.h"
#include "support/encode.h"

#include <fcntl.h>
#include <sys/mman.h>

#define ADDRESS "hostile"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SERVER_RING (4 * 4096)

static struct gpud_context *context;
static struct acquirer acquirer;
static struct raw_server server;

static unsigned ends(void)
{
    return atomic_load(&acquirer.ends);
}

/* Up to a step with a fresh connection; drains what a refused one left behind. */
static void serve(enum raw_server_step to)
{
    raw_serve(&server, -1, to);
}

/* Where the receiver has given its page, it is told that a message comes. */
static bool try_announced(struct gpud_message *message)
{
    if (!raw_send_message(server.fd, message))
        return false;
    if (server.page) {
        gpud_page_count_message(&server.view);
        gpud_page_notify(&server.view.end);
    }
    return true;
}

static void send_announced(struct gpud_message *message)
{
    CHECK(try_announced(message), "not sent");
}

/* The violation ends the connection: acquire's reason contains the text. */
static void ended_at(int line, unsigned before, const char *says)
{
    acquirer_ended_at(line, &acquirer, before, says);
    raw_hang_up(&server);
}
#define ENDS(says, ...)                    \
    do {                                   \
        unsigned before_ = ends();         \
        __VA_ARGS__;                       \
        ended_at(__LINE__, before_, says); \
    } while (0)

/* The receiver answers with a REFUSE that contains the text, and lives on. */
static void refused_at(int line, const char *says)
{
    struct gpud_message message;
    int64_t until = gpud_test_now() + 4 * GPUD_SEC;
    for (;;) {
        CHECK(gpud_test_now() < until, "(line %d) not refused; \"%s\" was expected", line, says);
        if (!raw_receive(server.fd, &message, GPUD_SEC))
            FAIL("(line %d) no answer, where \"%s\" was expected", line, says);
        gpud_message_close(&message);
        if (message.type == GPUD_MESSAGE_REFUSE)
            break;
    }
    CHECK(strstr(message.refuse.reason, says), "(line %d) \"%s\" does not say \"%s\"", line,
          message.refuse.reason, says);
    unsigned before = ends();
    raw_hang_up(&server);
    while (ends() == before)
        gpud_test_nap(1);
}
#define REFUSED(says) refused_at(__LINE__, says)

/* --- bytes ------------------------------------------------------------------------------------ */

static void bent_bytes(void)
{
    struct gpud_message message;
    uint8_t bytes[GPUD_MESSAGE_MAX + 100];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t count;
    static const struct {
        unsigned at;
        uint8_t by;
        const char *says;
    } bends[] = {{0, 1, "does not speak"},
                 {4, 1, "version 14"},
                 {6, 50, "malformed"},
                 {8, 1, "announced"},
                 {16, 250, "malformed"}};
    for (size_t i = 0; i < sizeof(bends) / sizeof(bends[0]); i++) {
        serve(RAW_SERVER_ACCEPTED);
        raw_hello(&message);
        size_t size = encode_message(&message, bytes, fds, &count);
        bytes[bends[i].at] = (uint8_t)(bytes[bends[i].at] + bends[i].by);
        ENDS(bends[i].says, raw_send(server.fd, bytes, size, NULL, 0));
    }
    for (int i = 0; i < 3; i++) {
        serve(RAW_SERVER_ACCEPTED);
        ENDS(i ? "more than a message holds" : "announced", {
            raw_hello(&message);
            memset(bytes, 0, sizeof(bytes));
            encode_message(&message, bytes, fds, &count);
            raw_send(server.fd, bytes, i == 0 ? 17 : GPUD_MESSAGE_MAX + (size_t)i, NULL, 0);
        });
    }
    /* An OFFER cut at each kind of byte. */
    static const size_t cuts[] = {1, 15, 16, 20, 30, 60, 120, 200, 230};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        serve(RAW_SERVER_HELLO);
        raw_offer(&server, &message);
        encode_message(&message, bytes, fds, &count);
        bytes[8] = (uint8_t)cuts[i];
        bytes[9] = 0;
        ENDS(cuts[i] < 16 ? "not even a header" : "malformed OFFER",
             raw_send(server.fd, bytes, cuts[i], fds, cuts[i] > 200 ? count : 0));
    }
    int null[250];
    for (int i = 0; i < 250; i++)
        null[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    static const size_t counts[] = {0, 2, 65, 66, 250};
    for (size_t i = 0; i < 5; i++) {
        serve(RAW_SERVER_HELLO);
        raw_offer(&server, &message);
        size_t size = encode_message(&message, bytes, fds, &count);
        ENDS("descriptors with a OFFER that has 1",
             raw_send(server.fd, bytes, size, null, counts[i]));
    }
    for (int i = 0; i < 250; i++)
        close(null[i]);
}

/* A peer of an older release, or a newer one; and one so old that it disconnects silently. */
static void other_versions(void)
{
    struct gpud_message message;
    uint8_t bytes[GPUD_MESSAGE_MAX];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t count;
    char says[100];
    for (int version = GPUD_MESSAGE_VERSION - 1; version <= GPUD_MESSAGE_VERSION + 1;
         version += 2) {
        serve(RAW_SERVER_ACCEPTED);
        raw_hello(&message);
        size_t size = encode_message(&message, bytes, fds, &count);
        bytes[4] = (uint8_t)version;
        gpud_print(says, "speaks version %d of the protocol, this library %d", version,
                   GPUD_MESSAGE_VERSION);
        ENDS(says, raw_send(server.fd, bytes, size, NULL, 0));
    }
    serve(RAW_SERVER_ACCEPTED);
    gpud_print(says, "hangs up on version %d of the protocol", GPUD_MESSAGE_VERSION);
    ENDS(says, {
        CHECK(raw_receive(server.fd, &message, 5 * GPUD_SEC), "no HELLO");
        gpud_fd_close(&server.fd);
    });
}

/* --- offers ----------------------------------------------------------------------------------- */

/* One bent field of a good offer. */
#define BENT(says, ...)                                        \
    do {                                                       \
        struct gpud_message m;                                 \
        serve(RAW_SERVER_HELLO);                               \
        raw_offer(&server, &m);                                \
        struct gpud_layout *l = &m.offer.media.picture.layout; \
        struct gpud_ring_description *r = &m.offer.ring;       \
        struct gpud_handle *h = r->handle;                     \
        (void)l, (void)r, (void)h;                             \
        __VA_ARGS__;                                           \
        CHECK(raw_send_message(server.fd, &m), "not sent");    \
        REFUSED(says);                                         \
    } while (0)

/* A batch that a slot has room for, in place of the picture. */
static struct gpud_tensors *lie_of_tensors(struct gpud_message *message)
{
    WORKS(gpud_media_from_string(&message->offer.media,
                                 "other/tensors,format=static,dimensions=\"6:64,64\","
                                 "types=\"float32,int64\",batch=(bitmask)0x3",
                                 &e));
    return &message->offer.media.tensors;
}

static void bent_offers(void)
{
    BENT("1 to 16", lie_of_tensors(&m)->count = 0);
    BENT("does not end", lie_of_tensors(&m)->tensor[0].size[1] = UINT32_MAX);
    BENT("does not end", lie_of_tensors(&m)->tensor[1].offset = UINT64_MAX);
    BENT("slots of", lie_of_tensors(&m)->tensor[1].offset = 1 << 20);
    BENT("come first", lie_of_tensors(&m)->tensor[1].offset = 8);
    BENT("pigeon", strcpy(m.offer.route, "pigeon"));
    BENT("\"\"", m.offer.route[0] = '\0');
    BENT("0x64", l->width = 0);
    BENT("4294967295", l->height = UINT32_MAX);
    BENT("planes", l->planes = 0);
    BENT("format", l->format[0] = '\0');
    BENT("bytes", l->size = 0);
    BENT("bytes", l->size = UINT64_MAX);
    BENT("leaves the frame", l->plane[0].offset = UINT64_MAX - 10);
    BENT("leaves the frame", l->plane[0].stride = UINT32_MAX);
    BENT("leaves the frame", l->plane[0].rows = 32768);
    BENT("stride", l->plane[0].row_bytes = UINT32_MAX);
    BENT("slots of", l->size = 1 << 20); /* larger than a slot */
    /* A sparse file costs its sender nothing, and its reader memory of the file's full size. */
    int sparse = raw_memfd(UINT64_C(1) << 31, SEALS);
    BENT("max-frame-size", (h->fd = sparse, h->size = l->size = r->slot_size = UINT64_C(1) << 31,
                            r->slots_per_memory = 1, l->plane[0].stride = 1 << 24));
    close(sparse);
    BENT("max-frame-size",
         (strcpy(l->format, "NEW1"), l->plane[0].row_bytes = l->plane[0].stride = 1 << 24,
          l->size = UINT64_C(1) << 30));
    BENT("slots of 0 bytes", r->slot_size = 0);
    BENT("slots of", r->slot_size = 100);
    BENT("slots of", r->slot_size = UINT64_MAX);
    BENT("bytes", r->slot_size = UINT64_C(1) << 33);
    BENT("of 0 slots", r->slots_per_memory = 0);
    BENT("of 65 slots", r->slots_per_memory = 65);
    BENT("of 4294967295 slots", r->slots_per_memory = UINT32_MAX);
    BENT("offers", r->slots_per_memory = 5); /* more than the memory holds */
    BENT("offers", h->size = 10);
    BENT("bytes where",
         (r->slots_per_memory = 64, h->size = UINT64_MAX)); /* the handle lies, the file does not */
    BENT("another process", h->type = GPUD_HANDLE_LOCAL);
    BENT("not shared host memory", h->type = GPUD_HANDLE_BUS_ADDRESS);
    BENT("not shared host memory", h->type = GPUD_HANDLE_NONE);
    BENT("sends none", r->memories = 0);
    BENT("0 memories", (r->memories = 0, strcpy(m.offer.route, "staged")));
    static const struct {
        const char *path;
        const char *says;
    } files[] = {{"/dev/null", "not a memfd"},
                 {"/dev/zero", "not a memfd"},
                 {"/proc/self/exe", "not a memfd"}};
    for (int i = 0; i < 3; i++) {
        int fd = open(files[i].path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0, "open");
        BENT(files[i].says, h->fd = fd);
        close(fd);
    }
}

static void wrong_rings(void)
{
    static const struct {
        uint64_t size;
        int seals;
        const char *says;
    } rings[] = {
        {SERVER_RING, -1, "not sealed"},
        {SERVER_RING, F_SEAL_GROW, "not sealed"},
        {SERVER_RING - 1, SEALS, "bytes where"},
        {0, SEALS, "bytes where"},
    };
    for (int i = 0; i < 4; i++) {
        int fd = raw_memfd(rings[i].size, rings[i].seals);
        BENT(rings[i].says, h->fd = fd);
        close(fd);
    }
}

/* --- out of turn ------------------------------------------------------------------------------ */

static void out_of_turn(void)
{
    struct gpud_message message;
    for (int step = RAW_SERVER_HELLO; step <= RAW_SERVER_STREAMING; step++) {
        if (step == RAW_SERVER_OFFERED)
            continue; /* the receiver may be at either side of its answer */
        static const enum gpud_message_type never[] = {GPUD_MESSAGE_HELLO, GPUD_MESSAGE_ACCEPT,
                                                       GPUD_MESSAGE_READY, GPUD_MESSAGE_CANARY};
        for (int i = 0; i < 4; i++) {
            if (never[i] == GPUD_MESSAGE_CANARY && step == RAW_SERVER_PAGE)
                continue;
            serve((enum raw_server_step)step);
            if (step == RAW_SERVER_CANARY)
                raw_serve(&server, step, RAW_SERVER_READY);
            message = (struct gpud_message){.type = never[i]};
            int page = -1;
            if (message.type == GPUD_MESSAGE_ACCEPT)
                message.accept.page = encode_page(page = raw_memfd(4096, SEALS));
            char says[64];
            snprintf(says, sizeof(says), "an unexpected %s", gpud_message_name(never[i]));
            ENDS(says, send_announced(&message));
            gpud_fd_close(&page);
        }
    }
    /* A canary that does not hold what it promises, and one of another epoch. */
    serve(RAW_SERVER_PAGE);
    message = (struct gpud_message){.type = GPUD_MESSAGE_CANARY};
    message.canary.epoch = server.epoch + 1;
    ENDS("an unexpected CANARY", raw_send_message(server.fd, &message));
    serve(RAW_SERVER_PAGE);
    uint32_t entry;
    CHECK(gpud_page_take(&server.view, &entry), "no credit");
    server.page->sender.descriptor[entry] =
        (struct gpud_descriptor){.slot = entry, .flags = GPUD_FRAME_CANARY};
    gpud_page_publish(&server.view, entry);
    message.canary.epoch = server.epoch;
    message.canary.nonce = 99;
    raw_send_message(server.fd, &message);
    REFUSED("the test pattern is not in the destination");
    serve(RAW_SERVER_PAGE);
    raw_publish(&server, &entry);
    raw_send_message(server.fd, &message);
    REFUSED("before the test of the link");
}

/* A ring shrinks only as far as it has memory in which no frame is held. */
static void shrinks(void)
{
    static const uint32_t left[] = {0, 1, 2, UINT32_MAX};
    struct gpud_message message = {.type = GPUD_MESSAGE_SHRINK};
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        serve(RAW_SERVER_STREAMING);
        message.shrink = left[i];
        ENDS("is to shrink to", send_announced(&message));
    }
    serve(RAW_SERVER_HELLO);
    ENDS("an unexpected SHRINK", raw_send_message(server.fd, &message));
}

/* A sender may tell of more memory before it has read that its ring was refused. */
static void growth_of_a_refused_ring(void)
{
    struct gpud_message offer, growth = {.type = GPUD_MESSAGE_GROW}, answer;
    serve(RAW_SERVER_HELLO);
    raw_offer(&server, &offer);
    growth.grow = offer.offer.ring;
    strcpy(offer.offer.route, "pigeon");
    unsigned ended = ends();
    CHECK(raw_send_message(server.fd, &offer) && raw_send_message(server.fd, &growth), "not sent");
    CHECK(raw_receive(server.fd, &answer, 5 * GPUD_SEC) && answer.type == GPUD_MESSAGE_REFUSE,
          "no REFUSE");
    unsigned long long frames = atomic_load(&acquirer.frames);
    raw_serve(&server, RAW_SERVER_HELLO, RAW_SERVER_STREAMING);
    PEER_UNTIL("a frame by the next offer", 10000, atomic_load(&acquirer.frames) > frames);
    CHECK_EQUAL(ends(), ended);
    ENDS("", raw_hang_up(&server));
    serve(RAW_SERVER_HELLO);
    ENDS("an unexpected GROW", CHECK(raw_send_message(server.fd, &growth), "not sent"));
}

/* An EOS ends a stream that began, and before READY none has. */
static void early_ends(void)
{
    static const enum raw_server_step steps[] = {RAW_SERVER_ACCEPTED, RAW_SERVER_HELLO,
                                                 RAW_SERVER_OFFERED, RAW_SERVER_PAGE};
    struct gpud_message message = {.type = GPUD_MESSAGE_EOS};
    unsigned before = atomic_load(&acquirer.ends_of_stream);
    message.epoch = server.epoch;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        serve(steps[i]);
        ENDS("an unexpected EOS", raw_send_message(server.fd, &message));
    }
    CHECK_EQUAL(atomic_load(&acquirer.ends_of_stream), before);
}

/* --- the shared words, while frames flow ------------------------------------------------------ */

static void forged_words(void)
{
    uint32_t entry;
#define FORGED(says, ...)                                            \
    do {                                                             \
        serve(RAW_SERVER_STREAMING);                                 \
        gpud_test_nap(5);                                            \
        ENDS(says, __VA_ARGS__; gpud_page_notify(&server.view.end)); \
    } while (0)
    FORGED("more frames waiting than entries", atomic_fetch_add(&server.page->sender.head, 1000));
    FORGED("an entry that does not exist", {
        for (int i = 0; i < GPUD_PAGE_ENTRIES; i++)
            atomic_store(&server.page->sender.published[i], 4);
        atomic_fetch_add(&server.page->sender.head, 1);
    });
    FORGED("an entry that does not exist", {
        for (int i = 0; i < GPUD_PAGE_ENTRIES; i++)
            atomic_store(&server.page->sender.published[i], UINT32_MAX);
        atomic_fetch_add(&server.page->sender.head, 1);
    });
    FORGED("went back", server.sequence = 0; raw_publish(&server, &entry));
#define DESCRIBED(says, field, value)                                  \
    FORGED(says, {                                                     \
        CHECK(gpud_page_take(&server.view, &entry), "no credit");      \
        server.page->sender.descriptor[entry] =                        \
            (struct gpud_descriptor){.slot = entry, .sequence = 1000}; \
        server.page->sender.descriptor[entry].field = value;           \
        gpud_page_publish(&server.view, entry);                        \
    })
    DESCRIBED("a slot that its ring does not have", slot, 4);
    DESCRIBED("a slot that its ring does not have", slot, UINT32_MAX);
    DESCRIBED("more meta than a frame carries", meta_size, GPUD_FRAME_META_MAX + 1);
    DESCRIBED("more meta than a frame carries", meta_size, UINT32_MAX);
    DESCRIBED("a large meta of 1 bytes in room for 0", large_meta_size, 1);
    DESCRIBED("a large meta of 4294967295 bytes", large_meta_size, UINT32_MAX);
    DESCRIBED("or a part of a picture", bytes, 1);
    DESCRIBED("or a part of a picture", bytes, UINT64_MAX);

    /* Frames that no receiver claimed. */
    FORGED("more frames waiting than entries", atomic_fetch_add(&server.page->receiver.claimed, 5));
    FORGED("more frames waiting than entries",
           atomic_fetch_add(&server.page->receiver.claimed, 1000));
    FORGED("more frames waiting than entries",
           atomic_fetch_add(&server.page->receiver.claimed, (uint32_t)INT32_MAX));
    /* Scribbling over all of it. */
    for (int turn = 0; turn < 20; turn++) {
        serve(RAW_SERVER_STREAMING);
        unsigned before = ends(); /* it may be noticed before the scribbling is over */
        uint32_t state = 99u + (uint32_t)turn;
        int64_t until = gpud_test_now() + 30 * GPUD_MSEC;
        uint8_t *bytes = (uint8_t *)server.page;
        while (gpud_test_now() < until)
            for (int i = 0; i < 1000; i++) {
                state = state * 1664525 + 1013904223;
                bytes[(state >> 8) % (turn % 2 ? sizeof(*server.page) : 1200)] =
                    (uint8_t)(state >> 3);
            }
        raw_hang_up(&server);
        ended_at(__LINE__, before, "");
    }
}

/* --- floods ----------------------------------------------------------------------------------- */

/* An acquire that does not come back takes as long; one on a busy machine takes a moment. */
#define FLOOD_TIME (3 * GPUD_SEC)

static void flood(const char *what, struct gpud_message *message)
{
    unsigned sent = 0, before = ends();
    atomic_store(&acquirer.longest, 0);
    int64_t until = gpud_test_now() + FLOOD_TIME;
    while (gpud_test_now() < until && ends() == before)
        sent += try_announced(message);
    raw_hang_up(&server);
    until = gpud_test_now() + 20 * GPUD_SEC;
    while (ends() == before) {
        CHECK(gpud_test_now() < until, "the end of a flood of %s is not noticed", what);
        gpud_test_nap(1);
    }
    int64_t longest = atomic_load(&acquirer.longest);
    SAY("  %u times %s: an acquire of 50 ms took %lld ms at most", sent, what,
        (long long)(longest / GPUD_MSEC));
    CHECK(longest < FLOOD_TIME - GPUD_SEC / 2, "acquire does not come back while %s flood it",
          what);
}

static void floods(void)
{
    struct gpud_message message;
    serve(RAW_SERVER_HELLO);
    raw_offer(&server, &message);
    flood("OFFER", &message);
    serve(RAW_SERVER_STREAMING);
    raw_offer(&server, &message);
    message.type = GPUD_MESSAGE_GROW;
    struct gpud_ring_description ring = message.offer.ring;
    message.grow = ring;
    message.position = 0;
    flood("GROW", &message);
    message = (struct gpud_message){.type = GPUD_MESSAGE_EVENT};
    serve(RAW_SERVER_STREAMING);
    flood("EVENT", &message);
    serve(RAW_SERVER_HELLO);
    flood("EVENT before an offer", &message);
    message.type = GPUD_MESSAGE_EOS;
    message.epoch = server.epoch;
    serve(RAW_SERVER_STREAMING);
    flood("EOS", &message);
}

static void streaming(void)
{
    unsigned long long frames = atomic_load(&acquirer.frames);
    serve(RAW_SERVER_STREAMING);
    PEER_UNTIL("the first frame", 10000, atomic_load(&acquirer.frames) > frames);
}

/* A message positioned this many frames after the published ones. */
static void announce(enum gpud_message_type type, uint32_t ahead)
{
    struct gpud_message message = {.type = type, .position = server.view.head + ahead};
    if (type == GPUD_MESSAGE_EOS)
        message.epoch = server.epoch;
    send_announced(&message);
}

/* --- places that are never reached ------------------------------------------------------------ */

static void messages_that_are_never_due(void)
{
    for (uint32_t ahead = 1; ahead <= 4; ahead++) {
        streaming();
        announce(GPUD_MESSAGE_EVENT, ahead);
        gpud_test_nap(20); /* it is read, and waits */
        ENDS("vanished", raw_hang_up(&server));
    }
    /* What was published before the death is still handed out. The announced end of the stream is
     * not reported, because frames before it are missing. */
    uint32_t entry;
    streaming();
    unsigned ended = ends();
    unsigned long long frames = atomic_load(&acquirer.frames);
    announce(GPUD_MESSAGE_EOS, 3);
    CHECK(raw_publish(&server, &entry) && raw_publish(&server, &entry), "no credit");
    raw_hang_up(&server);
    acquirer_ended_at(__LINE__, &acquirer, ended, "vanished");
    CHECK_EQUAL(atomic_load(&acquirer.frames), frames + 2);
    CHECK_EQUAL(atomic_load(&acquirer.ends_of_stream), 0);
    /* Behind those that came it is one. */
    streaming();
    ended = ends();
    announce(GPUD_MESSAGE_EOS, 2);
    CHECK(raw_publish(&server, &entry) && raw_publish(&server, &entry), "no credit");
    raw_hang_up(&server);
    acquirer_ended_at(__LINE__, &acquirer, ended + 1, "vanished");
    CHECK_EQUAL(atomic_load(&acquirer.ends_of_stream), 1);

    /* Further ahead than frames can be. */
    static const uint32_t beyond[] = {5, 64, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        streaming();
        ENDS("behind more frames than there are entries", announce(GPUD_MESSAGE_EVENT, beyond[i]));
    }
}

static void heads_that_are_nowhere(void)
{
    static const uint32_t ahead[] = {(UINT32_C(1) << 31) - 1, UINT32_C(1) << 31,
                                     (UINT32_C(1) << 31) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        streaming();
        ENDS("more frames waiting than entries", {
            atomic_fetch_add(&server.page->sender.head, ahead[i]);
            gpud_page_notify(&server.view.end);
        });
    }
}

static void frames_that_never_come(void)
{
    serve(RAW_SERVER_PAGE);
    struct gpud_message message = {.type = GPUD_MESSAGE_CANARY};
    message.canary.epoch = server.epoch;
    CHECK(raw_send_message(server.fd, &message), "not sent");
    gpud_test_nap(20);
    atomic_store(&acquirer.longest, 0);
    ENDS("vanished", raw_hang_up(&server));
    CHECK(atomic_load(&acquirer.longest) < GPUD_SEC,
          "acquire does not come back while the test frame is waited for");
}

/* --- formats ---------------------------------------------------------------------------------- */

static void offer(const struct gpud_layout *layout, uint32_t rate)
{
    struct gpud_message message;
    raw_offer(&server, &message);
    message.offer.media.picture.layout = *layout;
    message.offer.media.picture.rate = (struct gpud_fraction){rate, 1};
    if (server.page)
        message.position = server.view.head;
    send_announced(&message);
}

static void formats_behind_the_back(void)
{
    struct gpud_layout smaller = LAYOUT("GRAY8", 32, 32, 0);
    serve(RAW_SERVER_HELLO);
    offer(&server.layout, 1);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    unsigned long long formats = atomic_load(&acquirer.formats);
    /* Once more the same, by another route, say: nothing to tell. */
    offer(&server.layout, 1);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    CHECK_EQUAL(atomic_load(&acquirer.formats), formats);
    /* Another epoch is told, whatever its number. */
    server.epoch = 77;
    offer(&smaller, 2);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_READY);
    PEER_UNTIL("word of the format", 10000, atomic_load(&acquirer.formats) == formats + 1);
    /* The same epoch with another layout, or other media, is a lie. */
    ENDS("another format, and the same epoch", offer(&server.layout, 2));
    serve(RAW_SERVER_HELLO);
    offer(&server.layout, 1);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    ENDS("another format, and the same epoch", offer(&server.layout, 3));
    /* So is an epoch that was never begun. */
    server.epoch = 0;
    serve(RAW_SERVER_HELLO);
    ENDS("epochs count from 1", offer(&server.layout, 1));
    server.epoch = 1;
}

/* --- times ------------------------------------------------------------------------------------ */

static void times_from_nowhere(void)
{
    static const uint64_t times[] = {1, INT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1,
                                     UINT64_MAX};
    streaming();
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        unsigned long long frames = atomic_load(&acquirer.frames);
        uint32_t entry, back;
        while (gpud_page_reap(&server.view, &back) > 0)
            ;
        CHECK(gpud_page_take(&server.view, &entry), "no credit");
        server.page->sender.descriptor[entry] = (struct gpud_descriptor){
            .slot = entry, .sequence = ++server.sequence, .submit_time = times[i]};
        gpud_page_publish(&server.view, entry);
        gpud_page_notify(&server.view.end);
        PEER_UNTIL("the frame", 10000, atomic_load(&acquirer.frames) > frames);
    }
    struct gpud_receiver_info info = INFO(receiver, acquirer.receiver);
    CHECK(info.latency_max_ns <= UINT32_MAX, "a latency of %llu ns",
          (unsigned long long)info.latency_max_ns);
    ENDS("vanished", raw_hang_up(&server));
}

int main(int argc, char **argv)
{
    test_begin(110);
    struct baseline before = baseline_take();
    context = raw_context();
    raw_listen(&server, ADDRESS);
    acquirer_start(&acquirer, context, ADDRESS);
    bool stalling = argc > 1 && strcmp(argv[1], "stalling") == 0;
    static const struct {
        const char *says;
        void (*test)(void);
        bool stalls;
    } tests[] = {
        {"bent headers, lies about lengths, wrong descriptors", bent_bytes},
        {"other releases", other_versions},
        {"offers of what cannot be", bent_offers},
        {"rings that are none", wrong_rings},
        {"messages out of turn, canaries that lie", out_of_turn},
        {"rings that shrink", shrinks},
        {"a ring that grows when it was refused", growth_of_a_refused_ring},
        {"ends of streams that did not begin", early_ends},
        {"shared words that lie", forged_words},
        {"floods", floods},
        {"messages behind frames that never come", messages_that_are_never_due, true},
        {"heads that are nowhere", heads_that_are_nowhere, true},
        {"test frames that never come", frames_that_never_come, true},
        {"formats that change behind the back", formats_behind_the_back, true},
        {"times from nowhere", times_from_nowhere, true},
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (tests[i].stalls != stalling || (argc > 1 && !stalling && atoi(argv[1]) != (int)i))
            continue;
        SAY("%s", tests[i].says);
        tests[i].test();
        /* An honest one is heard as ever. */
        unsigned long long frames = atomic_load(&acquirer.frames);
        serve(RAW_SERVER_STREAMING);
        PEER_UNTIL("an honest sender's frame", 10000, atomic_load(&acquirer.frames) > frames);
        unsigned ended = ends();
        raw_hang_up(&server);
        PEER_UNTIL("its end", 10000, ends() > ended);
    }
    acquirer_stop(&acquirer);
    raw_server_close(&server);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
    return runtime_done();
}
