/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "common.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    exit(77);
}

struct cl open_cl(unsigned seconds)
{
    struct cl cl = {.queue = NULL};
    alarm(seconds);
    if (clGetPlatformIDs(1, &cl.platform, NULL) != CL_SUCCESS)
        skip("no OpenCL platform; install an ICD, for instance pocl-opencl-icd");
    if (clGetDeviceIDs(cl.platform, CL_DEVICE_TYPE_ALL, 8, cl.devices, &cl.num_devices) !=
        CL_SUCCESS)
        skip("the first OpenCL platform has no device");
    if (!getenv("OPENCL_LAYERS"))
        skip("OPENCL_LAYERS does not name the layer; run me through meson test");
    char list[8192];
    OK(clGetDeviceInfo(cl.devices[0], CL_DEVICE_EXTENSIONS, sizeof list, list, NULL));
    CHECK(strstr(list, "cl_amd_bus_addressable_memory"));
    cl.wait_signal = (wait_signal_fn)clGetExtensionFunctionAddressForPlatform(
        cl.platform, "clEnqueueWaitSignalAMD");
    cl.write_signal = (write_signal_fn)clGetExtensionFunctionAddressForPlatform(
        cl.platform, "clEnqueueWriteSignalAMD");
    cl.make_resident = (make_resident_fn)clGetExtensionFunctionAddressForPlatform(
        cl.platform, "clEnqueueMakeBuffersResidentAMD");
    CHECK(cl.wait_signal && cl.write_signal && cl.make_resident);
    open_context(&cl);
    return cl;
}

void open_context(struct cl *cl)
{
    cl_int status;
    cl->context = clCreateContext(NULL, cl->num_devices, cl->devices, NULL, NULL, &status);
    OK(status);
    cl->queue = new_queue(cl, 0, false);
}

void close_cl(struct cl *cl)
{
    OK(clFinish(cl->queue));
    OK(clReleaseCommandQueue(cl->queue));
    OK(clReleaseContext(cl->context));
}

cl_command_queue new_queue(struct cl *cl, cl_uint device, bool out_of_order)
{
    cl_int status;
    cl_queue_properties properties[] = {
        CL_QUEUE_PROPERTIES,
        CL_QUEUE_PROFILING_ENABLE | (out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0), 0};
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(cl->context, cl->devices[device], properties, &status);
    OK(status);
    return queue;
}

static cl_mem new_buffer(struct cl *cl, cl_mem_flags flags, size_t size, void *address)
{
    cl_int status;
    cl_mem mem = clCreateBuffer(cl->context, flags, size, address, &status);
    OK(status);
    return mem;
}

cl_int create(cl_context context, cl_mem_flags flags, size_t size, void *pointer)
{
    cl_int status = 1;
    cl_mem mem = clCreateBuffer(context, flags, size, pointer, &status);
    CHECK(!mem == (status != CL_SUCCESS));
    if (mem)
        clReleaseMemObject(mem);
    return status;
}

cl_mem new_plain(struct cl *cl, size_t size)
{
    return new_buffer(cl, CL_MEM_READ_WRITE, size, NULL);
}

cl_mem new_bus(struct cl *cl, size_t size)
{
    return new_buffer(cl, BUS_ADDRESSABLE, size, NULL);
}

cl_mem new_external(struct cl *cl, size_t size, const struct bus_address *address)
{
    struct bus_address copy = *address;
    cl_mem mem = new_buffer(cl, EXTERNAL_PHYSICAL, size, &copy);
    OK(clEnqueueMigrateMemObjects(cl->queue, 1, &mem, 0, 0, NULL, NULL));
    OK(clFinish(cl->queue)); /* other queues use it next */
    return mem;
}

struct bus_address resident(struct cl *cl, cl_mem bus)
{
    struct bus_address address = {1, 1};
    OK(cl->make_resident(cl->queue, 1, &bus, CL_TRUE, &address, 0, NULL, NULL));
    return address;
}

