/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages: each type survives the way there, fits with room to spare, and no truncation or
 * corruption gets past the decoder as something that the rest of the library could not bear. */
#include "messages.h"
#include "frame/media/media.h"
#include "support/check.h"
#include "support/encode.h"
#include "wire/wire.h"

#include <sys/mman.h>

#define TYPES_MAX 65536

struct wire {
    uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size;
};

static void encode(struct wire *wire, struct gpud_message *message)
{
    memset(wire, 0, sizeof(*wire));
    WORKS(gpud_message_encode(message, wire->bytes, sizeof(wire->bytes), &wire->size, &e));
    CHECK(wire->size >= 16 && wire->size <= GPUD_MESSAGE_MAX, "%zu bytes", wire->size);
}

/* Decodes from the last bytes before an unreadable page: reading one byte too many crashes. */
static uint8_t *guarded;
static size_t guarded_size;

static int before = 0xcc; /* what is in a message before it is decoded */

static enum gpud_status decode(struct gpud_message *message, const struct wire *wire, size_t size,
                               struct gpud_error *error)
{
    uint8_t *at = guarded + guarded_size - size;
    memcpy(at, wire->bytes, size);
    memset(message, before, sizeof(*message));
    return gpud_message_decode(message, at, size, error);
}

/* Its numbers are such as there are; whether they go together is asked elsewhere. */
static void check_media(const struct gpud_media *media)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind((uint32_t)media->kind);
    CHECK(kind, "%d is no kind of media", (int)media->kind);
    struct gpud_media_walk walk = {.kind = kind};
    const struct gpud_media_member *member;
    while ((member = gpud_media_next(&walk, media)) != NULL) {
        const char *at = (const char *)media + walk.offset;
        CHECK(member->width || memchr(at, 0, member->count), "a text without an end");
        for (uint8_t k = 0; member->width && k < member->count; k++)
            CHECK(gpud_media_allows(member,
                                    gpud_media_get_number(at + k * member->width, member->width)),
                  "what cannot be, at %zu", walk.offset);
    }
}

/* Whatever the bytes were, what comes out can be used. */
static void check_sane(const struct gpud_message *message)
{
    const struct gpud_ring_description *ring = NULL;
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        CHECK(memchr(message->hello.name, 0, 64) && memchr(message->hello.device, 0, 32) &&
                  memchr(message->hello.kind, 0, 16) && memchr(message->hello.pci, 0, 16) &&
                  memchr(message->hello.no_direct, 0, GPUD_REASON_MAX) &&
                  memchr(message->hello.route, 0, 32),
              "a text without an end");
        break;
    case GPUD_MESSAGE_OFFER:
        CHECK(memchr(message->offer.route, 0, 32) &&
                  memchr(message->offer.reason, 0, GPUD_REASON_MAX) &&
                  memchr(message->offer.media.extra, 0, GPUD_MEDIA_EXTRA_MAX),
              "a text without an end");
        check_media(&message->offer.media);
        ring = &message->offer.ring;
        break;
    case GPUD_MESSAGE_ACCEPT:
        CHECK(gpud_handle_find_kind(message->accept.page.type) && message->accept.page.fd == -1,
              "a page of type %u with fd %d", message->accept.page.type, message->accept.page.fd);
        ring = &message->accept.ring;
        break;
    case GPUD_MESSAGE_REFUSE:
    case GPUD_MESSAGE_BYE:
        CHECK(memchr(message->refuse.reason, 0, GPUD_REASON_MAX), "a text without an end");
        break;
    case GPUD_MESSAGE_EVENT:
        CHECK(message->event.size <= GPUD_EVENT_SIZE_MAX, "an event of %u bytes",
              message->event.size);
        break;
    case GPUD_MESSAGE_GROW:
        ring = &message->grow;
        break;
    case GPUD_MESSAGE_STATUS:
        CHECK(memchr(message->report.name, 0, 64) && memchr(message->report.device, 0, 32) &&
                  memchr(message->report.media.extra, 0, GPUD_MEDIA_EXTRA_MAX),
              "a text without an end");
        check_media(&message->report.media);
        CHECK(message->report.links <= GPUD_RECEIVERS_MAX &&
                  message->report.slow_receiver <= GPUD_SLOW_DROP_OLDEST,
              "a report of what cannot be");
        break;
    case GPUD_MESSAGE_LINKS:
        CHECK(message->links.count > 0 && message->links.count <= GPUD_LINKS_A_MESSAGE, "%u links",
              message->links.count);
        for (uint32_t i = 0; i < message->links.count; i++) {
            const struct gpud_link_info *link = &message->links.link[i];
            CHECK(memchr(link->name, 0, 64) && memchr(link->device, 0, 32) &&
                      memchr(link->path, 0, 32) && memchr(link->host, 0, 64) &&
                      memchr(link->encrypted, 0, 64) &&
                      memchr(link->fallback_reason, 0, GPUD_REASON_MAX),
                  "a text without an end");
            CHECK(link->pid >= 0 && link->pid <= INT32_MAX && link->phase <= GPUD_PHASE_LEAVING &&
                      link->degraded <= GPUD_DEGRADED_FAILED,
                  "a link that cannot be");
        }
        break;
    case GPUD_MESSAGE_CANARY:
    case GPUD_MESSAGE_READY:
    case GPUD_MESSAGE_EOS:
    case GPUD_MESSAGE_QUERY:
    case GPUD_MESSAGE_KICK:
    case GPUD_MESSAGE_SHRINK:
        break;
    case GPUD_MESSAGE_SLOTS:
        CHECK(message->slots <= GPUD_SLOTS_MAX, "%u slots", message->slots);
        break;
    default:
        FAIL("a message of type %d was accepted", (int)message->type);
    }
    if (!ring)
        return;
    CHECK(ring->memories <= GPUD_RING_MEMORIES_MAX, "%u memories", ring->memories);
    for (uint32_t i = 0; i < ring->memories; i++)
        CHECK(gpud_handle_find_kind(ring->handle[i].type) && ring->handle[i].fd == -1,
              "a handle of type %u with fd %d", ring->handle[i].type, ring->handle[i].fd);
}

