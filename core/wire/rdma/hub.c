/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening on a port, which several channels and processes share. */
#include "wire/rdma/rdma.h"

#include "base/base.h"
#include "wire/unix/unix.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <gpudirect/channel.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* === share =================================================================================== */
/* clang-format off */
/* Several processes of one user share a port. rdma_cm gives it to one of them, its holder; each of
 * the others listens on a port of its own and notes that one in the user's runtime directory, for
 * each of its channels. The holder redirects: it refuses a request for such a channel with the
 * port of the process that sends it, and the receiver connects there (GPUD_RDMA_MOVED).
 *
 *     receiver                     holder, port 7174              another process, port 40123
 *        REQUEST cam2 ────────────────▶ reads the note of cam2
 *        ◀─────────────── MOVED 40123
 *        REQUEST cam2 ───────────────────────────────────────────────▶
 *        ◀─────────────────────────────────────────────────────── REPLY
 *
 *     .port!10.0.0.1:7174.4026531840.lock           locked by the holder
 *     .port!10.0.0.1:7174!cam2 → 4026531840:40123   a note: the network namespace, and the port
 *     .rdma!10.0.0.1:7174!cam2.lock                 locked while the note is valid, see rdma.h
 *
 * Connections do not depend on the holder. When it ends, the kernel releases its lock, which wakes
 * the others, and one of them takes over the lock and the port. Without a runtime directory nothing
 * is shared, and a second process is refused. */
/* clang-format on */

/* A process's part in a port. */
struct gpud_rdma_share {
    char path[GPUD_SOCKET_PATH_MAX]; /* of the lock; "": the port cannot be shared */
    int lock;                        /* this process is the holder; else -1 */
    bool waits;                      /* has `wait`: another process is the holder */
    struct gpud_lock_wait wait;
};

/* A channel that another process sends, by its note. */
struct gpud_rdma_shared {
    char name[GPUD_PLACE_NAME_MAX + 1];
    uint16_t number;
};

/* Those of a port, in no order. Starts zeroed. */
struct gpud_rdma_shares {
    struct gpud_rdma_shared *entries;
    size_t count;
    int64_t until;           /* when the directory is read again, even if it did not change */
    struct timespec changed; /* the directory's last change before it was read */
};

#define PREFIX ".port!"

/* "4026531840:40123" */
#define NOTE_MAX 32

/* A process that was killed leaves its note, whose lock is free. */
#define READ_AGAIN (100 * GPUD_MSEC)

/* Ports of two network namespaces have nothing to do with each other, though their processes may
 * share a runtime directory, as containers do. */
static uint64_t network_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

/* The path of an entry in the runtime directory: "PREFIX10.0.0.1:7174!cam2". */
static bool share_path_of(const char *directory, const char *prefix, const char *channel,
                          char path[GPUD_SOCKET_PATH_MAX])
{
    int length = gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s%s", directory, prefix, channel);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return false;
    for (char *c = path + strlen(directory) + 1; *c; c++)
        if (*c == '/')
            *c = '!';
    return true;
}

/* --- the port's lock ----------------------------------------------------------------------- */

/* Becomes the holder if the port has no holder. GPUD_AGAIN: it has one; poll share->wait.events.
 * Waits 20 ms at most. */
static enum gpud_status rdma_share_try(struct gpud_rdma_share *share, struct gpud_error *error)
{
    enum gpud_status status = gpud_lock_wait_try(&share->wait, share->path, &share->lock, error);
    if (status == GPUD_OK) {
        gpud_lock_wait_end(&share->wait);
        share->waits = false;
    }
    return status;
}

static void rdma_share_close(struct gpud_rdma_share *share)
{
    if (share->waits)
        gpud_lock_wait_end(&share->wait);
    if (share->lock >= 0)
        gpud_lock_file_drop(share->path, &share->lock);
    share->waits = false;
}

/* Becomes the holder of the port, whose address is "10.0.0.1:7174", or waits for it to be free. */
static enum gpud_status rdma_share_open(struct gpud_rdma_share *share, const char *port,
                                        struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], name[GPUD_ADDRESS_MAX + 32];
    *share = (struct gpud_rdma_share){.lock = -1};
    gpud_print(name, "%s.%llu", port, (unsigned long long)network_namespace());
    if (gpud_private_directory(directory, sizeof(directory), NULL) != GPUD_OK ||
        !share_path_of(directory, PREFIX, name, share->path) ||
        gpud_lock_wait_begin(&share->wait, NULL) != GPUD_OK) {
        share->path[0] = '\0';
        return GPUD_OK;
    }
    share->waits = true;
    enum gpud_status status = rdma_share_try(share, error);
    if (status == GPUD_OK || status == GPUD_AGAIN)
        return GPUD_OK;
    rdma_share_close(share);
    return status;
}

