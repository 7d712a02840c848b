/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "middle.h"

#include "base/base.h"
#include "support/encode.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* --- packets ---------------------------------------------------------------------------------- */

#define PACKET_FDS 72

/* A message, with what is sent along; `own` are the descriptors to close. */
struct packet {
    uint8_t bytes[GPUD_MESSAGE_MAX + 16];
    size_t size;
    int fds[PACKET_FDS], own[PACKET_FDS];
    size_t fd_count, own_count;
};

/* The type that the bytes say, or 0. */
static unsigned packet_type(const struct packet *packet)
{
    unsigned type = packet->size >= 16 ? packet->bytes[6] : 0;
    return type < KEPT_TYPES ? type : 0;
}

/* From a socket: 1, 0 nothing there, −1 the end. */
static int packet_receive(struct packet *packet, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
    struct iovec data = {.iov_base = packet->bytes, .iov_len = sizeof(packet->bytes)};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};
    packet->fd_count = packet->own_count = 0;
    ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    packet->size = (size_t)got;
    struct cmsghdr *part = CMSG_FIRSTHDR(&header);
    if (part && part->cmsg_type == SCM_RIGHTS) {
        packet->own_count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (packet->own_count > PACKET_FDS)
            abort(); /* an honest end never sends so many */
        memcpy(packet->own, CMSG_DATA(part), packet->own_count * sizeof(int));
    }
    packet->fd_count = packet->own_count;
    memcpy(packet->fds, packet->own, sizeof(packet->fds));
    return 1;
}

/* A peer that does not read loses it. */
static void packet_send(const struct packet *packet, int fd)
{
    if (fd >= 0)
        encode_send(fd, packet->bytes, packet->size, packet->fds, packet->fd_count);
}

/* It closes this one too. */
static void packet_take(struct packet *packet, int fd)
{
    if (packet->own_count == PACKET_FDS)
        abort();
    packet->own[packet->own_count++] = fd;
}

static struct packet *packet_copy(const struct packet *packet)
{
    struct packet *copy = malloc(sizeof(*copy));
    if (!copy)
        abort();
    *copy = *packet;
    copy->own_count = 0;
    for (size_t i = 0; i < copy->fd_count; i++) {
        copy->fds[i] = fcntl(packet->fds[i], F_DUPFD_CLOEXEC, 3);
        if (copy->fds[i] < 0)
            abort();
        packet_take(copy, copy->fds[i]);
    }
    return copy;
}

