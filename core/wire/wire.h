/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What two ends say to each other: messages, the page of a ring, and the contract of a connection.
 */
#ifndef GPUD_WIRE_WIRE_H
#define GPUD_WIRE_WIRE_H

#include "base/base.h"
#include "frame/frame.h"
#include <gpudirect/frame.h>
#include <gpudirect/media.h>
#include <gpudirect/sender.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/types.h>

/* === access ================================================================================== */
/* The application's rule for which peers are admitted: on one host users, as the kernel reports
 * them; between hosts peers that prove they have a key, or a certificate. */

enum gpud_access_kind {
    GPUD_ACCESS_USER, /* this process's own user, and root */
    GPUD_ACCESS_GROUP,
    GPUD_ACCESS_ALL,
};

struct gpud_access_rule {
    enum gpud_access_kind kind;
    gid_t group;
    char group_name[64];
    char key_file[256];         /* "": no key */
    bool allow_unauthenticated; /* listening on addresses beyond loopback needs no key */
    /* PEM files: this end's certificate and its key, and what signs the peers'. "": no
     * certificates. After gpud_access_check() all three are set or none is. */
    char tls_certificate[256], tls_key[256], tls_ca[256];
    bool announce; /* by DNS-SD, what is listened on beyond loopback */
};

/* GPUD_INVALID: the rule does not fit the kind of address, a network's or this host's, or has only
 * a part of what certificates need, or a key as well. */
enum gpud_status gpud_access_check(const struct gpud_access_rule *access, bool network,
                                   struct gpud_error *error);

/* key_file may be NULL: no key. */
enum gpud_status gpud_access_set_key(struct gpud_access_rule *access, const char *key_file,
                                     struct gpud_error *error);

/* Each may be NULL: none. The files are not opened here: each handshake reads them. */
enum gpud_status gpud_access_set_certificates(struct gpud_access_rule *access,
                                              const char *certificate, const char *key,
                                              const char *ca, struct gpud_error *error);

/* "user" (also NULL), "group:NAME" (or a number), "all". */
enum gpud_status gpud_access_parse(const char *text, struct gpud_access_rule *access,
                                   struct gpud_error *error);

/* === auth ==================================================================================== */
/* clang-format off */
/* Authentication between hosts: both ends of a connection prove that they have the same key, and
 * neither sends it. No end sends anything that opens memory, such as an rkey, before it is done.
 * No I/O except for random numbers and the key's file; the channel carries the messages and
 * enforces the deadline.
 *
 *     receiver (connects)                     sender (listens)
 *        ◀──────────────────────────── CHALLENGE      a nonce
 *        PROOF ────────────────────────────────▶      a nonce, and a MAC
 *        ◀────────────────────────────── VERDICT      another MAC: the sender has the key, too
 *        ◀───────────────────────────▶ REFUSE         instead of the next one: why, and the end
 *
 * A MAC is the HMAC-SHA256, under the key, of a label for the end that proves itself (with its
 * NUL), the sender's nonce, the receiver's nonce, and the context: bytes that identify this
 * connection, such as both addresses and queue pair numbers, so that a proof cannot be replayed on
 * another one. Ends without a key exchange the same messages without MACs, so that both ends can
 * report when only one of them has a key.
 *
 * Every message has 80 bytes, with numbers in little-endian; unused fields are zero:
 *
 *     0  magic "GPUA"     4  version, 16 bits     6  type, 16 bits     8  length, 32 bits
 *    12  32 bits: 1 with a key, 0 without; in a REFUSE the reason
 *    16  nonce, 32 bytes, in CHALLENGE and PROOF
 *    48  MAC, 32 bytes, in PROOF and VERDICT
 *
 * The first eight bytes are the same in every version. */
/* clang-format on */

#define GPUD_AUTH_MESSAGE_SIZE 80
#define GPUD_AUTH_NONCE_SIZE 32
#define GPUD_AUTH_CONTEXT_MAX 256

/* Opens OpenSSL, which must be done before anything of it is called; gpud_auth_read_key() does it,
 * because only ends with a key compute MACs. Any thread may call it. GPUD_UNSUPPORTED: it is not
 * installed. */
enum gpud_status gpud_openssl_open(struct gpud_error *error);

/* --- the key -------------------------------------------------------------------------------- */

#define GPUD_AUTH_KEY_MIN 16
#define GPUD_AUTH_KEY_MAX 1024

/* A secret: never logged, and wiped after use. */
struct gpud_auth_key {
    size_t size;
    uint8_t bytes[GPUD_AUTH_KEY_MAX];
};

/* The file must be a regular one, owned by this process's user or by root, without permissions for
 * others. It holds only the key; one newline at its end is ignored. On failure (GPUD_INVALID,
 * GPUD_NO_ACCESS, GPUD_IO) *key is unchanged and the reason says what to do. */
enum gpud_status gpud_auth_read_key(const char *path, struct gpud_auth_key *key,
                                    struct gpud_error *error);
void gpud_auth_wipe_key(struct gpud_auth_key *key);

/* Whether a sender may listen on this address: without a key only on loopback addresses, unless
 * unauthenticated_allowed. GPUD_NO_ACCESS, with what to set. A wildcard address is not loopback,
 * nor is one of a family other than IPv4 and IPv6. */
enum gpud_status gpud_auth_may_listen(const struct sockaddr *address, bool has_key,
                                      bool unauthenticated_allowed, struct gpud_error *error);

/* --- the exchange --------------------------------------------------------------------------- */

enum gpud_auth_role {
    GPUD_AUTH_SENDER,   /* listens, and speaks first */
    GPUD_AUTH_RECEIVER, /* connects */
};

enum gpud_auth_type {
    GPUD_AUTH_CHALLENGE = 1,
    GPUD_AUTH_PROOF,
    GPUD_AUTH_VERDICT,
    GPUD_AUTH_REFUSE,
};

enum gpud_auth_refusal {
    GPUD_AUTH_NOT_REFUSED,
    GPUD_AUTH_NO_KEY,     /* the refusing end has none, the other end does */
    GPUD_AUTH_KEY_WANTED, /* the refusing end has one, the other end does not */
    GPUD_AUTH_KEYS_DIFFER,
    GPUD_AUTH_OTHER_VERSION,
};

enum gpud_auth_state {
    GPUD_AUTH_FAILED, /* also before gpud_auth_begin(), in zeroed memory */
    GPUD_AUTH_SENDS,
    GPUD_AUTH_AWAITS,
    GPUD_AUTH_DONE,
};

struct gpud_auth {
    enum gpud_auth_role role;
    enum gpud_auth_state state;
    enum gpud_auth_type type; /* of the message to send or to expect next */
    enum gpud_auth_refusal refusal;
    const struct gpud_auth_key *key;
    char peer[128];                         /* "the sender at 10.0.0.1:7174" */
    uint8_t nonce[2][GPUD_AUTH_NONCE_SIZE]; /* by role */
    uint8_t context[GPUD_AUTH_CONTEXT_MAX];
    size_t context_size;
};

/* peer: the other end's address, for reasons. key: NULL for none; borrowed until the exchange is
 * done or has failed. context: the same at both ends, not empty; copied. After an error *auth is in
 * the state FAILED. */
enum gpud_status gpud_auth_begin(struct gpud_auth *auth, enum gpud_auth_role role, const char *peer,
                                 const struct gpud_auth_key *key, const void *context,
                                 size_t context_size, struct gpud_error *error);

/* Gets the message to send now; false if there is none. After a failure this may be a REFUSE for
 * the other end: send it, then close the connection. */
bool gpud_auth_next(struct gpud_auth *auth, uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE]);

/* Handles a message from the other end. GPUD_NO_ACCESS: keys differ, or one end has none.
 * GPUD_UNSUPPORTED: another version. GPUD_PEER: it is malformed, or none was due. Every error is
 * final. */
