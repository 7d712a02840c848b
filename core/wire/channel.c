/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses, and connections of any kind. */
#include "wire/wire.h"

#include "base/base.h"
#include "wire/announce.h"
#include "wire/network.h"
#include "wire/rdma/kind.h"
#include "wire/tcp/kind.h"
#include "wire/unix/unix.h"

#include <errno.h>
#include <gpudirect/channel.h>
#include <grp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* === channel ================================================================================= */
/* Calls that all kinds of channel share. */

/* --- peers --------------------------------------------------------------------------------- */

const char *gpud_peer_text(const struct gpud_peer *peer, char text[GPUD_PEER_TEXT_MAX])
{
    if (peer->host[0])
        gpud_print_n(text, GPUD_PEER_TEXT_MAX, "%s", peer->host);
    else
        gpud_print_n(text, GPUD_PEER_TEXT_MAX, "process %d", (int)peer->pid);
    return text;
}

bool gpud_peer_has_died(const struct gpud_peer *peer)
{
    return !peer->host[0] && !peer->same_process && gpud_process_has_ended(peer->pid);
}

int64_t gpud_peer_key(const struct gpud_peer *peer)
{
    if (!peer->host[0])
        return peer->pid;
    return -1 - (int64_t)gpud_hash(peer->host); /* those that collide share one limit */
}

/* --- listening and connecting -------------------------------------------------------------- */

enum gpud_status gpud_listener_stand_by(const struct gpud_address *address,
                                        const struct gpud_access_rule *access,
                                        struct gpud_listener **listener, struct gpud_error *error)
{
    if (address->ops->stand_by)
        return address->ops->stand_by(address, access, listener, error);
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "%s is an address between hosts, which no standby can take over: give the "
                     "standby an address of its own, and receivers both (backup-address)",
                     address->text);
}

void gpud_listener_close(struct gpud_listener **listener)
{
    struct gpud_listener *gone = *listener;
    *listener = NULL;
    if (!gone)
        return;
    gpud_announce_end(&gone->announcement);
    gone->ops->unlisten(gone);
}

void gpud_listener_tell(struct gpud_listener *listener, const struct gpud_media *media)
{
    if (!listener) /* tests make senders without one */
        return;
    gpud_announce_update(listener->announcement, media);
    if (listener->ops->tell)
        listener->ops->tell(listener);
}

enum gpud_status gpud_listener_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                      struct gpud_peer *peer, struct gpud_error *error)
{
    return listener->ops->accept(listener, channel, peer, error);
}

/* --- a channel ----------------------------------------------------------------------------- */

struct gpud_channel *gpud_channel_ref(struct gpud_channel *channel)
{
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    return channel;
}

void gpud_channel_unref(struct gpud_channel **channel)
{
    struct gpud_channel *gone = *channel;
    *channel = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_fd_close(&gone->peer_fd);
    gone->ops->close(gone);
}

void gpud_message_close(struct gpud_message *message)
{
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    size_t count = gpud_message_attachments(message, handles);
    for (size_t i = 0; i < count; i++)
        gpud_fd_close(&handles[i]->fd);
}

void gpud_channel_watch_peer(struct gpud_channel *channel)
{
    const struct gpud_peer *peer = &channel->peer;
    bool has_ended;
    if (channel->peer_fd >= 0 || peer->host[0] || peer->same_process)
        return;
    channel->peer_fd = gpud_process_watch(channel->fd, peer->pid, &has_ended);
    if (has_ended)
        gpud_channel_hang_up(channel);
}

enum gpud_status gpud_channel_wait(const struct gpud_channel *channel, int64_t deadline,
                                   const atomic_bool *interrupted)
{
    enum gpud_status status =
        gpud_fd_wait_both(channel->fd, channel->peer_fd, deadline, interrupted);
    if (status == GPUD_OK && channel->peer_fd >= 0)
        gpud_channel_is_dead(channel);
    return status;
}

/* === address ================================================================================= */
/* The kinds of channel, selected by an address's scheme. A new kind is a line in this table. */

#ifndef GPUD_WITH_RDMA
static enum gpud_status refuse_rdma(const char *text, char place[GPUD_ADDRESS_MAX],
                                    struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_DEVICE,
                     "%.64s: this libgpudirect is built without rdma: configure it with "
                     "-Drdma=enabled",
                     text);
}
#endif