static void packet_free(struct packet *packet)
{
    if (!packet)
        return;
    for (size_t i = 0; i < packet->own_count; i++)
        close(packet->own[i]);
    free(packet);
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Numbers at which something may end. */
static uint32_t odd_number(struct fuzz_input *input, uint32_t was)
{
    uint32_t choice = fuzz_number(input, 1);
    switch (choice % 8) {
    case 0:
        return 0;
    case 1:
        return was + 1;
    case 2:
        return was - 1;
    case 3:
        return was + (UINT32_C(1) << 31);
    case 4:
        return was + INT32_MAX;
    case 5:
        return UINT32_MAX;
    case 6:
        return choice >> 3;
    default:
        return fuzz_number(input, 4);
    }
}

static void mutate_ring(struct gpud_ring_description *ring, struct fuzz_input *input)
{
    uint32_t which = fuzz_number(input, 1);
    struct gpud_handle *handle = &ring->handle[which / 8 % GPUD_RING_MEMORIES_MAX];
    switch (which % 6) {
    case 0:
        ring->slot_size = odd_number(input, (uint32_t)ring->slot_size);
        break;
    case 1:
        ring->slots_per_memory = odd_number(input, ring->slots_per_memory);
        break;
    case 2:
        ring->memories = odd_number(input, ring->memories) % (GPUD_RING_MEMORIES_MAX + 1);
        for (uint32_t i = 0; i < ring->memories; i++)
            if (ring->handle[i].type == GPUD_HANDLE_NONE)
                ring->handle[i] = ring->handle[0];
        break;
    case 3:
        handle->size = odd_number(input, (uint32_t)handle->size);
        break;
    case 4:
        handle->type = fuzz_number(input, 1) % (GPUD_HANDLE_TYPES + 1);
        break;
    case 5:
        handle->word[which / 8 % 2] = odd_number(input, (uint32_t)handle->word[0]);
        break;
    }
}

static void mutate_layout(struct gpud_layout *layout, struct fuzz_input *input)
{
    static const struct {
        const char *format;
        uint32_t width, height;
    } others[] = {{"GRAY8", 32, 64}, {"GRAY8", 64, 32}, {"NV12", 32, 32}, {"UYVY", 64, 64}};
    uint32_t which = fuzz_number(input, 1);
    struct gpud_plane *plane = &layout->plane[which / 16 % GPUD_PLANES_MAX];
    switch (which % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        gpud_layout_init(layout, others[which % 4].format, others[which % 4].width,
                         others[which % 4].height, 0, NULL);
        break;
    case 4:
        layout->size = odd_number(input, (uint32_t)layout->size);
        break;
    case 5:
        plane->offset = odd_number(input, (uint32_t)plane->offset);
        break;
    case 6:
        plane->stride = odd_number(input, plane->stride);
        break;
    case 7:
        layout->planes = odd_number(input, layout->planes);
        break;
    }
}

static void mutate_hello(struct gpud_endpoint *hello, struct fuzz_input *input)
{
    static const char *const routes[] = {"map", "staged", "peer", "staged-push", "pigeon"};
    uint32_t which = fuzz_number(input, 1);
    switch (which % 7) {
    case 0:
        hello->slots = odd_number(input, hello->slots);
        break;
    case 1:
        hello->slow_receiver = (uint8_t)odd_number(input, hello->slow_receiver);
        break;
    case 2:
        strcpy(hello->route, routes[which / 7 % 5]);
        break;
    case 3:
        hello->caps ^= UINT32_C(1) << which / 7 % 16;
        break;
    case 4:
        hello->host[0] ^= 1;
        break;
    case 5:
        hello->require_direct ^= 1;
        break;
    case 6:
        strcpy(hello->kind, "opencl");
        break;
    }
}

static void mutate_offer(struct gpud_offer *offer, struct fuzz_input *input)
{
    static const char *const routes[] = {"map", "staged", "peer", "staged-push", ""};
    uint32_t which = fuzz_number(input, 1);
    switch (which % 8) {
    case 0:
        offer->epoch = odd_number(input, offer->epoch);
        break;
    case 1:
    case 2:
        mutate_layout(&offer->media.picture.layout, input);
        break;
    case 3:
        strcpy(offer->route, routes[which / 8 % 5]);
        break;
    case 4:
        offer->signal = which / 8 % 5;
        break;
    case 5:
        offer->media.kind = (enum gpud_media_kind)(which / 8 % 5);
        break;
    case 6:
        offer->large_meta_max = odd_number(input, offer->large_meta_max);
        break;
    default:
        mutate_ring(&offer->ring, input);
        break;
    }
}

static void mutate_accept(struct gpud_accept *accept, struct fuzz_input *input)
{
    switch (fuzz_number(input, 1) % 4) {
    case 3:
        accept->large_metas.size = odd_number(input, (uint32_t)accept->large_metas.size);
        break;
    case 0:
        accept->epoch = odd_number(input, accept->epoch);
        break;
    case 1:
        accept->entries = odd_number(input, accept->entries);
        break;
    case 2:
        mutate_ring(&accept->ring, input);
        break;
    }
}

static void mutate_message(struct gpud_message *message, struct fuzz_input *input)
{
    if (fuzz_number(input, 1) % 4 == 0) {
        message->position = odd_number(input, message->position);
        return;
    }
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        mutate_hello(&message->hello, input);
        break;
    case GPUD_MESSAGE_OFFER:
        mutate_offer(&message->offer, input);
        break;
    case GPUD_MESSAGE_ACCEPT:
        mutate_accept(&message->accept, input);
        break;
    case GPUD_MESSAGE_CANARY:
        if (fuzz_number(input, 1) & 1)
            message->canary.nonce ^= 1;
        else
            message->canary.epoch = odd_number(input, message->canary.epoch);
        break;
    case GPUD_MESSAGE_EVENT:
        message->event.kind = odd_number(input, message->event.kind);
        break;
    case GPUD_MESSAGE_GROW:
        mutate_ring(&message->grow, input);
        break;
    default:
        message->epoch = odd_number(input, message->epoch);
        break;
    }
}

