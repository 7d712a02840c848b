/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages: each type survives the way there, and no truncation, corruption or miscount of
 * descriptors gets past the decoder as something that the rest of the library could not bear. */
#include "support/check.h"
#include "wire/message.h"

#include <sys/mman.h>

#define FIRST_FD 100 /* numbers only: encoding and decoding does no I/O */

struct wire {
    uint8_t bytes[GPUD_MESSAGE_MAX];
    int fds[GPUD_MESSAGE_FDS + 1];
    size_t size, fd_count;
};

static void fill_text(char *text, size_t size, char first)
{
    for (size_t i = 0; i + 1 < size; i++)
        text[i] = (char)(first + (char)(i % 10));
    text[size - 1] = '\0';
}

static void fill_ring(struct gpud_ring_description *ring, uint32_t memories, bool with_fds)
{
    ring->slot_size = UINT64_C(0x0102030405060708);
    ring->slots_per_memory = 64;
    ring->memories = memories;
    for (uint32_t i = 0; i < memories; i++) {
        struct gpud_handle *handle = &ring->handle[i];
        handle->type = with_fds ? GPUD_HANDLE_CUDA_FD : GPUD_HANDLE_CUDA_IPC;
        handle->fd = with_fds ? FIRST_FD + (int)i : -1;
        handle->size = UINT64_MAX - i;
        for (unsigned k = 0; k < (with_fds ? 1 : GPUD_HANDLE_WORDS); k++)
            handle->word[k] = UINT64_C(0x1111111111111111) * (k + 1) + i;
    }
}

static void fill_layout(struct gpud_layout *layout)
{
    fill_text(layout->format, sizeof(layout->format), 'A');
    layout->width = 1366;
    layout->height = 767;
    layout->planes = 4;
    for (unsigned i = 0; i < 4; i++)
        layout->plane[i] =
            (struct gpud_plane){UINT64_MAX - i, UINT32_MAX - i, 0x01020304u + i, 767 + i};
    layout->size = UINT64_C(0xfedcba9876543210);
}

static void fill_report(struct gpud_report *report)
{
    fill_text(report->name, sizeof(report->name), 'a');
    fill_text(report->device, sizeof(report->device), 'b');
    report->epoch = UINT32_MAX;
    fill_layout(&report->layout);
    report->media_size = GPUD_MEDIA_MAX;
    memset(report->media, 0x3c, GPUD_MEDIA_MAX);
    report->ended = 1;
    report->slow_receiver = GPUD_SLOW_DROP_OLDEST;
    report->slots = GPUD_SLOTS_MAX;
    report->links = GPUD_RECEIVERS_MAX;
    report->frames = UINT64_MAX;
    report->delivered = UINT64_MAX - 1;
    report->dropped = UINT64_MAX - 2;
    report->connects = UINT64_MAX - 3;
    report->rate = UINT64_MAX - 4;
    report->age = UINT64_MAX - 5;
}

static void fill_links(struct gpud_links *links, uint32_t count)
{
    links->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_link_info *link = &links->link[i];
        link->size = sizeof(*link);
        link->id = UINT64_MAX - i;
        link->pid = INT32_MAX - (int)i;
        fill_text(link->name, sizeof(link->name), 'a');
        fill_text(link->device, sizeof(link->device), 'b');
        fill_text(link->path, sizeof(link->path), 'c');
        fill_text(link->fallback_reason, sizeof(link->fallback_reason), 'd');
        link->phase = GPUD_PHASE_LEAVING;
        link->slow_receiver = GPUD_SLOW_DROP_OLDEST;
        link->held = UINT32_MAX - i;
        link->delivered = UINT64_MAX / 3;
        link->dropped = UINT64_MAX / 5;
        link->latency = UINT64_MAX / 7 + i;
    }
}