/* The first kind also resolves bare names, and refuses whatever matches no scheme. */
static const struct kind {
    const char *scheme;
    const struct gpud_channel_ops *ops;
    const struct gpud_scheme *between_hosts; /* NULL: it resolves addresses itself */
    enum gpud_status (*resolve)(const char *text, char place[GPUD_ADDRESS_MAX],
                                struct gpud_error *error);
    void (*hint)(const char *place, char *hint, size_t size);
    gpud_port_ask_fn *ask_names; /* NULL if addresses have no port */
} kinds[] = {
    {"unix:", &gpud_unix_channel_ops, NULL, gpud_socket_resolve, gpud_socket_hint},
    {"tcp:", &gpud_tcp_channel_ops, &gpud_tcp_scheme, NULL, gpud_tcp_hint, gpud_tcp_ask_names},
#ifdef GPUD_WITH_RDMA
    {"rdma:", &gpud_rdma_channel_ops, &gpud_rdma_scheme, NULL, gpud_rdma_hint, gpud_rdma_ask_names},
#else
    {"rdma:", NULL, NULL, refuse_rdma},
#endif
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

_Static_assert(GPUD_ADDRESS_MAX >= sizeof("unix:") + GPUD_SOCKET_PATH_MAX, "every path fits");

static const struct kind *address_find_kind(const char *text)
{
    for (size_t i = 1; text && i < KINDS; i++)
        if (strncmp(text, kinds[i].scheme, strlen(kinds[i].scheme)) == 0)
            return &kinds[i];
    return &kinds[0];
}

static enum gpud_status resolve(const struct kind *kind, const char *text,
                                char place[GPUD_ADDRESS_MAX], struct gpud_error *error)
{
    return kind->resolve ? kind->resolve(text, place, error)
                         : gpud_place_parse(kind->between_hosts, text, NULL, place, error);
}

enum gpud_status gpud_address_resolve(const char *text, struct gpud_address *address,
                                      struct gpud_error *error)
{
    const struct kind *kind = address_find_kind(text);
    struct gpud_address made = {.ops = kind->ops};
    enum gpud_status status = resolve(kind, text, made.place, error);
    if (status != GPUD_OK)
        return status;
    gpud_print(made.text, "%s", text);
    *address = made;
    return GPUD_OK;
}

const char *gpud_address_get_host(const char *address)
{
    for (size_t i = 1; address && i < KINDS; i++) { /* all but the first are between hosts */
        size_t length = strlen(kinds[i].scheme);
        if (strncmp(address, kinds[i].scheme, length) == 0 &&
            strncmp(address + length, "//", 2) == 0)
            return address + length + 2;
    }
    return NULL;
}

enum gpud_status gpud_listener_open(const struct gpud_address *address,
                                    const struct gpud_access_rule *access,
                                    struct gpud_listener **listener, struct gpud_error *error)
{
    struct gpud_place place;
    enum gpud_status status = address->ops->listen(address, access, listener, error);
    for (size_t i = 0; status == GPUD_OK && access && access->announce && i < KINDS; i++)
        if (kinds[i].ops == address->ops && kinds[i].between_hosts &&
            gpud_place_parse(kinds[i].between_hosts, address->place, &place, NULL, NULL) == GPUD_OK)
            gpud_announce_begin(kinds[i].between_hosts, &place, (*listener)->encrypts,
                                &(*listener)->announcement);
    return status;
}

bool gpud_address_is_network(const struct gpud_address *address)
{
    return address->ops->remote != NULL;
}

void gpud_address_hint(const struct gpud_address *address, char *hint, size_t size)
{
    hint[0] = '\0';
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].ops == address->ops)
            kinds[i].hint(address->place, hint, size);
}

void gpud_address_find_card(const struct gpud_address *address, char *pci, size_t size)
{
    pci[0] = '\0';
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].ops == address->ops && kinds[i].between_hosts)
            gpud_network_find_card(kinds[i].between_hosts, address->place, pci, size);
}

bool gpud_address_is_port(const char *text)
{
    size_t length = strlen(text);
    return address_find_kind(text) != &kinds[0] && text[length - 1] == '/';
}

enum gpud_status gpud_address_list_port(const char *text, int64_t deadline,
                                        struct gpud_address **found, size_t *count, size_t *omitted,
                                        struct gpud_error *error)
{
    const struct kind *kind = address_find_kind(text);
    char place[GPUD_ADDRESS_MAX];
    /* Fails in a build without network cards, which cannot ask. */
    enum gpud_status status = resolve(kind, text, place, error);
    if (status != GPUD_OK)
        return status;
    return gpud_port_ask(kind->between_hosts, kind->ops, kind->ask_names, text, deadline, found,
                         count, omitted, error);
}