/* Well-formed again afterwards. What is not well-formed stays as it is. */
static void mutate_fields(struct packet *packet, struct fuzz_input *input)
{
    static struct gpud_message message;
    memset(&message, 0, sizeof(message));
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    if (gpud_message_decode(&message, packet->bytes, packet->size, NULL) != GPUD_OK ||
        gpud_message_attachments(&message, handles) != packet->fd_count)
        return;
    for (size_t i = 0; i < packet->fd_count; i++)
        handles[i]->fd = packet->fds[i];
    mutate_message(&message, input);
    packet->size = encode_message(&message, packet->bytes, packet->fds, &packet->fd_count);
}

/* --- descriptors ------------------------------------------------------------------------------ */

static int make_memfd(size_t size, unsigned flags, int seals)
{
    int fd = memfd_create("bent", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) < 0 || (seals && fcntl(fd, F_ADD_SEALS, seals) < 0))
        abort();
    return fd;
}

/* The same bytes in memory that we can write. */
static int make_twin(struct middle *middle, int of, size_t size)
{
    int fd = make_memfd(size, 0, 0);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || data == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        abort();
    if (middle->twin) {
        munmap(middle->twin, middle->twin_size);
        close(middle->twin_of);
    }
    middle->twin = data;
    middle->twin_size = size;
    middle->twin_of = fcntl(of, F_DUPFD_CLOEXEC, 3);
    if (middle->twin_of < 0 || pread(of, data, size, 0) < 0)
        abort();
    return fd;
}

#define HUGE_PAGE (UINT32_C(1) << 21)

static int make_descriptor(struct middle *middle, uint32_t kind, int of)
{
    struct stat st;
    size_t size = fstat(of, &st) == 0 && S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    switch (kind % 12) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        return memfd_create("unsealed", MFD_CLOEXEC);
    case 2:
        return make_memfd(size / 2, 0, F_SEAL_SHRINK | F_SEAL_GROW);
    case 3:
        return make_memfd(size, 0, F_SEAL_GROW);
    case 4:
        return make_memfd(size, 0, F_SEAL_SHRINK | F_SEAL_WRITE);
    case 5: /* where the machine has such pages at all */
        return make_memfd(HUGE_PAGE, MFD_HUGETLB, F_SEAL_SHRINK | F_SEAL_GROW);
    case 6:
        return make_memfd(0, 0, F_SEAL_SHRINK | F_SEAL_GROW);
    case 7:
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case 8:
        return middle->fd[0] >= 0 ? fcntl(middle->fd[0], F_DUPFD_CLOEXEC, 3) : -1;
    case 9:
        return make_memfd(2 * size, 0, F_SEAL_SHRINK | F_SEAL_GROW);
    default:
        return size ? make_twin(middle, of, size) : -1;
    }
}

