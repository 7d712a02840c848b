/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Authentication of peers on other hosts: only a peer with the key is admitted, whatever others
 * repeat or reflect, and both ends report what is wrong.
 *
 * bytes: messages that were cut, altered, forged, or are out of order: none completes the
 * authentication. */
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

__typeof__(getrandom) __real_getrandom, __wrap_getrandom;
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

/* Both with our key. */
static void begin_until_proof(struct ends *ends)
{
    begin(ends, &ours, &ours);
    until_proof(ends);
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

/* --- what works ------------------------------------------------------------------------------- */

static void expect_success(const struct gpud_auth_key *key)
{
    struct ends ends;
    uint8_t zeros[SIZE] = {0};
    begin(&ends, key, key);
    expect_silence(&ends.receiver);
    until_proof(&ends);
    expect_silence(&ends.sender);
    expect_silence(&ends.receiver);
    WORKS(handle(&ends.sender, ends.proof, SIZE, &e));
    CHECK(!gpud_auth_is_done(&ends.sender) && !gpud_auth_is_done(&ends.receiver), "too early");
    say(&ends.sender, ends.verdict);
    CHECK(gpud_auth_is_done(&ends.sender), "the sender is not done");
    CHECK(!gpud_auth_is_done(&ends.receiver), "the receiver is done before it has the VERDICT");
    WORKS(handle(&ends.receiver, ends.verdict, SIZE, &e));
    CHECK(gpud_auth_is_done(&ends.receiver), "the receiver is not done");
    expect_silence(&ends.sender);
    expect_silence(&ends.receiver);
    CHECK(!ends.sender.key && !ends.receiver.key, "the key is not let go of");
    CHECK(memcmp(ends.challenge + NONCE, ends.proof + NONCE, 32) != 0, "one nonce for both");
    CHECK(!memcmp(ends.proof + MAC, zeros, 32) == !key, "a MAC without a key, or none with one");
    CHECK(!memcmp(ends.verdict + MAC, zeros, 32) == !key, "a MAC without a key, or none with one");

    /* A stray message makes the best end one that has failed. */
    EXPECT(GPUD_PEER, "none was due", handle(&ends.receiver, ends.verdict, SIZE, &e));
    expect_failed(&ends.receiver, ends.verdict);
    EXPECT(GPUD_PEER, "none was due", handle(&ends.sender, ends.proof, SIZE, &e));
    expect_failed(&ends.sender, ends.proof);
}

static void expect_bytes(const uint8_t *bytes, const char *wanted)
{
    char text[2 * SIZE + 1];
    for (size_t i = 0; i < SIZE; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    CHECK_TEXT(text, wanted);
}

/* What both ends say with this key, where both nonces are counted. */
static void expect_answers(const struct gpud_auth_key *key, const char *what, const char *challenge,
                           const char *proof, const char *verdict)
{
    struct ends ends;
    SAY("  %s", what);
    counted = 0;
    begin(&ends, key, key);
    until_verdict(&ends);
    expect_bytes(ends.challenge, challenge);
    expect_bytes(ends.proof, proof);
    expect_bytes(ends.verdict, verdict);
}

/* The MACs are those that Python's hmac gives:
 *     hmac.new(key, b"gpudirect psk 1 receiver\0" + bytes(range(64)) + CONTEXT, "sha256") */
static void test_both_ends(void)
{
#define COUNTED_0 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define COUNTED_32 "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
    source = COUNTED;
    expect_answers(&ours, "a key", "47505541010001005000000001000000" COUNTED_0 ZEROS,
                   "47505541010002005000000001000000" COUNTED_32
                   "28a71ead8798ee52b01072df7d49148e2b5e4fd23ebf1f372eef619df3e74595",
                   "47505541010003005000000001000000" ZEROS
                   "347c34cd4f9ab99c8f4f63df7eab053bc12519ae9874992b4a65ae7a11b67508");
    expect_answers(&longest, "the longest key", "47505541010001005000000001000000" COUNTED_0 ZEROS,
                   "47505541010002005000000001000000" COUNTED_32
                   "25ef9b0c50b869750817a994ba607d7730d9c15341a5161f0e9d346a82eedca8",
                   "47505541010003005000000001000000" ZEROS
                   "0768935a6c6780a4bad589725c05dc19a5af8761c5fc4f83003e64e6237137a6");
    expect_answers(NULL, "no key", "47505541010001005000000000000000" COUNTED_0 ZEROS,
                   "47505541010002005000000000000000" COUNTED_32 ZEROS,
                   "47505541010003005000000000000000" ZEROS ZEROS);
    source = RANDOM;

    /* What cannot begin. */
    struct gpud_auth auth;
    struct gpud_auth_key key = ours;
    uint8_t context[GPUD_AUTH_CONTEXT_MAX + 1] = {0};
    const size_t sizes[] = {0, GPUD_AUTH_KEY_MIN - 1, GPUD_AUTH_KEY_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        key.size = sizes[i];
        EXPECT(GPUD_INVALID, "bytes, where 16 to 1024 are possible",
               gpud_auth_begin(&auth, GPUD_AUTH_SENDER, "x", &key, context, 1, &e));
        expect_failed(&auth, context);
    }
    EXPECT(GPUD_INVALID, "by 0 bytes, where 1 to 256 are possible",
           gpud_auth_begin(&auth, GPUD_AUTH_SENDER, "x", &ours, context, 0, &e));
    EXPECT(GPUD_INVALID, "by 257 bytes, where 1 to 256 are possible",
           gpud_auth_begin(&auth, GPUD_AUTH_SENDER, "x", &ours, context, sizeof(context), &e));
    expect_failed(&auth, context);
    WORKS(gpud_auth_begin(&auth, GPUD_AUTH_SENDER, "x", &ours, context, sizeof(context) - 1, &e));

    /* Never a weaker nonce, but none. */
    source = FAILING;
    EXPECT(GPUD_IO, "has no random numbers",
           gpud_auth_begin(&auth, GPUD_AUTH_SENDER, "x", &ours, context, 1, &e));
    expect_failed(&auth, context);
    source = SHORT;
    EXPECT(GPUD_IO, "has no random numbers",
           gpud_auth_begin(&auth, GPUD_AUTH_RECEIVER, "x", NULL, context, 1, &e));
    expect_failed(&auth, context);
    source = RANDOM;
    memset(&auth, 0, sizeof(auth));
    expect_failed(&auth, context);

    SAY("refused peers");
    struct ends ends;
    key = ours;
    uint8_t refusal[SIZE];
    begin(&ends, &ours, &theirs);
    until_proof(&ends);
    expect_refused_proof(&ends, ends.proof, "the keys differ: ");
    /* One bit, and one byte more. */
    key.bytes[key.size - 1] ^= 1;
    begin(&ends, &ours, &key);
    until_proof(&ends);
    expect_refused_proof(&ends, ends.proof, "copy the psk-file of one host to the other");
    key = ours;
    key.bytes[key.size++] = 'x';
    begin(&ends, &key, &ours);
    until_proof(&ends);
    expect_refused_proof(&ends, ends.proof, "the keys differ: ");

    static const char *const says[2][2] = {
        {"the sender at 10.0.0.1:7174 wants a key, and this receiver has none: set psk-file here",
         "the receiver at 10.0.0.2:33000 has no key, and this sender wants one: set psk-file "
         "there"},
        {"the sender at 10.0.0.1:7174 has no key, and this receiver wants one: set psk-file there",
         "the receiver at 10.0.0.2:33000 wants a key, and this sender has none: set psk-file here"},
    };
    for (int receivers = 0; receivers < 2; receivers++) {
        begin(&ends, receivers ? NULL : &ours, receivers ? &ours : NULL);
        say(&ends.sender, ends.challenge);
        EXPECT(GPUD_NO_ACCESS, says[receivers][0],
               handle(&ends.receiver, ends.challenge, SIZE, &e));
        say(&ends.receiver, refusal);
        expect_failed(&ends.receiver, ends.challenge);
        EXPECT(GPUD_NO_ACCESS, says[receivers][1], handle(&ends.sender, refusal, SIZE, &e));
        expect_failed(&ends.sender, ends.proof);
    }

    /* A peer without the key claims that the link has none, or that it has one. */
    struct ends open;
    begin(&ends, &ours, &ours);
    begin(&open, NULL, NULL);
    until_proof(&ends);
    until_verdict(&open);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.sender, open.proof, SIZE, &e));
    expect_failed(&ends.sender, ends.proof);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.receiver, open.verdict, SIZE, &e));
    expect_failed(&ends.receiver, ends.verdict);
    begin_until_proof(&ends);
    open.proof[WHAT] = open.verdict[WHAT] = 1; /* a MAC of zeros */
    expect_refused_proof(&ends, open.proof, "the keys differ: ");
    begin_until_proof(&ends);
    EXPECT(GPUD_NO_ACCESS, "cannot prove that it has the key",
           handle(&ends.receiver, open.verdict, SIZE, &e));
    expect_failed(&ends.receiver, ends.verdict);
    begin(&open, NULL, NULL);
    until_proof(&open);
    open.proof[WHAT] = 1;
    EXPECT(GPUD_PEER, "malformed", handle(&open.sender, open.proof, SIZE, &e));

    /* Proofs that were valid on another connection, or in another context. */
    struct ends old;
    begin(&old, &ours, &ours);
    until_verdict(&old);
    begin_until_proof(&ends);
    expect_refused_proof(&ends, old.proof, "the keys differ: ");

    begin(&ends, &ours, &ours);
    WORKS(handle(&ends.receiver, old.challenge, SIZE, &e));
    say(&ends.receiver, ends.proof);
    CHECK(memcmp(ends.proof, old.proof, SIZE) != 0, "the same PROOF twice");
    EXPECT(GPUD_NO_ACCESS, "cannot prove that it has the key",
           handle(&ends.receiver, old.verdict, SIZE, &e));
    expect_failed(&ends.receiver, old.verdict);

    begin(&ends, &ours, &ours);
    ends.receiver.context[0] ^= 1;
    until_proof(&ends);
    expect_refused_proof(&ends, ends.proof, "the keys differ: ");
    begin(&ends, &ours, &ours);
    ends.receiver.context_size--;
    until_proof(&ends);
    expect_refused_proof(&ends, ends.proof, "the keys differ: ");

    /* A peer's own messages are reflected, unchanged and as the expected type. */
    struct ends other;
    uint8_t bent[SIZE];
    begin_until_proof(&ends);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.sender, ends.challenge, SIZE, &e));
    EXPECT(GPUD_PEER, "malformed", handle(&ends.receiver, ends.proof, SIZE, &e));

    begin_until_proof(&ends);
    memcpy(bent, ends.proof, SIZE);
    bent[TYPE] = GPUD_AUTH_VERDICT;
    memset(bent + NONCE, 0, 32);
    EXPECT(GPUD_NO_ACCESS, "cannot prove that it has the key",
           handle(&ends.receiver, bent, SIZE, &e));
    expect_failed(&ends.receiver, ends.verdict);

    /* Nor is a sender's word a receiver's proof, even where both nonces are the same. */
    source = COUNTED;
    counted = 0;
    begin(&other, &ours, &ours);
    until_verdict(&other);
    counted = 0;
    begin_until_proof(&ends);
    memcpy(bent, ends.proof, SIZE);
    memcpy(bent + MAC, other.verdict + MAC, 32);
    expect_refused_proof(&ends, bent, "the keys differ: ");
    counted = 0;
    begin_until_proof(&ends);
    memcpy(bent + MAC, other.proof + MAC, 32);
    WORKS(handle(&ends.sender, bent, SIZE, &e));
    source = RANDOM;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Each message with each wrong length, whatever length it states. */
