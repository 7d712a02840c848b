/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An owner whose device keeps a copy: what a WaitSignal brings into it is what the writers wrote,
 * and nothing else of it changes. */

#define CL_ENABLE_BETA_EXTENSIONS /* command buffers, in newer headers */
#include "common.h"

#include <CL/cl_ext.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 4 * 4096 };

static struct cl owner, writer;
static cl_mem bus, external;
static struct bus_address address;
static unsigned char expected[SIZE]; /* the owner's copy */
static cl_uint value;

static void own_fill(size_t offset, size_t size, unsigned char byte)
{
    fill(owner.queue, bus, offset, size, byte);
    memset(expected + offset, byte, size);
}

static void compare_after_wait(const char *what)
{
    static unsigned char back[SIZE];
    OK(owner.wait_signal(owner.queue, bus, value, 0, NULL, NULL));
    read_back(owner.queue, bus, SIZE, back);
    for (size_t i = 0; i < SIZE; i++)
        if (back[i] != expected[i])
            FAIL("%s: byte %zu is %#x, not %#x", what, i, back[i], expected[i]);
}

static void signal_next(cl_command_queue queue, cl_mem to)
{
    OK(writer.write_signal(queue, to, ++value, 0, 0, NULL, NULL));
    OK(clFlush(queue));
}

static void write_range(cl_command_queue queue, cl_mem to, size_t offset, size_t size,
                        unsigned char byte)
{
    fill(queue, to, offset, size, byte);
    memset(expected + offset, byte, size);
}

static void ranges(void)
{
    own_fill(0, SIZE, 0xAA);
    write_range(writer.queue, external, 5000, 100, 0x11);
    write_range(writer.queue, external, 63, 66, 0x12); /* across words of the map */
    write_range(writer.queue, external, SIZE - 1, 1, 0x13);
    signal_next(writer.queue, external);
    compare_after_wait("own writes around the writer's");

    own_fill(4990, 120, 0x00); /* also over what came */
    write_range(writer.queue, external, 5000, 100, 0x11);
    signal_next(writer.queue, external);
    compare_after_wait("the same bytes again");

    own_fill(0, SIZE, 0xBB);
    signal_next(writer.queue, external);
    compare_after_wait("a signal without data");
    OK(owner.wait_signal(owner.queue, bus, 1, 0, NULL, NULL));
    own_fill(100, 100, 0xBC);
    compare_after_wait("an old signal again");

    for (unsigned i = 0; i < 500; i++) /* many, and of uneven lengths and distances */
        write_range(writer.queue, external, i * 31 + i % 7, 1 + i % 11, (unsigned char)i);
    signal_next(writer.queue, external);
    compare_after_wait("many ranges");
}

static void rectangles(void)
{
    static unsigned char from[SIZE];
    cl_int status;
    for (size_t i = 0; i < SIZE; i++)
        from[i] = (unsigned char)(i * 7 + 1);
    own_fill(0, SIZE, 0xCC);
    const size_t origin[3] = {5, 3, 1}, region[3] = {33, 7, 2}, zero[3] = {0, 0, 0};
    OK(clEnqueueWriteBufferRect(writer.queue, external, CL_TRUE, origin, zero, region, 128, 4096,
                                33, 231, from, 0, NULL, NULL));
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 7; y++)
            memcpy(expected + (z + 1) * 4096 + (y + 3) * 128 + 5, from + z * 231 + y * 33, 33);
    signal_next(writer.queue, external);
    compare_after_wait("WriteBufferRect");

    AUTO(drop_mem)
    cl_mem plain = clCreateBuffer(writer.context, CL_MEM_COPY_HOST_PTR, SIZE, from, &status);
    OK(status);
    const size_t narrow[3] = {100, 40, 1}, at[3] = {17, 0, 0};
    OK(clEnqueueCopyBufferRect(writer.queue, plain, external, zero, at, narrow, 100, 0, 300, 0, 0,
                               NULL, NULL));
    for (size_t y = 0; y < 40; y++)
        memcpy(expected + y * 300 + 17, from + y * 100, 100);
    OK(clEnqueueCopyBuffer(writer.queue, plain, external, 7, 13000, 501, 0, NULL, NULL));
    memcpy(expected + 13000, from + 7, 501);
    OK(clEnqueueWriteBuffer(writer.queue, external, CL_TRUE, 14000, 77, from, 0, NULL, NULL));
    memcpy(expected + 14000, from, 77);
    signal_next(writer.queue, external);
    compare_after_wait("CopyBufferRect, CopyBuffer and WriteBuffer");
}

