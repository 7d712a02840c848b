/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waits for an event with a deadline, which OpenCL itself does not offer. */
#include "device/opencl/opencl.h"

#include "base/sleep.h"

#include <stdlib.h>

/* Some drivers (PoCL 3.1) call back for success only: failures have to be polled for. */
#define LOOK_AGAIN (100 * GPUD_MSEC)

/* Shared by the waiting thread and the driver's callback; the last to drop it frees it. */
struct wake {
    _Atomic uint32_t done;
    atomic_uint references;
};

static void wake_unref(struct wake *wake)
{
    if (atomic_fetch_sub_explicit(&wake->references, 1, memory_order_acq_rel) == 1)
        free(wake);
}

static void CL_CALLBACK wake_up(cl_event event, cl_int code, void *arg)
{
    struct wake *wake = arg;
    atomic_store_explicit(&wake->done, 1, memory_order_release);
    gpud_futex_wake(&wake->done);
    wake_unref(wake);
}

/* CL_COMPLETE, a state before it (positive), or the command's error (negative). */
cl_int gpud_opencl_state(cl_event event)
{
    cl_int state = CL_INVALID_EVENT;
    cl_int code =
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
    return code == CL_SUCCESS ? state : code;
}

/* As an error code -1 is CL_DEVICE_NOT_FOUND; as the state of a command it means that the driver
 * gives no reason. */
enum gpud_status gpud_opencl_say_failed(cl_int state, struct gpud_error *error)
{
    if (state == -1)
        return gpud_fail_native(error, GPUD_IO, "opencl", state,
                                "the queue failed, and its driver does not say why (-1)");
    return gpud_opencl_fail_as(error, GPUD_IO, state, "the queue failed");
}

/* The event's command has been flushed. GPUD_TIMEOUT changes nothing. */
enum gpud_status gpud_opencl_wait(cl_event event, int64_t deadline, struct gpud_error *error)
{
    cl_int state = gpud_opencl_state(event);
    if (state > CL_COMPLETE && gpud_now() < deadline) {
        struct wake *wake = malloc(sizeof(*wake));
        if (!wake)
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to wait for a queue");
        atomic_init(&wake->done, 0);
        atomic_init(&wake->references, 2);
        cl_int code = clSetEventCallback(event, CL_COMPLETE, wake_up, wake);
        if (code != CL_SUCCESS) {
            free(wake);
            return gpud_opencl_fail(error, code, "the driver cannot tell when a queue is done");
        }
        while ((state = gpud_opencl_state(event)) > CL_COMPLETE && gpud_now() < deadline) {
            int64_t look = gpud_deadline(LOOK_AGAIN);
            gpud_futex_wait(&wake->done, 0, look < deadline ? look : deadline);
            if (atomic_load_explicit(&wake->done, memory_order_acquire))
                break;
        }
        state = gpud_opencl_state(event);
        if (atomic_load_explicit(&wake->done, memory_order_acquire) && state > CL_COMPLETE)
            state =
                CL_COMPLETE; /* the callback says so; the event's state may follow a moment later */
        wake_unref(wake);
    }
    if (state < 0)
        return gpud_opencl_say_failed(state, error);
    if (state > CL_COMPLETE)
        return gpud_fail(error, GPUD_TIMEOUT, "the queue was not done by the deadline");
    return GPUD_OK;
}