enum gpud_status gpud_address_directory(char directory[GPUD_ADDRESS_MAX], struct gpud_error *error)
{
    return gpud_runtime_directory(directory, GPUD_SOCKET_PATH_MAX, error);
}

/* === access ================================================================================== */

#define ENTRY_MAX 4096 /* first buffer for a group's entry, which lists all its members */
#define ENTRY_MOST (1 << 20)

/* Returns 0 or an errno; ENOENT if there is no such group. */
static int find_group(const char *name, gid_t *group)
{
    int failed = ERANGE;
    for (size_t size = ENTRY_MAX; failed == ERANGE && size <= ENTRY_MOST; size *= 4) {
        char *buffer = malloc(size);
        struct group entry, *found = NULL;
        if (!buffer)
            return ENOMEM;
        failed = getgrnam_r(name, &entry, buffer, size, &found);
        if (failed == 0 && found)
            *group = found->gr_gid;
        else if (failed == 0)
            failed = ENOENT;
        free(buffer);
    }
    return failed;
}

enum gpud_status gpud_access_parse(const char *text, struct gpud_access_rule *access,
                                   struct gpud_error *error)
{
    struct gpud_access_rule made = {.kind = GPUD_ACCESS_USER};
    if (text && strcmp(text, "all") == 0) {
        made.kind = GPUD_ACCESS_ALL;
    } else if (text && strncmp(text, "group:", 6) == 0 && text[6]) {
        const char *name = text + 6;
        char *end;
        made.kind = GPUD_ACCESS_GROUP;
        gpud_print(made.group_name, "%s", name);
        gpud_text_clean(made.group_name, strlen(made.group_name));
        int failed = find_group(name, &made.group);
        errno = 0;
        unsigned long number = strtoul(name, &end, 10);
        if (failed && name[0] >= '0' && name[0] <= '9' && !*end && !errno && number < UINT32_MAX) {
            made.group = (gid_t)number;
            failed = 0;
        }
        if (failed)
            return gpud_fail(error, GPUD_INVALID,
                             "access=group:%s: there is no such group (getent group lists them; "
                             "groupadd %s makes it)",
                             made.group_name, made.group_name);
    } else if (text && text[0] && strcmp(text, "user") != 0) {
        return gpud_fail(error, GPUD_INVALID, "access=%.40s: it is user, group:NAME or all", text);
    }
    *access = made;
    return GPUD_OK;
}

static enum gpud_status access_set_path(char *to, size_t room, const char *name, const char *path,
                                        struct gpud_error *error)
{
    if (!path)
        path = "";
    if (strlen(path) >= room)
        return gpud_fail(error, GPUD_INVALID, "%s: a path of %zu bytes, at most %zu fit", name,
                         strlen(path), room - 1);
    gpud_print_n(to, room, "%s", path);
    return GPUD_OK;
}

enum gpud_status gpud_access_set_key(struct gpud_access_rule *access, const char *key_file,
                                     struct gpud_error *error)
{
    return access_set_path(access->key_file, sizeof(access->key_file), "psk-file", key_file, error);
}

enum gpud_status gpud_access_set_certificates(struct gpud_access_rule *access,
                                              const char *certificate, const char *key,
                                              const char *ca, struct gpud_error *error)
{
    enum gpud_status status =
        access_set_path(access->tls_certificate, sizeof(access->tls_certificate), "tls-certificate",
                        certificate, error);
    if (status == GPUD_OK)
        status = access_set_path(access->tls_key, sizeof(access->tls_key), "tls-key", key, error);
    if (status == GPUD_OK)
        status = access_set_path(access->tls_ca, sizeof(access->tls_ca), "tls-ca", ca, error);
    return status;
}

enum gpud_status gpud_access_check(const struct gpud_access_rule *access, bool network,
                                   struct gpud_error *error)
{
    const char *given = access->tls_certificate[0] ? "tls-certificate"
                        : access->tls_key[0]       ? "tls-key"
                        : access->tls_ca[0]        ? "tls-ca"
                                                   : NULL;
    if (network && access->kind != GPUD_ACCESS_USER)
        return gpud_fail(error, GPUD_INVALID,
                         "access selects users of one host: between hosts a psk-file or "
                         "certificates decide who is admitted");
    if (!network && given)
        return gpud_fail(error, GPUD_INVALID,
                         "%s is for addresses of other hosts (tcp://): frames between processes of "
                         "one host cross no network, and the kernel identifies users",
                         given);
    if (!network && (access->key_file[0] || access->allow_unauthenticated))
        return gpud_fail(error, GPUD_INVALID,
                         "%s is for addresses of other hosts (tcp://, rdma://): on one host the "
                         "kernel identifies users, and access selects those who are admitted",
                         access->key_file[0] ? "psk-file" : "allow-unauthenticated");
    if (given && access->key_file[0])
        return gpud_fail(error, GPUD_INVALID,
                         "psk-file and %s are two ways of proving who the ends are: set one of "
                         "them, the same at both ends",
                         given);
    if (given && !(access->tls_certificate[0] && access->tls_key[0] && access->tls_ca[0]))
        return gpud_fail(error, GPUD_INVALID,
                         "%s is set without %s: each end shows its certificate (tls-certificate, "
                         "with tls-key) and checks the other's (tls-ca), so set all three",
                         given,
                         !access->tls_certificate[0] ? "tls-certificate"
                         : !access->tls_key[0]       ? "tls-key"
                                                     : "tls-ca");
    return GPUD_OK;
}

