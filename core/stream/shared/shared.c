/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a sender and a receiver share: their device, the pattern of a test frame, images, and their
 * event loop. */
#include "stream/shared/shared.h"

#include "base/base.h"
#include "capture/capture.h"
#include "frame/frame.h"
#include "topology/topology.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === device ================================================================================== */

enum gpud_status gpud_address_open_device(struct gpud_context *context, const char *name,
                                          const struct gpud_address *address,
                                          struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                          struct gpud_error *error)
{
    char pci[GPUD_SYSFS_PCI_MAX];
    gpud_address_find_card(address, pci, sizeof(pci));
    reason[0] = '\0';
    if (!name || (!pci[0] && strcmp(name, "auto") != 0)) /* a bare kind means its first device */
        return gpud_device_open(context, name, device, error);
    return gpud_device_open_near(context, name, pci, address->text, device, reason, error);
}

#define CAPTURE "v4l2://"

enum gpud_status gpud_device_get_nearest(struct gpud_context *context, const char *kind,
                                         const char *address, struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error)
{
    char pci[GPUD_SYSFS_PCI_MAX] = "", why[GPUD_REASON_MAX] = "";
    struct gpud_address resolved;
    struct gpud_device_info info;
    enum gpud_status status = GPUD_OK;
    if (!kind || !kind[0] || !address)
        return gpud_fail(error, GPUD_INVALID, "give a kind of devices, \"cuda\", and an address");
    if (gpud_sysfs_is_pci(address))
        gpud_print(pci, "%s", address);
    else if (strncmp(address, CAPTURE "/", sizeof(CAPTURE)) == 0)
        gpud_capture_find_card(address + strlen(CAPTURE), pci, sizeof(pci));
    else if ((status = gpud_address_resolve(address, &resolved, error)) == GPUD_OK)
        gpud_address_find_card(&resolved, pci, sizeof(pci));
    if (status == GPUD_OK)
        status = gpud_topology_find_near(context, kind, pci, address, &info, why, error);
    if (status != GPUD_OK)
        return status;
    gpud_sized_copy(found, found->size, &info, sizeof(info));
    gpud_print_n(reason, GPUD_REASON_MAX, "%s", why);
    return GPUD_OK;
}

/* === image =================================================================================== */

enum gpud_status gpud_modifiers_check(const uint64_t *modifiers, uint32_t count,
                                      struct gpud_error *error)
{
    if (count > GPUD_MODIFIERS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u modifiers: at most %d are possible", count,
                         GPUD_MODIFIERS_MAX);
    if (count && !modifiers)
        return gpud_fail(error, GPUD_INVALID, "%u modifiers at NULL", count);
    return GPUD_OK;
}

enum gpud_status gpud_image_find(struct gpud_device *device, const struct gpud_layout *rows,
                                 const uint64_t *modifiers, uint32_t count,
                                 struct gpud_layout *image, struct gpud_error *error)
{
    struct gpud_layout found;
    struct gpud_error why;
    enum gpud_status status = gpud_image_describe(device, rows, modifiers, count, &found, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_layout_check(&found, &why) != GPUD_OK)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s arranges pictures in a way that no layout describes: %s",
                         device->info.name, why.reason);
    *image = found;
    return GPUD_OK;
}

/* --- the proof ------------------------------------------------------------------------------- */

#define PROOF_DEADLINE (5 * GPUD_SEC)

static bool are_same(const struct gpud_layout *rows, const char *a, const char *b)
{
    for (uint32_t i = 0; i < rows->planes; i++)
        for (uint32_t y = 0; y < rows->plane[i].rows; y++) {
            uint64_t at = rows->plane[i].offset + (uint64_t)y * rows->plane[i].stride;
            if (memcmp(a + at, b + at, rows->plane[i].row_bytes) != 0)
                return false;
        }
    return true;
}

/* From one host memory through the image into the other. */
static enum gpud_status carry(struct gpud_queue *queue, struct gpud_memory *const host[2],
                              struct gpud_memory *memory, const struct gpud_layout *rows,
                              const struct gpud_layout *image, struct gpud_error *error)
{
    struct gpud_copy up = {.to = memory}, down = {.from = memory};
    enum gpud_status status = gpud_memory_view(host[0], queue->device, &up.from, error);
    if (status == GPUD_OK)
        status = gpud_memory_view(host[1], queue->device, &down.to, error);
    if (status == GPUD_OK)
        status = gpud_image_copy(queue, &up, image, rows, error);
    if (status == GPUD_OK)
        status = gpud_image_copy(queue, &down, rows, image, error);
    enum gpud_status done = gpud_queue_finish(queue, gpud_deadline(PROOF_DEADLINE), NULL);
    return status == GPUD_OK && done != GPUD_OK
               ? gpud_fail(error, done, "the copy of an image does not end")
               : status;
}

