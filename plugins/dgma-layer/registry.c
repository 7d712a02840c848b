/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bus addresses. Any device on the bus can use a real one, any process of the same user one of
 * ours: the address names a file in /dev/shm that holds the surface and, behind it, the marker
 * page. The file is not kept open, so that the number of buffers is limited by memory, not by
 * descriptors.
 *
 *   bus address  | slot (20 bits, random) | offset (32 bits) |
 *   file         /dev/shm/gpudirect-dgma-UID-SLOT
 *
 * An owner whose device keeps a copy has a second file beside it (commands.c). A lock shows that
 * a slot's owner lives (signal.c); a slot without one was left by a dead process, and is removed.
 * Files are not trusted: owner, mode and size are checked before anything is mapped. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layer.h"

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

/* Retried after a failure, which may have been a temporary lack of descriptors. */
static bool dgma_slot_ready(void)
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

static bool set_lock(uint32_t slot, short type)
{
    if (!dgma_slot_ready())
        return false;
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(lock_fd, F_SETLK, &lock) == 0;
}

static bool dgma_slot_own(uint32_t slot)
{
    return set_lock(slot, F_RDLCK);
}

static bool dgma_slot_claim_dead(uint32_t slot)
{
    return set_lock(slot, F_WRLCK);
}

static void dgma_slot_give(uint32_t slot)
{
    set_lock(slot, F_UNLCK);
}

