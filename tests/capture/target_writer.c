/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "target_writer.h"

#include "support/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE UINT64_C(4096)
#define EXTERNAL_PHYSICAL ((cl_mem_flags)1 << 31)

struct bus_address {
    cl_ulong surface, marker;
};

typedef cl_int(CL_API_CALL *write_signal_fn)(cl_command_queue, cl_mem, cl_uint, cl_ulong, cl_uint,
                                             const cl_event *, cl_event *);
static write_signal_fn write_signal;

#define CL(call)                                            \
    do {                                                    \
        cl_int code_ = (call);                              \
        CHECK(code_ == CL_SUCCESS, "%s: %d", #call, code_); \
    } while (0)

/* --- OpenCL -------------------------------------------------------------------------------- */

static void open_opencl(struct writer *writer)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    CL(clGetPlatformIDs(1, &platform, NULL));
    CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    writer->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CL(code);
    writer->queue = clCreateCommandQueue(writer->context, device, 0, &code);
    CL(code);
    write_signal = (write_signal_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWriteSignalAMD");
    CHECK(write_signal, "no clEnqueueWriteSignalAMD");
}

static void open_slot(struct writer *writer, uint32_t slot, uint64_t surface, uint64_t marker)
{
    struct bus_address bus = {surface, marker & ~(PAGE - 1)};
    cl_int code;
    writer->external[slot] = clCreateBuffer(writer->context, EXTERNAL_PHYSICAL | CL_MEM_WRITE_ONLY,
                                            (size_t)writer->slot_size, &bus, &code);
    CL(code);
    CL(clEnqueueMigrateMemObjects(writer->queue, 1, &writer->external[slot], 0, 0, NULL, NULL));
    CL(clFinish(writer->queue));
    writer->marker_at[slot] = marker & (PAGE - 1);
}

/* --- opening ------------------------------------------------------------------------------- */

static void *map(struct writer *writer, unsigned which, int fd, size_t size)
{
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(data != MAP_FAILED, "cannot map what a writer was given");
    writer->maps[which] = data;
    writer->map_sizes[which] = size;
    return data;
}

static void set_words(struct writer *writer, char *words, uint64_t given_back, uint64_t next,
                      uint64_t stopped)
{
    writer->given_back = (_Atomic uint32_t *)(void *)(words + given_back);
    writer->next = (_Atomic uint32_t *)(void *)(words + next);
    writer->stopped = (_Atomic uint32_t *)(void *)(words + stopped);
    writer->number = atomic_load(writer->next);
}

void writer_open(struct writer *writer, struct gpud_target *target)
{
    struct gpud_target_info info = GPUD_INFO_INIT(info);
    gpud_target_get_info(target, &info);
    memset(writer, 0, sizeof(*writer));
    writer->slots = info.slots;
    writer->size = info.layout.size;
    writer->picture = malloc((size_t)writer->size);
    char *words = map(writer, 0, info.words_fd, 4096), *memory = NULL;
    CHECK(atomic_load((_Atomic uint32_t *)(void *)((char *)info.words + info.next_offset)) ==
              atomic_load((_Atomic uint32_t *)(void *)(words + info.next_offset)),
          "the words are not the words");
    set_words(writer, words, info.given_back_offset, info.next_offset, info.stopped_offset);
    for (uint32_t i = 0; i < writer->slots; i++) {
        const struct gpud_target_slot *slot = info.slot[i];
        CHECK_EQUAL(slot->first, i + 1);
        CHECK_EQUAL(slot->step, writer->slots);
        writer->slot_size = slot->bytes;
        writer->on_bus = slot->kind == GPUD_TARGET_BUS_ADDRESS;
        writer->on_host = slot->kind == GPUD_TARGET_HOST;
        writer->lines[i] = (_Atomic uint64_t *)(void *)(words + slot->lines_offset);
        if (writer->on_bus) {
            if (i == 0)
                open_opencl(writer);
            open_slot(writer, i, slot->surface_address, slot->marker_address);
            continue;
        }
        if (!memory)
            memory = map(writer, 1, slot->surface_fd,
                         (size_t)(slot->surface_offset + slot->bytes * info.slots));
        writer->surface[i] = (unsigned char *)memory + slot->surface_offset;
        writer->marker[i] = (_Atomic uint32_t *)(void *)(words + slot->marker_offset);
    }
}

/* The value of a key; it has to be there. */
static const char *get(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, length) == 0 && line[length] == '=')
            return line + length + 1;
    FAIL("there is no %s in the file", key);
}

