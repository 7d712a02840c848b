/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory with a bus address: objects that have one, and OpenCL's memory objects on them. */
#include "layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* === bus addresses =========================================================================== */
/* Bus addresses. Any device on the bus can use a real one, any process of the same user one of
 * ours: the address names a file in /dev/shm that holds the surface and, behind it, the marker
 * page. The file is not kept open, so that the number of buffers is limited by memory, not by
 * descriptors.
 *
 *   bus address  | slot (20 bits, random) | offset (32 bits) |
 *   file         /dev/shm/gpudirect-dgma-UID-SLOT
 *
 * An owner whose device keeps a copy has a second file beside it. A lock shows that a slot's owner
 * lives; a slot without one was left by a dead process, and is removed. Files are not trusted:
 * owner, mode and size are checked before anything is mapped. */

/* === slot ==================================================================================== */
/* Detects dead owners. Each user has an empty file for locks, /dev/shm/gpudirect-dgma-UID: the
 * process that owns slot N holds a read lock on byte N; a process that removes a dead owner's files
 * holds a write lock meanwhile. A process needs one descriptor for any number of buffers.
 *
 * These are POSIX record locks because they belong to the process: a forked helper has the
 * descriptor but not the lock, so the owner's death shows at once, also after SIGKILL, and across
 * containers that share /dev/shm, where pids are meaningless. flock and OFD locks belong to the
 * open file, and would persist in the helper. But with record locks, any close of that file by the
 * process drops all its locks. So it is opened only here, once, and never closed; and it is never
 * removed, because a lock on a removed file has no effect. */

static int lock_fd = -1;

/* Under owned_lock. false, errno: locks are not available, which is logged. Retried after a
 * failure, which may have been a temporary lack of descriptors. */