enum gpud_status gpud_auth_handle(struct gpud_auth *auth, const uint8_t *bytes, size_t size,
                                  struct gpud_error *error);

/* Whether the other end has proved that it has the key or, without a key, has none either. The
 * sender is done once gpud_auth_next() has returned its VERDICT. */
static inline bool gpud_auth_is_done(const struct gpud_auth *auth)
{
    return auth->state == GPUD_AUTH_DONE;
}

/* === message ================================================================================= */
/* The messages of a control channel: pure encoding and decoding, no I/O.
 *
 *     receiver                              sender
 *        HELLO ────────────────────────────────▶      its identity and abilities
 *        ◀──────────────────────────────── HELLO      (or REFUSE, and the end)
 *        ◀──────────────────────────────── OFFER      epoch, route, media
 *                                                     [+ the sender's ring, if it is shared]
 *                                                     [+ the sender's ring page, between hosts]
 *        ACCEPT ───────────────────────────────▶      the ring page, memory for large metas
 *                                                     [+ the receiver's ring, if it is written]
 *        ◀─────────────────────────────── CANARY      "a frame holds the pattern of this nonce"
 *        READY ────────────────────────────────▶      (or REFUSE: the next route is offered)
 *        ═════ frames: words in the ring page ═════   no messages
 *        ◀────────────── EVENT, EOS, GROW, OFFER      each with its place among the frames
 *        ◀─────────────────────────────── SHRINK      unmap the ring's last memories
 *        SLOTS ────────────────────────────────▶      may it hold more frames of the shared ring?
 *        ◀──────────────────────────────── SLOTS      as many as these now; has no position
 *        ◀─────────────────────────────────▶ KICK     "look again", to a side that polls the
 *                                                     connection (base/base.h); has no position
 *        ◀──────────────────────────────────▶ BYE     without it, the end is a crash
 *
 *     any process                           sender
 *        QUERY ────────────────────────────────▶      instead of HELLO: asks for its status
 *        ◀─────────────────────────────── STATUS      the stream
 *        ◀──────────────────────────────── LINKS      its receivers, some in each, until all are
 *                                                     listed; and the end
 *
 * Numbers are little-endian on every machine, so that the same bytes can travel between hosts.
 * Every message has the same header, and its length is checked before anything is read. Some kinds
 * of handles have an attachment that bytes cannot represent, such as a file descriptor; the channel
 * carries those (wire/wire.h). */

#define GPUD_MESSAGE_MAGIC UINT32_C(0x44555047) /* "GPUD" */
#define GPUD_MESSAGE_VERSION 13
#define GPUD_MESSAGE_MAX 16384
#define GPUD_MESSAGE_HANDLES (2 + GPUD_RING_MEMORIES_MAX)

enum gpud_message_type {
    GPUD_MESSAGE_HELLO = 1,
    GPUD_MESSAGE_OFFER,
    GPUD_MESSAGE_ACCEPT,
    GPUD_MESSAGE_CANARY,
    GPUD_MESSAGE_READY,
    GPUD_MESSAGE_REFUSE,
    GPUD_MESSAGE_EVENT,
    GPUD_MESSAGE_EOS,
    GPUD_MESSAGE_GROW,
    GPUD_MESSAGE_BYE,
    GPUD_MESSAGE_QUERY,
    GPUD_MESSAGE_STATUS,
    GPUD_MESSAGE_LINKS,
    GPUD_MESSAGE_KICK,
    GPUD_MESSAGE_SHRINK,
    GPUD_MESSAGE_SLOTS,
};

/* How a network card accesses a device's memory, as bits. */
enum gpud_network_way {
    GPUD_NETWORK_HOST = 1 << 0,    /* it is host memory, or is copied through some */
    GPUD_NETWORK_DMABUF = 1 << 1,  /* the device's driver exports it, the card's imports it */
    GPUD_NETWORK_PEERMEM = 1 << 2, /* the card's driver calls the device's through peermem */
    GPUD_NETWORK_TCP = 1 << 3,     /* no card: the kernel's TCP, from and to host memory */
};

/* The capabilities of a channel's network card; all 0 if it uses none. */
struct gpud_network {
    char card[32];                                                /* "mlx5_0"; "": none */
    uint32_t ways;                                                /* enum gpud_network_way */
    char no_dmabuf[GPUD_REASON_MAX], no_peermem[GPUD_REASON_MAX]; /* why those are missing */
};

/* One side's description of itself, from which the route is chosen. */
struct gpud_endpoint {
    char name[64];    /* of the application */
    char device[32];  /* "opencl:0" */
    char kind[16];    /* "opencl" */
    uint32_t caps;    /* enum gpud_device_caps */
    uint8_t uuid[16]; /* of the device */
    /* Its PCI address, "0000:63:00.0"; "": not given. Used only in reasons and to order routes: a
     * peer that lies here only gets a slower link. */
    char pci[16];
    uint64_t aperture; /* bytes of it that peers can write at once; 0: no known limit */
    char no_direct[GPUD_REASON_MAX]; /* why peers cannot write its memory */
    uint32_t reach_count;
    uint8_t reach[GPUD_REACH_MAX][16]; /* the devices that its copy engine can write */
    const void *common;      /* of the device, see ops.h; not sent: known only of a peer in the same
                                context */
    uint32_t host_rate;      /* MB/s between it and the host's memory; 0: unknown */
    uint64_t token;          /* of the context: equal = the same process and context */
    uint8_t host[16];        /* the machine's boot id */
    uint64_t time_namespace; /* identifies its CLOCK_MONOTONIC; see base/base.h */
    struct gpud_network network;
    char route[32]; /* the only one to use, or "" */
    uint32_t slots;
    uint8_t slow_receiver; /* enum gpud_slow_receiver */
    uint8_t require_direct;
};

struct gpud_offer {
    uint32_t epoch;
    char route[32];
    char reason[GPUD_REASON_MAX]; /* why the better routes do not work, or "" */
    uint8_t degraded;             /* enum gpud_degraded: the kind of that reason */
    uint32_t signal;              /* enum gpud_signal_place: where the devices' signal words are */
    uint32_t large_meta_max; /* bytes that a frame may have, at most GPUD_LARGE_META_MAX; 0: none */
    struct gpud_media media;
    /* How many frames the receiver may hold, in flight included, and how many at most if it asks
     * for more; 0 if the receiver owns the ring, which has as many as it likes. */
    uint32_t slots, slots_max;
    struct gpud_handle page; /* the sender's ring page, if each side has one; else type NONE */
    struct gpud_ring_description ring; /* memories = 0 if the receiver owns the ring */
};

struct gpud_accept {
    uint32_t epoch, entries;
    struct gpud_handle page;           /* the ring page */
    struct gpud_handle large_metas;    /* room for each entry's; NONE: frames come without them */
    struct gpud_ring_description ring; /* memories = 0 if the sender owns the ring */
};

enum gpud_signal_place {
    GPUD_SIGNAL_NONE,   /* the host publishes a frame when the queue has finished it */
    GPUD_SIGNAL_MEMORY, /* in each slot's memory, known to the driver: DirectGMA */
    GPUD_SIGNAL_PAGE,   /* in the ring page, which both devices map */
};

struct gpud_canary {
    uint32_t epoch;
    uint64_t nonce;
};

struct gpud_refuse {
    uint32_t epoch;
    uint32_t status; /* enum gpud_status */
    char reason[GPUD_REASON_MAX];
};

struct gpud_user_message {
    uint32_t kind, size;
    uint8_t data[GPUD_EVENT_SIZE_MAX];
};

