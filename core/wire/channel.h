/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Control channels: what the messages of a link travel over. Whoever sends listens on an address,
 * whoever receives connects to it, and afterwards both ends are alike. The address tells the kind:
 *
 *     cam1, unix:/path       unix/    a SOCK_SEQPACKET socket; both ends are on one host
 *     rdma://host:port/cam1  rdma/    a connection of rdma_cm and its queue pair
 *
 * Nothing here blocks, but for gpud_channel_wait(). A channel is reference-counted: whoever has to
 * know whether the peer lives keeps it. Thread-safe, but that one thread at a time receives: KICKs
 * are sent by whoever releases a frame. */
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
    char place[GPUD_ADDRESS_MAX]; /* where its kind finds it; for people: "nobody sends on …" */
    pid_t receiver; /* listed because this process receives it from a network; 0: a sender's */
    bool any_owner; /* for a question: another user's sender is asked, too, as somebody named it */
};

/* GPUD_INVALID: it is none, with what one looks like. */
enum gpud_status gpud_address_resolve(const char *text, struct gpud_address *address,
                                      struct gpud_error *error);

/* Whether whoever is there may be on another host. */
bool gpud_address_is_network(const struct gpud_address *address);

/* What a user may have overlooked where nobody sends on an address: a sentence, "" where there is
 * nothing to say. Connects to nobody. */
void gpud_address_hint(const struct gpud_address *address, char *hint, size_t size);

/* The network card of this host that an address leads over: its place on the PCI bus, "" where it
 * leads over none, or that is not known. Connects to nobody. */
void gpud_address_find_card(const struct gpud_address *address, char *pci, size_t size);

/* The addresses of senders on this host, bare names first: those in this user's runtime directory,
 * or, with a folder, those in it, whoever owns them. There may be nobody behind one. *found is the
 * caller's to free; *omitted entries beyond a limit were not looked at; directory is the one that
 * was searched. */
enum gpud_status gpud_address_list(const char *folder, struct gpud_address **found, size_t *count,
                                   size_t *omitted, char directory[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error);

/* That directory, also where there is nothing in it. */
enum gpud_status gpud_address_directory(char directory[GPUD_ADDRESS_MAX], struct gpud_error *error);

/* Nobody was behind a listed address: the list forgets it, unless somebody is there now. */
void gpud_address_forget(const struct gpud_address *address);

/* --- who is there -------------------------------------------------------------------------- */

/* By the word of the system, never the peer's own. */
struct gpud_peer {
    pid_t pid;        /* 0: not known, as of another container or host */
    char host[64];    /* where it is, by its address; "": on this host, as it has none */
    bool own_address; /* and that is an address of this host, too */
    uid_t uid;
    bool foreign;      /* of neither this process's user nor root */
    bool same_process; /* it is this very process */
};

/* Whether it is on this machine. What it says of itself proves nothing: virtual machines that were
 * made of one snapshot have one boot id, and clocks that are years apart. */
static inline bool gpud_peer_is_here(const struct gpud_peer *peer)
{
    return !peer->host[0] || peer->own_address;
}

/* "process 123", "10.0.0.2": for people. */
#define GPUD_PEER_TEXT_MAX 80
const char *gpud_peer_text(const struct gpud_peer *peer, char text[GPUD_PEER_TEXT_MAX]);

/* Whether its process is gone, which by exit() would have said BYE: it was killed, ended by a
 * signal or by _exit(). false: it lives, or that is not known, as of another host or container. */
bool gpud_peer_has_died(const struct gpud_peer *peer);

/* Whom connections are counted by: a process, a host, or, as 0, all of whom nothing is known. */
int64_t gpud_peer_key(const struct gpud_peer *peer);

/* --- the contract of a kind ---------------------------------------------------------------- */

struct gpud_channel {
    const struct gpud_channel_ops *ops;
    atomic_uint references;
    /* The other end is there. Nothing is received before that, nor by the call that finds it out.
     */
    atomic_bool connected;
    /* To poll for POLLIN: there is something to receive, or the end. Over a network also now and
     * then with nothing: receiving looks then whether the peer can be reached. */
    int fd;
    struct gpud_peer peer;
};

struct gpud_listener {
    const struct gpud_channel_ops *ops;
    int fd;                     /* to poll for POLLIN: somebody is there to be accepted */
    char note[GPUD_REASON_MAX]; /* what does not work although it listens, or "" */
};

/* All but the last three are mandatory. connect and accept fill a new channel's fd and peer, listen
 * a listener's fd.
 */
struct gpud_channel_ops {
    /* gpud_listener_open() */
    enum gpud_status (*listen)(const struct gpud_address *address,
                               const struct gpud_access_rule *access,
                               struct gpud_listener **listener, struct gpud_error *error);
    /* Ends listening. Channels that were accepted live on. */
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
    /* The last reference went: frees the channel, and whoever is there sees the end. */
    void (*close)(struct gpud_channel *channel);
    /* gpud_listener_tell() */
    void (*tell)(struct gpud_listener *listener);
    /* How frames get across where the ends share no memory. NULL: they are on one host, and
     * attachments travel. */
    const struct gpud_remote_ops *remote;
    /* For an application's own bytes; NULL: there is no card that moves them. */
    const struct gpud_verbs_ops *verbs;
};

/* --- listening ----------------------------------------------------------------------------- */

/* From now on those whom the rule admits can connect. GPUD_IO with EADDRINUSE: another sender has
 * the address. */
enum gpud_status gpud_listener_open(const struct gpud_address *address,
                                    const struct gpud_access_rule *access,
                                    struct gpud_listener **listener, struct gpud_error *error);
void gpud_listener_close(struct gpud_listener **listener);

/* What is sent there is another thing now: whoever watches the directory of gpud_address_list()
 * (inotify) sees an event, and asks. Listening, and its end, are events, too. */
void gpud_listener_tell(struct gpud_listener *listener);

/* GPUD_AGAIN: nobody waits. GPUD_NO_ACCESS: *peer does who is not let in, and was told why. Where
 * the other end has to prove itself first, the channel is not `connected` yet; if that takes too
 * long, gpud_channel_receive() gives GPUD_CLOSED. */
enum gpud_status gpud_listener_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                      struct gpud_peer *peer, struct gpud_error *error);