static bool slot_ready(void)
{
    if (lock_fd >= 0)
        return true;
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/gpudirect-dgma-%u", (unsigned)geteuid());
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        dgma_log("no bus addresses without the file %s for their locks: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        dgma_log("no bus addresses: %s is not a file of this user alone; remove it", path);
        errno = EPERM;
    } else {
        lock_fd = fd;
        return true;
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return false;
}

/* F_RDLCK takes the slot for this process, until it gives it back or ends. F_WRLCK claims a slot
 * without an owner exclusively, until it is given back; not for a slot that this process owns: the
 * call would succeed, and lose it. F_UNLCK gives it back. false, errno: it cannot; EAGAIN or
 * EACCES: another process has it. Under owned_lock. */
static bool slot_lock(uint32_t slot, short type)
{
    if (!slot_ready())
        return false;
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(lock_fd, F_SETLK, &lock) == 0;
}

/* === files =================================================================================== */

#define FOLDER "/dev/shm"
#define SLOT_SHIFT \
    32 /* objects are smaller than the gap between two slots: ranges cannot overlap */
#define SLOT_FIRST 0x100u
#define SLOT_COUNT (0x100000u - SLOT_FIRST) /* addresses from 2^40 to 2^52, as physical ones go */
#define CREATE_ATTEMPTS 16

struct name {
    char text[64];
};

static uint32_t slot_of(cl_ulong base)
{
    return (uint32_t)(base >> SLOT_SHIFT);
}

static struct name name_of(cl_ulong base, const char *end)
{
    struct name name;
    snprintf(name.text, sizeof name.text, FOLDER "/gpudirect-dgma-%u-%05" PRIx32 "%s",
             (unsigned)geteuid(), slot_of(base), end);
    return name;
}

static void remove_files(cl_ulong base)
{
    unlink(name_of(base, "").text);
    unlink(name_of(base, "-written").text);
}

/* Whether the open file is the one with that name, and accessible only to this user. */
static bool is_ours(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_uid == geteuid() && (opened.st_mode & 077) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* Allocates the memory now: if it were missing later, the first access would raise SIGBUS. */
static int reserve(int fd, size_t total)
{
    int error;
    do
        error = posix_fallocate(fd, 0, (off_t)total);
    while (error == EINTR);
    return error;
}

/* NULL, errno: it cannot be mapped. */
static void *map_shared(int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* === written ================================================================================= */
/* The written map: a file beside the object's own, /dev/shm/gpudirect-dgma-UID-SLOT-written, made
 * by an owner that keeps a copy. Any number of writers set bits; only the owner clears them. */

static size_t written_size(const struct dgma_object *object)
{
    size_t size = sizeof(struct dgma_written) + (object->total - DGMA_PAGE) / 8;
    return (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
}

/* Returns 0 or an errno. This process owns the object's slot. */
static int written_create(struct dgma_object *object)
{
    struct name name = name_of(object->base, "-written");
    unlink(name.text); /* the slot is ours, so an existing file is stale */
    int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = fchmod(fd, 0600) ? errno : reserve(fd, written_size(object));
    if (!error && !(object->written = map_shared(fd, written_size(object))))
        error = errno;
    close(fd);
    if (error)
        unlink(name.text);
    return error;
}

/* Without one, the owner works in place. */
static void written_open(struct dgma_object *object)
{
    struct stat st;
    int fd =
        open(name_of(object->base, "-written").text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0 && st.st_size == (off_t)written_size(object))
        object->written = map_shared(fd, written_size(object));
    close(fd);
}

/* === registry ================================================================================ */

static pthread_mutex_t owned_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_object *owned;
static _Atomic pid_t owner; /* the process of `owned`, which a forked child inherits */
static pthread_once_t swept_at_start = PTHREAD_ONCE_INIT;

/* Under the lock. */
static struct dgma_object *owned_at(cl_ulong base)
{
    struct dgma_object *object = owned;
    while (object && object->base != base)
        object = object->next;
    return object;
}

/* Removes the slot's files if its owner is dead. */
static bool reclaim(cl_ulong base)
{
    pthread_mutex_lock(&owned_lock);
    /* Only one process can claim a slot, and a creator that loses this race sees that its file is
     * unlinked. */
    bool dead = !owned_at(base) && slot_lock(slot_of(base), F_WRLCK);
    if (dead) {
        remove_files(base);
        slot_lock(slot_of(base), F_UNLCK);
    }
    pthread_mutex_unlock(&owned_lock);
    return dead;
}

static void sweep(void)
{
    char prefix[40];
    int length = snprintf(prefix, sizeof prefix, "gpudirect-dgma-%u-", (unsigned)geteuid());
    DIR *folder = opendir(FOLDER);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        unsigned slot;
        if (strncmp(entry->d_name, prefix, (size_t)length) == 0 &&
            sscanf(entry->d_name + length, "%5x", &slot) == 1 &&
            reclaim((cl_ulong)slot << SLOT_SHIFT))
            dgma_log("removed %s, left by a process that died", entry->d_name);
    }
    closedir(folder);
}

/* Opens a fresh, empty file in a slot that this process owns; the base address is its name. */
static int create_file(cl_ulong *base)
{
    for (int i = 0; i < CREATE_ATTEMPTS; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -1;
        *base = (cl_ulong)(SLOT_FIRST + random % SLOT_COUNT) << SLOT_SHIFT;
        struct name name = name_of(*base, "");
        int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd < 0)
            continue;
        bool taken = slot_lock(slot_of(*base), F_RDLCK);
        int reason = errno;
        struct stat st;
        /* Before the lock is taken, another process may consider the file stale, and remove it. */
        if (taken && fchmod(fd, 0600) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        if (taken)
            slot_lock(slot_of(*base), F_UNLCK);
        if (is_ours(fd, name.text))
            unlink(name.text);
        close(fd);
        errno = reason;
        if (!taken && reason != EAGAIN && reason != EACCES)
            return -1;
    }
    errno = EAGAIN;
    return -1;
}

/* Checks the limit of file sizes (ulimit -f), because exceeding it raises SIGXFSZ, which kills. */
static bool exceeds_limit(size_t total)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        total <= limit.rlim_cur)
        return false;
    dgma_log("no %zu bytes of shared memory: it is a file, and this process's files may have %llu; "
             "raise its limit (ulimit -f)",
             total, (unsigned long long)limit.rlim_cur);
    return true;
}

/* Advice on a failure, to be appended to its message. */
static const char *advice(int error)
{
    switch (error) {
    case ENOSPC:
        return "; make " FOLDER " larger (docker: --shm-size)";
    case EMFILE:
        return "; one descriptor is needed briefly, raise the limit (ulimit -n)";
    case ENOMEM:
        return "; or it has too many mappings, raise vm.max_map_count";
    default:
        return "";
    }
}

static struct dgma_object *object_new(void)
{
    struct dgma_object *object = calloc(1, sizeof *object);
    if (object)
        atomic_init(&object->refs, 1);
    return object;
}

/* Prevents new imports; existing mappings stay. */
static void object_unpublish(struct dgma_object *object)
{
    /* A forked child releases inherited objects, whose names belong to its parent; the lock may
     * have been held at the fork. */
    if (object->owner_pid != getpid())
        return;
    pthread_mutex_lock(&owned_lock);
    struct dgma_object **at = &owned;
    while (*at && *at != object)
        at = &(*at)->next;
    if (*at) {
        *at = object->next;
        remove_files(object->base);
        slot_lock(slot_of(object->base), F_UNLCK);
    }
    pthread_mutex_unlock(&owned_lock);
}

/* NULL is fine. */
static void object_unref(struct dgma_object *object)
{
    if (!object || atomic_fetch_sub(&object->refs, 1) > 1)
        return;
    if (object->written)
        munmap(object->written, written_size(object));
    munmap(object->map, object->total);
    free(object);
}

/* A surface of `surface` bytes (a multiple of a page) with a new address; `keeps_copy`: with a map
 * of written bytes. NULL: logged why. */
static struct dgma_object *object_create(size_t surface, bool keeps_copy)
{
    pthread_once(&swept_at_start, sweep);
    size_t total = surface + DGMA_PAGE;
    if (exceeds_limit(total))
        return NULL;
    struct dgma_object *object = object_new();
    if (!object)
        return NULL;
    pthread_mutex_lock(&owned_lock); /* so that no thread here reclaims the slot meanwhile */
    int fd = slot_ready() ? create_file(&object->base) : -1;
    if (fd >= 0) {
        object->owner_pid = getpid();
        atomic_store(&owner, object->owner_pid);
        object->next = owned;
        owned = object;
    }
    pthread_mutex_unlock(&owned_lock);
    if (fd < 0) {
        dgma_log("no shared memory for a bus address: %s in %s%s", strerror(errno), FOLDER,
                 advice(errno));
        free(object);
        return NULL;
    }
    int error = reserve(fd, total);
    if (error == ENOSPC) { /* perhaps due to new files of dead processes */
        sweep();
        error = reserve(fd, total);
    }
    object->total = total;
    pthread_mutex_lock(&owned_lock); /* against object_find() */
    if (!error && !(object->map = map_shared(fd, total)))
        error = errno;
    pthread_mutex_unlock(&owned_lock);
    close(fd);
    if (!error && keeps_copy)
        error = written_create(object);
    if (!error)
        return object;
    dgma_log("no %zu bytes of shared memory: %s%s", total, strerror(error), advice(error));
    object_unpublish(object);
    if (object->map)
        munmap(object->map, object->total);
    free(object);
    return NULL;
}

/* Why the file may not be imported; NULL: it may, and `*total` is its size. */
static const char *refuse_import(int fd, cl_ulong base, size_t *total)
{
    struct stat st;
    struct flock slot = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot_of(base), .l_len = 1};
    if (!is_ours(fd, name_of(base, "").text))
        return "it is not a file of this user alone";
    pthread_mutex_lock(&owned_lock);
    bool is_owned = slot_ready() && fcntl(lock_fd, F_GETLK, &slot) == 0 && slot.l_type == F_RDLCK;
    pthread_mutex_unlock(&owned_lock);
    if (!is_owned) {
        reclaim(base);
        return "the process that owned it is dead";
    }
    if (fstat(fd, &st) || st.st_size < (off_t)(2 * DGMA_PAGE) || st.st_size % (off_t)DGMA_PAGE ||
        st.st_size > (off_t)1 << SLOT_SHIFT)
        return "no buffer can have its size";
    /* Owners allocate all of it. In a sparse file an access could raise SIGBUS. */
    if (st.st_blocks * 512 < st.st_size)
        return "its memory is not fully allocated";
    *total = (size_t)st.st_size;
    return NULL;
}

