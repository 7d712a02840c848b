/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/farewell.h"

#include "base/process.h"
#include "wire/message.h"

#include <sys/mman.h>
#include <sys/socket.h>

#define PLACES 1024

/* An entry of the table: free, or a socket and what to do with it, or claimed by exit() for good.
 */
#define FREE 0
#define BUSY (-1)
#define ENTRY(fd, what) (((fd) + 1) << 1 | (int)(what))
#define FD_OF(entry) (((entry) >> 1) - 1)
#define WHAT_OF(entry) ((enum gpud_farewell)((entry)&1))

static atomic_int *_Atomic table;

static atomic_int *get_table(void)
{
    const size_t size = PLACES * sizeof(*table);
    atomic_int *found = atomic_load(&table);
    if (found)
        return found;
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    /* A child of fork() sees zeros. */
    if (madvise(made, size, MADV_WIPEONFORK) == 0 &&
        atomic_compare_exchange_strong(&table, &found, made))
        return made;
    munmap(made, size);
    return found;
}

void gpud_farewell_add(int fd, enum gpud_farewell what, atomic_int *place)
{
    atomic_int *places = get_table();
    atomic_store(place, -1);
    for (int i = 0; places && i < PLACES; i++) {
        int unused = FREE;
        if (atomic_compare_exchange_strong(&places[i], &unused, ENTRY(fd, what))) {
            atomic_store(place, i);
            return;
        }
    }
}

bool gpud_farewell_remove(atomic_int *place)
{
    int at = atomic_load(place);
    atomic_int *places = atomic_load(&table);
    if (at < 0)
        return true;
    int entry = atomic_load(&places[at]);
    while (entry != BUSY && !atomic_compare_exchange_weak(&places[at], &entry, FREE))
        ;
    if (entry == BUSY)
        return false;
    atomic_store(place, -1);
    return true;
}

static void say(int fd, enum gpud_farewell what, const uint8_t *bye, size_t size)
{
    if (what == GPUD_FAREWELL_UNLISTEN)
        shutdown(fd, SHUT_RDWR);
    else
        send(fd, bye, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_all(atomic_int *places, enum gpud_farewell what, const uint8_t *bye, size_t size)
{
    for (int i = 0; i < PLACES; i++) {
        int entry = atomic_load(&places[i]);
        if (entry != FREE && entry != BUSY && WHAT_OF(entry) == what &&
            atomic_compare_exchange_strong(&places[i], &entry, BUSY))
            say(FD_OF(entry), what, bye, size);
    }
}

/* Runs at exit(), and when the library is unloaded, which has no links by then. */
__attribute__((destructor)) static void say_farewell(void)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
    atomic_int *places = atomic_load(&table);
    uint8_t bytes[512];
    size_t size;
    gpud_process_note_ending();
    gpud_print(message.refuse.reason, "its process ended");
    if (!places || gpud_message_encode(&message, bytes, sizeof(bytes), &size, NULL) != GPUD_OK)
        return;
    say_all(places, GPUD_FAREWELL_UNLISTEN, bytes, size);
    say_all(places, GPUD_FAREWELL_BYE, bytes, size);
}