/* === await =================================================================================== */

/* A sender that starts together with its receiver is not waited for. */
#define PATIENCE GPUD_SEC

/* Notes in one folder; more receivers than this wait without one. */
#define NOTES_MAX 128

/* Behind the line that the lock has written. A line feed in the name would begin another line. */
static void write_note(const struct gpud_await_note *note, const struct gpud_access_rule *rule,
                       const char *name, const char *what, int64_t since)
{
    char text[GPUD_ADDRESS_MAX + 100];
    struct stat st;
    uint64_t limit;
    mode_t mode = rule->kind == GPUD_ACCESS_ALL ? 0644 : 0600;
    gpud_print(text, "%s\n%s\n%" PRId64 "\n", name, what, since / GPUD_USEC);
    for (char *c = text; c < text + strlen(name); c++)
        if (*c == '\n')
            *c = '?';
    /* With a second name, the file may be other data. */
    if (fstat(note->lock, &st) < 0 || st.st_nlink != 1 ||
        !gpud_file_fits((uint64_t)st.st_size + strlen(text), &limit) ||
        pwrite(note->lock, text, strlen(text), st.st_size) <= 0)
        return;
    /* The users that the receiver's rule admits may read it. */
    if (rule->kind == GPUD_ACCESS_GROUP && fchown(note->lock, (uid_t)-1, rule->group) == 0)
        mode = 0640;
    fchmod(note->lock, mode);
}

/* The first file of the folder that no living receiver has. */
static void take_note(struct gpud_await_note *note, const char *folder)
{
    if (access(folder, W_OK) < 0)
        return;
    for (unsigned i = 0; i < NOTES_MAX && note->lock < 0; i++) {
        int length = gpud_print_n(note->path, sizeof(note->path), "%s/.waiting!%u", folder, i);
        if (length < 0 || (size_t)length >= sizeof(note->path))
            return;
        gpud_lock_file_try(note->path, &note->lock);
    }
}

void gpud_await_sender(struct gpud_await *waiting, const struct gpud_address *address,
                       const struct gpud_access_rule *rule, const char *name)
{
    char folder[GPUD_ADDRESS_MAX], own[GPUD_ADDRESS_MAX] = "";
    const char *place = address->place, *entry = strrchr(place, '/');
    struct timespec wall;
    int64_t now = gpud_now();
    if (waiting->since == 0)
        waiting->since = now;
    if (waiting->noted || now - waiting->since < PATIENCE)
        return;
    waiting->noted = true;
    waiting->note[0].lock = waiting->note[1].lock = -1;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t since = (int64_t)wall.tv_sec * GPUD_SEC + wall.tv_nsec - PATIENCE;
    if (gpud_private_directory(own, sizeof(own), NULL) != GPUD_OK)
        own[0] = '\0'; /* it may be another user's */
    if (place[0] == '/' && entry > place) {
        gpud_print(folder, "%.*s", (int)(entry - place), place);
        take_note(&waiting->note[0], folder);
        if (waiting->note[0].lock >= 0)
            write_note(&waiting->note[0], rule, name, entry + 1, since);
        if (strcmp(folder, own) == 0)
            return;
    }
    if (own[0])
        take_note(&waiting->note[1], own);
    if (waiting->note[1].lock >= 0)
        write_note(&waiting->note[1], rule, name, place, since);
}

void gpud_await_end(struct gpud_await *waiting)
{
    for (size_t i = 0; waiting->noted && i < 2; i++)
        if (waiting->note[i].lock >= 0)
            gpud_lock_file_drop(waiting->note[i].path, &waiting->note[i].lock);
    waiting->since = 0;
    waiting->noted = false;
}