static struct dgma_object *import_object(cl_ulong base)
{
    int fd = open(name_of(base, "").text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        dgma_log("a bus address that no buffer of this user has (%s): was it made resident, and "
                 "does its owner live?%s",
                 strerror(errno), advice(errno));
        return NULL;
    }
    size_t total = 0;
    const char *reason = refuse_import(fd, base, &total);
    struct dgma_object *object = reason ? NULL : object_new();
    if (object && (object->map = map_shared(fd, total))) {
        object->total = total;
        object->base = base;
        written_open(object);
    } else {
        dgma_log("a bus address cannot be mapped: %s%s", reason ? reason : strerror(errno),
                 reason ? "" : advice(errno));
        free(object);
        object = NULL;
    }
    close(fd);
    return object;
}

/* The object that contains `address`, of any process, and the offset. NULL: logged why. */
static struct dgma_object *object_find(cl_ulong address, size_t *offset)
{
    pthread_once(&swept_at_start, sweep);
    cl_ulong base = address >> SLOT_SHIFT << SLOT_SHIFT;
    pthread_mutex_lock(&owned_lock);
    struct dgma_object *object = owned_at(base);
    if (object && object->map) /* else it is being created, and its address is still unknown */
        atomic_fetch_add(&object->refs, 1);
    else
        object = NULL;
    pthread_mutex_unlock(&owned_lock);
    if (!object)
        object = import_object(base);
    if (object && address - base >= object->total) {
        dgma_log("a bus address behind the end of its buffer");
        object_unref(object);
        return NULL;
    }
    if (object)
        *offset = (size_t)(address - base);
    return object;
}