static void test_lengths(void)
{
    for (int with_key = 0; with_key < 2; with_key++)
        for (size_t size = 0; size <= 4 * SIZE; size++)
            for (int told = 0; told < 2; told++) {
                struct ends ends;
                uint8_t bytes[4 * SIZE] = {0};
                if (size == SIZE)
                    continue;
                for (unsigned step = 0; step < 3; step++) {
                    begin(&ends, with_key ? &ours : NULL, with_key ? &ours : NULL);
                    if (step == 0)
                        say(&ends.sender, ends.challenge);
                    else
                        (step == 1 ? until_proof : until_verdict)(&ends);
                    struct gpud_auth *auth = step == 1 ? &ends.sender : &ends.receiver;
                    const uint8_t *const said[] = {ends.challenge, ends.proof, ends.verdict};
                    memcpy(bytes, said[step], SIZE);
                    if (told) {
                        bytes[LENGTH] = (uint8_t)size;
                        bytes[LENGTH + 1] = (uint8_t)(size >> 8);
                    }
                    EXPECT(GPUD_PEER, "malformed", handle(auth, bytes, size, &e));
                    expect_failed(auth, said[step]);
                }
            }
}

/* Flips each bit of each message: an end that gets a different message does not complete. */
static void test_flips(void)
{
    for (unsigned bit = 0; bit < 8 * SIZE; bit++) {
        struct ends ends;
        const uint8_t by = (uint8_t)(1 << bit % 8);
        begin(&ends, &ours, &ours);
        say(&ends.sender, ends.challenge);
        ends.challenge[bit / 8] ^= by;
        struct gpud_error error = {.reason = ""};
        if (handle(&ends.receiver, ends.challenge, SIZE, &error) == GPUD_OK) {
            CHECK(bit / 8 >= NONCE && bit / 8 < MAC, "bit %u of a CHALLENGE does not matter", bit);
            say(&ends.receiver, ends.proof);
            expect_refused_proof(&ends, ends.proof, "the keys differ: ");
        }
        CHECK(!gpud_auth_is_done(&ends.receiver) && strlen(error.reason) < GPUD_REASON_MAX,
              "bit %u", bit);

        begin(&ends, &ours, &ours);
        until_proof(&ends);
        uint8_t right[SIZE];
        memcpy(right, ends.proof, SIZE);
        ends.proof[bit / 8] ^= by;
        if (bit / 8 >= NONCE) {
            expect_refused_proof(&ends, ends.proof, "the keys differ: ");
        } else {
            CHECK(handle(&ends.sender, ends.proof, SIZE, &error) != GPUD_OK,
                  "bit %u of a PROOF does not matter", bit);
            gpud_auth_next(&ends.sender, ends.verdict);
            expect_failed(&ends.sender, right);
        }

        begin(&ends, &ours, &ours);
        until_verdict(&ends);
        memcpy(right, ends.verdict, SIZE);
        ends.verdict[bit / 8] ^= by;
        CHECK(handle(&ends.receiver, ends.verdict, SIZE, &error) != GPUD_OK,
              "bit %u of a VERDICT does not matter", bit);
        CHECK(bit / 8 < MAC || error.status == GPUD_NO_ACCESS, "bit %u: %s", bit, error.reason);
        gpud_auth_next(&ends.receiver, ends.proof);
        expect_failed(&ends.receiver, right);

        /* Without a key the nonces are unprotected, and not needed. */
        begin(&ends, NULL, NULL);
        until_verdict(&ends);
        ends.verdict[bit / 8] ^= by;
        CHECK(handle(&ends.receiver, ends.verdict, SIZE, &error) != GPUD_OK,
              "bit %u of a VERDICT without a key does not matter", bit);
    }
}