static bool dgma_slot_is_owned(uint32_t slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return dgma_slot_ready() && fcntl(lock_fd, F_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
}

/* === written ================================================================================= */
/* The written map: a file beside the object's own, /dev/shm/gpudirect-dgma-UID-SLOT-written, made
 * by an owner that keeps a copy. Any number of writers set bits; only the owner clears them. */

struct map_name {
    char text[96];
};

static struct map_name written_name_of(const char *path)
{
    struct map_name name;
    snprintf(name.text, sizeof name.text, "%s-written", path);
    return name;
}

static size_t surface_of(const struct dgma_object *object)
{
    return object->total - DGMA_PAGE;
}

static size_t size_of(const struct dgma_object *object)
{
    size_t size = sizeof(struct dgma_written) + surface_of(object) / 8;
    return (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
}

static int map_file(struct dgma_object *object, int fd)
{
    void *map = mmap(NULL, size_of(object), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return errno;
    object->written = map;
    return 0;
}

static int dgma_written_create(struct dgma_object *object, const char *path)
{
    struct map_name name = written_name_of(path);
    unlink(name.text); /* the slot is ours, so an existing file is stale */
    int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = fchmod(fd, 0600) ? errno : 0;
    if (!error)
        do
            error = posix_fallocate(fd, 0, (off_t)size_of(object));
        while (error == EINTR);
    if (!error)
        error = map_file(object, fd);
    close(fd);
    if (error)
        unlink(name.text);
    return error;
}

static void dgma_written_open(struct dgma_object *object, const char *path)
{
    struct stat st;
    int fd = open(written_name_of(path).text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0 && st.st_size == (off_t)size_of(object))
        map_file(object, fd);
    close(fd);
}

static void dgma_written_unlink(const char *path)
{
    unlink(written_name_of(path).text);
}

static void dgma_written_close(struct dgma_object *object)
{
    if (object->written)
        munmap(object->written, size_of(object));
}

/* === registry ================================================================================ */

#define FOLDER "/dev/shm"
#define SLOT_SHIFT \
    32 /* objects are smaller than the gap between two slots: ranges cannot overlap */
#define SLOT_FIRST 0x100u
#define SLOT_COUNT (0x100000u - SLOT_FIRST) /* addresses from 2^40 to 2^52, as physical ones go */
#define CREATE_ATTEMPTS 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_object *owned;
static _Atomic pid_t owner; /* the process of `owned`, which a forked child inherits */
static pthread_once_t swept_at_start = PTHREAD_ONCE_INIT;

struct name {
    char text[64];
};

static uint32_t slot_of(cl_ulong address)
{
    return (uint32_t)(address >> SLOT_SHIFT);
}

static struct name registry_name_of(cl_ulong base)
{
    struct name name;
    snprintf(name.text, sizeof name.text, FOLDER "/gpudirect-dgma-%u-%05" PRIx32,
             (unsigned)geteuid(), slot_of(base));
    return name;
}

/* Whether the open file is the one with that name, and accessible only to this user. */
static bool is_ours(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_uid == geteuid() && (opened.st_mode & 077) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* Under the lock. */
static struct dgma_object *owned_at(cl_ulong base)
{
    struct dgma_object *object = owned;
    while (object && object->base != base)
        object = object->next;
    return object;
}

static void remove_files(cl_ulong base)
{
    unlink(registry_name_of(base).text);
    dgma_written_unlink(registry_name_of(base).text);
}

/* Removes the slot's files if its owner is dead. */
static bool reclaim(cl_ulong base)
{
    pthread_mutex_lock(&lock);
    /* Only one process can claim a slot, and a creator that loses this race sees that its file is
     * unlinked. */
    bool dead = !owned_at(base) && dgma_slot_claim_dead(slot_of(base));
    if (dead) {
        remove_files(base);
        dgma_slot_give(slot_of(base));
    }
    pthread_mutex_unlock(&lock);
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

static bool is_swept(int fd)
{
    struct stat st;
    return fstat(fd, &st) || st.st_nlink == 0;
}

/* Opens a fresh, empty file in a slot that this process owns; the base address is its name. */
static int create_file(cl_ulong *base, struct name *name)
{
    for (int i = 0; i < CREATE_ATTEMPTS; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -1;
        *base = (cl_ulong)(SLOT_FIRST + random % SLOT_COUNT) << SLOT_SHIFT;
        *name = registry_name_of(*base);
        int fd = open(name->text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd < 0)
            continue;
        bool taken = dgma_slot_own(slot_of(*base));
        int reason = errno;
        if (taken && fchmod(fd, 0600) == 0 && !is_swept(fd))
            return fd;
        /* Before the lock is taken, another process may consider the file stale. */
        if (taken)
            dgma_slot_give(slot_of(*base));
        if (is_ours(fd, name->text))
            unlink(name->text);
        close(fd);
        errno = reason;
        if (!taken && reason != EAGAIN && reason != EACCES)
            return -1;
    }
    errno = EAGAIN;
    return -1;
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

static bool map_object(struct dgma_object *object, int fd, size_t total)
{
    void *map = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return false;
    object->map = map;
    object->total = total;
    return true;
}

static struct dgma_object *object_new(void)
{
    struct dgma_object *object = calloc(1, sizeof *object);
    if (object)
        atomic_init(&object->refs, 1);
    return object;
}

/* Takes the slot and the file; under the lock, so that no thread here reclaims it meanwhile. */
static int registry_publish(struct dgma_object *object, struct name *name)
{
    pthread_mutex_lock(&lock);
    int fd = dgma_slot_ready() ? create_file(&object->base, name) : -1;
    if (fd >= 0) {
        object->owner_pid = getpid();
        atomic_store(&owner, object->owner_pid);
        object->next = owned;
        owned = object;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

struct dgma_object *dgma_object_create(size_t surface, bool keeps_copy)
{
    pthread_once(&swept_at_start, sweep);
    size_t total = surface + DGMA_PAGE;
    if (exceeds_limit(total))
        return NULL;
    struct dgma_object *object = object_new();
    if (!object)
        return NULL;
    struct name name;
    int fd = registry_publish(object, &name);
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
    pthread_mutex_lock(&lock); /* against find_owned */
    if (!error && !map_object(object, fd, total))
        error = errno;
    pthread_mutex_unlock(&lock);
    close(fd);
    if (!error && keeps_copy)
        error = dgma_written_create(object, name.text);
    if (!error)
        return object;
    dgma_log("no %zu bytes of shared memory: %s%s", total, strerror(error), advice(error));
    dgma_object_unpublish(object);
    if (object->map)
        munmap(object->map, object->total);
    free(object);
    return NULL;
}

static struct dgma_object *find_owned(cl_ulong base)
{
    pthread_mutex_lock(&lock);
    struct dgma_object *object = owned_at(base);
    if (object && object->map) /* else it is being created, and its address is still unknown */
        atomic_fetch_add(&object->refs, 1);
    else
        object = NULL;
    pthread_mutex_unlock(&lock);
    return object;
}

static bool is_owned_elsewhere(cl_ulong base)
{
    pthread_mutex_lock(&lock);
    bool is = dgma_slot_is_owned(slot_of(base));
    pthread_mutex_unlock(&lock);
    return is;
}

/* Why the file may not be imported; NULL: it may, and `*total` is its size. */
static const char *registry_refuse(int fd, cl_ulong base, size_t *total)
{
    struct stat st;
    if (!is_ours(fd, registry_name_of(base).text))
        return "it is not a file of this user alone";
    if (!is_owned_elsewhere(base)) {
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

static struct dgma_object *registry_import(cl_ulong base)
{
    struct name name = registry_name_of(base);
    int fd = open(name.text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        dgma_log("a bus address that no buffer of this user has (%s): was it made resident, and "
                 "does its owner live?%s",
                 strerror(errno), advice(errno));
        return NULL;
    }
    size_t total = 0;
    const char *reason = registry_refuse(fd, base, &total);
    struct dgma_object *object = reason ? NULL : object_new();
    if (object && !map_object(object, fd, total)) {
        free(object);
        object = NULL;
    }
    if (object) {
        object->base = base;
        dgma_written_open(object, name.text);
    } else {
        dgma_log("a bus address cannot be mapped: %s%s", reason ? reason : strerror(errno),
                 reason ? "" : advice(errno));
    }
    close(fd);
    return object;
}

struct dgma_object *dgma_object_find(cl_ulong address, size_t *offset)
{
    pthread_once(&swept_at_start, sweep);
    cl_ulong base = address >> SLOT_SHIFT << SLOT_SHIFT;
    struct dgma_object *object = find_owned(base);
    if (!object)
        object = registry_import(base);
    if (object && address - base >= object->total) {
        dgma_log("a bus address behind the end of its buffer");
        dgma_object_unref(object);
        return NULL;
    }
    if (object)
        *offset = (size_t)(address - base);
    return object;
}

void dgma_object_unpublish(struct dgma_object *object)
{
    /* A forked child releases inherited objects, whose names belong to its parent; the lock may
     * have been held at the fork. */
    if (object->owner_pid != getpid())
        return;
    pthread_mutex_lock(&lock);
    struct dgma_object **at = &owned;
    while (*at && *at != object)
        at = &(*at)->next;
    if (*at) {
        *at = object->next;
        remove_files(object->base);
        dgma_slot_give(slot_of(object->base));
    }
    pthread_mutex_unlock(&lock);
}

void dgma_object_unref(struct dgma_object *object)
{
    if (!object || atomic_fetch_sub(&object->refs, 1) > 1)
        return;
    dgma_written_close(object);
    munmap(object->map, object->total);
    free(object);
}

void dgma_registry_finish(void)
{
    /* Before the lock, which a thread that a forked child lacks may have held. */
    if (atomic_load(&owner) != getpid())
        return;
    pthread_mutex_lock(&lock);
    for (struct dgma_object *object = owned; object; object = object->next)
        if (object->owner_pid == getpid())
            remove_files(object->base);
    pthread_mutex_unlock(&lock);
}