/* --- connecting ---------------------------------------------------------------------------- */

/* GPUD_AGAIN: nobody listens there (yet). GPUD_NO_ACCESS: somebody does from whom nothing is taken,
 * and was told why. Where finding that out takes its time, the channel is not `connected` yet: what
 * is sent waits, and gpud_channel_receive() tells of a failure, by the same statuses. */
enum gpud_status gpud_channel_connect(const struct gpud_address *address,
                                      const struct gpud_access_rule *access,
                                      struct gpud_channel **channel, struct gpud_error *error);

/* For a question, not for frames: to this user's own senders alone unless the address says
 * any_owner, and to none that is known to be stopped. *peer says who is there also where this
 * fails, as far as it is known. GPUD_CLOSED: nobody. GPUD_AGAIN: too many wait there already, or it
 * is stopped. */
enum gpud_status gpud_channel_ask(const struct gpud_address *address, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error);

/* --- a channel ----------------------------------------------------------------------------- */

struct gpud_channel *gpud_channel_ref(struct gpud_channel *channel);
void gpud_channel_unref(struct gpud_channel **channel); /* to nothing is nothing */

/* Attachments are borrowed. GPUD_AGAIN: the peer does not read, there is no room. GPUD_PEER: it is
 * gone. GPUD_INVALID: this message cannot be said. */
enum gpud_status gpud_channel_send(struct gpud_channel *channel, struct gpud_message *message,
                                   struct gpud_error *error);

/* The message owns its attachments: gpud_message_close(). GPUD_AGAIN: nothing there. GPUD_CLOSED:
 * the peer's end is closed, and all was read. GPUD_PEER, GPUD_UNSUPPORTED: what it sent is refused.
 * GPUD_NO_MEMORY: this process has no room for the attachments of the message, which is lost,
 * through no fault of the peer's. */
enum gpud_status gpud_channel_receive(struct gpud_channel *channel, struct gpud_message *message,
                                      struct gpud_error *error);

/* Closes a message's attachments. */
void gpud_message_close(struct gpud_message *message);

/* Waits for something to receive. GPUD_AGAIN: *interrupted was set. */
enum gpud_status gpud_channel_wait(const struct gpud_channel *channel, int64_t deadline,
                                   const atomic_bool *interrupted);

/* Whether the peer's end is gone: it hung up, or its process ended. What it said before may still
 * be there to receive. */
bool gpud_channel_is_dead(const struct gpud_channel *channel);

/* Ends it in both directions now, whoever holds references: the peer sees the end. */
void gpud_channel_hang_up(struct gpud_channel *channel);

#endif