void dgma_registry_finish(void)
{
    /* Before the lock, which a thread that a forked child lacks may have held. */
    if (atomic_load(&owner) != getpid())
        return;
    pthread_mutex_lock(&owned_lock);
    for (struct dgma_object *object = owned; object; object = object->next)
        if (object->owner_pid == getpid())
            remove_files(object->base);
    pthread_mutex_unlock(&owned_lock);
}

/* === aperture ================================================================================ */
/* The aperture: a real card exposes only a small window of its memory on the bus, to which programs
 * size their rings. So the layer has one, too: GPUDIRECT_DGMA_APERTURE, per device and process. */

#define MIB ((size_t)1 << 20)
#define DEFAULT_APERTURE (96 * MIB)
#define LARGEST_APERTURE ((size_t)3072 * MIB) /* an object has to fit between two bus addresses */

struct dgma_aperture {
    cl_device_id device;
    size_t used;
    struct dgma_aperture *next;
};

static pthread_mutex_t aperture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_aperture *apertures;
static size_t limit;

/* "96M", "1G", "512K" or bytes; 0: not a size. */
static size_t parse_size(const char *text)
{
    static const char units[] = "KkMmGg";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-')
        return 0;
    const char *unit = *end ? strchr(units, *end) : NULL;
    size_t shift = unit ? 10 * (size_t)((unit - units) / 2 + 1) : 0;
    if (end[unit ? 1 : 0] != '\0' || number > LARGEST_APERTURE >> shift)
        return 0;
    return (size_t)number << shift;
}

static void read_limit(void)
{
    const char *text = getenv("GPUDIRECT_DGMA_APERTURE");
    limit = DEFAULT_APERTURE;
    if (!text || !*text)
        return;
    size_t size = parse_size(text);
    if (size > MIB)
        limit = size;
    else
        dgma_log("GPUDIRECT_DGMA_APERTURE=%s is not a size above 1M and up to 3G, such as 96M: 96M "
                 "is used",
                 text);
}