/* A message of each type, and its bytes. */
static struct gpud_message sent;
static struct wire wire;

static void round_trip(bool large)
{
    struct gpud_message got;
    struct wire again;
    enum gpud_message_type type = sent.type;
    before = 0; /* the holes between fields compare equal */
    WORKS(decode(&got, &wire, wire.size, &e));
    before = 0xcc;
    CHECK(got.type == type && got.position == sent.position, "another message came out");
    check_sane(&got);
    /* What was decoded says the same: every field is on the wire, and in its place. */
    encode(&again, &got);
    CHECK(again.size == wire.size && memcmp(again.bytes, wire.bytes, wire.size) == 0,
          "the %s that came out is not the one that went in", gpud_message_name(type));
    if (type == GPUD_MESSAGE_OFFER && large) {
        CHECK(gpud_media_equal(&got.offer.media, &sent.offer.media), "the media changed");
        CHECK(memcmp(&got.offer.ring, &sent.offer.ring, sizeof(sent.offer.ring)) == 0,
              "the ring changed");
    }
    if (type == GPUD_MESSAGE_STATUS && large)
        CHECK(memcmp(&got.report, &sent.report, sizeof(sent.report)) == 0, "the STATUS changed");
    if (type == GPUD_MESSAGE_LINKS && large)
        CHECK(memcmp(&got.links, &sent.links, sizeof(sent.links)) == 0, "the LINKS changed");
    if (type == GPUD_MESSAGE_HELLO && large)
        CHECK(memcmp(&got.hello, &sent.hello, sizeof(sent.hello)) == 0, "the HELLO changed");
}

static void truncations(void)
{
    struct gpud_message got;
    for (size_t size = 0; size < wire.size; size++) {
        EXPECT(GPUD_PEER, "", decode(&got, &wire, size, &e));
        /* The same with a header that fits: only the body is short. */
        if (size < 16)
            continue;
        struct wire shorter = wire;
        for (unsigned i = 0; i < 4; i++)
            shorter.bytes[8 + i] = (uint8_t)(size >> (8 * i));
        struct gpud_error error = {.reason = ""};
        CHECK(decode(&got, &shorter, size, &error) != GPUD_OK,
              "%zu of %zu bytes of a %s were enough", size, wire.size,
              gpud_message_name(sent.type));
    }
    /* And one that is longer than what it says. */
    struct wire longer = wire;
    if (wire.size < GPUD_MESSAGE_MAX) {
        EXPECT(GPUD_PEER, "announced", decode(&got, &longer, wire.size + 1, &e));
        longer.bytes[8] = (uint8_t)(wire.size + 1);
        longer.bytes[9] = (uint8_t)((wire.size + 1) >> 8);
        EXPECT(GPUD_PEER, "malformed", decode(&got, &longer, wire.size + 1, &e));
    }
}

static unsigned accepted, refused;