/* Both ends say both versions. */
static void test_versions(void)
{
    struct ends ends;
    uint8_t refusal[SIZE], newer[3 * SIZE] = {0};
    begin(&ends, &ours, &ours);
    say(&ends.sender, ends.challenge);
    memcpy(newer, ends.challenge, SIZE);
    newer[VERSION] = 2;
    newer[LENGTH] = sizeof(newer); /* what is behind the version may be anything */
    EXPECT(GPUD_UNSUPPORTED,
           "the sender at 10.0.0.1:7174 speaks version 2 of the protocol of authentication, this "
           "library 1: use the same release",
           handle(&ends.receiver, newer, sizeof(newer), &e));
    say(&ends.receiver, refusal);
    expect_failed(&ends.receiver, ends.challenge);
    refusal[VERSION + 1] = 1; /* as if the sender were the older one */
    EXPECT(GPUD_UNSUPPORTED, "the receiver at 10.0.0.2:33000 speaks version 257 ",
           handle(&ends.sender, refusal, SIZE, &e));
    say(&ends.sender, refusal);
    expect_failed(&ends.sender, ends.proof);
    begin(&ends, NULL, NULL);
    ends.challenge[MAGIC] ^= 1;
    EXPECT(GPUD_PEER, "does not speak gpudirect's protocol of authentication",
           handle(&ends.receiver, ends.challenge, SIZE, &e));
    expect_silence(&ends.receiver);
}