/* --- notes --------------------------------------------------------------------------------- */
/* Makes the note of a channel, "10.0.0.1:7174/cam2", whose process listens on `number`; 0: removes
 * it. The caller has the channel's lock. */
static enum gpud_status rdma_share_note(const char *channel, uint16_t number,
                                        struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], path[GPUD_SOCKET_PATH_MAX], note[NOTE_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    if (!share_path_of(directory, PREFIX, channel, path))
        return gpud_fail(error, GPUD_INVALID, "the name of %s is too long for a file", channel);
    unlink(path); /* also what a process left that was killed */
    gpud_print(note, "%llu:%u", (unsigned long long)network_namespace(), number);
    if (number && symlink(note, path) < 0)
        return gpud_fail_errno(error, "cannot make the link %s", path);
    return GPUD_OK;
}

/* The port in a note of this network namespace; 0: it has no valid note. */
static uint16_t read_note(const char *directory, const char *channel)
{
    char path[GPUD_SOCKET_PATH_MAX], note[NOTE_MAX], own[NOTE_MAX], *end;
    if (!share_path_of(directory, PREFIX, channel, path))
        return 0;
    ssize_t length = readlink(path, note, sizeof(note) - 1);
    if (length <= 0)
        return 0;
    note[length] = '\0';
    gpud_print(own, "%llu:", (unsigned long long)network_namespace());
    if (strncmp(note, own, strlen(own)) != 0)
        return 0;
    unsigned long number = strtoul(note + strlen(own), &end, 10);
    if (*end || number > UINT16_MAX || !share_path_of(directory, GPUD_REGISTRY_RDMA, channel, path))
        return 0;
    return gpud_lock_is_held(path) ? (uint16_t)number : 0;
}

/* The port in the note of a channel that another process sends; 0: the channel has no note. */
static uint16_t rdma_share_find(const char *channel)
{
    char directory[GPUD_SOCKET_PATH_MAX];
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return 0;
    return read_note(directory, channel);
}

/* Brings the list up to date. Any host may cause it, so that the directory is read ten times a
 * second at most, unless this user's processes change it. The order of reading makes a change
 * meanwhile one that is found later. */
static void rdma_shares_update(struct gpud_rdma_shares *shares, const char *port)
{
    char directory[GPUD_SOCKET_PATH_MAX], begin[GPUD_ADDRESS_MAX], channel[GPUD_ADDRESS_MAX];
    struct stat st;
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK ||
        stat(directory, &st) < 0) {
        shares->count = 0;
        return;
    }
    if (gpud_now() < shares->until &&
        memcmp(&st.st_mtim, &shares->changed, sizeof(st.st_mtim)) == 0)
        return;
    shares->changed = st.st_mtim;
    shares->count = 0;
    if (!shares->entries)
        shares->entries = calloc(GPUD_CHANNELS_MAX, sizeof(*shares->entries));
    gpud_print(begin, PREFIX "%s", port);
    DIR *entries = opendir(directory);
    for (struct dirent *entry; shares->entries && entries && shares->count < GPUD_CHANNELS_MAX &&
                               (entry = readdir(entries));) {
        /* "PREFIXport" or "PREFIXport!cam1!audio"; others are of other ports. */
        struct gpud_rdma_shared *made = &shares->entries[shares->count];
        const char *behind = entry->d_name + strlen(begin);
        if (strncmp(entry->d_name, begin, strlen(begin)) != 0 || (behind[0] && behind[0] != '!') ||
            strlen(behind) > GPUD_PLACE_NAME_MAX + 1)
            continue;
        gpud_print(made->name, "%s", behind[0] ? behind + 1 : "");
        for (char *c = made->name; *c; c++)
            if (*c == '!')
                *c = '/';
        if (made->name[0] && !gpud_place_is_name(made->name, strlen(made->name)))
            continue;
        gpud_print(channel, "%s%s%s", port, made->name[0] ? "/" : "", made->name);
        made->number = read_note(directory, channel);
        shares->count += made->number != 0;
    }
    if (entries)
        closedir(entries);
    shares->until = gpud_deadline(READ_AGAIN);
}

/* === local =================================================================================== */
/* Lets this user's processes on this host query a channel that is sent over a network, without its
 * key: a socket beside those of bare names answers queries (gpudirect-info --channels) and accepts
 * no receiver.
 *
 *     .rdma!10.0.0.1:7174!cam1         for rdma://10.0.0.1:7174/cam1
 *     .rdma!10.0.0.1:7174!cam1.lock    its lock, which names its process */