/* Message number n of type `type`: 0 is the smallest, 1 the largest that there is. */
static void make(struct gpud_message *message, enum gpud_message_type type, bool large)
{
    memset(message, 0, sizeof(*message));
    message->type = type;
    message->position = large ? UINT32_MAX : 0;
    switch (type) {
    case GPUD_MESSAGE_HELLO:
        if (!large)
            break;
        fill_text(message->hello.name, sizeof(message->hello.name), 'a');
        fill_text(message->hello.device, sizeof(message->hello.device), 'b');
        fill_text(message->hello.kind, sizeof(message->hello.kind), 'c');
        fill_text(message->hello.no_direct, sizeof(message->hello.no_direct), 'd');
        fill_text(message->hello.route, sizeof(message->hello.route), 'e');
        message->hello.caps = UINT32_MAX;
        memset(message->hello.uuid, 0xa5, 16);
        memset(message->hello.host, 0x5a, 16);
        message->hello.aperture = message->hello.token = UINT64_MAX - 1;
        message->hello.slots = 64;
        message->hello.slow_receiver = 255;
        message->hello.require_direct = 1;
        message->hello.reach_count = GPUD_REACH_MAX;
        memset(message->hello.reach, 0xc3, sizeof(message->hello.reach));
        message->hello.host_rate = UINT32_MAX;
        break;
    case GPUD_MESSAGE_OFFER:
        if (!large)
            break;
        message->offer.epoch = UINT32_MAX;
        fill_text(message->offer.route, sizeof(message->offer.route), 'r');
        fill_text(message->offer.reason, sizeof(message->offer.reason), 's');
        fill_layout(&message->offer.layout);
        message->offer.media_size = GPUD_MEDIA_MAX;
        memset(message->offer.media, 0, GPUD_MEDIA_MAX);
        message->offer.media[GPUD_MEDIA_MAX - 1] = 0xff;
        fill_ring(&message->offer.ring, GPUD_RING_MEMORIES_MAX, true);
        break;
    case GPUD_MESSAGE_ACCEPT:
        message->accept.page = 99;
        if (!large)
            break;
        message->accept.epoch = 7;
        message->accept.entries = UINT32_MAX;
        fill_ring(&message->accept.ring, GPUD_RING_MEMORIES_MAX, true);
        break;
    case GPUD_MESSAGE_CANARY:
        message->canary.epoch = large ? UINT32_MAX : 0;
        message->canary.nonce = large ? UINT64_MAX : 0;
        break;
    case GPUD_MESSAGE_READY:
    case GPUD_MESSAGE_EOS:
        message->epoch = large ? UINT32_MAX : 0;
        break;
    case GPUD_MESSAGE_REFUSE:
    case GPUD_MESSAGE_BYE:
        if (!large)
            break;
        message->refuse.epoch = 3;
        message->refuse.status = UINT32_MAX;
        fill_text(message->refuse.reason, sizeof(message->refuse.reason), 'f');
        break;
    case GPUD_MESSAGE_EVENT:
        if (!large)
            break;
        message->event.kind = UINT32_MAX;
        message->event.size = GPUD_MEDIA_MAX;
        memset(message->event.data, 0x77, GPUD_MEDIA_MAX);
        break;
    case GPUD_MESSAGE_GROW:
        if (large)
            fill_ring(&message->grow, GPUD_RING_MEMORIES_MAX, false);
        break;
    case GPUD_MESSAGE_QUERY:
        break;
    case GPUD_MESSAGE_STATUS:
        if (large)
            fill_report(&message->report);
        break;
    case GPUD_MESSAGE_LINKS:
        if (large)
            fill_links(&message->links, GPUD_LINKS_A_MESSAGE);
        message->links.count = large ? GPUD_LINKS_A_MESSAGE : 1;
        break;
    }
}

static void encode(struct wire *wire, struct gpud_message *message)
{
    memset(wire, 0, sizeof(*wire));
    wire->size = gpud_message_encode(message, wire->bytes, wire->fds, &wire->fd_count);
    CHECK(wire->size >= 16 && wire->size <= GPUD_MESSAGE_MAX, "%zu bytes", wire->size);
    CHECK(wire->fd_count <= GPUD_MESSAGE_FDS, "%zu descriptors", wire->fd_count);
}

/* Decodes from the last bytes before a page that nobody can read: one byte too far ends the test.
 */
static uint8_t *guarded;
static size_t guarded_size;

static int before = 0xcc; /* what is in a message before it is decoded */

static enum gpud_status decode(struct gpud_message *message, const struct wire *wire, size_t size,
                               size_t fd_count, struct gpud_error *error)
{
    uint8_t *at = guarded + guarded_size - size;
    memcpy(at, wire->bytes, size);
    memset(message, before, sizeof(*message));
    return gpud_message_decode(message, at, size, wire->fds, fd_count, error);
}