cl_mem new_resident(struct cl *cl, size_t size, struct bus_address *address)
{
    cl_mem bus = new_bus(cl, size);
    *address = resident(cl, bus);
    cl_mem self = new_external(cl, PAGE, address);
    OK(cl->write_signal(cl->queue, self, 0, 0, 0, NULL, NULL));
    OK(clFinish(cl->queue));
    OK(clReleaseMemObject(self));
    return bus;
}

struct pair open_pair(struct cl *owner, struct cl *writer, size_t size)
{
    struct pair pair;
    pair.bus = new_resident(owner, size, &pair.address);
    pair.external = new_external(writer, size, &pair.address);
    return pair;
}

void close_pair(struct pair *pair)
{
    drop_mem(&pair->external);
    drop_mem(&pair->bus);
}

void drop_mem(cl_mem *mem)
{
    OK(clReleaseMemObject(*mem));
}

void drop_queue(cl_command_queue *queue)
{
    OK(clReleaseCommandQueue(*queue));
}

void drop_event(cl_event *event)
{
    OK(clReleaseEvent(*event));
}

void fill(cl_command_queue queue, cl_mem mem, size_t offset, size_t size, unsigned char byte)
{
    OK(clEnqueueFillBuffer(queue, mem, &byte, 1, offset, size, 0, NULL, NULL));
}

void read_back(cl_command_queue queue, cl_mem mem, size_t size, void *data)
{
    OK(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, size, data, 0, NULL, NULL));
}

cl_event new_user_event(struct cl *cl)
{
    cl_int status;
    cl_event event = clCreateUserEvent(cl->context, &status);
    OK(status);
    return event;
}

cl_int event_status(cl_event event)
{
    cl_int status;
    OK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    return status;
}

cl_command_type event_type(cl_event event)
{
    cl_command_type type;
    OK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    return type;
}

bool event_done_within(cl_event event, unsigned ms)
{
    double end = now_us() + ms * 1e3;
    while (event_status(event) > CL_COMPLETE) {
        if (now_us() > end)
            return false;
        sleep_ms(1);
    }
    return true;
}

bool event_stays_open(cl_event event, unsigned ms)
{
    sleep_ms(ms);
    return event_status(event) > CL_COMPLETE;
}

double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

void name_object(const struct bus_address *address, char path[80])
{
    snprintf(path, 80, "/dev/shm/gpudirect-dgma-%u-%05llx", (unsigned)geteuid(),
             (unsigned long long)(address->surface >> 32));
}

bool object_exists(const struct bus_address *address)
{
    char path[80];
    name_object(address, path);
    return access(path, F_OK) == 0;
}

void *map_object(const struct bus_address *address, size_t size)
{
    char path[80];
    name_object(address, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    close(fd);
    return map;
}

void wait_until_gone(const struct bus_address *address)
{
    for (int i = 0; i < 10000 && object_exists(address); i++)
        sleep_ms(1);
    CHECK(!object_exists(address));
}

struct child start(const char *role)
{
    int to[2], from[2];
    CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/proc/self/exe", role, role, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    return (struct child){pid, to[1], from[0]};
}

void give(int fd, const void *note, size_t size)
{
    for (ssize_t n; size > 0; note = (const char *)note + n, size -= (size_t)n)
        CHECK((n = write(fd, note, size)) > 0);
}

void take(int fd, void *note, size_t size)
{
    for (ssize_t n; size > 0; note = (char *)note + n, size -= (size_t)n)
        CHECK((n = read(fd, note, size)) > 0);
}

void join(struct child *child)
{
    int status;
    CHECK(waitpid(child->pid, &status, 0) == child->pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("the child ended with status %#x", (unsigned)status);
    close(child->to);
    close(child->from);
}

void kill_child(struct child *child)
{
    CHECK(kill(child->pid, SIGKILL) == 0 && waitpid(child->pid, NULL, 0) == child->pid);
    close(child->to);
    close(child->from);
}