static void log_no_room(size_t size, size_t left)
{
    dgma_log("a bus addressable buffer of %zu bytes does not fit: the aperture has %zu of %zu "
             "bytes left and takes buffers up to %zu; use fewer or smaller buffers or raise "
             "GPUDIRECT_DGMA_APERTURE",
             size, left, limit, limit - MIB);
}

/* What a buffer takes of the aperture: its marker page, too. */
static size_t bytes_of(const struct dgma_buffer *buffer)
{
    return buffer->size + DGMA_PAGE;
}

/* Under the lock: the device's aperture. NULL: the buffer does not fit, and `*left` is raised to
 * the space that is left. */
static struct dgma_aperture *fitting(cl_device_id device, const struct dgma_buffer *buffer,
                                     size_t *left)
{
    if (!limit)
        read_limit();
    struct dgma_aperture *aperture = apertures;
    while (aperture && aperture->device != device)
        aperture = aperture->next;
    if (!aperture) {
        aperture = calloc(1, sizeof *aperture);
        if (!aperture)
            return NULL;
        aperture->device = device;
        aperture->next = apertures;
        apertures = aperture;
    }
    size_t free_bytes = limit - aperture->used;
    if (*left < free_bytes)
        *left = free_bytes;
    return buffer->size <= limit - MIB && bytes_of(buffer) <= free_bytes ? aperture : NULL;
}

bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device)
{
    size_t left = 0;
    pthread_mutex_lock(&aperture_lock);
    struct dgma_aperture *aperture = buffer->aperture ? NULL : fitting(device, buffer, &left);
    if (aperture) {
        aperture->used += bytes_of(buffer);
        buffer->aperture = aperture;
    }
    bool has = buffer->aperture != NULL;
    pthread_mutex_unlock(&aperture_lock);
    if (!has)
        log_no_room(buffer->size, left);
    return has;
}

/* In a context of several devices, the buffer's device is known only when a queue makes it
 * resident; until then it has to fit on one of them. */
static bool find_room(struct dgma_buffer *buffer)
{
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    cl_uint count = dgma_context_devices(buffer->context, devices);
    if (count == 1)
        return dgma_buffer_place(buffer, devices[0]);
    bool room = false;
    size_t left = 0;
    pthread_mutex_lock(&aperture_lock);
    for (cl_uint i = 0; i < count && !room; i++)
        room = fitting(devices[i], buffer, &left) != NULL;
    pthread_mutex_unlock(&aperture_lock);
    if (!room)
        log_no_room(buffer->size, left);
    return room;
}

/* Frees the buffer's share. */
static void leave(struct dgma_buffer *buffer)
{
    if (!buffer->aperture)
        return;
    pthread_mutex_lock(&aperture_lock);
    buffer->aperture->used -= bytes_of(buffer);
    pthread_mutex_unlock(&aperture_lock);
    buffer->aperture = NULL;
}

/* === buffer ================================================================================== */
/* The records of the two kinds of memory object. */

static bool flags_are_ours(cl_mem_flags flags)
{
    /* AMD's header sign-extends bit 31, so nothing above it may be looked at. */
    return (flags & (CL_MEM_BUS_ADDRESSABLE_AMD | CL_MEM_EXTERNAL_PHYSICAL_AMD)) != 0;
}

static struct dgma_table buffers = DGMA_TABLE_INIT;

struct dgma_buffer *dgma_buffer_get(cl_mem mem)
{
    return dgma_table_get(&buffers, mem);
}

/* === memobject =============================================================================== */
/* The memory objects of the extension. BUS: the layer's memory with a bus address, passed to the
 * driver. EXTERNAL: the memory of another buffer's bus address, mapped and passed to the driver.
 *
 * A CPU device works on that memory in place (CL_MEM_USE_HOST_PTR). Other devices' drivers handle
 * USE_HOST_PTR in unspecified ways, so these get plain memory, and the bytes are copied at each
 * signal (commands.c). */

#define HOST_POINTER_FLAGS (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)
#define HOST_ACCESS_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