/* A sender's answer to a QUERY: its stream. */
struct gpud_report {
    char name[64], device[32]; /* of the application; of its ring */
    uint32_t epoch;            /* 0: no format yet, and no media follows */
    struct gpud_media media;
    uint8_t ended, slow_receiver;
    uint32_t slots, links; /* links: how many follow, in LINKS; at most GPUD_RECEIVERS_MAX */
    uint64_t frames, delivered, dropped, connects;
    uint64_t rate; /* frames in 1000 s, over the last second or two */
    uint64_t age;  /* ns since the last frame; GPUD_TIME_NONE: none yet */
    uint64_t disconnects, refused, copies_cpu, copies_gpu, waits_cpu, waits_device;
};

/* Leaves a quarter of a message free, as every type does. */
#define GPUD_LINKS_A_MESSAGE 8

struct gpud_links {
    uint32_t count;
    struct gpud_link_info link[GPUD_LINKS_A_MESSAGE]; /* without their size */
};

struct gpud_message {
    enum gpud_message_type type;
    uint32_t position; /* how many frames of this epoch were published before it */
    union {
        struct gpud_endpoint hello;
        struct gpud_offer offer;
        struct gpud_accept accept;
        struct gpud_canary canary;
        uint32_t epoch;            /* READY, EOS */
        struct gpud_refuse refuse; /* and BYE */
        struct gpud_user_message event;
        struct gpud_ring_description grow;
        uint32_t shrink; /* SHRINK: how many memories stay */
        uint32_t slots;  /* SLOTS: how many frames are wished for, or may be held */
        struct gpud_report report;
        struct gpud_links links;
    };
};

/* Writes *size bytes, at most `room`. GPUD_INVALID: they do not fit, or a field has an invalid
 * value; then the link cannot go on, because its peer would miss the message. */
enum gpud_status gpud_message_encode(struct gpud_message *message, uint8_t *bytes, size_t room,
                                     size_t *size, struct gpud_error *error);

/* Reads a peer's bytes. Handles are still without their attachments. */
enum gpud_status gpud_message_decode(struct gpud_message *message, const uint8_t *bytes,
                                     size_t size, struct gpud_error *error);

/* Lists the handles that have an attachment, in wire order; returns how many there are. */
size_t gpud_message_attachments(struct gpud_message *message,
                                struct gpud_handle *handles[GPUD_MESSAGE_HANDLES]);

/* Whether it can be sent to another host: handles of other kinds than GPUD_HANDLE_NETWORK are valid
 * only on their host. */
bool gpud_message_can_travel(const struct gpud_message *message);
const char *gpud_message_name(enum gpud_message_type type);

/* === page ==================================================================================== */
/* The ring page: the words that a sender and one receiver share while frames flow.
 *
 * It has two halves, and each is written by one side alone. An entry is a credit: a descriptor, and
 * two words for devices that signal by themselves. Entries travel round two queues of indices, as
 * in io_uring:
 *
 *     sender, in its half                                 receiver, in its half
 *     take a free entry, write its descriptor
 *     published[head++] = entry ───────────────────────▶  claimed++ ; reads the descriptor, once
 *                                                         … uses the frame …
 *     returned++ seen; the entry is free  ◀─────────────  given_back[returned++] = entry
 *
 * The carrier makes one side's half visible to the other, and wakes it. On one host both map the
 * same pages (a sealed memfd of the receiver's). Only there can a side write words of the other's
 * half, which it does for two:
 *
 *     claimed         by a sender that drops the oldest: it takes back, by compare-and-swap,
 *                     what the receiver has not claimed (gpud_page_carrier.can_take_back)
 *     ready, release  by a watchdog, which releases a queue that waits for the word of a dead
 *                     peer (release_waits() in stream/shared/watchdog.c)
 *
 * A frame that is handed over while it is written has a word of its own, `lines`: how many of its
 * rows are valid. The sender raises it, from before the frame is published until it is whole; the
 * receiver sleeps on it, and between hosts looks at it often. A receiver asks for such frames by
 * `by_lines` before the first one.
 *
 * `messages` counts what the sender has sent over the control connection, so that an event keeps
 * its place among the frames although it travels elsewhere.
 *
 * Each side keeps its own copy of what it wrote and trusts nothing that it reads: indices are
 * checked against that copy, and a violation ends only this link. Positions count frames and wrap;
 * the distance between two of them is unsigned, and is compared with the number of entries before
 * it is used. Only functions that wake the other side or sleep call the kernel. */

#define GPUD_PAGE_MAGIC UINT64_C(0x6567615064757067) /* "gpudPage" */
#define GPUD_PAGE_VERSION 6
#define GPUD_PAGE_ENTRIES GPUD_SLOTS_MAX /* a power of two */

struct gpud_descriptor {
    uint64_t sequence, dropped;
    uint64_t pts, dts, duration, offset;
    uint64_t submit_time;
    uint32_t slot;  /* in the sender's ring; equal to the entry if the receiver owns the ring */
    uint32_t value; /* of the ready signal, where the route has one */
    uint32_t flags;
    uint32_t meta_size;
    uint64_t bytes; /* in use of the slot; 0: all */
    uint32_t large_meta_size;
    uint8_t reserved[44];
    uint8_t meta[GPUD_FRAME_META_MAX];
};

/* DirectGMA's markers must never wrap, and CUDA compares cyclically, so a new epoch starts long
 * before GPUD_SIGNAL_MAX, beyond which comparisons are unreliable. Tests lower the limit. */
#ifndef GPUD_SIGNAL_LIMIT
#define GPUD_SIGNAL_LIMIT (UINT32_C(1) << 30)
#endif

#define GPUD_SIGNAL_MAX UINT32_C(0x7fffffff)

/* In descriptor flags only: a test frame for the link, not the application's. */
#define GPUD_FRAME_CANARY (UINT32_C(1) << 15)

/* Likewise: its copy failed. It is published because messages may already have positions behind it;
 * the receiver gives it back at once. */
#define GPUD_FRAME_VOID (UINT32_C(1) << 14)

/* Likewise: it is still being written, and the word `lines` of its entry says how far. */
#define GPUD_FRAME_BY_LINES (UINT32_C(1) << 13)

/* In that word: the rest will not be written. */
#define GPUD_LINES_LOST UINT32_MAX

/* At the start of either half, and so of the page; the same in every version. */
struct gpud_page_identity {
    uint64_t magic;
    uint32_t version;
    uint32_t entries; /* sender: used; receiver: offered */
    uint8_t padding[48];
};

/* A word that a device writes or waits for, alone in its cache line. */
struct gpud_page_signal {
    _Atomic uint32_t word;
    uint8_t padding[60];
};

/* struct gpud_link_stats, word by word, in its order: what a receiver counts, for people. */
#define GPUD_PAGE_STATS (sizeof(struct gpud_link_stats) / sizeof(uint64_t))

/* A receiver's wish for a frame that is not GPUD_FRAME_DELTA. A sender that does not know these
 * words does not look at them, and one that does finds zeros in an older receiver's page. */
struct gpud_page_key_request {
    _Atomic uint32_t flags;     /* enum gpud_page_key_flags */
    _Atomic uint32_t low, high; /* the time, if it has one */
    /* Another one for each request; 0: there was none yet, or the words before it are being
     * written. */
    _Atomic uint32_t serial;
};

enum gpud_page_key_flags {
    GPUD_PAGE_KEY_AT_ONCE = 1 << 0,
    GPUD_PAGE_KEY_AT_TIME = 1 << 1,
    GPUD_PAGE_KEY_ALL_HEADERS = 1 << 2,
};

/* Cache lines of 64 bytes separate words written for every frame from those written rarely. */
struct gpud_receiver_half {
    struct gpud_page_identity identity;

    /* Frames claimed. The sender moves it, too, if can_take_back; else it is not published. */
    _Atomic uint32_t claimed;
    uint8_t padding_claimed[60];

    _Atomic uint32_t returned; /* entries given back */
    _Atomic uint32_t latency;  /* ns from submit to acquire of the last frame, for people */
    _Atomic uint32_t kicks;    /* see base/base.h */
    uint8_t padding_returned[52];