enum gpud_status gpud_image_prove(struct gpud_queue *queue, struct gpud_device *host,
                                  const struct gpud_layout *rows, const struct gpud_layout *image,
                                  struct gpud_error *error)
{
    struct gpud_memory *memory = NULL, *pages[2] = {NULL, NULL};
    enum gpud_status status =
        gpud_memory_alloc_for(queue->device, image->size, GPUD_USAGE_SHARE, &memory, error);
    for (int i = 0; i < 2 && status == GPUD_OK; i++)
        status = gpud_memory_alloc(host, rows->size, GPUD_MEMORY_PLAIN, &pages[i], error);
    if (status == GPUD_OK) {
        unsigned char *data = pages[0]->host;
        for (uint64_t i = 0, state = 1; i < rows->size;
             i += sizeof(state)) { /* no two rows alike */
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            memcpy(data + i, &state,
                   rows->size - i < sizeof(state) ? rows->size - i : sizeof(state));
        }
        status = carry(queue, pages, memory, rows, image, error);
    }
    if (status == GPUD_OK && !are_same(rows, pages[0]->host, pages[1]->host))
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "%s gives other rows of an image of the DRM modifier 0x%016llx than it "
                           "was made of",
                           queue->device->info.name, (unsigned long long)image->modifier);
    gpud_memory_unref(&pages[1]);
    gpud_memory_unref(&pages[0]);
    gpud_memory_unref(&memory);
    return status;
}

enum gpud_status gpud_image_check(struct gpud_device *device, const struct gpud_layout *image,
                                  uint64_t slot_size, const uint64_t *modifiers, uint32_t count,
                                  struct gpud_error *error)
{
    const unsigned long long modifier = image->modifier;
    struct gpud_layout own;
    bool taken = false;
    for (uint32_t i = 0; i < count; i++)
        taken |= modifiers[i] == image->modifier;
    if (!taken)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the sender's images have the DRM modifier 0x%016llx, which the "
                         "receiver's application does not take",
                         modifier);
    enum gpud_status status = gpud_image_find(device, image, &image->modifier, 1, &own, error);
    if (status != GPUD_OK)
        return status;
    /* An image begins only where its driver allows: each slot has the size of one. */
    if (!gpud_layout_equal(&own, image) || (slot_size && slot_size != image->size))
        return gpud_fail(error, GPUD_PEER,
                         "the sender's images of the DRM modifier 0x%016llx do not lie as the "
                         "driver of %s arranges them",
                         modifier, device->info.name);
    return GPUD_OK;
}

/* === loop ==================================================================================== */

enum gpud_status gpud_loop_watch(const struct gpud_loop *loop, int fd, struct gpud_error *error)
{
    struct epoll_event readable = {.events = EPOLLIN};
    if (epoll_ctl(loop->fd, EPOLL_CTL_ADD, fd, &readable) < 0)
        return gpud_fail_errno(error, "cannot add to an epoll");
    return GPUD_OK;
}

void gpud_loop_unwatch(const struct gpud_loop *loop, int fd)
{
    epoll_ctl(loop->fd, EPOLL_CTL_DEL, fd, NULL);
}

enum gpud_status gpud_loop_open(struct gpud_loop *loop, struct gpud_error *error)
{
    struct gpud_loop made = {
        .fd = epoll_create1(EPOLL_CLOEXEC),
        .event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK),
        .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
    };
    enum gpud_status status = GPUD_OK;
    if (made.fd < 0 || made.event < 0 || made.timer < 0)
        status = gpud_fail_errno(error, "no descriptor to poll");
    if (status == GPUD_OK)
        status = gpud_loop_watch(&made, made.event, error);
    if (status == GPUD_OK)
        status = gpud_loop_watch(&made, made.timer, error);
    if (status == GPUD_OK)
        *loop = made;
    else
        gpud_loop_close(&made);
    return status;
}

void gpud_loop_close(struct gpud_loop *loop)
{
    gpud_fd_close(&loop->fd);
    gpud_fd_close(&loop->event);
    gpud_fd_close(&loop->timer);
}