static void buffer_destroy(struct dgma_buffer *buffer)
{
    leave(buffer);
    dgma_writes_free(buffer);
    dgma_bring_free(buffer);
    if (buffer->kind == DGMA_BUS && buffer->surface_object)
        object_unpublish(buffer->surface_object);
    object_unref(buffer->surface_object);
    object_unref(buffer->marker_object);
    free(buffer);
}

static void set_marker(struct dgma_buffer *buffer, struct dgma_object *object, size_t offset)
{
    buffer->marker_object = object;
    buffer->marker = (_Atomic uint32_t *)(void *)(object->map + offset);
    buffer->marker_room = object->total - offset;
}

static bool back_bus(struct dgma_buffer *buffer, const void *content, size_t content_size)
{
    struct dgma_object *object =
        find_room(buffer) ? object_create(buffer->size, buffer->copies) : NULL;
    if (!object)
        return false;
    buffer->surface_object = object;
    buffer->surface = object->map;
    atomic_fetch_add(&object->refs, 1);
    if (content)
        memcpy(object->map, content, content_size);
    set_marker(buffer, object, buffer->size);
    return true;
}

static bool back_external(struct dgma_buffer *buffer, const cl_bus_address_amd *address)
{
    size_t offset = 0, marker_offset = 0;
    buffer->surface_object = object_find(address->surface_bus_address, &offset);
    if (!buffer->surface_object)
        return false;
    size_t surface = buffer->surface_object->total - DGMA_PAGE;
    if (offset >= surface || buffer->size > surface - offset) {
        dgma_log("an external buffer of %zu bytes at %zu, but the surface has %zu bytes",
                 buffer->size, offset, surface);
        return false;
    }
    buffer->surface = buffer->surface_object->map + offset;
    struct dgma_object *object = object_find(address->marker_bus_address, &marker_offset);
    if (!object)
        return false;
    set_marker(buffer, object, marker_offset);
    return true;
}

static cl_mem_flags driver_flags(const struct dgma_buffer *buffer)
{
    cl_mem_flags flags = buffer->flags & ~CL_MEM_BUS_ADDRESSABLE_AMD;
    if (buffer->kind == DGMA_EXTERNAL) {
        /* Programs built with AMD's header pass bit 31 sign-extended to the upper half. */
        flags &= CL_MEM_EXTERNAL_PHYSICAL_AMD - 1;
        flags |= CL_MEM_WRITE_ONLY;
    }
    flags &= ~(cl_mem_flags)HOST_POINTER_FLAGS;
    /* The layer's copies at a signal are host accesses, even if the program excludes those. */
    return buffer->copies ? (flags & ~(cl_mem_flags)HOST_ACCESS_FLAGS) | CL_MEM_COPY_HOST_PTR
                          : flags | CL_MEM_USE_HOST_PTR;
}

static void CL_CALLBACK forget(cl_mem mem, void *user_data)
{
    /* For programs that never release the object, only its context. */
    dgma_table_take(&buffers, mem, user_data);
    buffer_destroy(user_data);
}

/* Passes the buffer's memory to the driver. On success the memory object owns the buffer. */
static cl_int adopt(struct dgma_buffer *buffer, cl_mem *mem_ret)
{
    cl_int status;
    cl_mem mem = dgma_next.clCreateBuffer(buffer->context, driver_flags(buffer), buffer->size,
                                          buffer->surface, &status);
    if (!mem)
        return status;
    if (!dgma_table_put(&buffers, mem, buffer)) {
        dgma_next.clReleaseMemObject(mem);
        return CL_OUT_OF_HOST_MEMORY;
    }
    status = dgma_next.clSetMemObjectDestructorCallback(mem, forget, buffer);
    if (status) {
        dgma_table_take(&buffers, mem, buffer);
        dgma_next.clReleaseMemObject(mem);
        return status;
    }
    *mem_ret = mem;
    return CL_SUCCESS;
}

