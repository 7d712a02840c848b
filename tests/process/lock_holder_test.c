/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A submit takes the sender's lock, so nothing slow may happen under it. Every kind of newcomer
 * connects, leaves and lies, while each call of the C library that blocks, maps or frees, each
 * line of the log and each callback checks that its thread does not hold the lock. */
#include "actor.h"
#include "stream/sender/sender.h"

#include <poll.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>

static pthread_mutex_t *_Atomic watched;
static _Thread_local unsigned held;
static atomic_ulong calls;

#define WRAP(type, name, parameters, arguments) \
    typeof(name) __real_##name, __wrap_##name;  \
    type __wrap_##name parameters               \
    {                                           \
        expect_no_lock(#name);                  \
        return __real_##name arguments;         \
    }

static void expect_no_lock(const char *what)
{
    atomic_fetch_add(&calls, 1);
    CHECK(held == 0, "%s() while the sender's lock is held", what);
}

typeof(pthread_mutex_lock) __real_pthread_mutex_lock, __wrap_pthread_mutex_lock;
typeof(pthread_mutex_trylock) __real_pthread_mutex_trylock, __wrap_pthread_mutex_trylock;
typeof(pthread_mutex_unlock) __real_pthread_mutex_unlock, __wrap_pthread_mutex_unlock;

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int result = __real_pthread_mutex_lock(mutex);
    held += mutex == atomic_load(&watched);
    return result;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    int result = __real_pthread_mutex_trylock(mutex);
    held += result == 0 && mutex == atomic_load(&watched);
    return result;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    held -= held && mutex == atomic_load(&watched);
    return __real_pthread_mutex_unlock(mutex);
}

WRAP(int, accept4, (int fd, struct sockaddr *name, socklen_t *size, int flags),
     (fd, name, size, flags))
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAP(int, ppoll,
     (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
     (fds, count, timeout, mask))
WRAP(int, close, (int fd), (fd))
WRAP(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
WRAP(int, munmap, (void *at, size_t size), (at, size))
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, shutdown, (int fd, int how), (fd, how))

typeof(gpud_log_print) __real_gpud_log_print, __wrap_gpud_log_print;

void __wrap_gpud_log_print(const struct gpud_log *log, enum gpud_log_level level, const char *area,
                           const char *format, ...)
{
    char text[1024];
    va_list arguments;
    expect_no_lock("gpud_log_print");
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    __real_gpud_log_print(log, level, area, "%s", text);
}

static struct background background;

/* Every step of a receiver that then vanishes, and one that says goodbye. */
static void comers_and_goers(void)
{
    struct raw raw;
    for (int step = RAW_CONNECTED; step < RAW_STEPS; step++) {
        raw_open(&raw, BACKGROUND_ADDRESS, (enum raw_step)step);
        if (step % 2) {
            struct gpud_message bye = {.type = GPUD_MESSAGE_BYE};
            raw_send_message(raw.fd, &bye);
        }
        raw_close(&raw);
    }
}

/* Rings grow for the first of these, and are cleared for each. */
static void many_at_once(void)
{
    struct raw raw[12];
    for (int i = 0; i < 12; i++)
        raw_open(&raw[i], BACKGROUND_ADDRESS, RAW_STREAMING);
    for (int i = 0; i < 12; i++)
        raw_close(&raw[i]);
}

static void refusals(void)
{
    struct raw raw;
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
    message.refuse.epoch = raw.offer.epoch;
    strcpy(message.refuse.reason, "this route does not work");
    CHECK(raw_send_message(raw.fd, &message), "not sent");
    raw_wait_hangup(raw.fd, 20 * GPUD_SEC);
    raw_close(&raw);
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
    raw_accept(&raw, &message);
    message.accept.entries = UINT32_MAX;
    raw_send_message(raw.fd, &message);
    raw_wait_hangup(raw.fd, 20 * GPUD_SEC);
    raw_close(&raw);
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
    atomic_fetch_add(&raw.page->receiver.returned, 1000);
    raw_wait_hangup(raw.fd, 20 * GPUD_SEC);
    raw_close(&raw);
}

static void questions(void)
{
    for (int i = 0; i < 20; i++) {
        struct gpud_channel_list *channels;
        WORKS(
            gpud_channel_list_create(BACKGROUND_ADDRESS, 20 * GPUD_SEC, &channels, NULL, NULL, &e));
        gpud_channel_list_destroy(&channels);
        gpud_sender_list_links(background.sender, NULL, 0);
    }
}

static void new_formats(void)
{
    for (int i = 0; i < 5; i++) {
        background_configure(&background);
        background_goes_on(&background);
    }
}

static void watch(void)
{
    atomic_store(&watched, &background.sender->lock.mutex);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"from here on the lock is watched", watch},
        {"receivers come and go", comers_and_goers},
        {"many at once", many_at_once},
        {"refusals and lies", refusals},
        {"questions", questions},
        {"new formats", new_formats},
    };
    int result = background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    SAY("%lu calls without the lock", atomic_load(&calls));
    return result;
}