static enum gpud_status local_path_of(const char *place, char path[GPUD_SOCKET_PATH_MAX],
                                      struct gpud_error *error)
{
    char entry[GPUD_REGISTRY_ENTRY_MAX], directory[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    gpud_registry_entry(GPUD_REGISTRY_RDMA, place, entry);
    int length = gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s", directory, entry);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "%s/%s is too long for a socket", directory, entry);
    return GPUD_OK;
}

static void local_tell(const struct gpud_socket_listener *local)
{
    utimensat(AT_FDCWD, local->path, NULL, AT_SYMLINK_NOFOLLOW);
}

/* Listens for queries about an address: "rdma://10.0.0.1:7174/cam1". */
static enum gpud_status local_open(struct gpud_socket_listener *local, const char *place,
                                   struct gpud_error *error)
{
    char path[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = local_path_of(place, path, error);
    if (status == GPUD_OK)
        status = gpud_socket_listen(local, path, NULL, error);
    if (status == GPUD_OK)
        local_tell(local); /* watchers saw the socket before it could be queried */
    return status;
}

/* --- other senders ------------------------------------------------------------------------- */

/* The other process of this user that listens on the port, on any address: "process 123
 * (gst-launch-1.0)"; "" if none is known. */
static void rdma_local_find(uint16_t port, char *text, size_t size)
{
    char directory[GPUD_ADDRESS_MAX], wanted[8], name[64];
    size_t count = 0, omitted;
    struct gpud_address *found = NULL;
    text[0] = '\0';
    gpud_print(wanted, ":%u", port);
    if (gpud_address_list(NULL, &found, &count, &omitted, directory, NULL) != GPUD_OK)
        return;
    for (size_t i = 0; i < count && !text[0]; i++) {
        const char *at = strrchr(found[i].text, ':');
        size_t length = strlen(wanted);
        if (found[i].receiver || strncmp(found[i].text, "rdma://", 7) != 0 || !at ||
            strncmp(at, wanted, length) != 0 || (at[length] && at[length] != '/'))
            continue;
        pid_t pid = gpud_lock_find(found[i].place, false);
        if (pid > 0 && pid != getpid() && gpud_process_name(pid, name, sizeof(name)))
            gpud_print_n(text, size, "process %d (%s)", (int)pid, name);
    }
    free(found);
}

/* The same for the process that sends the channel. */
static void local_find_name(const char *place, char *text, size_t size)
{
    char path[GPUD_SOCKET_PATH_MAX], name[64];
    gpud_print_n(text, size, "another process");
    if (local_path_of(place, path, NULL) != GPUD_OK)
        return;
    pid_t pid = gpud_lock_find(path, false);
    if (pid > 0 && gpud_process_name(pid, name, sizeof(name)))
        gpud_print_n(text, size, "process %d (%s)", (int)pid, name);
}

/* === hub ===================================================================================== */
/* Each hub has one listening id for an address and port, and another one where a different process
 * has the port (rdma.h). One lock serves all hubs; no thread blocks while holding it, except that
 * rdma_share_try() may wait 20 ms for the kernel. */

#define BACKLOG 128

/* The process that has, or had, the port may be dying. */
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (20 * GPUD_MSEC)

#define QUEUE_MAX 64

/* A receiver's request to connect. */
struct request {
    struct rdma_cm_id *id;
    uint32_t queue_pair;
    struct gpud_rdma_request data;
};

struct rdma_listener {
    struct gpud_listener base; /* first */
    struct gpud_place place;
    char where[GPUD_ADDRESS_MAX];
    bool has_key;
    struct gpud_auth_key key;
    bool is_local; /* has `local` */
    struct gpud_socket_listener local;