static cl_int memobject_create(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                               cl_mem *mem)
{
    bool bus = (flags & CL_MEM_BUS_ADDRESSABLE_AMD) != 0;
    bool external = (flags & CL_MEM_EXTERNAL_PHYSICAL_AMD) != 0;
    const cl_bus_address_amd *address = host_ptr;
    if ((bus && external) || (bus && (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR))) ||
        (external && (flags & (HOST_POINTER_FLAGS | CL_MEM_READ_WRITE | CL_MEM_READ_ONLY))))
        return CL_INVALID_VALUE;
    if (size == 0 || size > SIZE_MAX - 2 * DGMA_PAGE)
        return CL_INVALID_BUFFER_SIZE;
    if (external ? !address || !address->surface_bus_address || !address->marker_bus_address ||
                       address->surface_bus_address % DGMA_PAGE ||
                       address->marker_bus_address % DGMA_PAGE
                 : !host_ptr != !(flags & CL_MEM_COPY_HOST_PTR))
        return CL_INVALID_HOST_PTR;
    struct dgma_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return CL_OUT_OF_HOST_MEMORY;
    buffer->kind = bus ? DGMA_BUS : DGMA_EXTERNAL;
    atomic_init(&buffer->refs, 1);
    buffer->flags = flags;
    buffer->context = context;
    buffer->size = (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
    buffer->copies = !dgma_context_get(context).host_memory;
    bool backed = bus ? back_bus(buffer, host_ptr, size) : back_external(buffer, address);
    cl_int status = backed ? adopt(buffer, mem) : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (status)
        buffer_destroy(buffer);
    return status;
}

/* Whether the driver makes the buffer: without the extension's flags, or with its own. */
static bool is_foreign(cl_context context, cl_mem_flags flags)
{
    cl_uint refs;
    return !flags_are_ours(flags) || !context ||
           dgma_next.clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof refs, &refs,
                                      NULL) ||
           dgma_context_get(context).native;
}

