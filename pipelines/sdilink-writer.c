/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Plays an SDI card that writes frames into a GPU's memory by itself (SDILink), with plain OpenCL
 * calls of cl_amd_bus_addressable_memory and nothing of gpudirect: a moving picture with a number.
 *
 *   cc sdilink-writer.c -lOpenCL -o sdilink-writer
 *   ./sdilink-writer NAME [FRAMES]        beside: pipelines/sdilink-receive NAME
 *
 * The receiver's addresses stand in the file NAME.target; <gpudirect/target.h> has the rules.
 * Either one may be started first, and again. On a machine without such a GPU both run with the
 * software layer: OPENCL_LAYERS=…/gpudirect/libgpudirect-dgma-layer.so. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* AMD's header shifts an int; this is the same bit. */
#define EXTERNAL_PHYSICAL_AMD ((cl_mem_flags)1 << 31)
#define PAGE ((uint64_t)4096)
#define SLOTS_MAX 32

typedef cl_int(CL_API_CALL *write_signal_fn)(cl_command_queue, cl_mem, cl_uint value,
                                             cl_ulong offset, cl_uint, const cl_event *,
                                             cl_event *);

struct slot {
    cl_mem memory;
    cl_ulong marker; /* of the marker in its page */
};

struct ring {
    int file; /* which it was read from: stays open, and says whether the receiver is there */
    unsigned width, height, stride, slots;
    uint64_t size, slot_size;
    double rate;
    struct slot slot[SLOTS_MAX];
    char *words; /* of the receiver */
    size_t words_size;
    _Atomic uint32_t *next;
};

static cl_context context;
static cl_command_queue queue;
static write_signal_fn write_signal;

static void die(const char *what, long number)
{
    fprintf(stderr, "sdilink-writer: %s (%ld)\n", what, number);
    exit(1);
}

static void nap(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)}, NULL);
}

/* --- the file ------------------------------------------------------------------------------ */

static const char *find(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, key, length) == 0 && line[length] == '=')
            return line + length + 1;
    return NULL;
}

static uint64_t number(const char *text, const char *key)
{
    const char *value = find(text, key);
    return value ? strtoull(value, NULL, 0) : 0;
}

static uint64_t slot_number(const char *text, unsigned slot, const char *what)
{
    char key[32];
    snprintf(key, sizeof(key), "slot%u.%s", slot, what);
    return number(text, key);
}

/* A receiver that lives holds a lock on its file. */
static int is_alive(int file)
{
    return flock(file, LOCK_SH | LOCK_NB) < 0;
}

/* The file of a receiver that lives, or -1. */
static int read_file(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t got = is_alive(file) ? read(file, text, size - 1) : 0;
    text[got > 0 ? got : 0] = '\0';
    if (got > 0)
        return file;
    close(file); /* and the lock, if it was stale */
    return -1;
}

/* --- the ring ------------------------------------------------------------------------------ */

static int map_words(struct ring *ring, const char *text)
{
    char path[64];
    const char *value = find(text, "words");
    if (!value)
        return 0;
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(value, "\n"), value);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return 0; /* the receiver has just gone */
    ring->words_size = (size_t)number(text, "words_size");
    ring->words = mmap(NULL, ring->words_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (ring->words == MAP_FAILED)
        die("the receiver's words cannot be mapped", 0);
    ring->next = (_Atomic uint32_t *)(void *)(ring->words + number(text, "next"));
    return 1;
}

/* The receiver's memory as a buffer of ours, which can only be written. The marker's page is mapped
 * with it. */
