/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much of each device each process holds. Without GPUD_FAKE_CUDA_ACCOUNT the table is this
 * process's own; with it, a file that all share. A process that ended holds nothing: each has
 * locked a byte of the file, and the kernel drops that lock with the process, also across PID
 * namespaces. */

#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 8192
#define OWNERS 1024
#define FIRST_OWNER_BYTE ((off_t)1 << 30)

/* One process's hold of one backing; memory that several hold counts once. */
struct entry {
    unsigned long long key, size;
    int physical;
    int owner; /* from 1; 0: a free entry */
};

static struct entry *table;
static int file = -1, own = 1;

static bool lock(off_t byte, short type, bool wait)
{
    struct flock region = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(file, wait ? F_SETLKW : F_SETLK, &region) == 0;
}

static void lock_table(void)
{
    if (file >= 0)
        lock(0, F_WRLCK, true);
}

static void unlock_table(void)
{
    if (file >= 0)
        lock(0, F_UNLCK, false);
}

static bool lives(int owner)
{
    if (owner == own)
        return true;
    struct flock region = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST_OWNER_BYTE + owner, .l_len = 1};
    return fcntl(file, F_GETLK, &region) == 0 && region.l_type != F_UNLCK;
}

static void drop_dead(void)
{
    for (struct entry *entry = table; entry < table + ENTRIES; entry++) {
        if (entry->owner && !lives(entry->owner))
            entry->owner = 0;
    }
}

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "fake libcuda: GPUD_FAKE_CUDA_ACCOUNT: %s %s: %m\n", what, path);
    abort();
}

static void open_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", strchr(name, '/') ? "" : "/dev/shm/", name);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, ENTRIES * sizeof *table))
        fail("cannot make", path);
    table = mmap(NULL, ENTRIES * sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (table == MAP_FAILED)
        fail("cannot map", path);
    lock_table();
    /* An entry with this number is of a dead process, to be dropped before the number is ours. */
    own = 0;
    drop_dead();
    for (own = 1; own <= OWNERS && !lock(FIRST_OWNER_BYTE + own, F_WRLCK, false); own++)
        ;
    unlock_table();
    if (own > OWNERS)
        fail("too many processes in", path);
}

void account_open(void)
{
    const char *name = getenv("GPUD_FAKE_CUDA_ACCOUNT");
    if (name && *name) {
        open_file(name);
        return;
    }
    table = calloc(ENTRIES, sizeof *table);
    if (!table)
        abort();
}

void account_add(const struct backing *backing)
{
    lock_table();
    struct entry *entry = table;
    while (entry < table + ENTRIES && entry->owner)
        entry++;
    if (entry < table + ENTRIES)
        *entry = (struct entry){.key = backing->key,
                                .size = backing->size,
                                .physical = fake.physical[backing->device],
                                .owner = own};
    unlock_table();
}

void account_remove(const struct backing *backing)
{
    lock_table();
    for (struct entry *entry = table; entry < table + ENTRIES; entry++) {
        if (entry->owner == own && entry->key == backing->key) {
            entry->owner = 0;
            break;
        }
    }
    unlock_table();
}

static bool counted_before(const struct entry *entry)
{
    for (const struct entry *other = table; other < entry; other++) {
        if (other->owner && other->key == entry->key)
            return true;
    }
    return false;
}

size_t account_used(CUdevice device)
{
    size_t used = 0;
    lock_table();
    if (file >= 0)
        drop_dead();
    for (const struct entry *entry = table; entry < table + ENTRIES; entry++) {
        if (entry->owner && entry->physical == fake.physical[device] && !counted_before(entry))
            used += entry->size;
    }
    unlock_table();
    return used;
}