static cl_mem create_and_report(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                                cl_int *status_ret)
{
    cl_mem mem = NULL;
    cl_int status = memobject_create(context, flags, size, host_ptr, &mem);
    if (status_ret)
        *status_ret = status;
    return mem;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags,
                                                     size_t size, void *host_ptr, cl_int *status)
{
    if (is_foreign(context, flags))
        return dgma_next.clCreateBuffer(context, flags, size, host_ptr, status);
    return create_and_report(context, flags, size, host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL
create_buffer_with_properties(cl_context context, const cl_mem_properties *properties,
                              cl_mem_flags flags, size_t size, void *host_ptr, cl_int *status)
{
    if (is_foreign(context, flags))
        return dgma_next.clCreateBufferWithProperties(context, properties, flags, size, host_ptr,
                                                      status);
    if (properties && properties[0] != 0) {
        if (status)
            *status = CL_INVALID_PROPERTY;
        return NULL;
    }
    return create_and_report(context, flags, size, host_ptr, status);
}

static CL_API_ENTRY cl_int CL_API_CALL retain_mem_object(cl_mem mem)
{
    struct dgma_buffer *buffer = dgma_buffer_get(mem);
    cl_int status = dgma_next.clRetainMemObject(mem);
    if (buffer && status == CL_SUCCESS)
        atomic_fetch_add(&buffer->refs, 1);
    return status;
}

/* NVIDIA's driver calls `forget` late, when the handle may already belong to another object. So the
 * handle is removed here, and its share of the aperture freed, as the program expects; the buffer
 * itself is freed with the driver's object. */
static CL_API_ENTRY cl_int CL_API_CALL release_mem_object(cl_mem mem)
{
    struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (buffer && atomic_fetch_sub(&buffer->refs, 1) == 1) {
        dgma_table_take(&buffers, mem, buffer);
        leave(buffer);
        dgma_writes_free(buffer);
        dgma_bring_free(buffer);
    }
    return dgma_next.clReleaseMemObject(mem);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_sub_buffer(cl_mem mem, cl_mem_flags flags,
                                                         cl_buffer_create_type type,
                                                         const void *info, cl_int *status)
{
    if (!dgma_buffer_get(mem))
        return dgma_next.clCreateSubBuffer(mem, flags, type, info, status);
    if (status)
        *status = CL_INVALID_VALUE;
    return NULL;
}

static CL_API_ENTRY void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem,
                                                 cl_bool blocking, cl_map_flags flags,
                                                 size_t offset, size_t size, cl_uint num_events,
                                                 const cl_event *wait_list, cl_event *event,
                                                 cl_int *status)
{
    const struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (!buffer || buffer->kind != DGMA_EXTERNAL)
        return dgma_next.clEnqueueMapBuffer(queue, mem, blocking, flags, offset, size, num_events,
                                            wait_list, event, status);
    if (status)
        *status = CL_INVALID_OPERATION;
    return NULL;
}

static CL_API_ENTRY cl_int CL_API_CALL get_mem_object_info(cl_mem mem, cl_mem_info name,
                                                           size_t size, void *value,
                                                           size_t *size_ret)
{
    const struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (buffer && name == CL_MEM_FLAGS)
        return dgma_give(&buffer->flags, sizeof buffer->flags, size, value, size_ret);
    if (buffer && name == CL_MEM_HOST_PTR) {
        void *none = NULL; /* the program passed no memory */
        return dgma_give(&none, sizeof none, size, value, size_ret);
    }
    return dgma_next.clGetMemObjectInfo(mem, name, size, value, size_ret);
}

/* === image =================================================================================== */
/* Refuses images that are bus addressable or external, or made from such a buffer. */

static bool image_refuse(cl_context context, cl_mem_flags flags, const cl_image_desc *desc,
                         cl_int *status)
{
    cl_int reason = CL_SUCCESS;
    if (flags_are_ours(flags) && context && !dgma_context_get(context).native)
        reason = CL_INVALID_VALUE;
    else if (desc && desc->mem_object && dgma_buffer_get(desc->mem_object))
        reason = CL_INVALID_IMAGE_DESCRIPTOR;
    if (reason && status)
        *status = reason;
    return reason != CL_SUCCESS;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image(cl_context context, cl_mem_flags flags,
                                                    const cl_image_format *format,
                                                    const cl_image_desc *desc, void *host_ptr,
                                                    cl_int *status)
{
    return image_refuse(context, flags, desc, status)
               ? NULL
               : dgma_next.clCreateImage(context, flags, format, desc, host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_with_properties(
    cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
    const cl_image_format *format, const cl_image_desc *desc, void *host_ptr, cl_int *status)
{
    return image_refuse(context, flags, desc, status)
               ? NULL
               : dgma_next.clCreateImageWithProperties(context, properties, flags, format, desc,
                                                       host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_2d(cl_context context, cl_mem_flags flags,
                                                       const cl_image_format *format, size_t width,
                                                       size_t height, size_t pitch, void *host_ptr,
                                                       cl_int *status)
{
    return image_refuse(context, flags, NULL, status)
               ? NULL
               : dgma_next.clCreateImage2D(context, flags, format, width, height, pitch, host_ptr,
                                           status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_3d(cl_context context, cl_mem_flags flags,
                                                       const cl_image_format *format, size_t width,
                                                       size_t height, size_t depth,
                                                       size_t row_pitch, size_t slice_pitch,
                                                       void *host_ptr, cl_int *status)
{
    return image_refuse(context, flags, NULL, status)
               ? NULL
               : dgma_next.clCreateImage3D(context, flags, format, width, height, depth, row_pitch,
                                           slice_pitch, host_ptr, status);
}

void dgma_memory_install(cl_icd_dispatch *table)
{
    table->clCreateBuffer = create_buffer;
    table->clRetainMemObject = retain_mem_object;
    table->clReleaseMemObject = release_mem_object;
    table->clGetMemObjectInfo = get_mem_object_info;
    table->clCreateSubBuffer = create_sub_buffer;
    table->clEnqueueMapBuffer = map_buffer;
    if (table->clCreateBufferWithProperties)
        table->clCreateBufferWithProperties = create_buffer_with_properties;
    table->clCreateImage = create_image;
    table->clCreateImage2D = create_image_2d;
    table->clCreateImage3D = create_image_3d;
    if (table->clCreateImageWithProperties)
        table->clCreateImageWithProperties = create_image_with_properties;
}