    /* Its part in the hub; under hubs_lock. */
    struct rdma_hub *hub; /* NULL: it has not joined */
    struct rdma_listener *next;
    bool is_noted; /* there may be a note of it */
    int event;     /* readable: the queue is not empty */
    uint32_t first, count;
    struct request queue[QUEUE_MAX];
};

struct rdma_hub {
    struct rdma_hub *next;
    struct sockaddr_storage address;
    char where[GPUD_ADDRESS_MAX]; /* "10.0.0.1:7174" */
    struct rdma_event_channel *events;
    int fd;                /* to poll: of events, of the wait for the port, and of `retry` */
    int retry;             /* a timer, while the port is expected to become free */
    struct rdma_cm_id *id; /* NULL: another process has the port, or the card was taken out */
    struct gpud_rdma_share share;
    struct gpud_rdma_shares shares;
    /* Listens on a port of this process since another one had the hub's. NULL: none ever had, or
     * the card was taken out. */
    struct rdma_cm_id *own_id;
    uint16_t own_number;
    int64_t patience; /* until when a port that was taken over may still be taken */
    bool is_deaf;     /* it cannot listen, and tries again and again */
    struct rdma_listener *listeners;
};

static struct gpud_lock hubs_lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_RDMA_HUBS);
static struct rdma_hub *hubs;

/* --- requests ------------------------------------------------------------------------------ */

static void reject(struct rdma_cm_id *id, const struct gpud_rdma_refusal *refusal)
{
    uint8_t bytes[GPUD_RDMA_REFUSAL_MAX];
    rdma_reject(id, bytes, (uint8_t)gpud_rdma_write_refusal(refusal, bytes));
}

static void reject_unable(struct rdma_cm_id *id)
{
    struct gpud_rdma_refusal refusal = {.reason = GPUD_RDMA_UNABLE};
    reject(id, &refusal);
}

static struct rdma_listener *find_own(const struct rdma_hub *hub, const char *name)
{
    struct rdma_listener *listener = hub->listeners;
    while (listener && strcmp(listener->place.name, name) != 0)
        listener = listener->next;
    return listener;
}

/* A channel or stream at the port: of this process, or of one that shares the port. */
struct known {
    char name[GPUD_PLACE_NAME_MAX + 1];
    struct rdma_listener *listener; /* NULL: another process listens for it, on port `number` */
    uint16_t number;
};

static int hub_compare(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->name, ((const struct known *)b)->name);
}

/* Lists all of them in the order of their names. The caller frees it; NULL: out of memory. */
static struct known *list_known(struct rdma_hub *hub, size_t *count)
{
    size_t own = 0, used = 0;
    rdma_shares_update(&hub->shares, hub->where);
    const struct gpud_rdma_shared *shared = hub->shares.entries;
    size_t others = hub->shares.count;
    for (const struct rdma_listener *one = hub->listeners; one; one = one->next)
        own++;
    struct known *known = calloc(own + others + 1, sizeof(*known));
    for (struct rdma_listener *one = hub->listeners; known && one; one = one->next) {
        known[used].listener = one;
        gpud_print(known[used++].name, "%s", one->place.name);
    }
    for (size_t i = 0; known && i < others; i++) {
        if (find_own(hub, shared[i].name))
            continue;
        known[used].number = shared[i].number;
        memcpy(known[used++].name, shared[i].name, sizeof(shared[i].name));
    }
    if (known)
        qsort(known, used, sizeof(*known), hub_compare);
    *count = known ? used : 0;
    return known;
}

/* Lists the names behind `name` in their order, which may be more than fit. */
static void hub_list_names(struct rdma_hub *hub, const char *name,
                           struct gpud_rdma_refusal *refusal)
{
    size_t count;
    struct known *known = list_known(hub, &count);
    for (size_t i = 0; i < count; i++)
        if (!name || strcmp(known[i].name, name) > 0)
            gpud_rdma_add_name(refusal, known[i].name);
    free(known);
}

/* A request without a name is for the channel without one, or for the only channel. */
static bool hub_find_channel(struct rdma_hub *hub, const char *name, struct known *found)
{
    char channel[GPUD_ADDRESS_MAX + GPUD_PLACE_NAME_MAX];
    size_t count, channels = 0;
    found->listener = find_own(hub, name);
    if (found->listener)
        return true;
    gpud_print(channel, "%s%s%s", hub->where, name[0] ? "/" : "", name);
    found->number = rdma_share_find(channel);
    if (found->number || name[0])
        return found->number != 0;
    struct known *known = list_known(hub, &count);
    for (size_t i = 0; i < count; i++) {
        if (strchr(known[i].name, '/'))
            continue; /* a stream of a channel */
        *found = known[i];
        channels++;
    }
    free(known);
    return channels == 1;
}

/* Queues the request for its channel; false, with the reason in *refusal, if that is impossible. */
static bool hub_enqueue(struct rdma_hub *hub, const struct gpud_rdma_event *event,
                        struct gpud_rdma_refusal *refusal)
{
    struct request request = {.id = event->id, .queue_pair = event->queue_pair};
    enum gpud_status status = gpud_rdma_read_request(event->data, event->size, &request.data, NULL);
    if (status != GPUD_OK) {
        refusal->reason =
            status == GPUD_UNSUPPORTED ? GPUD_RDMA_OTHER_VERSION : GPUD_RDMA_MALFORMED;
        return false;
    }
    if (request.data.receives == 0) {
        refusal->reason = GPUD_RDMA_NAMES;
        hub_list_names(hub, request.data.name, refusal);
        return false;
    }
    struct known found = {.name = ""};
    if (!hub_find_channel(hub, request.data.name, &found)) {
        refusal->reason = request.data.name[0] ? GPUD_RDMA_UNKNOWN_NAME : GPUD_RDMA_NAME_WANTED;
        hub_list_names(hub, NULL, refusal);
        return false;
    }
    struct rdma_listener *listener = found.listener;
    if (!listener) {
        gpud_rdma_refuse_moved(refusal, found.number);
        return false;
    }
    refusal->reason = GPUD_RDMA_BUSY;
    if (listener->count == QUEUE_MAX)
        return false;
    listener->queue[(listener->first + listener->count++) % QUEUE_MAX] = request;
    gpud_event_raise(listener->event);
    return true;
}

