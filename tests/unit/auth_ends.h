/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both ends of a connection that prove a key, in one process, for tests that are linked with
 * --wrap=getrandom. */
#ifndef GPUD_TESTS_AUTH_ENDS_H
#define GPUD_TESTS_AUTH_ENDS_H

#include "support/check.h"
#include "wire/wire.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>

#define SIZE GPUD_AUTH_MESSAGE_SIZE
#define CONTEXT "10.0.0.1:7174 17 10.0.0.2:33000 18"

/* Where the fields are. */
enum { MAGIC = 0, VERSION = 4, TYPE = 6, LENGTH = 8, WHAT = 12, NONCE = 16, MAC = 48 };

/* --- the kernel's random numbers -------------------------------------------------------------- */

static enum { RANDOM, COUNTED, SHORT, FAILING } source;
static uint8_t counted; /* the next byte */

ssize_t __real_getrandom(void *data, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags)
{
    uint8_t *bytes = data;
    CHECK(flags & GRND_NONBLOCK, "it may wait for ever");
    switch (source) {
    case COUNTED:
        for (size_t i = 0; i < size; i++)
            bytes[i] = counted++;
        return (ssize_t)size;
    case SHORT:
        memset(data, 0, size);
        return (ssize_t)size - 1;
    case FAILING:
        errno = EAGAIN;
        return -1;
    default:
        return __real_getrandom(data, size, flags);
    }
}

/* --- two ends --------------------------------------------------------------------------------- */

static struct gpud_auth_key ours, theirs, longest;

/* Both ends of a connection, and what went over it. */
struct ends {
    struct gpud_auth sender, receiver;
    uint8_t challenge[SIZE], proof[SIZE], verdict[SIZE];
};

static void begin(struct ends *ends, const struct gpud_auth_key *sender,
                  const struct gpud_auth_key *receiver)
{
    memset(ends, 0, sizeof(*ends));
    WORKS(gpud_auth_begin(&ends->sender, GPUD_AUTH_SENDER, "10.0.0.2:33000", sender, CONTEXT,
                          strlen(CONTEXT), &e));
    WORKS(gpud_auth_begin(&ends->receiver, GPUD_AUTH_RECEIVER, "10.0.0.1:7174", receiver, CONTEXT,
                          strlen(CONTEXT), &e));
}

/* The bytes end at the end of memory: reading one too many crashes. */
static uint8_t *guard;

static enum gpud_status handle(struct gpud_auth *auth, const uint8_t *bytes, size_t size,
                               struct gpud_error *error)
{
    memcpy(guard - size, bytes, size);
    return gpud_auth_handle(auth, guard - size, size, error);
}

static void say(struct gpud_auth *auth, uint8_t bytes[SIZE])
{
    CHECK(gpud_auth_next(auth, bytes), "%s: nothing to be sent", auth->peer);
}

static void expect_silence(struct gpud_auth *auth)
{
    uint8_t bytes[SIZE];
    CHECK(!gpud_auth_next(auth, bytes), "%s: there is something to be sent", auth->peer);
}

/* Runs up to the PROOF, which is not delivered yet, or to the VERDICT. */
static void until_proof(struct ends *ends)
{
    say(&ends->sender, ends->challenge);
    WORKS(handle(&ends->receiver, ends->challenge, SIZE, &e));
    say(&ends->receiver, ends->proof);
}

static void until_verdict(struct ends *ends)
{
    until_proof(ends);
    WORKS(handle(&ends->sender, ends->proof, SIZE, &e));
    say(&ends->sender, ends->verdict);
}

/* It has failed permanently: even a valid message is no longer accepted. */
static void expect_failed(struct gpud_auth *auth, const uint8_t *right)
{
    CHECK(auth->state == GPUD_AUTH_FAILED && !auth->key, "state %d", auth->state);
    EXPECT(GPUD_PEER, "none was due", handle(auth, right, SIZE, &e));
    expect_silence(auth);
    CHECK(!gpud_auth_is_done(auth), "a failure became a success");
}

/* The sender refuses the PROOF, with this in its sentence, and so does the receiver then. */
static void expect_refused_proof(struct ends *ends, const uint8_t *proof, const char *text)
{
    uint8_t refusal[SIZE];
    EXPECT(GPUD_NO_ACCESS, text, handle(&ends->sender, proof, SIZE, &e));
    CHECK(!gpud_auth_is_done(&ends->sender), "refused and done");
    say(&ends->sender, refusal);
    CHECK(!gpud_auth_is_done(&ends->sender), "refused and done");
    expect_failed(&ends->sender, ends->proof);
    EXPECT(GPUD_NO_ACCESS, text, handle(&ends->receiver, refusal, SIZE, &e));
    expect_failed(&ends->receiver, ends->verdict);
}

/* The keys, and memory with an end. */
static void prepare(void)
{
    const size_t room = 4096;
    uint8_t *memory =
        mmap(NULL, 2 * room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + room, room, PROT_NONE) == 0,
          "no guarded memory");
    guard = memory + room;
    ours.size = theirs.size = 32;
    memcpy(ours.bytes, "0123456789abcdef0123456789abcdef", 32);
    memcpy(theirs.bytes, "0123456789abcdef0123456789abcdeg", 32);
    longest.size = GPUD_AUTH_KEY_MAX;
    for (size_t i = 0; i < longest.size; i++)
        longest.bytes[i] = (uint8_t)i;
}

#endif
