/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/copies.h"

#include "base/base.h"
#include "support/check.h"
#include "wire/wire.h"
#include "wire/unix/unix.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>

/* The pages are shared, so that a futex wakes their readers; no word of them is written but by
 * publish(). Slots lie in each process's own memory, and a handle names the process. */
struct copies {
    struct gpud_remote base; /* first */
    struct gpud_channel *channel;
    int fd;
    struct gpud_page *theirs;
    struct gpud_ring_description ring; /* the receiver's */
    struct gpud_memory *source[GPUD_RING_MEMORIES_MAX];
    _Atomic uint32_t sources;
    atomic_bool detached;
    const struct gpud_ring *exposed; /* the receiver's own */
    struct copies *next;             /* of this process */
    char *metas, *their_metas;       /* the second: the sender's view of the receiver's */
    uint64_t metas_size;
};

struct copies_counts copies_of_receivers;

/* --- what is registered ----------------------------------------------------------------------- */

static struct copies *registered; /* whose rings may be written */
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

static void register_ring(struct copies *copies, const struct gpud_ring *ring)
{
    pthread_mutex_lock(&registered_lock);
    if (!copies->exposed) {
        copies->next = registered;
        registered = copies;
    }
    copies->exposed = ring;
    pthread_mutex_unlock(&registered_lock);
}

static void unregister_ring(struct copies *copies)
{
    pthread_mutex_lock(&registered_lock);
    struct copies **at = &registered;
    while (*at && *at != copies)
        at = &(*at)->next;
    if (*at)
        *at = copies->next;
    pthread_mutex_unlock(&registered_lock);
}

/* Whether a card of this process would let it be written: with registered_lock held. */
static bool may_write(uint64_t address, uint64_t size)
{
    for (const struct copies *copies = registered; copies; copies = copies->next)
        for (uint32_t i = 0; i < copies->exposed->memories; i++) {
            const struct gpud_memory *memory = copies->exposed->memory[i];
            uint64_t at = address - (uintptr_t)memory->host;
            if (at <= memory->size && size <= memory->size - at)
                return true;
        }
    return false;
}

/* --- the page --------------------------------------------------------------------------------- */

static void publish(const struct gpud_page_end *end, size_t offset, size_t size)
{
    const struct copies *copies = (const struct copies *)end->remote;
    struct gpud_page *page = copies->base.page;
    bool sends = end->half == &page->sender;
    const char *from = (const char *)end->half + offset;
    CHECK(offset + size <= (sends ? sizeof(page->sender) : sizeof(page->receiver)),
          "%zu bytes at %zu of a half", size, offset);
    if (atomic_load(&copies->detached) || !copies->theirs)
        return;
    if (!sends)
        atomic_fetch_add(&copies_of_receivers.published, 1);
    char *to =
        (sends ? (char *)&copies->theirs->sender : (char *)&copies->theirs->receiver) + offset;
    if (size > 64) {
        memcpy(to, from, size);
        return;
    }
    for (size_t at = size; at; at -= 4) /* the last word first: `latency` before `returned` */
        atomic_store_explicit((_Atomic uint32_t *)(void *)(to + at - 4),
                              atomic_load((const _Atomic uint32_t *)(const void *)(from + at - 4)),
                              memory_order_release);
}

/* Each notice is a number of its own in the other side's copy, on which it sleeps. */
static bool notify(struct gpud_page_end *end)
{
    const struct copies *copies = (const struct copies *)end->remote;
    struct gpud_page *page = copies->base.page;
    bool sends = end->half == &page->sender;
    if (atomic_load(&copies->detached) || !copies->theirs)
        return false;
    _Atomic uint32_t *kicks =
        sends ? &copies->theirs->sender.kicks : &copies->theirs->receiver.kicks;
    const _Atomic uint32_t *asleep = end->waker.asleep;
    if (!sends)
        atomic_fetch_add(&copies_of_receivers.notices, 1);
    atomic_fetch_add(end->waker.kicks, 1);
    atomic_fetch_add(kicks, 1);
    gpud_futex_wake(kicks);
    if ((atomic_load(asleep) & GPUD_SLEEP_MODES) == GPUD_SLEEP_POLL && end->send_kick &&
        gpud_waker_claim(&end->waker, atomic_load(asleep)))
        end->send_kick(end->send_kick_arg);
    return true;
}

/* The other side reads it when it wants to send a KICK. */
static void poll_begin(struct gpud_page_end *end)
{
    publish(end, (size_t)((char *)end->sleeper.asleep - (char *)end->half), 4);
    atomic_thread_fence(memory_order_seq_cst);
}

static struct gpud_page_carrier carrier = {
    .name = "copies",
    .publish = publish,
    .notify = notify,
    .poll_begin = poll_begin,
};

/* --- a link ----------------------------------------------------------------------------------- */