/* Drops a cancelled request if it is still queued; otherwise its new owner does. */
static void hub_forget(const struct rdma_hub *hub, const struct rdma_cm_id *id)
{
    for (struct rdma_listener *one = hub->listeners; one; one = one->next) {
        for (uint32_t i = 0; i < one->count; i++) {
            struct request *gone = &one->queue[(one->first + i) % QUEUE_MAX];
            if (gone->id != id)
                continue;
            rdma_destroy_id(gone->id);
            for (; i + 1 < one->count; i++)
                one->queue[(one->first + i) % QUEUE_MAX] =
                    one->queue[(one->first + i + 1) % QUEUE_MAX];
            one->count--;
            return;
        }
    }
}

static void take_events(struct rdma_hub *hub)
{
    struct gpud_rdma_event event;
    while (gpud_rdma_next_event(hub->events, &event)) {
        struct gpud_rdma_refusal refusal = {.names = ""};
        if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            if (hub_enqueue(hub, &event, &refusal))
                continue;
            reject(event.id, &refusal);
            rdma_destroy_id(event.id);
        } else if (event.id != hub->id && event.id != hub->own_id) {
            hub_forget(hub, event.id);
        } else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            struct rdma_cm_id **id = event.id == hub->id ? &hub->id : &hub->own_id;
            rdma_destroy_id(*id); /* the kernel removes the card once it is unused */
            *id = NULL;
        }
    }
}

/* --- listening ----------------------------------------------------------------------------- */

/* Needed because rdma_cm reports the same errno for an address that is not this host's and for a
 * port that is taken on all of its addresses. */
static bool is_of_this_host(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any_port = *address;
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *gpud_sockaddr_port(&any_port) = 0;
    bool is = fd >= 0 && bind(fd, (struct sockaddr *)&any_port, sizeof(any_port)) == 0;
    gpud_fd_close(&fd);
    return is;
}

/* On the hub's port, or on one that the kernel chooses. 0, or the errno of what failed, which is
 * EADDRINUSE if the port is taken. */
static int hub_listen_on(struct rdma_hub *hub, struct rdma_cm_id **id, bool any_port)
{
    struct sockaddr_storage bound = hub->address; /* rdma_cm's parameter is not const */
    if (any_port)
        *gpud_sockaddr_port(&bound) = 0;
    if (rdma_create_id(hub->events, id, NULL, RDMA_PS_TCP) < 0)
        return errno;
    if (rdma_bind_addr(*id, (struct sockaddr *)&bound) == 0 && rdma_listen(*id, BACKLOG) == 0)
        return 0;
    int number = errno;
    rdma_destroy_id(*id);
    *id = NULL;
    return number == EADDRNOTAVAIL && is_of_this_host(&hub->address) ? EADDRINUSE : number;
}

/* Makes the note of a channel right, which is needed as long as another process has the port. */
static enum gpud_status note(const struct rdma_listener *listener, struct gpud_error *error)
{
    const struct rdma_hub *hub = listener->hub;
    return rdma_share_note(listener->where + strlen("rdma://"),
                           hub->share.waits ? hub->own_number : 0, error);
}

static int listen_on_own(struct rdma_hub *hub)
{
    int number = hub_listen_on(hub, &hub->own_id, true);
    if (number)
        return number;
    hub->own_number = ntohs(rdma_get_src_port(hub->own_id));
    for (const struct rdma_listener *one = hub->listeners; one; one = one->next)
        if (one->is_noted)
            note(one, NULL);
    return 0;
}

static bool watch(int epoll, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable) == 0;
}

/* Takes over the port when its holder has ended, and listens again where a network card was taken
 * out. GPUD_AGAIN: there is nothing to do, or not yet. GPUD_IO: no receiver can connect. */