/* Whatever the bytes were, what comes out can be used. */
static void check_sane(const struct gpud_message *message)
{
    const struct gpud_ring_description *ring = NULL;
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        CHECK(memchr(message->hello.name, 0, 64) && memchr(message->hello.device, 0, 32) &&
                  memchr(message->hello.kind, 0, 16) &&
                  memchr(message->hello.no_direct, 0, GPUD_REASON_MAX) &&
                  memchr(message->hello.route, 0, 32),
              "a text without an end");
        break;
    case GPUD_MESSAGE_OFFER:
        CHECK(memchr(message->offer.route, 0, 32) &&
                  memchr(message->offer.reason, 0, GPUD_REASON_MAX) &&
                  memchr(message->offer.layout.format, 0, 16),
              "a text without an end");
        CHECK(message->offer.media_size <= GPUD_MEDIA_MAX, "%u bytes of media",
              message->offer.media_size);
        ring = &message->offer.ring;
        break;
    case GPUD_MESSAGE_ACCEPT:
        CHECK(message->accept.page >= 0, "an ACCEPT without a page");
        ring = &message->accept.ring;
        break;
    case GPUD_MESSAGE_REFUSE:
    case GPUD_MESSAGE_BYE:
        CHECK(memchr(message->refuse.reason, 0, GPUD_REASON_MAX), "a text without an end");
        break;
    case GPUD_MESSAGE_EVENT:
        CHECK(message->event.size <= GPUD_MEDIA_MAX, "an event of %u bytes", message->event.size);
        break;
    case GPUD_MESSAGE_GROW:
        ring = &message->grow;
        break;
    case GPUD_MESSAGE_STATUS:
        CHECK(memchr(message->report.name, 0, 64) && memchr(message->report.device, 0, 32) &&
                  memchr(message->report.layout.format, 0, 16),
              "a text without an end");
        CHECK(message->report.media_size <= GPUD_MEDIA_MAX &&
                  message->report.links <= GPUD_RECEIVERS_MAX &&
                  message->report.slow_receiver <= GPUD_SLOW_DROP_OLDEST,
              "a report of what cannot be");
        break;
    case GPUD_MESSAGE_LINKS:
        CHECK(message->links.count > 0 && message->links.count <= GPUD_LINKS_A_MESSAGE, "%u links",
              message->links.count);
        for (uint32_t i = 0; i < message->links.count; i++) {
            const struct gpud_link_info *link = &message->links.link[i];
            CHECK(memchr(link->name, 0, 64) && memchr(link->device, 0, 32) &&
                      memchr(link->path, 0, 32) &&
                      memchr(link->fallback_reason, 0, GPUD_REASON_MAX),
                  "a text without an end");
            CHECK(link->pid >= 0 && link->pid <= INT32_MAX && link->phase <= GPUD_PHASE_LEAVING,
                  "a link that cannot be");
        }
        break;
    case GPUD_MESSAGE_CANARY:
    case GPUD_MESSAGE_READY:
    case GPUD_MESSAGE_EOS:
    case GPUD_MESSAGE_QUERY:
        break;
    default:
        FAIL("a message of type %d was accepted", (int)message->type);
    }
    if (!ring)
        return;
    CHECK(ring->memories <= GPUD_RING_MEMORIES_MAX, "%u memories", ring->memories);
    for (uint32_t i = 0; i < ring->memories; i++)
        CHECK(ring->handle[i].type < GPUD_HANDLE_TYPES && ring->handle[i].fd >= -1,
              "a handle of type %u with fd %d", ring->handle[i].type, ring->handle[i].fd);
}