    _Atomic uint32_t asleep; /* likewise */
    uint8_t padding_asleep[60];

    _Atomic uint32_t given_back[GPUD_PAGE_ENTRIES];
    struct gpud_page_signal release[GPUD_PAGE_ENTRIES];
    _Atomic uint64_t stats[GPUD_PAGE_STATS];
    _Atomic uint32_t by_lines; /* 1: frames may be published while they are written */
    struct gpud_page_key_request key_request;
    uint8_t padding_half[3564 - sizeof(struct gpud_link_stats)];
};

struct gpud_sender_half {
    struct gpud_page_identity identity;

    _Atomic uint32_t head;      /* frames published */
    _Atomic uint32_t messages;  /* sent over the control connection */
    _Atomic uint32_t announced; /* frames that are or will be published, at least */
    _Atomic uint32_t kicks;
    uint8_t padding_head[48];

    _Atomic uint32_t asleep;
    _Atomic uint32_t wanted;   /* while asleep: free entries that are worth a wake */
    _Atomic uint32_t start[2]; /* low, high: the sequence after which frames are this receiver's */
    _Atomic uint32_t taken_back; /* 1: slots may be overwritten while the receiver reads them */
    uint8_t padding_asleep[44];

    _Atomic uint32_t published[GPUD_PAGE_ENTRIES];
    struct gpud_page_signal ready[GPUD_PAGE_ENTRIES];
    struct gpud_descriptor descriptor[GPUD_PAGE_ENTRIES];
    _Atomic uint32_t lines[GPUD_PAGE_ENTRIES]; /* valid rows; GPUD_FRAME_BY_LINES */
    uint8_t padding_half[3392];
};

struct gpud_page {
    struct gpud_receiver_half receiver;
    struct gpud_sender_half sender;
};

#define GPUD_PAGE_ALIGNMENT 4096 /* of either half: they are registered separately */

_Static_assert(sizeof(struct gpud_descriptor) == 832, "part of the protocol");
_Static_assert(sizeof(struct gpud_page_identity) == 64, "part of the protocol");
_Static_assert(sizeof(struct gpud_page_signal) == 64, "part of the protocol");
_Static_assert(offsetof(struct gpud_receiver_half, given_back) == 256, "part of the protocol");
_Static_assert(offsetof(struct gpud_sender_half, published) == 192, "part of the protocol");
_Static_assert(sizeof(struct gpud_receiver_half) == 2 * GPUD_PAGE_ALIGNMENT, "whole pages");
_Static_assert(sizeof(struct gpud_sender_half) == 15 * GPUD_PAGE_ALIGNMENT, "whole pages");
_Static_assert(sizeof(struct gpud_page) == 69632, "part of the protocol");

/* --- the carrier --------------------------------------------------------------------------- */

struct gpud_page_end;
struct gpud_remote;

/* Makes what a side writes into its half visible to the other, and wakes it. */
struct gpud_page_carrier {
    const char *name;

    /* Both sides can move `claimed`: a sender takes back what was not claimed. Otherwise only the
     * receiver moves it, and drop-oldest keeps the newest frame at the sender until an entry comes
     * back or the next frame replaces it: see stream/sender/submit.c and the model waiting.pml. */
    bool can_take_back;

    /* `asleep` of the other side is reliable: after a store and a fence, either the side going to
     * sleep sees the store, or its `asleep` is seen here. So a side that is awake is not notified.
     * Otherwise notify() is called every time. */
    bool can_elide;

    /* How long a sleeper may sleep (ns) before it must check that the other host is alive: the end
     * of the connection wakes it unless that host has vanished. 0: nothing wakes it at the end, and
     * it must check often. */
    int64_t ask_after;

    /* Publishes the current bytes of a range of our half; ranges become visible in order. NULL:
     * stores are visible by themselves; words are stored with release order. */
    void (*publish)(const struct gpud_page_end *end, size_t offset, size_t size);

    /* Wakes the other side if it sleeps. Returns whether that took a system call. */
    bool (*notify)(struct gpud_page_end *end);

    /* Both at once. NULL: one after the other. */
    bool (*publish_and_notify)(struct gpud_page_end *end, size_t offset, size_t size);

    /* gpud_page_sleep(), gpud_page_rouse(), gpud_page_poll_begin(). NULL: these use the page's
     * words `asleep` and `kicks`, see base/base.h. */
    void (*sleep)(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg, int64_t deadline);
    void (*rouse)(struct gpud_page_end *end);
    void (*poll_begin)(struct gpud_page_end *end);
};

extern const struct gpud_page_carrier gpud_page_shared;

/* The carrier of views without a remote. Tests replace it with a less capable one. */
extern const struct gpud_page_carrier *gpud_page_carrier;

/* The part that both views share. */
struct gpud_page_end {
    const struct gpud_page_carrier *carrier;
    void *half; /* ours */
    struct gpud_sleeper sleeper;
    struct gpud_waker waker;
    /* Sends a KICK over the control connection, to a side that polls it; NULL: none. A
     * KICK that does not fit is not needed, because there is already something to read. */
    void (*send_kick)(void *arg);
    void *send_kick_arg;
    struct gpud_remote *remote; /* the carrier's, where the sides share no memory */
};

/* Ends that sleep of the other side, unless another thread has claimed it. */
bool gpud_page_wake(struct gpud_page_end *end, uint32_t sleep);

/* Wakes the other side if it sleeps; true if that took a system call. Call it after publishing. */
static inline bool gpud_page_notify(struct gpud_page_end *end)
{
    if (!end->carrier->can_elide)
        return end->carrier->notify(end);
    uint32_t sleep = gpud_waker_look(&end->waker);
    return sleep && gpud_page_wake(end, sleep);
}

/* The second half of gpud_page_hand_over() and gpud_page_announce(), after a full fence: one serves
 * the stores into several pages. The sleep of the other side that gpud_page_wake() is to end; 0:
 * none. */
static inline uint32_t gpud_page_look_fenced(const struct gpud_page_end *end)
{
    return end->carrier->can_elide ? gpud_waker_look_fenced(&end->waker) : 0;
}

/* Before a receiver sleeps: wakes a sender that was left asleep because fewer entries came back
 * than it wants, since none will follow while the receiver waits. Carriers that cannot elide have
 * already notified it. */
static inline bool gpud_page_flush_pending_wake(struct gpud_page_end *end)
{
    return end->carrier->can_elide && gpud_page_notify(end);
}

/* Sleeps until the other side notifies, this side is roused, or the deadline passes, unless
 * ready(arg). May return spuriously. One thread at a time. */
void gpud_page_sleep(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                     int64_t deadline);

/* Wakes a thread of this side from gpud_page_sleep(); call it after the store that the thread
 * waits for. */
void gpud_page_rouse(struct gpud_page_end *end);

/* Until gpud_page_poll_end() this side polls the connection: the other's next notification arrives
 * there as a KICK. Check the page once more after the call. */
void gpud_page_poll_begin(struct gpud_page_end *end);

static inline void gpud_page_poll_end(struct gpud_page_end *end)
{
    gpud_sleep_end(&end->sleeper);
}

/* --- the sender's view --------------------------------------------------------------------- */

struct gpud_page_tx {
    struct gpud_page *page;
    struct gpud_page_end end;
    uint32_t entries;        /* used: credits */
    uint32_t offered;        /* that the receiver has */
    uint32_t head, returned; /* ours, and how far we have read theirs */
    uint32_t messages;
    uint32_t free_count;
    uint8_t free[GPUD_PAGE_ENTRIES];      /* a stack: the entry used last is still in the caches */
    uint8_t out[GPUD_PAGE_ENTRIES];       /* published, neither returned nor revoked */
    uint32_t position[GPUD_PAGE_ENTRIES]; /* at which it was published */
    uint32_t order[GPUD_PAGE_ENTRIES];    /* our copy of published[] */
};