static uint64_t get_number(const char *text, const char *key)
{
    return strtoull(get(text, key), NULL, 0);
}

static uint64_t get_slot(const char *text, uint32_t slot, const char *what)
{
    char key[32];
    snprintf(key, sizeof(key), "slot%u.%s", slot, what);
    return get_number(text, key);
}

static int open_path(const char *text, const char *key)
{
    char path[256];
    const char *value = get(text, key);
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(value, "\n"), value);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "cannot open %s: %m", path);
    return fd;
}

void writer_open_file(struct writer *writer, const char *path)
{
    char text[8192];
    FILE *file = fopen(path, "r");
    CHECK(file, "cannot open %s: %m", path);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    memset(writer, 0, sizeof(*writer));
    CHECK_EQUAL(get_number(text, "gpudirect-target"), 1);
    writer->slots = (uint32_t)get_number(text, "slots");
    writer->size = get_number(text, "size");
    writer->slot_size = get_number(text, "slot_size");
    writer->on_bus = strncmp(get(text, "kind"), "bus-address\n", 12) == 0;
    writer->on_host = !writer->on_bus;
    writer->paced = strncmp(get(text, "pace"), "paced\n", 6) == 0;
    writer->picture = malloc((size_t)writer->size);
    int fd = open_path(text, "words");
    char *words = map(writer, 0, fd, (size_t)get_number(text, "words_size")), *memory = NULL;
    close(fd);
    set_words(writer, words, get_number(text, "given_back"), get_number(text, "next"),
              get_number(text, "stopped"));
    if (writer->on_bus) {
        open_opencl(writer);
    } else {
        fd = open_path(text, "memory");
        memory = map(writer, 1, fd, (size_t)(writer->slot_size * writer->slots));
        close(fd);
    }
    for (uint32_t i = 0; i < writer->slots; i++) {
        uint64_t surface = get_slot(text, i, "surface"), marker = get_slot(text, i, "marker");
        writer->lines[i] = (_Atomic uint64_t *)(void *)(words + get_slot(text, i, "lines"));
        if (writer->on_bus) {
            open_slot(writer, i, surface, marker);
            continue;
        }
        writer->surface[i] = (unsigned char *)memory + surface;
        writer->marker[i] = (_Atomic uint32_t *)(void *)(words + marker);
    }
}

void writer_close(struct writer *writer)
{
    for (uint32_t i = 0; i < writer->slots && writer->on_bus; i++)
        clReleaseMemObject(writer->external[i]);
    if (writer->on_bus) {
        clReleaseCommandQueue(writer->queue);
        clReleaseContext(writer->context);
    }
    for (unsigned i = 0; i < 2; i++)
        if (writer->maps[i])
            munmap(writer->maps[i], writer->map_sizes[i]);
    free(writer->picture);
    memset(writer, 0, sizeof(*writer));
}

/* --- writing ------------------------------------------------------------------------------- */

void writer_draw(unsigned char *picture, uint64_t size, uint32_t number)
{
    for (uint64_t i = 0; i < size; i++)
        picture[i] = (unsigned char)(number * 37 + i * 11 + (i >> 8));
}

void writer_fill(struct writer *writer, uint32_t slot, uint32_t number, uint64_t bytes)
{
    writer_draw(writer->picture, writer->size, number);
    if (writer->on_bus)
        CL(clEnqueueWriteBuffer(writer->queue, writer->external[slot], CL_TRUE, 0, (size_t)bytes,
                                writer->picture, 0, NULL, NULL));
    else
        memcpy(writer->surface[slot], writer->picture, (size_t)bytes);
}

void writer_mark(struct writer *writer, uint32_t slot, uint32_t value)
{
    if (!writer->on_bus) {
        atomic_store_explicit(writer->marker[slot], value, memory_order_release);
        return;
    }
    CL(write_signal(writer->queue, writer->external[slot], value, writer->marker_at[slot], 0, NULL,
                    NULL));
    CL(clFinish(writer->queue));
}

void writer_announce(struct writer *writer, uint32_t lines)
{
    uint64_t value = (uint64_t)writer->number << 32 | lines;
    atomic_store_explicit(writer->lines[writer->number % writer->slots], value,
                          memory_order_release);
}

void writer_write(struct writer *writer)
{
    uint32_t slot = writer->number % writer->slots;
    writer_fill(writer, slot, writer->number, writer->size);
    writer_mark(writer, slot, writer->number + 1);
    writer->number++;
}

void writer_await(struct writer *writer)
{
    while (writer->number >= atomic_load(writer->given_back) + writer->slots)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}