static void open_slot(struct ring *ring, unsigned i, uint64_t surface, uint64_t marker)
{
    cl_ulong bus[2] = {surface, marker & ~(PAGE - 1)};
    cl_int code;
    ring->slot[i].memory = clCreateBuffer(context, EXTERNAL_PHYSICAL_AMD | CL_MEM_WRITE_ONLY,
                                          (size_t)ring->slot_size, bus, &code);
    if (code == CL_SUCCESS) /* AMD wants this once */
        code = clEnqueueMigrateMemObjects(queue, 1, &ring->slot[i].memory, 0, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        die("the receiver's memory cannot be reached", code);
    ring->slot[i].marker = marker & (PAGE - 1);
}

static int open_ring(struct ring *ring, const char *text)
{
    const char *kind = find(text, "kind"), *format = find(text, "format");
    if (number(text, "gpudirect-target") != 1 || !kind || strncmp(kind, "bus-address\n", 12) != 0 ||
        !format || strncmp(format, "UYVY\n", 5) != 0)
        die("this plays a card that writes UYVY to bus addresses: receive with device=opencl:0", 0);
    ring->width = (unsigned)number(text, "width");
    ring->height = (unsigned)number(text, "height");
    ring->stride = (unsigned)number(text, "plane0.stride");
    ring->size = number(text, "size");
    ring->slots = (unsigned)number(text, "slots");
    ring->slot_size = number(text, "slot_size");
    unsigned long num = 50, den = 1;
    if (find(text, "framerate") && sscanf(find(text, "framerate"), "%lu/%lu", &num, &den) != 2)
        die("the framerate in the file is not two numbers, such as 50/1", 0);
    ring->rate = (double)num / (double)den;
    if (ring->slots < 1 || ring->slots > SLOTS_MAX || !map_words(ring, text))
        return 0;
    for (unsigned i = 0; i < ring->slots; i++)
        open_slot(ring, i, slot_number(text, i, "surface"), slot_number(text, i, "marker"));
    return 1;
}

static void close_ring(struct ring *ring)
{
    clFinish(queue);
    for (unsigned i = 0; i < ring->slots; i++)
        if (ring->slot[i].memory)
            clReleaseMemObject(ring->slot[i].memory);
    if (ring->words)
        munmap(ring->words, ring->words_size);
    close(ring->file);
}

/* --- the picture --------------------------------------------------------------------------- */

/* A grey ramp that moves, and in it the number in digits of 3 x 5 squares. */
static unsigned char luma(unsigned x, unsigned y, unsigned side, uint32_t frame)
{
    static const unsigned short digits[] = {075557, 026227, 071747, 071717, 055711,
                                            074717, 074757, 071111, 075757, 075717};
    static const uint32_t power[] = {10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};
    unsigned column = x / side, row = y / side;
    if (row >= 1 && row <= 5 && column >= 1 && column < 33 && (column - 1) % 4 < 3) {
        unsigned digit = frame / power[(column - 1) / 4] % 10;
        unsigned bit = (5 - row) * 3 + 2 - (column - 1) % 4;
        return digits[digit] >> bit & 1 ? 235 : 16;
    }
    return (unsigned char)(16 + (x + 2 * y + 4 * frame) % 220);
}

static void draw(unsigned char *picture, const struct ring *ring, uint32_t frame)
{
    unsigned side = ring->width / 34 ? ring->width / 34 : 1;
    for (unsigned y = 0; y < ring->height; y++) {
        unsigned char *row = picture + (size_t)y * ring->stride;
        for (unsigned x = 0; x < ring->width; x++) {
            row[2 * x] = 128;
            row[2 * x + 1] = luma(x, y, side, frame);
        }
    }
}

/* --- the card ------------------------------------------------------------------------------ */

/* Frame n to slot n % slots, and behind it n + 1 to the slot's marker. */
static void write_frame(struct ring *ring, const unsigned char *picture, uint32_t frame)
{
    const struct slot *slot = &ring->slot[frame % ring->slots];
    cl_int code = clEnqueueWriteBuffer(queue, slot->memory, CL_TRUE, 0, (size_t)ring->size, picture,
                                       0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = write_signal(queue, slot->memory, frame + 1, slot->marker, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clFinish(queue);
    if (code != CL_SUCCESS)
        die("a frame cannot be written", code);
}

/* Until the receiver is gone, or makes a new ring. */
static long play(struct ring *ring, long frames)
{
    unsigned char *picture = calloc(1, (size_t)ring->size);
    uint32_t frame = atomic_load(ring->next);
    if (!picture)
        die("out of memory", 0);
    for (; frames != 0 && is_alive(ring->file); frames -= frames > 0) {
        draw(picture, ring, frame);
        write_frame(ring, picture, frame++);
        nap(1 / ring->rate);
    }
    free(picture);
    return frames;
}

static void open_opencl(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int code = clGetPlatformIDs(1, &platform, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (code == CL_SUCCESS)
        context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        queue = clCreateCommandQueue(context, device, 0, &code);
    if (code != CL_SUCCESS)
        die("there is no OpenCL device", code);
    char extensions[8192] = "";
    clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof(extensions), extensions, NULL);
    if (strstr(extensions, "cl_amd_bus_addressable_memory"))
        write_signal = (write_signal_fn)clGetExtensionFunctionAddressForPlatform(
            platform, "clEnqueueWriteSignalAMD");
    if (!write_signal)
        die("the OpenCL device has no cl_amd_bus_addressable_memory: set OPENCL_LAYERS", 0);
}

int main(int argc, char **argv)
{
    char path[512], text[8192], usual[64];
    const char *directory = getenv("XDG_RUNTIME_DIR"), *own = getenv("GPUDIRECT_DIR");
    long frames = argc > 2 ? atol(argv[2]) : -1;
    if (argc < 2)
        die("usage: sdilink-writer NAME [FRAMES]", argc);
    snprintf(usual, sizeof(usual), "/run/user/%u", getuid());
    if (!directory && access(usual, W_OK) == 0)
        directory = usual;
    if (own && own[0])
        snprintf(path, sizeof(path), "%s/%s.target", own, argv[1]);
    else if (directory)
        snprintf(path, sizeof(path), "%s/gpudirect/%s.target", directory, argv[1]);
    else
        snprintf(path, sizeof(path), "/tmp/gpudirect-%u/%s.target", getuid(), argv[1]);
    open_opencl();
    while (frames != 0) {
        struct ring ring = {.file = read_file(path, text, sizeof(text))};
        if (ring.file >= 0) {
            if (open_ring(&ring, text))
                frames = play(&ring, frames);
            close_ring(&ring);
        }
        nap(0.02);
    }
    return 0;
}
