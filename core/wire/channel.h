/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Control channels carry the messages of a link. The sender listens on an address, the receiver
 * connects to it, and afterwards both ends are alike. The address selects the kind:
 *
 *     cam1, unix:/path       unix/    a SOCK_SEQPACKET socket; both ends are on one host
 *     cam1/subs              unix/    the same: each stream of cam1 is a channel of its own
 *     rdma://host:port/cam1  rdma/    a connection of rdma_cm and its queue pair
 *
 * Nothing here blocks except gpud_channel_wait(). A channel is reference-counted: code that checks
 * whether the peer is alive holds a reference. Thread-safe, except that only one thread at a time
 * may receive; any thread that releases a frame may send a KICK. */
#ifndef GPUD_WIRE_CHANNEL_H
#define GPUD_WIRE_CHANNEL_H

#include "wire/access.h"
#include "wire/message.h"
#include "wire/remote.h"
#include "wire/verbs.h"
#include <stdatomic.h>
#include <sys/types.h>

/* --- addresses: address.c ------------------------------------------------------------------ */

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
};

struct gpud_listener {
    const struct gpud_channel_ops *ops;
    /* To poll for POLLIN: a connection can be accepted or, while it stands by, the address may be
     * free. */
    int fd;
    atomic_bool stands_by;      /* another sender has the address */
    char note[GPUD_REASON_MAX]; /* a warning about something that does not work, or "" */
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

/* From now on peers that the rule admits can connect. GPUD_IO with EADDRINUSE: another sender has
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
enum gpud_status gpud_listener_take_over(struct gpud_listener *listener, struct gpud_error *error);

/* Announces a change of the stream: watchers of gpud_address_list()'s directory (inotify) see an
 * event and query the sender. Opening and closing a listener are events, too. */
void gpud_listener_tell(struct gpud_listener *listener);

/* GPUD_AGAIN: no connection is pending. GPUD_NO_ACCESS: *peer was not admitted, and was sent the
 * reason. If the other end has to authenticate first, the channel is not `connected` yet; if that
 * takes too long, gpud_channel_receive() returns GPUD_CLOSED. */
enum gpud_status gpud_listener_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                      struct gpud_peer *peer, struct gpud_error *error);

/* --- connecting ---------------------------------------------------------------------------- */

/* GPUD_AGAIN: no sender listens there (yet). GPUD_NO_ACCESS: the rule does not admit the sender,
 * which was sent the reason. If connecting takes time, the channel is not `connected` yet: messages
 * are queued, and gpud_channel_receive() reports failures with the same statuses. */
enum gpud_status gpud_channel_connect(const struct gpud_address *address,
                                      const struct gpud_access_rule *access,
                                      struct gpud_channel **channel, struct gpud_error *error);

/* Connects for a query, not for frames: only to this user's own senders unless the address says
 * any_owner, and to none known to be stopped. *peer is set as far as it is known, even on failure.
 * GPUD_CLOSED: no sender. GPUD_AGAIN: its queue of connections is full, or it is stopped. */
enum gpud_status gpud_channel_ask(const struct gpud_address *address, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error);

/* --- a channel ----------------------------------------------------------------------------- */

struct gpud_channel *gpud_channel_ref(struct gpud_channel *channel);
void gpud_channel_unref(struct gpud_channel **channel); /* *channel may be NULL */

/* Attachments are borrowed. GPUD_AGAIN: no room, because the peer does not read. GPUD_PEER: it is
 * gone. GPUD_INVALID: this message cannot be encoded. */
enum gpud_status gpud_channel_send(struct gpud_channel *channel, struct gpud_message *message,
                                   struct gpud_error *error);

/* The message owns its attachments: gpud_message_close(). GPUD_AGAIN: no message. GPUD_CLOSED: the
 * peer closed its end, and everything was read. GPUD_PEER, GPUD_UNSUPPORTED: its message is
 * refused. GPUD_NO_MEMORY: the message is lost because this process has no descriptors left for its
 * attachments; the peer is not at fault. */
enum gpud_status gpud_channel_receive(struct gpud_channel *channel, struct gpud_message *message,
                                      struct gpud_error *error);

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
bool gpud_channel_is_dead(const struct gpud_channel *channel);

/* Ends both directions now, even if other references exist: the peer sees the end. */
void gpud_channel_hang_up(struct gpud_channel *channel);

#endif
