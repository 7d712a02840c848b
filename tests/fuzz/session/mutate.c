/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "middle.h"
#include "support/encode.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- bytes ------------------------------------------------------------------------------------ */

static void mutate_bytes(struct packet *packet, struct fuzz_input *input)
{
    for (uint32_t left = 1 + fuzz_number(input, 1) % 4; left && packet->size; left--) {
        uint32_t at = fuzz_number(input, 2) % (uint32_t)packet->size;
        packet->bytes[at] ^= (uint8_t)fuzz_number(input, 1);
    }
}

/* The header keeps what it says, or follows. */
static void mutate_length(struct packet *packet, struct fuzz_input *input)
{
    uint32_t length = fuzz_number(input, 2);
    packet->size = (length >> 1) % sizeof(packet->bytes);
    if (length & 1)
        memcpy(packet->bytes + 8, &(uint32_t){(uint32_t)packet->size}, 4);
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
        offer->media.kind = (enum gpud_media_kind)(which / 8 % 4);
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

void mutate_packet(struct middle *middle, struct packet *packet, struct fuzz_input *input)
{
    uint32_t how = fuzz_number(input, 1);
    switch (how % 8) {
    case 0:
        mutate_bytes(packet, input);
        break;
    case 1:
        mutate_length(packet, input);
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

/* What follows the frames that were taken. */
static void put_in_place(const struct middle *middle, struct packet *packet)
{
    uint32_t position = middle->page ? atomic_load(&middle->page->receiver.claimed) : 0;
    if (packet->size >= 16)
        memcpy(packet->bytes + 12, &position, sizeof(position));
}

struct packet *forge_packet(struct middle *middle, struct fuzz_input *input, enum middle_side *from)
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
    if (!(how & 2))
        put_in_place(middle, packet);
    if (how & 4)
        mutate_packet(middle, packet, input);
    bool of_receiver = type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY;
    *from = of_receiver != !!(how & 8) ? MIDDLE_RECEIVER : MIDDLE_SENDER;
    return packet;
}