static void mutate_descriptors(struct middle *middle, struct packet *packet,
                               struct fuzz_input *input)
{
    uint32_t which = fuzz_number(input, 1);
    if (packet->fd_count == 0 || which % 8 == 7) { /* one too many */
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 || packet->fd_count == PACKET_FDS || packet->own_count == PACKET_FDS)
            abort();
        packet_take(packet, fd);
        packet->fds[packet->fd_count++] = fd;
        return;
    }
    size_t place = which / 8 % packet->fd_count;
    int fd;
    switch (which % 8) {
    case 0:
        packet->fd_count--;
        break;
    case 1:
        packet->fds[place] = packet->fds[0];
        break;
    default:
        fd = make_descriptor(middle, fuzz_number(input, 1), packet->fds[place]);
        if (fd < 0)
            break;
        packet_take(packet, fd);
        packet->fds[place] = fd;
        break;
    }
}

/* Changes a message's bytes, fields, length or descriptors. */
static void mutate_packet(struct middle *middle, struct packet *packet, struct fuzz_input *input)
{
    uint32_t how = fuzz_number(input, 1), length;
    switch (how % 8) {
    case 0: /* bytes */
        for (uint32_t left = 1 + fuzz_number(input, 1) % 4; left && packet->size; left--) {
            uint32_t at = fuzz_number(input, 2) % (uint32_t)packet->size;
            packet->bytes[at] ^= (uint8_t)fuzz_number(input, 1);
        }
        break;
    case 1: /* the length; the header keeps what it says, or follows */
        length = fuzz_number(input, 2);
        packet->size = (length >> 1) % sizeof(packet->bytes);
        if (length & 1)
            memcpy(packet->bytes + 8, &(uint32_t){(uint32_t)packet->size}, 4);
        break;
    case 2:
    case 3:
        mutate_descriptors(middle, packet, input);
        break;
    default:
        for (uint32_t left = 1 + how / 8 % 3; left; left--)
            mutate_fields(packet, input);
        break;
    }
}

/* --- out of turn ------------------------------------------------------------------------------ */

/* The epoch that was offered last, or 0. */
static uint32_t last_epoch(const struct middle *middle)
{
    uint32_t epoch = 0;
    const struct packet *offer = middle->kept[GPUD_MESSAGE_OFFER][0];
    if (offer && offer->size >= 20)
        memcpy(&epoch, offer->bytes + 16, sizeof(epoch));
    return epoch;
}

static struct packet *make_simple(struct middle *middle, enum gpud_message_type type)
{
    static struct gpud_message message;
    struct packet *packet = calloc(1, sizeof(*packet));
    if (!packet)
        abort();
    memset(&message, 0, sizeof(message));
    message.type = type;
    message.epoch = last_epoch(middle); /* first in all that have one */
    if (type == GPUD_MESSAGE_EVENT)
        message.event.size = 8;
    packet->size = encode_message(&message, packet->bytes, packet->fds, &packet->fd_count);
    return packet;
}

/* A message to send out of turn, altered or not: an earlier one, or a forged one. */
static struct packet *forge_packet(struct middle *middle, struct fuzz_input *input,
                                   enum middle_side *from)
{
    uint32_t what = fuzz_number(input, 1), how = fuzz_number(input, 1);
    unsigned type = what % KEPT_TYPES;
    const struct packet *kept = middle->kept[type][how & 1];
    struct packet *packet;
    if (kept) {
        packet = packet_copy(kept);
    } else {
        static const enum gpud_message_type simple[] = {GPUD_MESSAGE_EVENT, GPUD_MESSAGE_EOS,
                                                        GPUD_MESSAGE_READY, GPUD_MESSAGE_BYE,
                                                        GPUD_MESSAGE_REFUSE};
        bool empty = type < GPUD_MESSAGE_READY || type == GPUD_MESSAGE_GROW;
        packet = make_simple(middle, empty ? simple[what / 16 % 5] : (enum gpud_message_type)type);
    }
    /* In the place of what follows the frames that were taken. */
    uint32_t position = middle->page ? atomic_load(&middle->page->receiver.claimed) : 0;
    if (!(how & 2) && packet->size >= 16)
        memcpy(packet->bytes + 12, &position, sizeof(position));
    if (how & 4)
        mutate_packet(middle, packet, input);
    bool of_receiver = type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY;
    *from = of_receiver != !!(how & 8) ? MIDDLE_RECEIVER : MIDDLE_SENDER;
    return packet;
}

