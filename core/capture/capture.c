/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object: creating, configuring, and ending a capture. */
#include "capture/capture.h"

#include "base/fd.h"
#include "base/sized.h"
#include "base/sysfs.h"
#include "capture/card.h"
#include "capture/cards.h"
#include "capture/method.h"
#include "capture/stream.h"
#include "capture/watch.h"
#include "topology/near.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SCHEME "v4l2://"
#define SLOTS_DEFAULT 4
#define SLOTS_MAX 30 /* drivers have 32 buffers */

/* --- create and destroy -------------------------------------------------------------------- */

static enum gpud_status check_params(const struct gpud_capture_params *params,
                                     struct gpud_error *error)
{
    const char *address = params->address;
    if (!address || strncmp(address, SCHEME "/", sizeof(SCHEME "/") - 1) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "\"%s\" is not a capture address: write v4l2:///dev/video0",
                         address ? address : "");
    if (strlen(address) - strlen(SCHEME) >= sizeof(((struct gpud_v4l2 *)0)->path))
        return gpud_fail(error, GPUD_INVALID, "the capture address is too long");
    if (params->input && strlen(params->input) >= sizeof(((struct gpud_capture *)0)->wanted.input))
        return gpud_fail(error, GPUD_INVALID, "the input's name is too long: \"%.40s…\"",
                         params->input);
    enum gpud_status status = gpud_controls_check(params->controls, params->control_count, error);
    if (status != GPUD_OK)
        return status;
    if (params->slots > SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: up to %d are possible", params->slots,
                         SLOTS_MAX);
    if (!params->method)
        return GPUD_OK;
    for (size_t i = 0; gpud_capture_methods[i]; i++)
        if (strcmp(gpud_capture_methods[i]->name, params->method) == 0)
            return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "\"%s\" is not a capture method: use dmabuf, userptr or mmap", params->method);
}

static enum gpud_status read_params(struct gpud_capture_params *own,
                                    const struct gpud_capture_params *params,
                                    struct gpud_error *error)
{
    enum gpud_status status =
        gpud_sized_read(own, sizeof(*own), params, GPUD_END_OF(struct gpud_capture_params, address),
                        "gpud_capture_params", error);
    return status == GPUD_OK ? check_params(own, error) : status;
}

enum gpud_status gpud_capture_open(struct gpud_device *device, struct gpud_device *host,
                                   const struct gpud_capture_params *params,
                                   const struct gpud_v4l2_system *system,
                                   struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_capture_params own;
    enum gpud_status status = read_params(&own, params, error);
    if (status != GPUD_OK)
        return status;
    params = &own;
    struct gpud_capture *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a capture");
    gpud_lock_init(&made->lock, GPUD_RANK_CAPTURE_INFO);
    gpud_lock_init(&made->node_lock, GPUD_RANK_CAPTURE_NODE);
    gpud_lock_init(&made->interrupt.lock, GPUD_RANK_CAPTURE_INTERRUPT);
    made->context = host->context;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    made->slots = params->slots ? params->slots : SLOTS_DEFAULT;
    made->direct = params->require_direct;
    gpud_print(made->method, "%s", params->method ? params->method : "");
    gpud_print(made->info.path, "none");
    made->info.media.picture.rate.den = 1;
    made->node.system = system;
    made->node.fd = -1;
    gpud_print(made->node.path, "%s", params->address + strlen(SCHEME));
    gpud_print(made->card.home, "%s", made->node.path);
    gpud_print(made->wanted.input, "%s", params->input ? params->input : "");

    made->watch_fd = made->card.nodes_fd = made->timer_fd = made->wanted.next_input = -1;
    made->interrupt.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->interrupt.fd < 0)
        status = gpud_fail_errno(error, "cannot create an eventfd");
    if (!gpud_controls_keep(&made->wanted.controls, params->controls, params->control_count))
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for controls");
    if (status == GPUD_OK)
        status = gpud_v4l2_open(&made->node, error);
    if (status == GPUD_OK)
        status = gpud_capture_set_up(made, error);
    if (status != GPUD_OK) {
        gpud_capture_destroy(&made);
        return status;
    }
    made->card.known = made->node;
    gpud_print(made->info.device, "%s", device->info.name);
    gpud_input_set(&made->node, &made->signal.now);
    gpud_print(made->info.driver, "%s", made->node.driver);
    gpud_print(made->info.card, "%s", made->node.card);
    *capture = made;
    return GPUD_OK;
}

enum gpud_status gpud_capture_create(struct gpud_context *context,
                                     const struct gpud_capture_params *params,
                                     struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_capture_params own;
    struct gpud_device *device = NULL, *host = NULL;
    enum gpud_status status = read_params(&own, params, error);
    char reason[GPUD_REASON_MAX] = "", pci[GPUD_SYSFS_PCI_MAX] = "";
    if (status == GPUD_OK) {
        const char *node = own.address + strlen(SCHEME);
        gpud_capture_find_card(node, pci, sizeof(pci));
        status = gpud_device_open_near(context, own.device, pci, node, &device, reason, error);
    }
    if (status == GPUD_OK)
        status = gpud_device_open(context, "host", &host, error);
    if (status == GPUD_OK)
        status = gpud_capture_open(device, host, &own, &gpud_v4l2_kernel, capture, error);
    if (status == GPUD_OK)
        gpud_print((*capture)->info.device_reason, "%s", reason);
    gpud_device_close(&device);
    gpud_device_close(&host);
    return status;
}

void gpud_capture_destroy(struct gpud_capture **capture)
{
    if (!capture || !*capture)
        return;
    struct gpud_capture *gone = *capture;
    *capture = NULL;
    gpud_capture_drop_ring(gone, true, NULL);
    gpud_v4l2_close(&gone->node);
    gpud_capture_unwatch_folders(gone);
    gpud_capture_disarm(gone);
    gpud_controls_clear(&gone->wanted.controls);
    gpud_fd_close(&gone->watch_fd);
    gpud_fd_close(&gone->interrupt.fd);
    gpud_device_close(&gone->device);
    gpud_device_close(&gone->host);
    gpud_lock_destroy(&gone->interrupt.lock);
    gpud_lock_destroy(&gone->node_lock);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

/* --- from any thread ----------------------------------------------------------------------- */

void gpud_capture_get_info(struct gpud_capture *capture, struct gpud_capture_info *info)
{
    gpud_lock_take(&capture->lock);
    gpud_sized_copy(info, info->size, &capture->info, sizeof(capture->info));
    gpud_lock_release(&capture->lock);
}

void gpud_capture_interrupt(struct gpud_capture *capture, bool interrupted)
{
    /* Set before the eventfd is written, cleared after it is drained: when it is readable, it is
     * set. */
    uint64_t count = 1;
    ssize_t done = 0;
    gpud_lock_take(&capture->interrupt.lock);
    if (interrupted && !atomic_exchange(&capture->interrupt.set, true))
        done = write(capture->interrupt.fd, &count, sizeof(count));
    else if (!interrupted && atomic_load(&capture->interrupt.set))
        done = read(capture->interrupt.fd, &count, sizeof(count));
    atomic_store(&capture->interrupt.set, interrupted);
    gpud_lock_release(&capture->interrupt.lock);
    (void)done; /* cannot fail: an eventfd of 0 takes 1, and one of 1 returns it */
}