void gpud_loop_set_timer(const struct gpud_loop *loop, int64_t at)
{
    struct itimerspec until = {0};
    if (at != INT64_MAX)
        until.it_value = gpud_timespec(at > 0 ? at : 1);
    timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &until, NULL);
}

bool gpud_loop_drain(const struct gpud_loop *loop)
{
    uint64_t ignored;
    bool event = read(loop->event, &ignored, sizeof(ignored)) > 0;
    bool timer = read(loop->timer, &ignored, sizeof(ignored)) > 0;
    return event || timer;
}

/* === pattern ================================================================================= */

#define HEAD UINT64_C(65536)
#define TAIL UINT64_C(4096)

/* splitmix64: makes each position's byte independent of its neighbours. */
static uint8_t pattern_byte(uint64_t nonce, uint64_t position)
{
    uint64_t x = nonce + (position + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint8_t)(x ^ x >> 31);
}

struct part {
    uint64_t from, size;
};

/* What the pattern covers: one part, or the beginning and the end. */
static unsigned pattern_parts(uint64_t size, struct part parts[2])
{
    bool two = size > HEAD + TAIL;
    parts[0] = (struct part){.size = two ? HEAD : size};
    parts[1] = (struct part){.from = size - TAIL, .size = TAIL};
    return two ? 2 : 1;
}

static void pattern_write_part(uint8_t *bytes, const struct part *part, uint64_t nonce)
{
    for (uint64_t i = 0; i < part->size; i++)
        bytes[i] = pattern_byte(nonce, part->from + i);
}

static bool pattern_check_part(const uint8_t *bytes, const struct part *part, uint64_t nonce)
{
    for (uint64_t i = 0; i < part->size; i++)
        if (bytes[i] != pattern_byte(nonce, part->from + i))
            return false;
    return true;
}

void gpud_pattern_write(void *bytes, uint64_t size, uint64_t nonce)
{
    struct part parts[2];
    unsigned count = pattern_parts(size, parts);
    for (unsigned i = 0; i < count; i++)
        pattern_write_part((uint8_t *)bytes + parts[i].from, &parts[i], nonce);
}

bool gpud_pattern_check(const void *bytes, uint64_t size, uint64_t nonce)
{
    struct part parts[2];
    unsigned count = pattern_parts(size, parts);
    for (unsigned i = 0; i < count; i++)
        if (!pattern_check_part((const uint8_t *)bytes + parts[i].from, &parts[i], nonce))
            return false;
    return true;
}

enum gpud_status gpud_pattern_send(struct gpud_frame *frame, uint64_t nonce, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    struct part parts[2];
    unsigned count = pattern_parts(frame->info.layout.size, parts);
    enum gpud_status status = GPUD_OK;
    for (unsigned i = 0; i < count && status == GPUD_OK; i++) {
        void *data;
        status = gpud_frame_map_part(frame, parts[i].from, parts[i].size, GPUD_WRITE, timeout_ns,
                                     &data, error);
        if (status != GPUD_OK)
            break;
        pattern_write_part(data, &parts[i], nonce);
        gpud_frame_unmap(frame);
        status = gpud_frame_check(frame, error);
    }
    return status;
}

enum gpud_status gpud_pattern_receive(struct gpud_frame *frame, uint64_t nonce, int64_t timeout_ns,
                                      bool *whole, struct gpud_error *error)
{
    struct part parts[2];
    unsigned count = pattern_parts(frame->info.layout.size, parts);
    enum gpud_status status = GPUD_OK;
    *whole = true;
    for (unsigned i = 0; i < count && *whole; i++) {
        void *data;
        status = gpud_frame_map_part(frame, parts[i].from, parts[i].size, GPUD_READ, timeout_ns,
                                     &data, error);
        if (status != GPUD_OK)
            break;
        *whole = pattern_check_part(data, &parts[i], nonce);
        gpud_frame_unmap(frame);
    }
    return status;
}

/* === encryption ============================================================================== */

void gpud_warn_unencrypted(const struct gpud_log *log, const char *area,
                           const struct gpud_channel *channel, bool *warned)
{
    if (*warned || strcmp(channel->encryption, "no") != 0 || gpud_peer_is_here(&channel->peer))
        return;
    *warned = true;
    gpud_log_warning(log, area,
                     "the connection with %s is not encrypted: hosts on the way can read and "
                     "change its frames. An address tcp:// is encrypted, with psk-file or with "
                     "tls-certificate, tls-key and tls-ca at both ends; rdma:// never is, so put "
                     "MACsec or IPsec beneath it",
                     channel->peer.host);
}
