/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What kinds of connections between hosts share: their addresses, and what this host knows of them.
 */
#ifndef GPUD_WIRE_NETWORK_H
#define GPUD_WIRE_NETWORK_H

#include "base/base.h"
#include "wire/unix/unix.h"
#include "wire/wire.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

/* === place =================================================================================== */
/* Addresses between hosts, as text:
 *
 *     rdma://10.0.0.2              rdma://host.example:7175/cam1
 *     rdma://[fd00::2]:7174        rdma://0.0.0.0        to listen on every card
 *     tcp://[fe80::1%25eth0]/cam1  tcp://:7175/cam1      to listen on every address
 *     rdma://10.0.0.2/cam1/audio   a stream of cam1
 *
 * Several channels and streams can share a port and are then selected by name, also those of
 * several processes. Nothing here looks up names. */

#define GPUD_PLACE_NAME_MAX 48

/* One for each kind between hosts. */
struct gpud_scheme {
    const char *name;  /* "rdma" */
    uint16_t port;     /* of an address that gives none */
    const char *notes; /* ".port!": how the entries begin by which processes share a port */
    const char *any;   /* the host of an address without one, to listen on all; NULL: none */
};

extern const struct gpud_scheme gpud_rdma_scheme, gpud_tcp_scheme;

struct gpud_place {
    int family;                  /* AF_INET, AF_INET6; AF_UNSPEC: host is a name */
    char host[GPUD_ADDRESS_MAX]; /* without brackets */
    uint16_t port;
    bool usual_port;                    /* the text gives none: it is the scheme's */
    char name[GPUD_PLACE_NAME_MAX + 1]; /* "": the only channel, or the one without a name */
};