/* An impossible refusal is ignored, and an unexpected message ends the exchange. */
static void test_order(void)
{
    struct ends ends;
    uint8_t refusal[SIZE];
    for (uint32_t why = 0; why < 8; why++)
        for (unsigned keys = 0; keys < 2; keys++)
            for (unsigned to_sender = 0; to_sender < 2; to_sender++) {
                const struct gpud_auth_key *key = keys ? &ours : NULL;
                begin(&ends, key, key);
                until_proof(&ends);
                memcpy(refusal, ends.proof, SIZE);
                memset(refusal + WHAT, 0, SIZE - WHAT);
                refusal[TYPE] = GPUD_AUTH_REFUSE;
                refusal[WHAT] = (uint8_t)why;
                bool possible = (why == GPUD_AUTH_NO_KEY && key && to_sender) ||
                                (why == GPUD_AUTH_KEY_WANTED && !key && to_sender) ||
                                (why == GPUD_AUTH_KEYS_DIFFER && key && !to_sender);
                EXPECT(possible ? GPUD_NO_ACCESS : GPUD_PEER, "",
                       handle(to_sender ? &ends.sender : &ends.receiver, refusal, SIZE, &e));
                expect_failed(to_sender ? &ends.sender : &ends.receiver, ends.proof);
            }
    /* Before anything was proved, keys cannot differ. */
    memset(refusal + WHAT, 0, SIZE - WHAT);
    refusal[WHAT] = GPUD_AUTH_KEYS_DIFFER;
    begin(&ends, &ours, &ours);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.receiver, refusal, SIZE, &e));
    begin(&ends, &ours, &ours);
    EXPECT(GPUD_PEER, "none was due", handle(&ends.sender, refusal, SIZE, &e));
    expect_failed(&ends.sender, refusal);
    /* A VERDICT before the PROOF is sent. */
    begin(&ends, &ours, &ours);
    say(&ends.sender, ends.challenge);
    WORKS(handle(&ends.receiver, ends.challenge, SIZE, &e));
    EXPECT(GPUD_PEER, "none was due", handle(&ends.receiver, ends.challenge, SIZE, &e));
    expect_failed(&ends.receiver, ends.challenge);
    /* What comes behind a refusal does not keep it from being told. */
    begin(&ends, &ours, &theirs);
    until_proof(&ends);
    EXPECT(GPUD_NO_ACCESS, "", handle(&ends.sender, ends.proof, SIZE, &e));
    EXPECT(GPUD_PEER, "none was due", handle(&ends.sender, ends.proof, SIZE, &e));
    say(&ends.sender, refusal);
    EXPECT(GPUD_NO_ACCESS, "the keys differ: ", handle(&ends.receiver, refusal, SIZE, &e));
}

int main(int argc, char **argv)
{
    /* The keys, and memory with an end. */
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
    if (argc > 1 && strcmp(argv[1], "bytes") == 0) {
        SAY("other lengths");
        test_lengths();
        SAY("every bit");
        test_flips();
        SAY("other versions");
        test_versions();
        SAY("out of turn");
        test_order();
        return 0;
    }
    SAY("what works");
    expect_success(NULL);
    expect_success(&ours);
    expect_success(&longest);
    test_both_ends();
    return 0;
}