/* GPUD_PEER if the receiver's page has another version; anything else wrong with it is GPUD_OK
 * here. fd: a memfd of any size. */
enum gpud_status gpud_page_check_version(int fd, struct gpud_error *error);

/* remote: carries the page; NULL if it is shared. entries: as the receiver offers; credits: how
 * many of them to use at most. GPUD_PEER if the page contradicts the handshake. */
enum gpud_status gpud_page_tx_init(struct gpud_page_tx *view, struct gpud_page *page,
                                   struct gpud_remote *remote, uint32_t entries, uint32_t credits,
                                   struct gpud_error *error);

/* Every frame after `sequence` goes to this receiver or counts as dropped for it. */
void gpud_page_start(struct gpud_page_tx *view, uint64_t sequence);

/* The receiver may hold so many frames from now on; no fewer than before, and no more than it has
 * entries. */
void gpud_page_raise(struct gpud_page_tx *view, uint32_t credits);
bool gpud_page_take(struct gpud_page_tx *view, uint32_t *entry);

static inline void gpud_page_untake(struct gpud_page_tx *view, uint32_t entry)
{
    view->free[view->free_count++] = (uint8_t)entry;
}

/* Fill it in between take and publish. */
static inline struct gpud_descriptor *gpud_page_descriptor(const struct gpud_page_tx *view,
                                                           uint32_t entry)
{
    return &view->page->sender.descriptor[entry];
}

/* The descriptor, then its place in the queue. */
void gpud_page_publish(struct gpud_page_tx *view, uint32_t entry);

/* Says how many rows of the entry's frame are valid, and wakes threads that wait for them where
 * memory is shared. */
void gpud_page_set_lines(const struct gpud_page_tx *view, uint32_t entry, uint32_t lines);

/* gpud_page_publish(), and notifies the receiver if the carrier always has to. Otherwise fence, and
 * call gpud_page_look_fenced(). Both return whether that took a system call. */
bool gpud_page_hand_over(struct gpud_page_tx *view, uint32_t entry);

/* Announces that `more` frames will be published shortly: a sleeping receiver is woken now, as
 * above, so that it wakes up while the sender works. 0 withdraws this, and wakes nothing. */
bool gpud_page_announce(struct gpud_page_tx *view, uint32_t more);

/* The next entry that came back: 1 and *entry, 0 none, −1 a violation. */
int gpud_page_reap(struct gpud_page_tx *view, uint32_t *entry);

/* Takes back the oldest published entry that the receiver has not claimed: 1 and *entry, which is
 * free again; 0 if there is none or the carrier cannot; −1 on a violation. */
int gpud_page_revoke(struct gpud_page_tx *view, uint32_t *entry);

/* The descriptor of that entry, which the receiver may be claiming now; NULL: all are claimed. */
const struct gpud_descriptor *gpud_page_peek_oldest(const struct gpud_page_tx *view);

/* Whether the receiver has made a request since the one with *serial, which becomes that of the
 * request. Its words are unverified. */
struct gpud_key_request;
bool gpud_page_take_key_request(const struct gpud_page_tx *view, uint32_t *serial,
                                struct gpud_key_request *request);

/* Whether an entry was given back and not reaped yet. */
static inline bool gpud_page_has_returns(const struct gpud_page_tx *view)
{
    return atomic_load_explicit(&view->page->receiver.returned, memory_order_acquire) !=
           view->returned;
}

/* The latency of its last frame as the receiver reports it, unverified; 0: none. */
static inline uint32_t gpud_page_latency(const struct gpud_page_tx *view)
{
    return atomic_load_explicit(&view->page->receiver.latency, memory_order_relaxed);
}

/* What the receiver counts, unverified. */
void gpud_page_get_stats(const struct gpud_page_tx *view, struct gpud_link_stats *stats);
void gpud_page_count_message(struct gpud_page_tx *view);

/* How many entries are published and neither returned nor revoked. */
uint32_t gpud_page_count_out(const struct gpud_page_tx *view);

/* Frames that were published and not claimed; 0 over a network, where claims are not known. */
uint32_t gpud_page_count_unclaimed(const struct gpud_page_tx *view);

/* Invalidates the frames that the receiver still holds: their slots will be overwritten. Call it
 * before the first such write. */
void gpud_page_take_all_back(struct gpud_page_tx *view);

/* --- the receiver's view ------------------------------------------------------------------- */

/* One thread at a time claims, and one gives back, which may be another one. */
struct gpud_page_rx {
    struct gpud_page *page;
    struct gpud_page_end end;
    uint32_t entries;
    _Atomic uint32_t credits; /* entries that the sender uses, as it says */
    uint32_t returned;
    uint64_t last_sequence;
    int64_t stats_told; /* when the stats were published last */
    _Atomic uint32_t held_count;
    /* Cleared by the thread that gives back, after its last use of the entry. */
    _Atomic uint8_t held[GPUD_PAGE_ENTRIES];
};

void gpud_page_rx_init(struct gpud_page_rx *view, struct gpud_page *page,
                       struct gpud_remote *remote, uint32_t entries);

/* Checks the identity of the sender's half, after its handshake and before the first claim. */
enum gpud_status gpud_page_check_sender(const struct gpud_page_rx *view, struct gpud_error *error);

/* Asks for frames that are still written, before the first one. */
void gpud_page_ask_for_lines(const struct gpud_page_rx *view);

/* Publishes a request for the sender's next look; one thread at a time, which may be any. */
void gpud_page_request_key(const struct gpud_page_rx *view, const struct gpud_key_request *request);

/* Lies in a cache line that giving the frame back writes and publishes anyway. */
static inline void gpud_page_tell_latency(const struct gpud_page_rx *view, uint32_t latency)
{
    atomic_store_explicit(&view->page->receiver.latency, latency, memory_order_relaxed);
}

/* Whether they are to be told again: at most once a millisecond where memory is shared, so that the
 * fastest streams do not pay for it, and once a second elsewhere. `now`: of CLOCK_MONOTONIC, in ns.
 */
static inline bool gpud_page_owes_stats(const struct gpud_page_rx *view, int64_t now)
{
    return now - view->stats_told >= (view->end.carrier->publish ? GPUD_SEC : GPUD_MSEC);
}

/* By the thread that claims. */
void gpud_page_tell_stats(struct gpud_page_rx *view, const struct gpud_link_stats *stats,
                          int64_t now);

/* How many frames were published since the page was made. */
static inline uint32_t gpud_page_head(const struct gpud_page_rx *view)
{
    return atomic_load_explicit(&view->page->sender.head, memory_order_acquire);
}

/* Whether a published frame was neither claimed nor revoked; also true if the words are invalid,
 * which gpud_page_claim() reports. False once the sender has taken all slots back. */
bool gpud_page_has_frames(const struct gpud_page_rx *view);

/* How many such frames there are; the number of entries if the words are invalid. */
uint32_t gpud_page_count_waiting(const struct gpud_page_rx *view);

/* How many messages the sender has counted. */
static inline uint32_t gpud_page_messages(const struct gpud_page_rx *view)
{
    return atomic_load_explicit(&view->page->sender.messages, memory_order_acquire);
}

/* Whether a frame was announced that is not published yet. */
bool gpud_page_is_announced(const struct gpud_page_rx *view);

/* Whether the sender has taken all slots back. Call the second one after reading a frame: if it
 * returns false, the frame was read intact. */
static inline bool gpud_page_is_taken_back(const struct gpud_page_rx *view)
{
    return atomic_load_explicit(&view->page->sender.taken_back, memory_order_relaxed) != 0;
}

static inline bool gpud_page_is_taken_back_after(const struct gpud_page_rx *view)
{
    atomic_thread_fence(memory_order_seq_cst); /* after every read of the slot */
    return gpud_page_is_taken_back(view);
}