/* Either output may be NULL. text NULL is invalid. canonical: always with the port. */
enum gpud_status gpud_place_parse(const struct gpud_scheme *scheme, const char *text,
                                  struct gpud_place *place, char canonical[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error);

/* Whether it is "cam1" or "cam1/audio". */
bool gpud_place_is_name(const char *name, size_t length);

/* Whether it means every interface: valid to listen on, not to connect to. */
bool gpud_place_is_wildcard(const struct gpud_place *place);

/* false: the host is a name, or its address is invalid. */
bool gpud_place_to_sockaddr(const struct gpud_place *place, struct sockaddr_storage *address);

/* The port of an IPv4 or IPv6 address. */
in_port_t *gpud_sockaddr_port(struct sockaddr_storage *address);

/* "10.0.0.2", "fd00::2%eth0"; an IPv4-mapped address is printed as IPv4. */
void gpud_sockaddr_print_host(const struct sockaddr *address, char *text, size_t size);

/* === request ================================================================================= */
/* What the ends of a new connection say first: a request and its answer. With rdma_cm they are its
 * private data, to which padding may be added on the way; a byte stream begins with them.
 *
 *     receiver                                  sender
 *        REQUEST, the channel's name ──────────────▶
 *        ◀───────────────────────────────── REPLY     or REFUSAL: the reason, and the known names
 *
 *        REQUEST with the number 0, a name ────────▶  asks for the names behind it, in their order
 *        ◀─────────────────────────────── REFUSAL     these names, as many as fit
 *
 *        REQUEST ──────────────────────────────────▶  whose channel another process sends
 *        ◀─────────────────────────────── REFUSAL     MOVED: the port of that process, in digits
 *
 *     0  magic "GPUR"     4  version     5  total length     6  number, 16 bits; in a REFUSAL the
 *                                           reason     8  text
 *
 * The number is the kind's own: with rdma how many receives are posted, with tcp how the end proves
 * who it is. Numbers are little-endian. The first eight bytes are the same in every version. */

#define GPUD_REQUEST_VERSION 1

/* The limits of rdma_cm on InfiniBand and RoCE. */
#define GPUD_REQUEST_MAX 56
#define GPUD_REPLY_SIZE 8
#define GPUD_REFUSAL_MAX 148
#define GPUD_REFUSAL_NAMES_MAX (GPUD_REFUSAL_MAX - GPUD_REPLY_SIZE)

struct gpud_request {
    uint32_t number; /* 0: it only asks for names */
    char name[GPUD_PLACE_NAME_MAX + 1];
};

enum gpud_refusal_reason {
    GPUD_REFUSAL_UNKNOWN_NAME = 1,
    GPUD_REFUSAL_NAME_WANTED, /* there are several, and the request names none */
    GPUD_REFUSAL_OTHER_VERSION,
    GPUD_REFUSAL_MALFORMED,
    GPUD_REFUSAL_BUSY,   /* the queue of requests is full */
    GPUD_REFUSAL_UNABLE, /* out of memory, descriptors, or the card's resources */
    GPUD_REFUSAL_NAMES,  /* the answer to a request for names */
    GPUD_REFUSAL_MOVED,  /* the channel is at another port: see below */
    GPUD_REFUSAL_PROOF,  /* the sender wants another proof: "key", "certificate" or "none" */
};

struct gpud_refusal {
    enum gpud_refusal_reason reason;
    unsigned version;                       /* of the refusing end */
    char names[GPUD_REFUSAL_NAMES_MAX + 1]; /* "cam1,cam2"; a comma at the end: and more */
};

/* Return how many bytes were written. */
size_t gpud_request_write(const struct gpud_request *request, uint8_t bytes[GPUD_REQUEST_MAX]);
size_t gpud_reply_write(uint32_t number, uint8_t bytes[GPUD_REPLY_SIZE]);
size_t gpud_refusal_write(const struct gpud_refusal *refusal, uint8_t bytes[GPUD_REFUSAL_MAX]);

/* The size of the request or answer that begins so; GPUD_REPLY_SIZE if it is neither, which reading
 * it then reports. */
size_t gpud_request_length(const uint8_t bytes[GPUD_REPLY_SIZE]);

/* Adds a name to a refusal, or the mark for further names. "" adds nothing. */
void gpud_refusal_add_name(struct gpud_refusal *refusal, const char *name);

/* Makes it one that sends the receiver to another port; and that port, 0 for any other refusal. */
void gpud_refusal_set_moved(struct gpud_refusal *refusal, uint16_t port);
uint16_t gpud_refusal_moved_to(const struct gpud_refusal *refusal);

/* Read a peer's bytes. GPUD_UNSUPPORTED: another version. GPUD_PEER: they are malformed. */
enum gpud_status gpud_request_read(const uint8_t *bytes, size_t size, struct gpud_request *request,
                                   struct gpud_error *error);
enum gpud_status gpud_reply_read(const uint8_t *bytes, size_t size, uint32_t *number,
                                 struct gpud_error *error);
enum gpud_status gpud_refusal_read(const uint8_t *bytes, size_t size, struct gpud_refusal *refusal,
                                   struct gpud_error *error);

/* The refusal as a reason for the receiver; GPUD_CLOSED if a later attempt may succeed. */
enum gpud_status gpud_refusal_explain(const struct gpud_refusal *refusal,
                                      const struct gpud_place *place, struct gpud_error *error);

/* === lookup ================================================================================== */
/* Looks up a host's addresses by its name without waiting: an answer can take half a minute. A host
 * of a place with the usual port is first asked for by DNS-SD, for half a second at most: does it
 * announce the channel, and at which port? A host that ends with ".local" likewise, for its
 * addresses. */

#define GPUD_LOOKUP_MAX 8

struct gpud_lookup;

/* Starts a look-up. place: from the text as the application gave it, since a canonical one always
 * has a port. fd: an eventfd, which stays the caller's; raised when it is done. */
enum gpud_status gpud_lookup_begin(const struct gpud_scheme *scheme, const struct gpud_place *place,
                                   int fd, struct gpud_lookup **lookup, struct gpud_error *error);

/* GPUD_AGAIN: not done yet. GPUD_CLOSED: the name has no address, with why. */
enum gpud_status gpud_lookup_get(struct gpud_lookup *lookup,
                                 struct sockaddr_storage addresses[GPUD_LOOKUP_MAX], size_t *count,
                                 struct gpud_error *error);

/* Releases it, done or not; *lookup may be NULL. */
void gpud_lookup_end(struct gpud_lookup **lookup);

/* === near ==================================================================================== */
/* Which addresses are this host's own, and which of its cards leads to others. */

/* Finds the interface with an address; flags: as IFF_LOOPBACK. false: none has it, and the outputs
 * mean nothing. */
bool gpud_network_find_interface(const struct sockaddr_storage *address, unsigned *index,
                                 unsigned *flags);

/* Whether an interface of this host, or of this container, has the address. */
bool gpud_network_is_own(const struct sockaddr_storage *address);

/* The PCI address of the card on the way to a place, or "". Sends nothing, and looks up no names.
 */
void gpud_network_find_card(const struct gpud_scheme *scheme, const char *place, char *pci,
                            size_t size);

/* === port ==================================================================================== */
/* clang-format off */
/* Several processes of one user share a port. The system gives it to one of them, its holder; each
 * of the others listens on a port of its own and notes that one in the user's runtime directory,
 * for each of its channels. The holder redirects: it refuses a request for such a channel with the
 * port of the process that sends it, and the receiver connects there.
 *
 *     receiver                     holder, port 7174              another process, port 40123
 *        REQUEST cam2 ────────────────▶ reads the note of cam2
 *        ◀─────────────── MOVED 40123
 *        REQUEST cam2 ───────────────────────────────────────────────▶
 *        ◀─────────────────────────────────────────────────────── REPLY
 *
 *     .port!10.0.0.1:7174.4026531840.lock           locked by the holder
 *     .port!10.0.0.1:7174!cam2 → 4026531840:40123   a note: the network namespace, and the port
 *     .rdma!10.0.0.1:7174!cam2.lock                 locked while the note is valid, see below
 *
 * Connections do not depend on the holder. When it ends, the kernel releases its lock, which wakes
 * the others, and one of them takes over the lock and the port. Without a runtime directory nothing
 * is shared, and a second process is refused. The numbers are those of network namespaces:
 * processes of two, containers say, may share a runtime directory and not a port. Calls for one
 * port come from one thread at a time, but for gpud_port_is_elsewhere(), which reads only what is
 * constant. */
/* clang-format on */

/* A channel that this process sends at the port. */
struct gpud_port_member {
    struct gpud_port_member *next;
    const char *name;  /* "": it has none */
    const char *where; /* its address, "rdma://10.0.0.1:7174/cam1" */
    bool is_noted;     /* there may be a note of it */
};

/* A channel or stream at the port: of this process, or of one that shares the port. */
struct gpud_port_name {
    char text[GPUD_PLACE_NAME_MAX + 1];
    struct gpud_port_member *member; /* NULL: another process listens for it, on port `number` */
    uint16_t number;
};

/* A process's part in a port. */
struct gpud_port {
    const struct gpud_scheme *scheme;
    char where[GPUD_ADDRESS_MAX]; /* "10.0.0.1:7174" */
    struct gpud_port_member *members;
    uint16_t own_number; /* where this process listens while another one has the port */

    char path[GPUD_SOCKET_PATH_MAX]; /* of the lock; "": the port cannot be shared */
    int lock;                        /* this process is the holder; else -1 */
    bool waits;                      /* has `wait`: another process is the holder */
    struct gpud_lock_wait wait;

    /* The channels of other processes, by their notes, in no order. */
    struct gpud_port_name *others;
    size_t other_count;
    int64_t until;           /* when the directory is read again, even if it did not change */
    struct timespec changed; /* the directory's last change before it was read */
};

/* Becomes the holder of an address's port, or waits for it to be free. */
enum gpud_status gpud_port_open(struct gpud_port *port, const struct gpud_scheme *scheme,
                                const char *address, struct gpud_error *error);
void gpud_port_close(struct gpud_port *port);

/* Becomes the holder if the port has no holder. GPUD_AGAIN: it has one; poll port->wait.events.
 * Waits 20 ms at most. */
enum gpud_status gpud_port_try(struct gpud_port *port, struct gpud_error *error);

/* Makes the note of a channel right, which is needed as long as another process has the port; and
 * removes it. The caller has the channel's lock. */
enum gpud_status gpud_port_note(const struct gpud_port *port, const struct gpud_port_member *member,
                                struct gpud_error *error);
void gpud_port_forget(const struct gpud_port *port, const struct gpud_port_member *member);

/* Whether another process is found by this channel's name at the port. */
bool gpud_port_is_elsewhere(const struct gpud_port *port, const struct gpud_port_member *member);

/* This process's channel of that name, or NULL. */
struct gpud_port_member *gpud_port_member(const struct gpud_port *port, const char *name);

/* The channel that a request is for: one without a name is for the channel without one, or for the
 * only channel. */
bool gpud_port_find(struct gpud_port *port, const char *name, struct gpud_port_name *found);

/* Lists all of them in the order of their names. The caller frees it; NULL: out of memory. */
struct gpud_port_name *gpud_port_list(struct gpud_port *port, size_t *count);

/* --- of another host ------------------------------------------------------------------------ */

/* Asks a port for the names behind place->name, in their order: "cam1,cam2"; a comma at the end:
 * there are further names. */
typedef enum gpud_status gpud_port_ask_fn(const struct gpud_place *place, const char *port,
                                          int64_t deadline, char *names, size_t size,
                                          struct gpud_error *error);

/* gpud_address_list_port() for a kind that asks so. */
enum gpud_status gpud_port_ask(const struct gpud_scheme *scheme, const struct gpud_channel_ops *ops,
                               gpud_port_ask_fn *ask, const char *port, int64_t deadline,
                               struct gpud_address **found, size_t *count, size_t *omitted,
                               struct gpud_error *error);

/* === local =================================================================================== */
/* Lets this user's processes on this host query a channel that is sent over a network, without its
 * key: a socket beside those of bare names answers queries (gpudirect-info --channels) and accepts
 * no receiver.
 *
 *     .rdma!10.0.0.1:7174!cam1         for rdma://10.0.0.1:7174/cam1
 *     .rdma!10.0.0.1:7174!cam1.lock    its lock, which names its process */

/* Listens for queries about an address: "rdma://10.0.0.1:7174/cam1". */
enum gpud_status gpud_local_open(struct gpud_socket_listener *local,
                                 const struct gpud_scheme *scheme, const char *address,
                                 struct gpud_error *error);

/* As gpud_channel_ops.tell. */
void gpud_local_tell(const struct gpud_socket_listener *local);

/* The process that sends the channel: "process 123 (gst-launch-1.0)". */
void gpud_local_find_sender(const struct gpud_scheme *scheme, const char *address, char *text,
                            size_t size);

/* The other process of this user that listens on the port, on any address; "" if none is known. */
void gpud_local_find_port(const struct gpud_scheme *scheme, uint16_t port, char *text, size_t size);

/* === hub ===================================================================================== */
/* Listening on a port, which several channels and processes share. Listeners on one address and
 * port share a hub:
 *
 *     gpud_listener cam1 ─┐
 *     gpud_listener cam2 ─┴─ hub: one port, one descriptor ◀── requests, with a name
 *
 * The first listener's thread to see a request takes it from the hub, and queues it for the
 * listener that it names. One lock serves all hubs; no thread blocks while holding it, except that
 * gpud_port_try() may wait 20 ms for the kernel. */

struct gpud_hub;

/* A receiver's request to connect. */
struct gpud_incoming {
    void *connection; /* the kind's own */
    uint32_t queue_pair;
    int64_t host; /* tells hosts apart; 0: unknown */
    struct gpud_request request;
};

/* What a kind does for its hubs, under their lock. All but the last are mandatory. */
struct gpud_hub_ops {
    const struct gpud_scheme *scheme;
    size_t size; /* of the kind's hub, which begins with a struct gpud_hub */

    /* Makes what the hub needs to listen, and sets hub->events. */
    enum gpud_status (*open)(struct gpud_hub *hub, struct gpud_error *error);
    /* Ends that and listening; also of a hub whose open() failed. */
    void (*close)(struct gpud_hub *hub);

    /* Listens on the hub's port or, if another process has that, where its holder finds this one,
     * by the number that becomes hub->port.own_number. 0, or the errno of what failed, which is
     * EADDRINUSE if the port is taken. */
    int (*listen)(struct gpud_hub *hub, bool own);
    bool (*listens)(const struct gpud_hub *hub, bool own);
    /* Reports that errno. */
    enum gpud_status (*explain)(int number, const char *where, struct gpud_error *error);

    /* Takes what has arrived: gpud_hub_enqueue() for each request. */
    void (*take)(struct gpud_hub *hub);
    /* Hands the request on to the process that has that number. true: it took over the connection.
     * false: *refusal says what to answer. */
    bool (*redirect)(struct gpud_hub *hub, const struct gpud_incoming *incoming, uint16_t number,
                     struct gpud_refusal *refusal);
    /* Answers so, and drops the connection. refusal NULL: drops it without an answer. */
    void (*refuse)(void *connection, const struct gpud_refusal *refusal);
    /* The host that it comes from, so that one that floods the queue keeps no other out. */
    int64_t (*find_host)(const void *connection);
};

struct gpud_hub {
    struct gpud_hub *next;
    const struct gpud_hub_ops *ops;
    struct sockaddr_storage address;
    int events; /* readable: there is something to take */
    int fd;     /* to poll: of events, of the wait for the port, and of `retry` */
    int retry;  /* a timer, while the port is expected to become free */
    struct gpud_port port;
    int64_t patience; /* until when a port that was taken over may still be taken */
    bool is_deaf;     /* it cannot listen, and tries again and again */
    int failed;       /* the errno for which take() left connections where they are; 0: none */
};

#define GPUD_HUB_QUEUE_MAX 64

struct gpud_hub_listener {
    struct gpud_listener base; /* first */
    struct gpud_place place;
    char where[GPUD_ADDRESS_MAX];
    bool is_local; /* has `local` */
    struct gpud_socket_listener local;

    /* Its part in the hub; under the hubs' lock. */
    struct gpud_hub *hub; /* NULL: it has not joined */
    struct gpud_port_member member;
    int event; /* readable: the queue is not empty */
    uint32_t first, count;
    struct gpud_incoming queue[GPUD_HUB_QUEUE_MAX];
};

/* Listens, for a listener with only its place, where and base.ops set. may_listen: a sentence is
 * in *error unless the application's rule allows it. Call gpud_hub_unlisten() in any case. GPUD_IO
 * with EADDRINUSE: the port is taken, or the name. */
enum gpud_status gpud_hub_listen(struct gpud_hub_listener *listener, const struct gpud_hub_ops *ops,
                                 const struct sockaddr_storage *address, struct gpud_error *error);

/* Leaves the hub and closes the listener's descriptors; it stays the caller's to free. */
void gpud_hub_unlisten(struct gpud_hub_listener *listener);

/* As gpud_channel_ops.tell. */
void gpud_hub_tell(struct gpud_listener *listener);

/* Looks for requests; GPUD_OK: one is queued. GPUD_AGAIN: none; *channel may then be that of a
 * query of this host, with GPUD_OK. GPUD_IO: none can arrive at present. */
enum gpud_status gpud_hub_look(struct gpud_hub_listener *listener, struct gpud_channel **channel,
                               struct gpud_peer *peer, struct gpud_error *error);

/* Takes the next request of this listener, whose connection then is the caller's. Remaining ones
 * keep the listener's event readable. GPUD_AGAIN: none. `own` (may be NULL) is called under the
 * lock that orders it with gpud_hub_forget(). */
enum gpud_status gpud_hub_next(struct gpud_hub_listener *listener, struct gpud_incoming *incoming,
                               enum gpud_status (*own)(const struct gpud_incoming *incoming,
                                                       void *arg, struct gpud_error *error),
                               void *arg, struct gpud_error *error);

/* By take(): queues a request for its channel, answers it, or hands it on. */
void gpud_hub_enqueue(struct gpud_hub *hub, void *connection, uint32_t queue_pair,
                      const uint8_t *bytes, size_t size);

/* By take(): drops a request that was cancelled while it was queued. */
void gpud_hub_forget(const struct gpud_hub *hub, const void *connection);

#endif