static enum gpud_status attend(struct rdma_hub *hub, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    int number = 0;
    hub->is_deaf = false;
    if (hub->share.waits) {
        status = rdma_share_try(&hub->share, error);
        hub->patience = gpud_deadline(PATIENCE);
    }
    if (hub->share.waits && !hub->own_id)
        number = listen_on_own(hub);
    else if (!hub->share.waits && !hub->id)
        number = hub_listen_on(hub, &hub->id, false);
    if (number == EADDRINUSE && gpud_now() < hub->patience) {
        struct itimerspec soon = {.it_value = gpud_timespec(PAUSE)};
        gpud_event_drain(hub->retry);
        timerfd_settime(hub->retry, 0, &soon, NULL);
        return GPUD_AGAIN;
    }
    hub->is_deaf = number != 0;
    if (number == EADDRINUSE)
        return gpud_fail(error, GPUD_IO,
                         "no receiver can connect: the sender that had the port of %s has ended, "
                         "and another program has the port now: stop that program",
                         hub->where);
    if (number)
        return gpud_fail(error, GPUD_IO,
                         "no receiver can connect until the network card with this address, "
                         "which was taken out of the system, is back");
    return status == GPUD_OK ? GPUD_AGAIN : status;
}

/* Keeps the event readable only while a request is queued, or listening must be tried again. */
static void settle_event(const struct rdma_listener *listener)
{
    if (!listener->count && !listener->hub->is_deaf)
        gpud_event_drain(listener->event);
}

/* Whether there is a request; handles the hub's pending events first. GPUD_AGAIN: none. GPUD_IO: no
 * request can arrive until the network card is back. */
static enum gpud_status look_for_request(struct rdma_listener *listener, struct gpud_error *error)
{
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = listener->hub;
    take_events(hub);
    enum gpud_status status = attend(hub, error);
    if (listener->count)
        status = GPUD_OK;
    for (struct rdma_listener *one = hub->listeners; hub->is_deaf && one; one = one->next)
        gpud_event_raise(one->event);
    settle_event(listener);
    gpud_lock_release(&hubs_lock);
    return status;
}

/* Takes the next request of this listener. The caller owns its id, whose events go to `events` from
 * then on. Remaining requests keep the listener's event readable. GPUD_AGAIN: none. */
static enum gpud_status take_request(struct rdma_listener *listener,
                                     struct rdma_event_channel *events, struct request *request,
                                     struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&hubs_lock);
    if (listener->count > 0) {
        *request = listener->queue[listener->first];
        listener->first = (listener->first + 1) % QUEUE_MAX;
        listener->count--;
        status = GPUD_OK;
        if (rdma_migrate_id(request->id, events) < 0) {
            status = gpud_fail_errno(error, "cannot take a connection");
            reject_unable(request->id);
            rdma_destroy_id(request->id);
        }
        settle_event(listener);
    }
    gpud_lock_release(&hubs_lock);
    return status;
}

/* --- hubs ---------------------------------------------------------------------------------- */

static void destroy_hub(struct rdma_hub *hub)
{
    if (hub->own_id)
        rdma_destroy_id(hub->own_id);
    if (hub->id)
        rdma_destroy_id(hub->id);
    free(hub->shares.entries);
    rdma_share_close(&hub->share); /* last: the next holder finds the port free */
    gpud_rdma_close_events(&hub->events);
    gpud_fd_close(&hub->retry);
    gpud_fd_close(&hub->fd);
    free(hub);
}

static enum gpud_status create_hub(const struct sockaddr_storage *address, const char *where,
                                   struct rdma_hub **hub, struct gpud_error *error)
{
    struct rdma_hub *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", where);
    const char *host = where + strlen("rdma://");
    made->address = *address;
    made->fd = made->retry = made->share.lock = -1;
    gpud_print(made->where, "%.*s", (int)strcspn(host, "/"), host);
    enum gpud_status status = gpud_rdma_open_events(&made->events, error);
    if (status == GPUD_OK)
        status = rdma_share_open(&made->share, made->where, error);
    if (status != GPUD_OK)
        goto fail;
    bool waits = made->share.waits;
    made->fd = epoll_create1(EPOLL_CLOEXEC);
    made->retry = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made->fd < 0 || made->retry < 0 || !watch(made->fd, made->events->fd) ||
        !watch(made->fd, made->retry) || (waits && !watch(made->fd, made->share.wait.events))) {
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
        goto fail;
    }
    int number = waits ? listen_on_own(made) : hub_listen_on(made, &made->id, false);
    if (number == EADDRINUSE)
        status = gpud_fail_native(error, GPUD_IO, "errno", number, "the port is taken");
    else if (number)
        status = gpud_rdma_fail_call(error, number, "listen on", where);
    if (status == GPUD_OK) {
        *hub = made;
        return GPUD_OK;
    }
fail:
    destroy_hub(made);
    return status;
}

