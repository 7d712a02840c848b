/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/events.h"

#include "wire/rdma/hint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static bool set_flags(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

enum gpud_status gpud_rdma_open_events(struct rdma_event_channel **events, struct gpud_error *error)
{
    char hint[GPUD_REASON_MAX];
    struct rdma_event_channel *made = rdma_create_event_channel();
    if (!made) {
        int number = errno;
        gpud_rdma_hint(NULL, hint, sizeof(hint));
        if (hint[0])
            return gpud_fail_native(error, number == EACCES ? GPUD_NO_ACCESS : GPUD_NO_DEVICE,
                                    "errno", number, "%s", hint);
        errno = number;
        return gpud_fail_errno(error, "cannot use the kernel's rdma_cm");
    }
    if (!set_flags(made->fd)) {
        enum gpud_status status = gpud_fail_errno(error, "cannot use the kernel's rdma_cm");
        rdma_destroy_event_channel(made);
        return status;
    }
    *events = made;
    return GPUD_OK;
}

bool gpud_rdma_next_event(struct rdma_event_channel *events, struct gpud_rdma_event *event)
{
    struct rdma_cm_event *got;
    int failed;
    do
        failed = rdma_get_cm_event(events, &got);
    while (failed && errno == EINTR);
    if (failed)
        return false;
    *event = (struct gpud_rdma_event){.type = got->event, .status = got->status, .id = got->id};
    bool carries = got->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                   got->event == RDMA_CM_EVENT_ESTABLISHED || got->event == RDMA_CM_EVENT_REJECTED;
    if (carries)
        event->queue_pair = got->param.conn.qp_num;
    if (carries && got->param.conn.private_data) {
        event->size = got->param.conn.private_data_len;
        memcpy(event->data, got->param.conn.private_data, event->size);
    }
    rdma_ack_cm_event(got);
    return true;
}

enum gpud_status gpud_rdma_fail_call(struct gpud_error *error, int number, const char *action,
                                     const char *where)
{
    char hint[GPUD_REASON_MAX];
    switch (number) {
    case ENODEV:
        gpud_rdma_hint(NULL, hint, sizeof(hint));
        return gpud_fail_native(error, GPUD_NO_DEVICE, "errno", number,
                                "cannot %s %s: the network interface of the route there has no "
                                "RDMA device; %s",
                                action, where,
                                hint[0] ? hint
                                        : "rdma link shows which have one, and soft-RoCE makes one "
                                          "of any other: rdma link add rxe1 type rxe netdev NAME");
    case ENETUNREACH:
    case EHOSTUNREACH:
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot %s %s: no route leads there (ip route get ADDRESS)", action,
                                where);
    case EADDRNOTAVAIL:
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot %s %s: it is not an address of this host (ip address)",
                                action, where);
    case ETIMEDOUT:
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot %s %s: no host has this address, or the host is down "
                                "(ping it)",
                                action, where);
    default:
        errno = number;
        return gpud_fail_errno(error, "cannot %s %s", action, where);
    }
}