/* The sequence before the first frame for this receiver. */
static inline uint64_t gpud_page_started(const struct gpud_page_rx *view)
{
    const _Atomic uint32_t *start = view->page->sender.start;
    uint64_t high = atomic_load_explicit(&start[1], memory_order_acquire);
    return high << 32 | atomic_load_explicit(&start[0], memory_order_relaxed);
}

/* Claims the next frame before the position `limit`: 1, *entry and *descriptor (copied once,
 * checked; only meta_size bytes of its meta are valid), 0 none, −1 a violation with its reason in
 * *error. The limit keeps messages in order: it is the position of the next message, or else the
 * head that was read before the messages were counted. */
int gpud_page_claim(struct gpud_page_rx *view, uint32_t limit, uint32_t *entry,
                    struct gpud_descriptor *descriptor, struct gpud_error *error);

/* 1 if every frame before the position was claimed or revoked, 0 if not yet, −1 if it is further
 * ahead than there are entries. */
int gpud_page_reached(const struct gpud_page_rx *view, uint32_t position);

/* Gives an entry back. *idle: this side has nothing left to do, so that a sleeping sender must be
 * woken even for fewer entries than it wants; it is read after the entry is returned, so that no
 * wake is lost. Returns whether that took a system call. */
bool gpud_page_give_back(struct gpud_page_rx *view, uint32_t entry, const atomic_bool *idle);

/* === remote ================================================================================== */
/* Links between hosts: the ends share no memory, and a network card writes into the other end's.
 *
 *     sender                                  receiver
 *     its slots, registered ── write() ─────▶ a ring of its own, registered (expose)
 *     a ring page of its own                  a ring page of its own
 *         its half ──────────── publish() ──▶     the sender's half, as last published
 *         the receiver's half ◀─ publish() ──     its half
 *
 * The other side sees writes and published ranges in order. Each link has one record per epoch;
 * registrations are not shared between them. */

struct gpud_channel;
struct gpud_remote_ops;

struct gpud_remote {
    const struct gpud_remote_ops *ops;
    struct gpud_page *page; /* this side's, zeroed at first; freed with the record */
};

/* Updates a copy of words that other threads of this side may be storing; true: it changed. size: a
 * multiple of 4. */
bool gpud_remote_copy(char *to, const char *from, size_t size);

/* Whether a ring as the receiver describes it has a slot of at least frame_size bytes for each
 * entry. */
enum gpud_status gpud_remote_check_ring(const struct gpud_ring_description *description,
                                        uint32_t entries, uint64_t frame_size,
                                        struct gpud_error *error);

/* All are mandatory, and check what peers say: GPUD_PEER. Calls for one record come from one thread
 * at a time, except those through the page's carrier. */
struct gpud_remote_ops {
    /* For gpud_page_end.carrier, with gpud_page_end.remote; neither can_take_back nor can_elide. */
    const struct gpud_page_carrier *carrier;

    /* Fills endpoint->network: what this channel's card can do with memory of the device. */
    void (*describe)(const struct gpud_channel *channel, struct gpud_device *device,
                     struct gpud_network *network);

    /* Makes this side's page, and its handle for the other. The record keeps the channel. */
    enum gpud_status (*create)(struct gpud_channel *channel, struct gpud_remote **remote,
                               struct gpud_handle *page, struct gpud_error *error);

    /* Sets the other side's page: from now on the halves can be published. */
    enum gpud_status (*attach)(struct gpud_remote *remote, const struct gpud_handle *page,
                               struct gpud_error *error);

    /* Receiver: lets the sender write the slots of its ring, and describes where they are. */
    enum gpud_status (*expose)(struct gpud_remote *remote, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error);

    /* Sender: sets the receiver's slots, one for each entry, of at least frame_size bytes. */
    enum gpud_status (*attach_ring)(struct gpud_remote *remote,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size,
                                    struct gpud_error *error);

    /* Makes memory for large metas, freed with the record. Receiver: for the sender's card to
     * write, and fills *handle. Sender: to write from, to where the handle says. */
    enum gpud_status (*share_metas)(struct gpud_remote *remote, uint64_t size,
                                    struct gpud_handle *handle, void **metas,
                                    struct gpud_error *error);

    /* Sender: registers memory to write frames from, and keeps it until the record is destroyed.
     * Idempotent. Takes milliseconds if pages are pinned; another thread may write frames from
     * other memories meanwhile. */
    enum gpud_status (*add_source)(struct gpud_remote *remote, struct gpud_memory *memory,
                                   struct gpud_error *error);

    /* Sender: publishes what waits for the card, as far as that has room now. */
    void (*catch_up)(struct gpud_remote *remote);
    /* Sender: the same; whether one more frame can be written and published without waiting for the
     * card. */
    bool (*has_room)(struct gpud_remote *remote);

    /* Sender: writes the bytes into the entry's slot, from its byte `at` on, ahead of everything
     * published later. They must not change until the entry is given back or the record is
     * destroyed. GPUD_AGAIN: there is no room for them now. */
    enum gpud_status (*write)(struct gpud_remote *remote, uint32_t entry, uint64_t at,
                              struct gpud_memory *memory, uint64_t offset, uint64_t size,
                              struct gpud_error *error);

    /* Sender: writes this range of the large metas, likewise. */
    enum gpud_status (*write_meta)(struct gpud_remote *remote, uint64_t offset, uint64_t size,
                                   struct gpud_error *error);

    /* Stops publishing, because the receiver has moved to another epoch; frames still held may be
     * given back. Any thread. */
    void (*detach)(struct gpud_remote *remote);

    /* Waits until the card no longer uses this side's memory; after one second it ends the
     * connection. Not under a lock. */
    void (*destroy)(struct gpud_remote *remote);
};

/* === verbs =================================================================================== */
/* The verbs of a channel's network card, with which transfer/ moves an application's own data. A
 * connected channel is used either for these or for the messages of a link, not for both. One
 * thread at a time calls them, and none of them blocks.
 *
 * Requests are numbered, complete in order, and reach the peer in order. */

struct gpud_channel;
struct gpud_memory;

enum gpud_verbs_access {
    GPUD_VERBS_LOCAL = 0, /* read and written for this side's own requests */
    GPUD_VERBS_REMOTE_WRITE = 1 << 0,
    GPUD_VERBS_REMOTE_READ = 1 << 1,
};

/* A registered memory. The peer needs address and key, which are secret. */
struct gpud_verbs_region {
    uint64_t address;
    uint32_t key;
    const char *way; /* "host", "dmabuf", "peermem" */
    void *record;    /* the kind's own */
};

struct gpud_verbs_state {
    uint64_t posted; /* the last request's number */
    uint64_t done;   /* every request up to this one succeeded */
    bool failed;     /* no later one will; `reason` says why */
    bool refused;    /* by the peer's card: a key or a range is wrong */
    char reason[GPUD_REASON_MAX];
};

struct gpud_verbs_ops {
    /* Any thread, also concurrently with other calls. The region keeps the memory. */
    enum gpud_status (*register_memory)(struct gpud_channel *channel, struct gpud_memory *memory,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error);
    /* No request may use the region any more, unless the channel was ended. Any thread. */
    void (*unregister)(struct gpud_verbs_region *region);
    /* Transfers bytes between a region and the peer's memory, in as many pieces as the card needs.
     * GPUD_AGAIN: the card's queue is full, and nothing was posted. */
    enum gpud_status (*write)(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                              uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                              struct gpud_error *error);
    enum gpud_status (*read)(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                             uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                             struct gpud_error *error);
    /* Sends a message, which is copied. GPUD_AGAIN: the peer does not read. */
    enum gpud_status (*send)(struct gpud_channel *channel, const void *bytes, size_t size,
                             struct gpud_error *error);
    /* The next message, valid until the next call. GPUD_AGAIN: none. GPUD_CLOSED: none will come.
     */
    enum gpud_status (*receive)(struct gpud_channel *channel, const void **bytes, size_t *size,
                                struct gpud_error *error);
    /* Gets the progress of requests, and makes sure that the posted ones will complete visibly. */
    void (*look)(struct gpud_channel *channel, struct gpud_verbs_state *state);
    /* Call before sleeping on the channel's descriptor: later events make it readable. Check once
     * more afterwards for earlier ones. */
    void (*arm)(struct gpud_channel *channel);
    /* On return no card accesses memory of this process for it; all later requests fail. */
    void (*end)(struct gpud_channel *channel, const char *reason);
};