static enum gpud_status join_locked(struct rdma_listener *listener,
                                    const struct sockaddr_storage *address,
                                    struct gpud_error *error)
{
    struct rdma_hub *hub = hubs;
    enum gpud_status status = GPUD_OK;
    while (hub && memcmp(&hub->address, address, sizeof(*address)) != 0)
        hub = hub->next;
    if (hub && find_own(hub, listener->place.name))
        return gpud_fail_native(error, GPUD_IO, "errno", EEXIST,
                                "another sender has the address %s: this process itself; stop "
                                "that one, or put another /NAME behind the port",
                                listener->where);
    if (!hub) {
        status = create_hub(address, listener->where, &hub, error);
        if (status != GPUD_OK)
            return status;
        hub->next = hubs;
        hubs = hub;
    }
    listener->hub = hub;
    listener->next = hub->listeners;
    hub->listeners = listener;
    return GPUD_OK;
}

/* Joins the hub of that address, or creates it. GPUD_IO with EADDRINUSE: the port is taken, or the
 * name by this process. */
static enum gpud_status join(struct rdma_listener *listener, const struct sockaddr_storage *address,
                             struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    char holder[GPUD_PEER_TEXT_MAX];
    struct sockaddr_storage copy = *address;
    struct gpud_error why;
    for (;;) {
        why.native = 0;
        gpud_lock_take(&hubs_lock);
        enum gpud_status status = join_locked(listener, address, &why);
        gpud_lock_release(&hubs_lock);
        bool taken = status == GPUD_IO && why.native == EADDRINUSE;
        if (taken && gpud_now() < deadline) {
            clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = PAUSE}, NULL);
            continue;
        }
        if (taken) {
            rdma_local_find(ntohs(*gpud_sockaddr_port(&copy)), holder, sizeof(holder));
            return gpud_fail_native(
                error, GPUD_IO, "errno", EADDRINUSE,
                "%s listens on the port of %s: stop that, or choose another port "
                "(the senders of one user share a port if all give the same address)",
                holder[0] ? holder : "another process, no sender of this user,", listener->where);
        }
        if (status == GPUD_IO && why.native == EEXIST)
            why.native = EADDRINUSE;
        if (status != GPUD_OK && error)
            *error = why;
        return status;
    }
}

/* Notes for the process that has the port where this one listens. The caller has locked the name,
 * and keeps it locked until it has left. */
static enum gpud_status announce(struct rdma_listener *listener, struct gpud_error *error)
{
    gpud_lock_take(&hubs_lock);
    enum gpud_status status = note(listener, error);
    listener->is_noted = status == GPUD_OK;
    if (!listener->hub->share.waits)
        status = GPUD_OK; /* nothing was to be noted */
    gpud_lock_release(&hubs_lock);
    return status;
}

static void leave(struct rdma_listener *listener)
{
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = listener->hub, **link = &hubs;
    struct rdma_listener **place = &hub->listeners;
    take_events(hub); /* removes cancelled requests from the queues */
    while (*place != listener)
        place = &(*place)->next;
    *place = listener->next;
    if (listener->is_noted)
        rdma_share_note(listener->where + strlen("rdma://"), 0, NULL);
    for (; listener->count; listener->count--) {
        struct rdma_cm_id *id = listener->queue[listener->first].id;
        reject_unable(id);
        rdma_destroy_id(id);
        listener->first = (listener->first + 1) % QUEUE_MAX;
    }
    if (!hub->listeners) {
        while (*link != hub)
            link = &(*link)->next;
        *link = hub->next;
        destroy_hub(hub);
    }
    gpud_lock_release(&hubs_lock);
}

/* === listen ================================================================================== */
/* Listening: the operations of gpud_channel_ops. Listeners on one address and port share a hub.
 *
 *     gpud_listener cam1 ─┐
 *     gpud_listener cam2 ─┴─ hub: one id of rdma_cm, one descriptor ◀── requests, with a name
 *
 * The first listener's thread to see a request takes it from the hub, and queues it for the
 * listener that it names. */

static enum gpud_status open_listener(struct rdma_listener *listener,
                                      const struct gpud_access_rule *access,
                                      struct gpud_error *error)
{
    const char *where = listener->where;
    struct sockaddr_storage address;
    enum gpud_status status =
        gpud_place_parse(&gpud_rdma_scheme, where, &listener->place, NULL, error);
    if (status == GPUD_OK && !gpud_place_to_sockaddr(&listener->place, &address))
        status = gpud_fail(error, GPUD_INVALID,
                           "cannot listen on the name \"%s\": give an address of a network card of "
                           "this host, or rdma://0.0.0.0:%u for all of them",
                           listener->place.host, listener->place.port);
    /* The application's rule: its key, or that none is needed. */
    listener->has_key = access && access->key_file[0];
    if (status == GPUD_OK && listener->has_key)
        status = gpud_auth_read_key(access->key_file, &listener->key, error);
    if (status == GPUD_OK)
        status = gpud_auth_may_listen((const struct sockaddr *)&address, listener->has_key,
                                      access && access->allow_unauthenticated, error);
    if (status != GPUD_OK)
        return status;
    listener->base.fd = epoll_create1(EPOLL_CLOEXEC);
    listener->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->base.fd < 0 || listener->event < 0 || !watch(listener->base.fd, listener->event))
        return gpud_fail_errno(error, "no descriptors to listen on %s", where);
    status = join(listener, &address, error);
    if (status == GPUD_OK && !watch(listener->base.fd, listener->hub->fd))
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
    return status;
}