static void round_trip(enum gpud_message_type type, bool large)
{
    struct gpud_message sent, got;
    struct wire wire, again;
    make(&sent, type, large);
    encode(&wire, &sent);
    before = 0; /* the holes between fields compare equal */
    EXPECT(GPUD_OK, "", decode(&got, &wire, wire.size, wire.fd_count, &e));
    before = 0xcc;
    CHECK(got.type == type && got.position == sent.position, "another message came out");
    check_sane(&got);
    /* What was decoded says the same: every field is on the wire, and in its place. */
    encode(&again, &got);
    CHECK(again.size == wire.size && memcmp(again.bytes, wire.bytes, wire.size) == 0,
          "the %s that came out is not the one that went in", gpud_message_name(type));
    CHECK(again.fd_count == wire.fd_count &&
              memcmp(again.fds, wire.fds, sizeof(int) * wire.fd_count) == 0,
          "the descriptors changed places");
    if (type == GPUD_MESSAGE_OFFER && large) {
        CHECK(memcmp(&got.offer.layout, &sent.offer.layout, sizeof(sent.offer.layout)) == 0,
              "the layout changed");
        CHECK(memcmp(got.offer.media, sent.offer.media, GPUD_MEDIA_MAX) == 0, "the media changed");
        CHECK(memcmp(&got.offer.ring, &sent.offer.ring, sizeof(sent.offer.ring)) == 0,
              "the ring changed");
    }
    if (type == GPUD_MESSAGE_STATUS && large)
        CHECK(memcmp(&got.report, &sent.report, sizeof(sent.report)) == 0, "the STATUS changed");
    if (type == GPUD_MESSAGE_LINKS && large)
        CHECK(memcmp(&got.links, &sent.links, sizeof(sent.links)) == 0, "the LINKS changed");
    /* What is told to who asks can grow by a third before it needs more messages. */
    if (type == GPUD_MESSAGE_STATUS || type == GPUD_MESSAGE_LINKS)
        CHECK(wire.size <= GPUD_MESSAGE_MAX * 3 / 4, "a %s of %zu bytes", gpud_message_name(type),
              wire.size);
    if (type == GPUD_MESSAGE_HELLO && large)
        CHECK(memcmp(&got.hello, &sent.hello, sizeof(sent.hello)) == 0, "the HELLO changed");
}

static void truncations(enum gpud_message_type type, bool large)
{
    struct gpud_message sent, got;
    struct wire wire;
    make(&sent, type, large);
    encode(&wire, &sent);
    for (size_t size = 0; size < wire.size; size++) {
        EXPECT(GPUD_PEER, "", decode(&got, &wire, size, wire.fd_count, &e));
        /* The same with a header that fits: only the body is short. */
        if (size < 16)
            continue;
        struct wire shorter = wire;
        for (unsigned i = 0; i < 4; i++)
            shorter.bytes[8 + i] = (uint8_t)(size >> (8 * i));
        struct gpud_error error = {.reason = ""};
        CHECK(decode(&got, &shorter, size, wire.fd_count, &error) != GPUD_OK,
              "%zu of %zu bytes of a %s were enough", size, wire.size, gpud_message_name(type));
    }
    /* And one that is longer than what it says. */
    struct wire longer = wire;
    if (wire.size < GPUD_MESSAGE_MAX) {
        EXPECT(GPUD_PEER, "announced", decode(&got, &longer, wire.size + 1, wire.fd_count, &e));
        longer.bytes[8] = (uint8_t)(wire.size + 1);
        longer.bytes[9] = (uint8_t)((wire.size + 1) >> 8);
        EXPECT(GPUD_PEER, "malformed", decode(&got, &longer, wire.size + 1, wire.fd_count, &e));
    }
}

static unsigned accepted, refused;

static void corruptions(enum gpud_message_type type, bool large)
{
    struct gpud_message sent, got;
    struct wire wire;
    make(&sent, type, large);
    encode(&wire, &sent);
    for (size_t at = 0; at < wire.size; at++) {
        uint8_t was = wire.bytes[at];
        /* Every value in the smaller messages; the telling ones where there are thousands of bytes.
         */
        for (unsigned step = 1; step < 256; step += wire.size < 600 ? 1 : (at < 700 ? 17 : 85)) {
            wire.bytes[at] = (uint8_t)(was + step);
            struct gpud_error error = {.reason = ""};
            if (decode(&got, &wire, wire.size, wire.fd_count, &error) == GPUD_OK) {
                check_sane(&got);
                accepted++;
            } else {
                CHECK(strlen(error.reason) > 10, "byte %zu of a %s: refused without a reason", at,
                      gpud_message_name(type));
                refused++;
            }
        }
        wire.bytes[at] = was;
    }
    /* In the header nothing but the place may change. */
    for (size_t at = 0; at < 12; at++)
        for (unsigned step = 1; step < 256; step++) {
            wire.bytes[at] = (uint8_t)(wire.bytes[at] + 1);
            struct gpud_error error;
            bool type_byte = at == 6; /* READY and EOS, REFUSE and BYE have the same body */
            CHECK(type_byte || decode(&got, &wire, wire.size, wire.fd_count, &error) != GPUD_OK,
                  "byte %zu of the header does not matter", at);
            if (step == 255)
                wire.bytes[at]++;
        }
}