/* --- lies in shared memory -------------------------------------------------------------------- */

#define ENTRIES GPUD_PAGE_ENTRIES

static void wake_both(struct gpud_page *page)
{
    _Atomic uint32_t *const kicks[] = {&page->sender.kicks, &page->receiver.kicks};
    for (int i = 0; i < 2; i++) {
        atomic_fetch_add(kicks[i], 1);
        gpud_futex_wake(kicks[i]);
    }
}

/* A word that both ends compare with others of the page. */
void lie_word(struct gpud_page *page, struct fuzz_input *input)
{
    _Atomic uint32_t *const words[] = {
        &page->sender.head,     &page->receiver.claimed, &page->receiver.returned,
        &page->sender.messages, &page->sender.announced, &page->sender.taken_back,
        &page->sender.asleep,   &page->receiver.asleep,  &page->sender.kicks,
        &page->receiver.kicks,  &page->sender.wanted,
    };
    uint32_t which = fuzz_number(input, 1), how = fuzz_number(input, 1);
    _Atomic uint32_t *word = words[which % (sizeof(words) / sizeof(words[0]))];
    uint32_t base = which & 8 ? atomic_load(&page->receiver.claimed) : atomic_load(word);
    switch (how % 8) {
    case 0:
        base += how >> 3;
        break;
    case 1:
        base -= how >> 3;
        break;
    case 2:
        base += UINT32_C(1) << 31;
        break;
    case 3:
        base += INT32_MAX;
        break;
    case 4:
        base += fuzz_number(input, 1);
        break;
    case 5:
        base = 0;
        break;
    default:
        base = fuzz_number(input, 4);
        break;
    }
    if (which & 16) { /* an entry of one of the two queues instead */
        _Atomic uint32_t *queue = which & 32 ? page->sender.published : page->receiver.given_back;
        for (uint32_t i = 0; i < ENTRIES; i++)
            atomic_store(&queue[i], base);
    } else {
        atomic_store(word, base);
    }
    if (!(which & 64))
        wake_both(page);
}

void lie_descriptor(struct gpud_page *page, struct fuzz_input *input)
{
    uint32_t which = fuzz_number(input, 1), entry = which / 8 % 8;
    struct gpud_descriptor *bent = &page->sender.descriptor[entry];
    uint32_t value = fuzz_number(input, 2);
    switch (which % 8) {
    case 0:
        bent->slot = value & 0x8000 ? 0 - value : value;
        break;
    case 1:
        bent->value = value & 0x8000 ? 0 - value : value;
        break;
    case 2:
        bent->meta_size = value & 0x8000 ? UINT32_MAX : value;
        bent->bytes = value & 0x4000 ? UINT64_MAX - value : value;
        bent->large_meta_size = value & 0x2000 ? UINT32_MAX - value : value;
        break;
    case 3:
        bent->sequence = value & 0x8000 ? UINT64_MAX - value : value;
        break;
    case 4:
        bent->flags = value;
        break;
    case 5:
        bent->submit_time = value & 1 ? (uint64_t)INT64_MIN : UINT64_MAX;
        bent->pts = bent->dts = bent->duration = bent->submit_time;
        break;
    case 6:
        atomic_store(&page->sender.ready[entry].word, value & 0x8000 ? value << 16 : value);
        atomic_store(&page->sender.lines[entry], value & 0x4000 ? 0 - value : value % 80);
        break;
    case 7:
        atomic_store(&page->receiver.release[entry].word, value & 0x8000 ? value << 16 : value);
        break;
    }
}