/* Answers queries of this host and, if another process has the port, is found by that one. */
static enum gpud_status listen_announce(struct rdma_listener *listener, struct gpud_error *error)
{
    char holder[GPUD_PEER_TEXT_MAX];
    struct gpud_error unlisted;
    listener->is_local = local_open(&listener->local, listener->where, &unlisted) == GPUD_OK;
    if (listener->is_local) {
        watch(listener->base.fd, listener->local.fd);
        return announce(listener, error);
    }
    gpud_lock_take(&hubs_lock);
    bool is_shared = listener->hub->share.waits;
    gpud_lock_release(&hubs_lock);
    /* Another process has the port, or is found by this name at it. */
    is_shared = is_shared || rdma_share_find(listener->where + strlen("rdma://"));
    if (!is_shared) { /* not fatal: only lists of channels use it */
        if (!listener->base.note[0])
            gpud_print(listener->base.note, "not in lists of channels: %.470s", unlisted.reason);
        return GPUD_OK;
    }
    if (unlisted.native != EADDRINUSE)
        return gpud_fail(error, GPUD_IO,
                         "cannot share the port of %s with the process that listens on it, choose "
                         "another port: %.300s",
                         listener->where, unlisted.reason);
    local_find_name(listener->where, holder, sizeof(holder));
    return gpud_fail_native(error, GPUD_IO, "errno", EADDRINUSE,
                            "another sender has the address %s: %s; stop that one, or put another "
                            "/NAME behind the port",
                            listener->where, holder);
}

enum gpud_status gpud_rdma_listen(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error)
{
    struct rdma_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", address->place);
    made->base.ops = &gpud_rdma_channel_ops;
    made->base.fd = made->event = -1;
    gpud_print(made->where, "%s", address->place);
    enum gpud_status status = open_listener(made, access, error);
    char hint[GPUD_REASON_MAX]; /* listening on 0.0.0.0 succeeds even without a card */
    gpud_rdma_hint(made->where, hint, sizeof(hint));
    if (hint[0])
        gpud_print(made->base.note, "no receiver can connect yet: %.476s", hint);
    if (status == GPUD_OK)
        status = listen_announce(made, error);
    if (status == GPUD_OK)
        *listener = &made->base;
    else
        gpud_rdma_unlisten(&made->base);
    return status;
}

void gpud_rdma_tell(struct gpud_listener *base)
{
    const struct rdma_listener *listener = (const struct rdma_listener *)base;
    if (listener->is_local)
        local_tell(&listener->local);
}

void gpud_rdma_unlisten(struct gpud_listener *base)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    if (listener->hub)
        leave(listener);
    if (listener->is_local)
        gpud_socket_unlisten(&listener->local);
    gpud_fd_close(&listener->base.fd);
    gpud_fd_close(&listener->event);
    gpud_auth_wipe_key(&listener->key);
    free(listener);
}

enum gpud_status gpud_rdma_accept(struct gpud_listener *base, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    struct rdma_channel *made;
    struct request request;
    enum gpud_status status = look_for_request(listener, error);
    if (status != GPUD_OK && listener->is_local &&
        gpud_unix_accept_query(&listener->local, channel, peer, NULL) == GPUD_OK)
        return GPUD_OK;
    if (status == GPUD_OK)
        status = gpud_rdma_channel_create(true, &listener->place, &made, error);
    if (status != GPUD_OK)
        return status;
    status = take_request(listener, made->events, &request, error);
    if (status == GPUD_OK) {
        /* The peer is identified by its network address. */
        gpud_sockaddr_print_host(rdma_get_peer_addr(request.id), made->base.peer.host,
                                 sizeof(made->base.peer.host));
        gpud_print(made->where, "the receiver at %s", made->base.peer.host);
        made->peer_receives = request.data.receives;
        made->peer_queue_pair = request.queue_pair;
        gpud_print(made->place.name, "%s", request.data.name);
        made->has_key = listener->has_key;
        made->key = listener->key;
        status = gpud_rdma_channel_accept(made, request.id, error);
        if (status != GPUD_OK)
            reject_unable(request.id);
    }
    if (status != GPUD_OK) {
        gpud_rdma_channel_destroy(made);
        return status;
    }
    *peer = made->base.peer;
    *channel = &made->base;
    return GPUD_OK;
}