/* === channel ================================================================================= */
/* Control channels carry the messages of a link. The sender listens on an address, the receiver
 * connects to it, and afterwards both ends are alike. The address selects the kind:
 *
 *     cam1, unix:/path       unix/    a SOCK_SEQPACKET socket; both ends are on one host
 *     cam1/subs              unix/    the same: each stream of cam1 is a channel of its own
 *     tcp://host:port/cam1   tcp/     a connection by TCP, with TLS over it
 *     rdma://host:port/cam1  rdma/    a connection of rdma_cm and its queue pair
 *
 * Nothing here blocks except gpud_channel_wait(). A channel is reference-counted: code that checks
 * whether the peer is alive holds a reference. Thread-safe, except that only one thread at a time
 * may receive; any thread that releases a frame may send a KICK. */

/* --- addresses ----------------------------------------------------------------------------- */

#define GPUD_ADDRESS_MAX 120

struct gpud_channel_ops;

struct gpud_address {
    const struct gpud_channel_ops *ops;
    char text[GPUD_ADDRESS_MAX];  /* as a receiver gives it */
    char place[GPUD_ADDRESS_MAX]; /* resolved, for the kind and for reasons */
    pid_t receiver; /* listed because this process receives it from a network; 0: a sender's */
    bool any_owner; /* queries may go to another user's sender, because it was named explicitly */
};

/* GPUD_INVALID: not an address; the reason shows a valid one. */
enum gpud_status gpud_address_resolve(const char *text, struct gpud_address *address,
                                      struct gpud_error *error);

/* Whether the sender may be on another host. */
bool gpud_address_is_network(const struct gpud_address *address);

/* Suggests, in a sentence, why no sender may be found on an address; "" if nothing looks wrong.
 * Does not connect. */
void gpud_address_hint(const struct gpud_address *address, char *hint, size_t size);

/* The PCI address of this host's network card on the way to an address; "" if there is none or it
 * is unknown. Does not connect. */
void gpud_address_find_card(const struct gpud_address *address, char *pci, size_t size);

/* Lists the addresses of senders on this host, bare names first: those in this user's runtime
 * directory or, with a folder, those in it, whichever user owns them. Their senders may be dead.
 * The caller frees *found; *omitted entries beyond a limit were skipped; directory is the one
 * searched. */
enum gpud_status gpud_address_list(const char *folder, struct gpud_address **found, size_t *count,
                                   size_t *omitted, char directory[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error);

/* Whether it means all channels at a port of another host: "rdma://10.0.0.2:7174/". */
bool gpud_address_is_port(const char *text);

/* Asks that host for them, by the deadline. The caller frees *found. GPUD_CLOSED: nothing listens
 * there, or the answer did not arrive. */
enum gpud_status gpud_address_list_port(const char *text, int64_t deadline,
                                        struct gpud_address **found, size_t *count, size_t *omitted,
                                        struct gpud_error *error);

/* The runtime directory, even if it is empty. */
enum gpud_status gpud_address_directory(char directory[GPUD_ADDRESS_MAX], struct gpud_error *error);

/* Removes a stale address from the list, unless a sender listens there by now. */
void gpud_address_forget(const struct gpud_address *address);

/* --- peers --------------------------------------------------------------------------------- */

/* As the system reports it, never as the peer claims. */
struct gpud_peer {
    pid_t pid;        /* 0: unknown, as in another container or on another host */
    char host[64];    /* its network address; "": a process on this host */
    bool own_address; /* `host` is an address of this host */
    uid_t uid;
    bool foreign;      /* of neither this process's user nor root */
    bool same_process; /* it is this very process */
};

/* Whether it is on this machine. Its own claims prove nothing: virtual machines cloned from one
 * snapshot share a boot id, though their clocks may be years apart. */
static inline bool gpud_peer_is_here(const struct gpud_peer *peer)
{
    return !peer->host[0] || peer->own_address;
}

/* "process 123", "10.0.0.2": for people. */
#define GPUD_PEER_TEXT_MAX 80

const char *gpud_peer_text(const struct gpud_peer *peer, char text[GPUD_PEER_TEXT_MAX]);

/* Whether its process is gone without a BYE, which exit() would have sent: it was killed or called
 * _exit(). false: it is alive, or unknown, as on another host or in another container. */
bool gpud_peer_has_died(const struct gpud_peer *peer);

/* The key for limits on connections: a process, a host, or 0 for all unknown peers together. */
int64_t gpud_peer_key(const struct gpud_peer *peer);

/* --- the contract of a kind ---------------------------------------------------------------- */

struct gpud_channel {
    const struct gpud_channel_ops *ops;
    atomic_uint references;
    /* The connection is established. Nothing is received before, nor by the call that sets it. */
    atomic_bool connected;
    /* To poll for POLLIN: a message or the end can be received. Over a network it may be readable
     * spuriously; receiving then checks whether the peer can still be reached. */
    int fd;
    /* Likewise, since gpud_channel_watch_peer(): the peer's process has ended, of which a child may
     * hold the connection open. Then gpud_channel_is_dead(), and what is received ends. -1: none.
     */
    int peer_fd;
    struct gpud_peer peer;
    /* How the connection is encrypted: "TLS 1.3 AES-128-GCM" or "no"; "": both ends are on one
     * host. Set before `connected`, constant since. */
    char encryption[64];
};

struct gpud_announcement;

struct gpud_listener {
    const struct gpud_channel_ops *ops;
    /* To poll for POLLIN: a connection can be accepted or, while it stands by, the address may be
     * free. */
    int fd;
    atomic_bool stands_by;      /* another sender has the address */
    char note[GPUD_REASON_MAX]; /* a warning about something that does not work, or "" */
    bool encrypts;              /* what it announces of its connections */
    struct gpud_announcement *announcement; /* NULL: none; not of the kind's */
};

/* All but the last five are mandatory. connect and accept set a new channel's fds and peer, listen
 * a listener's fd. */
struct gpud_channel_ops {
    /* gpud_listener_open() */
    enum gpud_status (*listen)(const struct gpud_address *address,
                               const struct gpud_access_rule *access,
                               struct gpud_listener **listener, struct gpud_error *error);
    /* Stops listening; accepted channels stay open. */
    void (*unlisten)(struct gpud_listener *listener);
    /* gpud_listener_accept() */
    enum gpud_status (*accept)(struct gpud_listener *listener, struct gpud_channel **channel,
                               struct gpud_peer *peer, struct gpud_error *error);
    /* gpud_channel_connect(), or with access NULL gpud_channel_ask() */
    enum gpud_status (*connect)(const struct gpud_address *address,
                                const struct gpud_access_rule *access,
                                struct gpud_channel **channel, struct gpud_peer *peer,
                                struct gpud_error *error);
    /* gpud_channel_send() */
    enum gpud_status (*send)(struct gpud_channel *channel, struct gpud_message *message,
                             struct gpud_error *error);
    /* gpud_channel_receive() */
    enum gpud_status (*receive)(struct gpud_channel *channel, struct gpud_message *message,
                                struct gpud_error *error);
    /* gpud_channel_is_dead() */
    bool (*is_dead)(const struct gpud_channel *channel);
    /* gpud_channel_hang_up() */
    void (*hang_up)(struct gpud_channel *channel);
    /* Frees the channel after its last reference; the peer sees the end. */
    void (*close)(struct gpud_channel *channel);
    /* gpud_listener_tell() */
    void (*tell)(struct gpud_listener *listener);
    /* gpud_listener_stand_by(), gpud_listener_take_over(). NULL: no address of this kind can be
     * waited for. */
    enum gpud_status (*stand_by)(const struct gpud_address *address,
                                 const struct gpud_access_rule *access,
                                 struct gpud_listener **listener, struct gpud_error *error);
    enum gpud_status (*take_over)(struct gpud_listener *listener, struct gpud_error *error);
    /* Moves frames between ends that share no memory. NULL: both are on one host, and messages
     * carry attachments. */
    const struct gpud_remote_ops *remote;
    /* Transfers of the application's own data; NULL: no card moves any. */
    const struct gpud_verbs_ops *verbs;
};

/* --- listening ----------------------------------------------------------------------------- */

/* From now on peers that the rule admits can connect, and those of other hosts can find the
 * listener if the rule says so (wire/announce.h). GPUD_IO with EADDRINUSE: another sender has
 * the address. */
enum gpud_status gpud_listener_open(const struct gpud_address *address,
                                    const struct gpud_access_rule *access,
                                    struct gpud_listener **listener, struct gpud_error *error);

void gpud_listener_close(struct gpud_listener **listener);

/* The same, except that a listener stands by while another sender has the address. Then it
 * announces nothing, and gpud_listener_take_over(), called when its fd is readable, changes that:
 * GPUD_OK, it listens, on another fd; GPUD_AGAIN, another sender still has the address.
 * GPUD_UNSUPPORTED: it is an address between hosts. */
enum gpud_status gpud_listener_stand_by(const struct gpud_address *address,
                                        const struct gpud_access_rule *access,
                                        struct gpud_listener **listener, struct gpud_error *error);

static inline enum gpud_status gpud_listener_take_over(struct gpud_listener *listener,
                                                       struct gpud_error *error)
{
    return listener->ops->take_over(listener, error);
}

/* Announces a change of the stream: watchers of gpud_address_list()'s directory (inotify) see an
 * event and query the sender, and other hosts see its media. Opening and closing a listener are
 * events, too. */
void gpud_listener_tell(struct gpud_listener *listener, const struct gpud_media *media);

/* GPUD_AGAIN: no connection is pending. GPUD_NO_ACCESS: *peer was not admitted, and was sent the
 * reason. If the other end has to authenticate first, the channel is not `connected` yet; if that
 * takes too long, gpud_channel_receive() returns GPUD_CLOSED. */
enum gpud_status gpud_listener_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                      struct gpud_peer *peer, struct gpud_error *error);