static void describe(const struct gpud_channel *channel, struct gpud_device *device,
                     struct gpud_network *network)
{
    *network = (struct gpud_network){.card = "copies", .ways = GPUD_NETWORK_HOST};
    gpud_print(network->no_dmabuf, "the kernel copies no memory of devices");
    gpud_print(network->no_peermem, "the kernel copies no memory of devices");
}

static enum gpud_status create(struct gpud_channel *channel, struct gpud_remote **remote,
                               struct gpud_handle *page, struct gpud_error *error)
{
    struct copies *made = calloc(1, sizeof(*made));
    void *mapped;
    CHECK(made, "out of memory");
    WORKS(gpud_memfd_create("gpudirect-copies", sizeof(struct gpud_page), GPUD_SHARE_WRITABLE,
                            &made->fd, &mapped, &e));
    made->base.page = mapped;
    made->base.ops = channel->ops->remote;
    made->channel = gpud_channel_ref(channel);
    *page = (struct gpud_handle){
        .type = GPUD_HANDLE_MEMFD, .fd = made->fd, .size = sizeof(struct gpud_page)};
    *remote = &made->base;
    return GPUD_OK;
}

static enum gpud_status attach(struct gpud_remote *remote, const struct gpud_handle *page,
                               struct gpud_error *error)
{
    struct copies *copies = (struct copies *)remote;
    void *mapped;
    if (page->type != GPUD_HANDLE_MEMFD)
        return gpud_fail(error, GPUD_PEER, "no page to write to");
    enum gpud_status status =
        gpud_memfd_map(page->fd, sizeof(struct gpud_page), true, &mapped, error);
    if (status == GPUD_OK)
        copies->theirs = mapped;
    return status;
}

static enum gpud_status expose(struct gpud_remote *remote, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error)
{
    description->slot_size = ring->slot_size;
    description->slots_per_memory = ring->slots_per_memory;
    description->memories = ring->memories;
    for (uint32_t i = 0; i < ring->memories; i++) {
        CHECK(ring->memory[i]->host, "the ring is not in host memory");
        description->handle[i] = (struct gpud_handle){
            .type = GPUD_HANDLE_NETWORK,
            .fd = -1,
            .size = ring->memory[i]->size,
            .word = {(uintptr_t)ring->memory[i]->host, (uint64_t)getpid()},
        };
    }
    register_ring((struct copies *)remote, ring);
    return GPUD_OK;
}

static enum gpud_status attach_ring(struct gpud_remote *remote,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size, struct gpud_error *error)
{
    struct copies *copies = (struct copies *)remote;
    uint32_t slots = description->slots_per_memory;
    if (slots > GPUD_RING_SLOTS_MAX || description->memories * slots < entries ||
        description->slot_size < frame_size)
        return gpud_fail(error, GPUD_PEER, "too small a ring");
    for (uint32_t i = 0; i < description->memories; i++)
        if (description->handle[i].type != GPUD_HANDLE_NETWORK)
            return gpud_fail(error, GPUD_PEER, "no ring to write to");
    copies->ring = *description;
    return GPUD_OK;
}

static enum gpud_status share_metas(struct gpud_remote *remote, uint64_t size,
                                    struct gpud_handle *handle, void **metas,
                                    struct gpud_error *error)
{
    struct copies *copies = (struct copies *)remote;
    void *mapped;
    copies->metas_size = size;
    if (handle->type == GPUD_HANDLE_NONE) {
        WORKS(gpud_memfd_create("gpudirect-copies", size, GPUD_SHARE_WRITABLE, &handle->fd, metas,
                                &e));
        handle->type = GPUD_HANDLE_MEMFD;
        handle->size = size;
        copies->metas = *metas;
        return GPUD_OK;
    }
    enum gpud_status status = gpud_memfd_map(handle->fd, size, true, &mapped, error);
    if (status != GPUD_OK)
        return status;
    copies->their_metas = mapped;
    *metas = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(*metas != MAP_FAILED, "out of memory");
    copies->metas = *metas;
    return GPUD_OK;
}

static enum gpud_status write_meta(struct gpud_remote *remote, uint64_t offset, uint64_t size,
                                   struct gpud_error *error)
{
    const struct copies *copies = (const struct copies *)remote;
    CHECK(offset <= copies->metas_size && size <= copies->metas_size - offset,
          "%llu bytes at %llu of the metas", (unsigned long long)size, (unsigned long long)offset);
    memcpy(copies->their_metas + offset, copies->metas + offset, size);
    return GPUD_OK;
}