static void image(void)
{
    static unsigned char pixels[16 * 8 * 4];
    cl_bool images = CL_FALSE;
    cl_int status;
    OK(clGetDeviceInfo(writer.devices[0], CL_DEVICE_IMAGE_SUPPORT, sizeof images, &images, NULL));
    if (!images)
        return;
    memset(pixels, 0x21, sizeof pixels);
    cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 8};
    cl_mem from =
        clCreateImage(writer.context, CL_MEM_COPY_HOST_PTR, &format, &desc, pixels, &status);
    OK(status);
    const size_t origin[3] = {0, 0, 0}, region[3] = {16, 4, 1};
    own_fill(0, SIZE, 0xCD);
    OK(clEnqueueCopyImageToBuffer(writer.queue, from, external, origin, region, 300, 0, NULL,
                                  NULL));
    memset(expected + 300, 0x21, 16 * 4 * 4);
    signal_next(writer.queue, external);
    compare_after_wait("CopyImageToBuffer");
    clReleaseMemObject(from);
}

/* A kernel that has the buffer as an argument counts as writing all of it; one that had, does not.
 */
static void kernels(void)
{
    const char *source = "__kernel void put(__global uint *out) { out[get_global_id(0)] = 7; }";
    const size_t words = SIZE / 4;
    cl_int status;
    AUTO(drop_mem) cl_mem plain = new_plain(&writer, SIZE);
    cl_program program = clCreateProgramWithSource(writer.context, 1, &source, NULL, &status);
    OK(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "put", &status);
    OK(status);
    OK(clSetKernelArg(kernel, 0, sizeof external, &external));
    OK(clEnqueueNDRangeKernel(writer.queue, kernel, 1, NULL, &words, NULL, 0, NULL, NULL));
    own_fill(0, SIZE, 0xDD);
    for (size_t i = 0; i < SIZE; i++)
        expected[i] = i % 4 ? 0 : 7;
    signal_next(writer.queue, external);
    compare_after_wait("a kernel");
    OK(clSetKernelArg(kernel, 0, sizeof plain, &plain));
    OK(clEnqueueNDRangeKernel(writer.queue, kernel, 1, NULL, &words, NULL, 0, NULL, NULL));
    own_fill(0, SIZE, 0xDE);
    signal_next(writer.queue, external);
    compare_after_wait("a kernel that no longer has the buffer");
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

/* What another queue wrote is sent by the signal that comes after it, whenever that is. */
static void two_queues(void)
{
    for (int out_of_order = 0; out_of_order < 2; out_of_order++) {
        AUTO(drop_queue) cl_command_queue other = new_queue(&writer, 0, out_of_order);
        AUTO(drop_event) cl_event go = new_user_event(&writer), written = NULL;
        unsigned char byte = 0x31;
        own_fill(0, SIZE, 0xE0);
        OK(clEnqueueFillBuffer(other, external, &byte, 1, 200, 50, 1, &go, &written));
        OK(clFlush(other));
        write_range(writer.queue, external, 100, 50, 0x32);
        signal_next(writer.queue, external); /* before the other queue's */
        OK(clFinish(writer.queue));
        OK(clSetUserEventStatus(go, CL_COMPLETE));
        OK(writer.write_signal(writer.queue, external, ++value, 0, 1, &written, NULL));
        memset(expected + 200, byte, 50);
        compare_after_wait("a command of another queue");
        own_fill(0, SIZE, 0xE1);
        write_range(other, external, 300, 50, 0x33);
        signal_next(other, external);
        compare_after_wait("the other queue's own signal");
    }
}

static void two_writers(void)
{
    AUTO(close_cl) struct cl second = writer;
    open_context(&second);
    AUTO(drop_mem) cl_mem theirs = new_external(&second, SIZE, &address);
    write_range(writer.queue, external, 0, SIZE / 2, 0x41);
    signal_next(writer.queue, external);
    OK(clFinish(writer.queue));
    write_range(second.queue, theirs, SIZE / 2, SIZE / 2, 0x42);
    signal_next(second.queue, theirs);
    compare_after_wait("a half each");
    own_fill(10, 10, 0x43);
    write_range(writer.queue, external, 30, 10, 0x44);
    signal_next(writer.queue, external);
    compare_after_wait("the first writer again");
}

/* A capture card, or a program without the layer, stores unknown bytes, so the whole buffer counts.
 */
static void foreign_writer(void)
{
    unsigned char *map = map_object(&address, SIZE + PAGE);
    for (int round = 0; round < 2; round++) {
        own_fill(0, SIZE, 0x51);
        memset(map, 0x52 + round, SIZE);
        memset(expected, 0x52 + round, SIZE);
        __atomic_store_n((cl_uint *)(void *)(map + SIZE), ++value, __ATOMIC_RELEASE);
        compare_after_wait("a writer without the layer");
    }
    munmap(map, SIZE + PAGE);
    own_fill(0, SIZE, 0x54);
    write_range(writer.queue, external, 1, 2, 0x55);
    signal_next(writer.queue, external);
    compare_after_wait("and one with it again");
}

/* ---- another process, whose device may work in place ---- */

struct note {
    struct bus_address address;
    cl_uint value;
};

static void child_writes(void)
{
    struct note note;
    AUTO(close_cl) struct cl cl = open_cl(120);
    take(STDIN_FILENO, &note, sizeof note);
    AUTO(drop_mem) cl_mem far = new_external(&cl, SIZE, &note.address);
    fill(cl.queue, far, 7000, 900, 0x61);
    OK(cl.write_signal(cl.queue, far, note.value, 0, 0, NULL, NULL));
    OK(clFinish(cl.queue));
}

static void another_process(bool in_place)
{
    struct child child = start(in_place ? "writes-in-place" : "writes");
    own_fill(0, SIZE, 0x60);
    struct note note = {address, ++value};
    give(child.to, &note, sizeof note);
    memset(expected + 7000, 0x61, 900);
    compare_after_wait(in_place ? "a process that writes in place" : "another process");
    join(&child);
}

/* As it was, and as it is from version 0.9.5 of the extension on. Headers and runtime may be of
 * different versions, so the device is asked for its own. */
typedef cl_int(CL_API_CALL *fill_plain)(cl_command_buffer_khr, cl_command_queue, cl_mem,
                                        const void *, size_t, size_t, size_t, cl_uint,
                                        const cl_sync_point_khr *, cl_sync_point_khr *,
                                        cl_mutable_command_khr *);
typedef cl_int(CL_API_CALL *fill_with_properties)(cl_command_buffer_khr, cl_command_queue,
                                                  const void *, cl_mem, const void *, size_t,
                                                  size_t, size_t, cl_uint,
                                                  const cl_sync_point_khr *, cl_sync_point_khr *,
                                                  cl_mutable_command_khr *);

static cl_int record_fill(void *record, cl_command_buffer_khr commands, const unsigned char *byte)
{
    cl_name_version extensions[256];
    size_t size = 0;
    OK(clGetDeviceInfo(writer.devices[0], CL_DEVICE_EXTENSIONS_WITH_VERSION, sizeof extensions,
                       extensions, &size));
    for (size_t i = 0; i < size / sizeof extensions[0]; i++)
        if (strcmp(extensions[i].name, "cl_khr_command_buffer") == 0 &&
            extensions[i].version >= CL_MAKE_VERSION(0, 9, 5))
            return ((fill_with_properties)record)(commands, NULL, NULL, external, byte, 1, 0, SIZE,
                                                  0, NULL, NULL, NULL);
    return ((fill_plain)record)(commands, NULL, external, byte, 1, 0, SIZE, 0, NULL, NULL, NULL);
}

static void *find(const char *name)
{
    return clGetExtensionFunctionAddressForPlatform(writer.platform, name);
}

/* Commands that the layer does not see: from the look-up on, a signal sends the whole buffer. */
static void command_buffer(void)
{
    clCreateCommandBufferKHR_fn create_commands =
        (clCreateCommandBufferKHR_fn)find("clCreateCommandBufferKHR");
    void *record = find("clCommandFillBufferKHR");
    clFinalizeCommandBufferKHR_fn finalize =
        (clFinalizeCommandBufferKHR_fn)find("clFinalizeCommandBufferKHR");
    clEnqueueCommandBufferKHR_fn enqueue =
        (clEnqueueCommandBufferKHR_fn)find("clEnqueueCommandBufferKHR");
    clReleaseCommandBufferKHR_fn release =
        (clReleaseCommandBufferKHR_fn)find("clReleaseCommandBufferKHR");
    if (!create_commands || !record || !finalize || !enqueue || !release)
        return;
    cl_int status;
    unsigned char byte = 0x71;
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(writer.context, writer.devices[0], NULL, &status);
    OK(status);
    cl_command_buffer_khr commands = create_commands(1, &queue, NULL, &status);
    OK(status);
    OK(record_fill(record, commands, &byte));
    OK(finalize(commands));
    OK(enqueue(1, &queue, commands, 0, NULL, NULL));
    memset(expected, byte, SIZE);
    signal_next(queue, external);
    compare_after_wait("a command buffer");
    OK(clFinish(queue));
    release(commands);
    clReleaseCommandQueue(queue);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        if (strcmp(argv[1], "writes-in-place") == 0)
            unsetenv("GPUDIRECT_DGMA_COPY");
        child_writes();
        return 0;
    }
    owner = open_cl(120);
    writer = owner;
    open_context(&writer);
    bus = new_resident(&owner, SIZE, &address);
    external = new_external(&writer, SIZE, &address);
    ranges();
    rectangles();
    image();
    kernels();
    two_queues();
    two_writers();
    foreign_writer();
    another_process(false);
    another_process(true);
    command_buffer();
    clReleaseMemObject(external);
    clReleaseMemObject(bus);
    close_cl(&writer);
    close_cl(&owner);
    return 0;
}
