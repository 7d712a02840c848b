/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "hold.h"

#include "support/check.h"
#include "base/base.h"
#include "device/opencl/opencl.h"
#include "device/vulkan/vulkan.h"

#include <dlfcn.h>
#include <string.h>

struct conformance_hold {
    cl_event event;
    cl_event barrier; /* kept: PoCL 3.1 aborts when an event without references fails */
    struct gpud_memory *words;
    struct gpud_signal *signal;
    struct vulkan_timeline *timeline;
    struct vulkan_device *vulkan;
};

static void put_event(struct conformance_hold *hold, struct gpud_queue *queue)
{
    struct opencl_queue *opencl = queue->backend;
    cl_int code;
    hold->event = clCreateUserEvent(gpud_opencl_device(queue->device)->context, &code);
    CHECK(code == CL_SUCCESS, "clCreateUserEvent gives %d", code);
    CHECK(gpud_opencl_queue_begin(opencl, NULL) == GPUD_OK, "the queue has failed before");
    code = clEnqueueBarrierWithWaitList(opencl->queue, 1, &hold->event, &hold->barrier);
    CHECK(code == CL_SUCCESS, "clEnqueueBarrierWithWaitList gives %d", code);
    clRetainEvent(hold->barrier);
    gpud_opencl_queue_end(opencl, hold->barrier);
}

static void put_word(struct conformance_hold *hold, struct gpud_queue *queue)
{
    struct gpud_worker *later = &queue->device->context->later;
    void *page = aligned_alloc(4096, 4096);
    CHECK(page, "out of memory");
    /* A driver that frees waits for all queues, and blocks all other calls meanwhile;
     * frames are never waited for before they were sent, so that only a test can stop it for good.
     */
    for (int64_t deadline = gpud_deadline(10 * GPUD_SEC); !gpud_worker_is_idle(later);
         nanosleep(&(struct timespec){.tv_nsec = GPUD_MSEC}, NULL))
        CHECK(gpud_now() < deadline, "memory is not given back");
    WORKS(gpud_memory_wrap_host(queue->device, page, 4096, false, free, page, &hold->words, &e));
    WORKS(gpud_signal_create(hold->words, 64, &hold->signal, &e));
    WORKS(gpud_signal_wait_queue(hold->signal, 1, queue, &e));
}

/* Which the CPU raises. */
static void put_timeline(struct conformance_hold *hold, struct gpud_queue *queue)
{
    hold->vulkan = gpud_vulkan_device(queue->device);
    WORKS(gpud_vulkan_timeline_create(queue->device, &hold->timeline, &e));
    const struct vulkan_event raised = {hold->timeline, 1};
    WORKS(gpud_vulkan_queue_await(queue->device, queue->backend, &raised, &e));
}

static void raise_timeline(struct conformance_hold *hold)
{
    VkDevice device = hold->vulkan->device;
    PFN_vkSignalSemaphoreKHR raise =
        (PFN_vkSignalSemaphoreKHR)gpud_vk.GetDeviceProcAddr(device, "vkSignalSemaphoreKHR");
    const VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
        .semaphore = hold->timeline->semaphore,
        .value = 1,
    };
    VkResult result = raise(device, &info);
    CHECK(result == VK_SUCCESS, "vkSignalSemaphore gives %d", result);
    gpud_vulkan_timeline_unref(hold->vulkan, hold->timeline);
}

struct conformance_hold *conformance_hold_queue(struct gpud_queue *queue)
{
    if (queue->device->caps & GPUD_CAP_SYNCHRONOUS)
        return NULL;
    struct conformance_hold *hold = calloc(1, sizeof(*hold));
    CHECK(hold, "out of memory");
    if (queue->device->caps & GPUD_CAP_PAGE_SIGNALS)
        put_word(hold, queue);
    else if (strcmp(gpud_device_kind(queue->device), "vulkan") == 0)
        put_timeline(hold, queue);
    else
        put_event(hold, queue);
    return hold;
}

bool conformance_holds_alone(const struct gpud_device *device)
{
    return strcmp(gpud_device_kind(device), "vulkan") != 0 ||
           gpud_vulkan_device(device)->facts.lanes > 1;
}

void conformance_release_queue(struct conformance_hold *hold, bool broken)
{
    if (!hold)
        return;
    if (hold->signal) {
        CHECK(!broken, "a word cannot break a queue");
        WORKS(gpud_signal_poison(hold->signal, 1, &e));
        gpud_signal_destroy(&hold->signal);
        gpud_memory_unref(&hold->words);
    } else if (hold->timeline) {
        CHECK(!broken, "a timeline cannot break a queue");
        raise_timeline(hold);
    } else {
        cl_int code = clSetUserEventStatus(hold->event, broken ? CL_OUT_OF_RESOURCES : CL_COMPLETE);
        CHECK(code == CL_SUCCESS, "clSetUserEventStatus gives %d", code);
        clReleaseEvent(hold->event);
        clReleaseEvent(hold->barrier);
    }
    free(hold);
}

bool conformance_hold_copies(bool hold)
{
    int (*ask)(void *stream, unsigned hold) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return false;
    *(void **)&ask = dlsym(library, "fakeCudaHold");
    CHECK(!ask || ask(NULL, hold) == 0, "the fake driver holds no copies");
    dlclose(library);
    return ask != NULL;
}
