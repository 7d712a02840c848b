/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* resident DEVICE: a driver that takes too long to give memory its bus address. The test stands
 * between the core and that driver (the linker's --wrap) and holds its answer back. */
#include "conformance.h"

#include <CL/cl.h>
#include <string.h>

#define SIZE 65536

typedef cl_int(CL_API_CALL *make_resident_fn)(cl_command_queue queue, cl_uint count,
                                              cl_mem *memories, cl_bool blocking, void *addresses,
                                              cl_uint events, const cl_event *after,
                                              cl_event *event);
static make_resident_fn make_resident;
static bool holding;
static cl_event gate, answer; /* of the call that is held */

static cl_int CL_API_CALL make_resident_late(cl_command_queue queue, cl_uint count,
                                             cl_mem *memories, cl_bool blocking, void *addresses,
                                             cl_uint events, const cl_event *after, cl_event *event)
{
    if (!holding)
        return make_resident(queue, count, memories, blocking, addresses, events, after, event);
    cl_context context;
    cl_int code;
    CHECK(!gate && events == 0 && !blocking, "another call than the one that is known");
    clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
    gate = clCreateUserEvent(context, &code);
    CHECK(gate, "no user event: %d", code);
    code = make_resident(queue, count, memories, blocking, addresses, 1, &gate, event);
    if (code == CL_SUCCESS) {
        answer = *event;
        clRetainEvent(answer);
    }
    return code;
}

void *__real_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name);
void *__wrap_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name);
void *__wrap_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    void *found = __real_clGetExtensionFunctionAddressForPlatform(platform, name);
    if (!found || strcmp(name, "clEnqueueMakeBuffersResidentAMD") != 0)
        return found;
    make_resident = (make_resident_fn)found;
    return (void *)make_resident_late;
}

/* The driver writes its answer to the first address, though it is no longer read. Overwritten
 * memory and leaks are left to the sanitizers. */
static void answer_late(void)
{
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS, "the gate does not open");
    CHECK(clWaitForEvents(1, &answer) == CL_SUCCESS, "the driver does not answer");
    clReleaseEvent(answer);
    clReleaseEvent(gate);
}

int main(int argc, char **argv)
{
    struct gpud_memory *memory = NULL;
    CHECK(argc == 2, "usage: resident <device>");
    say_device(argv[1]);
    struct side side = side_open(argv[1]);
    CHECK(make_resident, "%s has no bus addresses", argv[1]);

    say("a driver that does not answer in time: an error, and no memory");
    holding = true;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status =
        gpud_memory_alloc_for(side.device, SIZE, GPUD_USAGE_TARGET, &memory, &error);
    CHECK(status == GPUD_IO && strstr(error.reason, "failed to make memory resident within"),
          "%s: %s", gpud_status_string(status), error.reason);
    CHECK(!memory && gate, "memory without an answer");

    say("it answers after all: the next one comes at once");
    holding = false;
    answer_late();
    WORKS(gpud_memory_alloc_for(side.device, SIZE, GPUD_USAGE_TARGET, &memory, &e));
    gpud_memory_unref(&memory);

    side_close(&side);
    return 0;
}