static void corruptions(void)
{
    struct gpud_message got;
    for (size_t at = 0; at < wire.size; at++) {
        uint8_t was = wire.bytes[at];
        /* Every value in the smaller messages; the telling ones where there are thousands. */
        for (unsigned step = 1; step < 256; step += wire.size < 600 ? 1 : (at < 700 ? 17 : 85)) {
            wire.bytes[at] = (uint8_t)(was + step);
            struct gpud_error error = {.reason = ""};
            if (decode(&got, &wire, wire.size, &error) == GPUD_OK) {
                check_sane(&got);
                accepted++;
            } else {
                CHECK(strlen(error.reason) > 10, "byte %zu of a %s: refused without a reason", at,
                      gpud_message_name(sent.type));
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
            CHECK(type_byte || decode(&got, &wire, wire.size, &error) != GPUD_OK,
                  "byte %zu of the header does not matter", at);
            if (step == 255)
                wire.bytes[at]++;
        }
}

static void no_sense(struct gpud_message *message)
{
    static uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size = 4711;
    EXPECT(GPUD_INVALID, "no peer would understand",
           gpud_message_encode(message, bytes, sizeof(bytes), &size, &e));
    CHECK_EQUAL(size, 4711);
}

/* One change of a good message. */
#define NO_SENSE(type, change)                     \
    do {                                           \
        make(&message, GPUD_MESSAGE_##type, true); \
        change;                                    \
        no_sense(&message);                        \
    } while (0)

static void single_messages(void)
{
    static const struct {
        uint8_t at, value;
        enum gpud_status status;
        const char *says;
    } bent[] = {
        {0, 'g', GPUD_PEER, "does not speak"},
        {4, 14, GPUD_UNSUPPORTED, "speaks version 14 of the protocol, this library 13"},
        {4, 12, GPUD_UNSUPPORTED, "speaks version 12 of the protocol, this library 13"},
        {6, 0, GPUD_PEER, "malformed"},
        {6, GPUD_MESSAGE_SLOTS + 1, GPUD_PEER, "malformed"},
        {6, 127, GPUD_PEER, "malformed"},
        {6, 255, GPUD_PEER, "malformed"},
    };
    struct gpud_message got;
    make(&sent, GPUD_MESSAGE_READY, false);
    for (size_t i = 0; i < sizeof(bent) / sizeof(bent[0]); i++) {
        encode(&wire, &sent);
        wire.bytes[bent[i].at] = bent[i].value;
        EXPECT(bent[i].status, bent[i].says, decode(&got, &wire, wire.size, &e));
    }

    /* Text from a peer ends up in logs and on terminals. */
    make(&sent, GPUD_MESSAGE_REFUSE, false);
    strcpy(sent.refuse.reason, "a\x1b[31mb\nc\x7f\x01");
    encode(&wire, &sent);
    WORKS(decode(&got, &wire, wire.size, &e));
    CHECK_TEXT(got.refuse.reason, "a?[31mb?c??");
    strcpy(sent.refuse.reason, "\xc2\x9b"
                               "31m\xe2\x80\xae, \xc3\xb6\xff\xe2\x82");
    encode(&wire, &sent);
    WORKS(decode(&got, &wire, wire.size, &e));
    CHECK_TEXT(got.refuse.reason, "??31m???, \xc3\xb6???");
    make(&sent, GPUD_MESSAGE_REFUSE, false);
    strcpy(sent.refuse.reason, "abc");
    encode(&wire, &sent);
    wire.bytes[wire.size - 2] = 0; /* a NUL in the middle */
    WORKS(decode(&got, &wire, wire.size, &e));
    CHECK_TEXT(got.refuse.reason, "a?c");

    /* Messages that must not be sent: the error is the sending side's, not the peer's. */
    static struct gpud_message message;
    NO_SENSE(OFFER, message.offer.ring.memories++);
    CHECK(message.offer.ring.memories == GPUD_RING_MEMORIES_MAX + 1 &&
              message.offer.media.picture.layout.size == UINT64_C(0xfedcba9876543210),
          "encoding changed the message");
    NO_SENSE(OFFER, message.offer.media.kind = GPUD_MEDIA_TENSOR + 1);
    NO_SENSE(OFFER, message.offer.media.picture.scan = GPUD_SCAN_FIELDS + 1);
    NO_SENSE(OFFER, message.offer.media.picture.colorimetry.matrix = 2);
    /* Of a list what is in use alone. */
    make(&message, GPUD_MESSAGE_OFFER, true);
    WORKS(gpud_media_from_string(&message.offer.media,
                                 "other/tensors,format=static,dimensions=\"6:64,64\","
                                 "types=\"float32,int64\",names=\"boxes,classes\",batch=0x3",
                                 &e));
    encode(&wire, &message);
    size_t two = wire.size;
    WORKS(decode(&got, &wire, wire.size, &e));
    CHECK(gpud_media_equal(&got.offer.media, &message.offer.media), "other tensors");
    message.offer.media.tensors.count = 1;
    encode(&wire, &message);
    CHECK(wire.size < two, "one tensor takes as much as two");
    WORKS(decode(&got, &wire, wire.size, &e));
    CHECK_EQUAL(got.offer.media.tensors.tensor[1].dimensions, 0);
    message.offer.media.tensors.count = GPUD_TENSORS_MAX + 1;
    no_sense(&message);
    NO_SENSE(GROW, message.grow.memories++);
    CHECK_EQUAL(message.grow.memories, GPUD_RING_MEMORIES_MAX + 1);
    NO_SENSE(GROW, message.grow.handle[7].type = KINDS_MAX);
    NO_SENSE(HELLO, message.hello.reach_count++);
    NO_SENSE(LINKS, message.links.count++);
    message.links.count = 0;
    no_sense(&message);
    NO_SENSE(EVENT, message.event.size++);
    NO_SENSE(STATUS, message.report.links = GPUD_RECEIVERS_MAX + 1);
    memset(&message, 0, sizeof(message));
    no_sense(&message);

    /* Every kind of handle there and back; those with an attachment are found in their order. */
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    uint32_t kinds = 0, wanted = 0, order[KINDS_MAX];
    make(&sent, GPUD_MESSAGE_GROW, false);
    for (uint32_t type = 0; type < KINDS_MAX; type++) {
        const struct gpud_handle_kind *kind = gpud_handle_find_kind(type);
        if (!kind)
            continue;
        CHECK(kind->type == type && kind->words <= GPUD_HANDLE_WORDS, "kind %u", type);
        if (kind->attachment)
            order[wanted++] = kinds;
        fill_handle(&sent.grow.handle[kinds++], kind, type);
    }
    sent.grow.memories = kinds;
    CHECK(kinds > 2 && wanted > 0, "%u kinds, %u with an attachment", kinds, wanted);
    encode(&wire, &sent);
    before = 0;
    WORKS(decode(&got, &wire, wire.size, &e));
    before = 0xcc;
    CHECK(memcmp(&got.grow, &sent.grow, sizeof(sent.grow)) == 0, "the handles changed");
    CHECK_EQUAL(gpud_message_attachments(&got, handles), wanted);
    for (uint32_t i = 0; i < wanted; i++)
        CHECK(handles[i] == &got.grow.handle[order[i]], "attachment %u is another's", i);

    /* The ring page comes before the ring. */
    make(&sent, GPUD_MESSAGE_ACCEPT, false);
    sent.accept.page = encode_page(5);
    sent.accept.large_metas = encode_page(7);
    sent.accept.ring.memories = 1;
    sent.accept.ring.handle[0] = encode_page(6);
    CHECK(gpud_message_attachments(&sent, handles) == 3 && handles[0] == &sent.accept.page &&
              handles[1] == &sent.accept.large_metas && handles[2] == &sent.accept.ring.handle[0],
          "the attachments of an ACCEPT");
    make(&sent, GPUD_MESSAGE_HELLO, true);
    CHECK_EQUAL(gpud_message_attachments(&sent, handles), 0);
}

int main(void)
{
    guarded_size = 5 * 4096;
    guarded =
        mmap(NULL, guarded_size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guarded != MAP_FAILED && mprotect(guarded + guarded_size, 4096, PROT_NONE) == 0,
          "no guarded memory");

    /* Every type that can be encoded, including new ones. */
    unsigned types = 0;
    for (int type = 0; type < TYPES_MAX; type++) {
        make(&sent, (enum gpud_message_type)type, false);
        if (gpud_message_encode(&sent, wire.bytes, sizeof(wire.bytes), &wire.size, NULL) != GPUD_OK)
            continue;
        CHECK(strcmp(gpud_message_name(sent.type), "message") != 0, "type %d has no name", type);
        types++;
        for (int large = 0; large < 2; large++) {
            make(&sent, (enum gpud_message_type)type, large);
            encode(&wire, &sent);
            round_trip(large);
            /* A message is sent whole or not at all, and not written where there is no room. */
            for (size_t room = 0; room < wire.size; room++) {
                size_t size = 4711;
                EXPECT(GPUD_INVALID, "cannot be sent",
                       gpud_message_encode(&sent, guarded + guarded_size - room, room, &size, &e));
                CHECK_EQUAL(size, 4711);
            }
            truncations();
            corruptions();
        }
        /* The worst case leaves at least a quarter of the room, for future fields. */
        SAY("  %-6s %5zu bytes", gpud_message_name(sent.type), wire.size);
        CHECK(wire.size <= GPUD_MESSAGE_MAX * 3 / 4, "a %s of %zu bytes leaves less than a quarter",
              gpud_message_name(sent.type), wire.size);
    }
    CHECK_EQUAL(types, GPUD_MESSAGE_SLOTS); /* the last; they are numbered from 1 */
    SAY("every type there and back, short, long, and bent:");
    SAY("  of the messages with one wrong byte %u were refused, %u decode to something valid",
        refused, accepted);
    single_messages();
    return 0;
}