/* --- connecting ---------------------------------------------------------------------------- */

/* GPUD_AGAIN: no sender listens there (yet). GPUD_NO_ACCESS: the rule does not admit the sender,
 * which was sent the reason. If connecting takes time, the channel is not `connected` yet: messages
 * are queued, and gpud_channel_receive() reports failures with the same statuses. */
static inline enum gpud_status gpud_channel_connect(const struct gpud_address *address,
                                                    const struct gpud_access_rule *access,
                                                    struct gpud_channel **channel,
                                                    struct gpud_error *error)
{
    struct gpud_peer peer;
    return address->ops->connect(address, access, channel, &peer, error);
}

/* Connects for a query, not for frames: only to this user's own senders unless the address says
 * any_owner, and to none known to be stopped. *peer is set as far as it is known, even on failure.
 * GPUD_CLOSED: no sender. GPUD_AGAIN: its queue of connections is full, or it is stopped. */
static inline enum gpud_status gpud_channel_ask(const struct gpud_address *address,
                                                struct gpud_channel **channel,
                                                struct gpud_peer *peer, struct gpud_error *error)
{
    *peer = (struct gpud_peer){.pid = 0};
    return address->ops->connect(address, NULL, channel, peer, error);
}

/* --- a channel ----------------------------------------------------------------------------- */

struct gpud_channel *gpud_channel_ref(struct gpud_channel *channel);
void gpud_channel_unref(struct gpud_channel **channel); /* *channel may be NULL */

/* Attachments are borrowed. GPUD_AGAIN: no room, because the peer does not read. GPUD_PEER: it is
 * gone. GPUD_INVALID: this message cannot be encoded. */
static inline enum gpud_status gpud_channel_send(struct gpud_channel *channel,
                                                 struct gpud_message *message,
                                                 struct gpud_error *error)
{
    return channel->ops->send(channel, message, error);
}

/* The message owns its attachments: gpud_message_close(). GPUD_AGAIN: no message. GPUD_CLOSED: the
 * peer closed its end, and everything was read. GPUD_PEER, GPUD_UNSUPPORTED: its message is
 * refused. GPUD_NO_MEMORY: the message is lost because this process has no descriptors left for its
 * attachments; the peer is not at fault. */
static inline enum gpud_status gpud_channel_receive(struct gpud_channel *channel,
                                                    struct gpud_message *message,
                                                    struct gpud_error *error)
{
    return channel->ops->receive(channel, message, error);
}

/* Closes a message's attachments. */
void gpud_message_close(struct gpud_message *message);

/* From now on the end of the peer's process is the end of the channel, whatever its children hold
 * open. Does nothing where the system cannot watch it, or does so already. Call it in the thread
 * that receives. */
void gpud_channel_watch_peer(struct gpud_channel *channel);

/* Waits for something to receive, or the end of the peer. GPUD_AGAIN: *interrupted was set. */
enum gpud_status gpud_channel_wait(const struct gpud_channel *channel, int64_t deadline,
                                   const atomic_bool *interrupted);

/* Whether the peer hung up or its process ended. Earlier messages may still be received. */
static inline bool gpud_channel_is_dead(const struct gpud_channel *channel)
{
    return channel->ops->is_dead(channel);
}

/* Ends both directions now, even if other references exist: the peer sees the end. */
static inline void gpud_channel_hang_up(struct gpud_channel *channel)
{
    channel->ops->hang_up(channel);
}

/* === await =================================================================================== */
/* A note that a receiver waits for a sender, read by the tools that show channels (gpudirect-info
 * --channels, gpudirect-monitor). It changes nothing for the receiver, or for the sender when that
 * comes. A note is a small file that its writer keeps locked, as the lock file of an address
 * (wire/unix/unix.h): so a reader knows whether the receiver lives, also that of another container,
 * and the file of a dead one is used again by the next.
 *
 *     /run/studio/.waiting!0.lock        RUNTIME_DIRECTORY/.waiting!0.lock
 *
 *     1234 4026531836                    1234 4026531836       process, PID namespace
 *     viewer                             viewer                what the receiver calls itself
 *     cam1                               /run/studio/cam1      what it waits for
 *     1764378249000000                   1764378249000000      since then, in µs since 1970
 *
 * It waits for a file in the same folder, a path, or "rdma://…". A note lies beside the socket, for
 * users and containers that share the folder, and in the user's runtime directory; a folder that
 * cannot be written has none. The two notes of a receiver have the same time, by which a reader
 * of both knows them. */

/* In the acquiring thread alone. All zeros: it does not wait. */
struct gpud_await {
    int64_t since; /* gpud_now(); 0: it does not wait */
    bool noted;
    struct gpud_await_note {
        int lock; /* -1: none */
        char path[GPUD_ADDRESS_MAX];
    } note[2];
};

/* To be called whenever no sender was found: writes the notes once it has waited for a second, with
 * the access that the receiver's rule gives. name: what the receiver calls itself. */
void gpud_await_sender(struct gpud_await *waiting, const struct gpud_address *address,
                       const struct gpud_access_rule *rule, const char *name);

/* A sender was found, or the receiver ends. */
void gpud_await_end(struct gpud_await *waiting);

#endif