static void descriptor_counts(enum gpud_message_type type, bool large)
{
    struct gpud_message sent, got;
    struct wire wire;
    make(&sent, type, large);
    encode(&wire, &sent);
    for (size_t count = 0; count <= GPUD_MESSAGE_FDS; count++) {
        if (count == wire.fd_count)
            continue;
        struct gpud_error error = {.reason = ""};
        CHECK(decode(&got, &wire, wire.size, count, &error) == GPUD_PEER,
              "a %s with %zu descriptors instead of %zu was accepted", gpud_message_name(type),
              count, wire.fd_count);
        CHECK(strlen(error.reason) > 10, "refused without a reason");
    }
}

static void headers(void)
{
    struct gpud_message sent, got;
    struct wire wire;
    make(&sent, GPUD_MESSAGE_READY, false);
    encode(&wire, &sent);
    wire.bytes[0]++;
    EXPECT(GPUD_PEER, "does not speak", decode(&got, &wire, wire.size, 0, &e));
    wire.bytes[0]--;
    wire.bytes[4]++;
    EXPECT(GPUD_UNSUPPORTED, "version 3", decode(&got, &wire, wire.size, 0, &e));
    wire.bytes[4]--;
    const uint8_t types[] = {0, GPUD_MESSAGE_LINKS + 1, 127, 255};
    for (size_t i = 0; i < sizeof(types); i++) {
        wire.bytes[6] = types[i];
        EXPECT(GPUD_PEER, "malformed", decode(&got, &wire, wire.size, 0, &e));
    }
}

/* Text from a peer ends up in logs and on terminals. */
static void unprintable(void)
{
    struct gpud_message sent, got;
    struct wire wire;
    make(&sent, GPUD_MESSAGE_REFUSE, false);
    strcpy(sent.refuse.reason, "a\x1b[31mb\nc\x7f\x01");
    encode(&wire, &sent);
    EXPECT(GPUD_OK, "", decode(&got, &wire, wire.size, 0, &e));
    CHECK(strcmp(got.refuse.reason, "a?[31mb?c??") == 0, "\"%s\" came through", got.refuse.reason);
    strcpy(sent.refuse.reason, "\xc2\x9b"
                               "31m\xe2\x80\xae, \xc3\xb6\xff\xe2\x82");
    encode(&wire, &sent);
    EXPECT(GPUD_OK, "", decode(&got, &wire, wire.size, 0, &e));
    CHECK(strcmp(got.refuse.reason, "??31m???, \xc3\xb6???") == 0, "\"%s\" came through",
          got.refuse.reason);
    make(&sent, GPUD_MESSAGE_REFUSE, false);
    strcpy(sent.refuse.reason, "abc");
    encode(&wire, &sent);
    wire.bytes[wire.size - 2] = 0; /* a NUL in the middle */
    EXPECT(GPUD_OK, "", decode(&got, &wire, wire.size, 0, &e));
    CHECK(strcmp(got.refuse.reason, "a?c") == 0, "\"%s\" came through", got.refuse.reason);
}

int main(void)
{
    guarded_size = 3 * 4096;
    guarded =
        mmap(NULL, guarded_size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guarded != MAP_FAILED && mprotect(guarded + guarded_size, 4096, PROT_NONE) == 0,
          "no guarded memory");

    for (int type = GPUD_MESSAGE_HELLO; type <= GPUD_MESSAGE_LINKS; type++)
        for (int large = 0; large < 2; large++) {
            round_trip((enum gpud_message_type)type, large);
            truncations((enum gpud_message_type)type, large);
            corruptions((enum gpud_message_type)type, large);
            descriptor_counts((enum gpud_message_type)type, large);
        }
    SAY("every type there and back, short, long, bent, and with every number of descriptors:");
    SAY("  of the messages with one wrong byte %u were refused, %u decode to something valid",
        refused, accepted);
    headers();
    unprintable();
    return 0;
}