/* As a sender would, in an entry that may be in use. */
void lie_frame(struct gpud_page *page, struct fuzz_input *input)
{
    uint32_t which = fuzz_number(input, 1), entry = which % 4;
    uint32_t head = atomic_load(&page->sender.head);
    struct gpud_descriptor *descriptor = &page->sender.descriptor[entry];
    if (!(which & 4)) {
        memset(descriptor, 0, offsetof(struct gpud_descriptor, meta));
        descriptor->slot = entry;
        descriptor->sequence = fuzz_number(input, 1);
        descriptor->value = descriptor->slot + 1;
        descriptor->flags = which & 8 ? GPUD_FRAME_CANARY : 0;
    }
    if (which & 16)
        atomic_store(&page->sender.ready[entry].word, descriptor->value);
    atomic_store(&page->sender.published[head % ENTRIES], entry);
    atomic_store(&page->sender.head, head + 1);
    wake_both(page);
}

void lie_anywhere(struct middle *middle, struct fuzz_input *input)
{
    uint32_t at = fuzz_number(input, 2), by = fuzz_number(input, 1);
    if (at & 1 && middle->twin)
        middle->twin[(at >> 1) % middle->twin_size] ^= (uint8_t)by;
    else if (middle->page)
        ((uint8_t *)middle->page)[at % (at & 2 ? sizeof(*middle->page) : 1200)] ^= (uint8_t)by;
}

static enum middle_side other(enum middle_side side)
{
    return side == MIDDLE_SENDER ? MIDDLE_RECEIVER : MIDDLE_SENDER;
}

/* --- connections ------------------------------------------------------------------------------ */