static enum gpud_status add_source(struct gpud_remote *remote, struct gpud_memory *memory,
                                   struct gpud_error *error)
{
    struct copies *copies = (struct copies *)remote;
    uint32_t count = atomic_load(&copies->sources);
    for (uint32_t i = 0; i < count; i++)
        if (copies->source[i] == memory)
            return GPUD_OK;
    CHECK(memory->host, "a slot that is not in host memory");
    copies->source[count] = gpud_memory_ref(memory);
    atomic_store(&copies->sources, count + 1);
    return GPUD_OK;
}

static void catch_up(struct gpud_remote *remote)
{
}

static bool has_room(struct gpud_remote *remote)
{
    return true;
}

static enum gpud_status write_slot(struct gpud_remote *remote, uint32_t entry, uint64_t start,
                                   struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                   struct gpud_error *error)
{
    struct copies *copies = (struct copies *)remote;
    const struct gpud_ring_description *ring = &copies->ring;
    const struct gpud_handle *handle = &ring->handle[entry / ring->slots_per_memory];
    bool known = false;
    for (uint32_t i = 0; i < atomic_load(&copies->sources); i++)
        known |= copies->source[i] == memory;
    CHECK(start <= ring->slot_size && size <= ring->slot_size - start, "outside of a slot");
    CHECK(known, "written from a memory that was not registered");
    uint64_t at = handle->word[0] + entry % ring->slots_per_memory * ring->slot_size + start;
    struct iovec from = {(char *)memory->host + offset, size}, to = {(void *)(uintptr_t)at, size};
    pid_t pid = (pid_t)handle->word[1];
    errno = EFAULT;
    pthread_mutex_lock(&registered_lock);
    bool written = (pid != getpid() || may_write(at, size)) &&
                   process_vm_writev(pid, &from, 1, &to, 1, 0) == (ssize_t)size;
    pthread_mutex_unlock(&registered_lock);
    if (written)
        return GPUD_OK;
    gpud_channel_hang_up(copies->channel);
    return gpud_fail_errno(error, "cannot write into the other process");
}

static void detach(struct gpud_remote *remote)
{
    atomic_store(&((struct copies *)remote)->detached, true);
}

static void destroy(struct gpud_remote *remote)
{
    struct copies *gone = (struct copies *)remote;
    unregister_ring(gone);
    for (uint32_t i = 0; i < atomic_load(&gone->sources); i++)
        gpud_memory_unref(&gone->source[i]);
    gpud_memory_unmap_pages(gone->theirs, sizeof(struct gpud_page));
    gpud_memory_unmap_pages(gone->metas, gone->metas_size);
    gpud_memory_unmap_pages(gone->their_metas, gone->metas_size);
    gpud_memory_unmap_pages(gone->base.page, sizeof(struct gpud_page));
    gpud_fd_close(&gone->fd);
    gpud_channel_unref(&gone->channel);
    free(gone);
}

static const struct gpud_remote_ops remote_ops = {
    .carrier = &carrier,
    .describe = describe,
    .create = create,
    .attach = attach,
    .expose = expose,
    .attach_ring = attach_ring,
    .share_metas = share_metas,
    .add_source = add_source,
    .catch_up = catch_up,
    .has_room = has_room,
    .write = write_slot,
    .write_meta = write_meta,
    .detach = detach,
    .destroy = destroy,
};

static struct gpud_channel_ops ops;
static const char *other_host, *encryption;

/* What a channel between hosts would know from the beginning. */
static enum gpud_status receive(struct gpud_channel *channel, struct gpud_message *message,
                                struct gpud_error *error)
{
    if (other_host && !channel->peer.host[0]) {
        gpud_print(channel->peer.host, "%s", other_host);
        channel->peer.pid = 0;
    }
    if (encryption && !channel->encryption[0])
        gpud_print(channel->encryption, "%s", encryption);
    return gpud_unix_channel_ops.receive(channel, message, error);
}

void copies_install(void)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* else Yama lets parents write alone */
    ops = gpud_unix_channel_ops;
    ops.remote = &remote_ops;
    gpud_unix_channel = &ops;
}

void copies_set_encryption(const char *text)
{
    encryption = text;
    ops.receive = receive;
}

void copies_set_ask_after(int64_t ask_after)
{
    carrier.ask_after = ask_after;
}

void copies_install_if_asked(void)
{
    if (getenv("GPUD_TEST_COPIES"))
        copies_install();
}

void copies_install_hosts(const char *self, const char *other)
{
    static char id_file[32];
    void *text;
    int fd;
    other_host = other;
    copies_install();
    ops.receive = receive;
    WORKS(gpud_memfd_create("boot-id", 4096, GPUD_SHARE_WRITABLE, &fd, &text, &e));
    for (size_t i = 0; i < 32; i++)
        snprintf((char *)text + i, 2, "%x", (unsigned)self[i % strlen(self)] & 15);
    snprintf(id_file, sizeof(id_file), "/proc/self/fd/%d", fd);
    gpud_host_id_file = id_file;
}
