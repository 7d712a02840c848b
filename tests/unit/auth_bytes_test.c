/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages of authentication that were cut, altered, forged, or are out of order: none completes
 * the authentication. */
#include "auth_ends.h"

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
                    say(&ends.sender, ends.challenge);
                    memcpy(bytes, ends.challenge, SIZE);
                    struct gpud_auth *auth = &ends.receiver;
                    if (step > 0) {
                        WORKS(handle(&ends.receiver, ends.challenge, SIZE, &e));
                        say(&ends.receiver, ends.proof);
                        memcpy(bytes, ends.proof, SIZE);
                        auth = &ends.sender;
                    }
                    if (step > 1) {
                        WORKS(handle(&ends.sender, ends.proof, SIZE, &e));
                        say(&ends.sender, ends.verdict);
                        memcpy(bytes, ends.verdict, SIZE);
                        auth = &ends.receiver;
                    }
                    uint8_t right[SIZE];
                    memcpy(right, bytes, SIZE);
                    if (told) {
                        bytes[LENGTH] = (uint8_t)size;
                        bytes[LENGTH + 1] = (uint8_t)(size >> 8);
                    }
                    EXPECT(GPUD_PEER, "malformed", handle(auth, bytes, size, &e));
                    expect_failed(auth, right);
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

int main(void)
{
    prepare();
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