static int make_socket(const char *path, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    strncpy(name->sun_path, path, sizeof(name->sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        abort();
    return fd;
}

void middle_open(struct middle *middle, const char *path, const char *to)
{
    struct sockaddr_un name;
    memset(middle, 0, sizeof(*middle));
    middle->fd[0] = middle->fd[1] = middle->twin_of = -1;
    middle->to = to;
    middle->listener = make_socket(path, &name);
    if (bind(middle->listener, (struct sockaddr *)&name, sizeof(name)) < 0 ||
        listen(middle->listener, 8) < 0)
        abort();
}

void middle_stop_listening(struct middle *middle)
{
    gpud_fd_close(&middle->listener);
}

void middle_hang_up(struct middle *middle, enum middle_side side)
{
    gpud_fd_close(&middle->fd[side]);
}

void middle_close(struct middle *middle)
{
    middle_stop_listening(middle);
    for (int side = 0; side < MIDDLE_SIDES; side++) {
        gpud_fd_close(&middle->fd[side]);
        packet_free(middle->held[side]);
    }
    for (int type = 0; type < KEPT_TYPES; type++) {
        packet_free(middle->kept[type][0]);
        packet_free(middle->kept[type][1]);
    }
    if (middle->page)
        munmap(middle->page, sizeof(*middle->page));
    if (middle->twin)
        munmap(middle->twin, middle->twin_size);
    middle->twin = NULL;
    gpud_fd_close(&middle->twin_of);
}

/* What is left of the connection before ends with it. */
static bool connect_both(struct middle *middle)
{
    struct sockaddr_un name;
    int fd = accept4(middle->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return false;
    for (int side = 0; side < MIDDLE_SIDES; side++) {
        gpud_fd_close(&middle->fd[side]);
        packet_free(middle->held[side]);
        middle->held[side] = NULL;
    }
    middle->fd[MIDDLE_RECEIVER] = fd;
    fd = make_socket(middle->to, &name);
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
        gpud_fd_close(&fd);
    middle->fd[MIDDLE_SENDER] = fd;
    return true;
}

/* --- messages --------------------------------------------------------------------------------- */

/* The ring page, as a descriptor of an ACCEPT. */
static void look_at(struct middle *middle, const struct packet *packet, enum middle_side from)
{
    void *page;
    if (from != MIDDLE_RECEIVER || packet_type(packet) != GPUD_MESSAGE_ACCEPT ||
        packet->fd_count == 0 ||
        gpud_memfd_map(packet->fds[0], sizeof(*middle->page), true, &page, NULL) != GPUD_OK)
        return;
    if (middle->page)
        munmap(middle->page, sizeof(*middle->page));
    middle->page = page;
}

/* The sender's words in the page count messages: with one more or less they are read all the same,
 * as the count need only differ. */
static void say(struct middle *middle, const struct packet *packet, enum middle_side to)
{
    packet_send(packet, middle->fd[to]);
    if (to != MIDDLE_RECEIVER || !middle->page)
        return;
    atomic_fetch_add(&middle->page->sender.messages, 1);
    wake_both(middle->page);
}

static void hand_on(struct middle *middle, struct packet *packet, enum middle_side from,
                    struct fuzz_input *input)
{
    enum middle_side to = other(from);
    struct packet *before = middle->held[from];
    middle->held[from] = NULL;
    bool also = false, first = true;
    uint32_t how = input ? fuzz_number(input, 1) % 16 : 0;
    switch (how) {
    case 5:
        also = true; /* twice */
        break;
    case 6: /* not at all */
        packet_free(before);
        return;
    case 7: /* after the next */
        if (!before) {
            middle->held[from] = packet_copy(packet);
            return;
        }
        break;
    case 8: /* and that is the end of it */
        middle_hang_up(middle, fuzz_number(input, 1) & 1 ? from : to);
        break;
    case 9:
        packet->size = fuzz_number(input, 2) % packet->size;
        say(middle, packet, to);
        middle_hang_up(middle, to);
        first = false;
        break;
    default:
        if (how & 8 || (how >= 1 && how <= 4))
            mutate_packet(middle, packet, input);
        break;
    }
    if (first)
        say(middle, packet, to);
    if (also)
        say(middle, packet, to);
    if (before)
        say(middle, before, to);
    packet_free(before);
}

static bool read_side(struct middle *middle, enum middle_side from, struct fuzz_input *input)
{
    if (middle->fd[from] < 0)
        return false;
    struct packet *packet = malloc(sizeof(*packet));
    if (!packet)
        abort();
    int got = packet_receive(packet, middle->fd[from]);
    if (got > 0) {
        look_at(middle, packet, from);
        struct packet **kept = middle->kept[packet_type(packet)];
        packet_free(kept[1]);
        kept[1] = kept[0];
        kept[0] = packet_copy(packet);
        /* Updates the twin from the memory that it replaces, before the peer is told to read it. */
        if (from == MIDDLE_SENDER && middle->twin &&
            pread(middle->twin_of, middle->twin, middle->twin_size, 0) < 0)
            abort();
        hand_on(middle, packet, from, input);
        packet_free(packet);
    } else {
        free(packet);
    }
    if (got < 0) {
        gpud_fd_close(&middle->fd[MIDDLE_RECEIVER]);
        gpud_fd_close(&middle->fd[MIDDLE_SENDER]);
    }
    return got != 0;
}

bool middle_turn(struct middle *middle, struct fuzz_input *input, int wait)
{
    struct pollfd look[] = {
        {.fd = middle->fd[MIDDLE_RECEIVER], .events = POLLIN},
        {.fd = middle->fd[MIDDLE_SENDER], .events = POLLIN},
        {.fd = middle->listener, .events = POLLIN},
    };
    if (poll(look, 3, wait) <= 0)
        return false;
    if (look[0].revents && read_side(middle, MIDDLE_RECEIVER, input))
        return true;
    if (look[1].revents && read_side(middle, MIDDLE_SENDER, input))
        return true;
    return look[2].revents && connect_both(middle);
}

void middle_inject(struct middle *middle, struct fuzz_input *input)
{
    enum middle_side from;
    struct packet *packet = forge_packet(middle, input, &from);
    say(middle, packet, other(from));
    packet_free(packet);
}
