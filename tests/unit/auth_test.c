/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Authentication of peers on other hosts: only a peer with the key is admitted, whatever others
 * repeat or reflect, and both ends report what is wrong. */
#include "auth_ends.h"

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

static void expect_bytes(const char *name, const uint8_t *bytes, const char *wanted)
{
    char text[2 * SIZE + 1];
    for (size_t i = 0; i < SIZE; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    CHECK(strcmp(text, wanted) == 0, "%s is\n%s, should be\n%s", name, text, wanted);
}

/* The MACs are those that Python's hmac gives:
 *     hmac.new(key, b"gpudirect psk 1 receiver\0" + bytes(range(64)) + CONTEXT, "sha256") */
static void test_known_answers(void)
{
#define COUNTED_0 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define COUNTED_32 "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
    struct ends ends;
    source = COUNTED;
    counted = 0;
    begin(&ends, &ours, &ours);
    until_verdict(&ends);
    expect_bytes("CHALLENGE", ends.challenge, "47505541010001005000000001000000" COUNTED_0 ZEROS);
    expect_bytes("PROOF", ends.proof,
                 "47505541010002005000000001000000" COUNTED_32
                 "28a71ead8798ee52b01072df7d49148e2b5e4fd23ebf1f372eef619df3e74595");
    expect_bytes("VERDICT", ends.verdict,
                 "47505541010003005000000001000000" ZEROS
                 "347c34cd4f9ab99c8f4f63df7eab053bc12519ae9874992b4a65ae7a11b67508");
    counted = 0;
    begin(&ends, &longest, &longest);
    until_verdict(&ends);
    expect_bytes("PROOF by the longest key", ends.proof,
                 "47505541010002005000000001000000" COUNTED_32
                 "25ef9b0c50b869750817a994ba607d7730d9c15341a5161f0e9d346a82eedca8");
    expect_bytes("VERDICT by the longest key", ends.verdict,
                 "47505541010003005000000001000000" ZEROS
                 "0768935a6c6780a4bad589725c05dc19a5af8761c5fc4f83003e64e6237137a6");
    counted = 0;
    begin(&ends, NULL, NULL);
    until_verdict(&ends);
    expect_bytes("CHALLENGE without a key", ends.challenge,
                 "47505541010001005000000000000000" COUNTED_0 ZEROS);
    expect_bytes("PROOF without a key", ends.proof,
                 "47505541010002005000000000000000" COUNTED_32 ZEROS);
    expect_bytes("VERDICT without a key", ends.verdict,
                 "47505541010003005000000000000000" ZEROS ZEROS);
    source = RANDOM;
}

static void test_begin(void)
{
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
}

/* --- refused peers ---------------------------------------------------------------------------- */

static void test_keys(void)
{
    struct ends ends;
    struct gpud_auth_key key = ours;
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

    begin(&ends, &ours, NULL);
    say(&ends.sender, ends.challenge);
    EXPECT(GPUD_NO_ACCESS,
           "the sender at 10.0.0.1:7174 wants a key, and this receiver has none: set psk-file here",
           handle(&ends.receiver, ends.challenge, SIZE, &e));
    say(&ends.receiver, refusal);
    expect_failed(&ends.receiver, ends.challenge);
    EXPECT(GPUD_NO_ACCESS,
           "the receiver at 10.0.0.2:33000 has no key, and this sender wants one: set psk-file "
           "there",
           handle(&ends.sender, refusal, SIZE, &e));
    expect_failed(&ends.sender, ends.proof);

    begin(&ends, NULL, &ours);
    say(&ends.sender, ends.challenge);
    EXPECT(GPUD_NO_ACCESS,
           "the sender at 10.0.0.1:7174 has no key, and this receiver wants one: set psk-file "
           "there",
           handle(&ends.receiver, ends.challenge, SIZE, &e));
    say(&ends.receiver, refusal);
    expect_failed(&ends.receiver, ends.challenge);
    EXPECT(GPUD_NO_ACCESS,
           "the receiver at 10.0.0.2:33000 wants a key, and this sender has none: set psk-file "
           "here",
           handle(&ends.sender, refusal, SIZE, &e));
    expect_failed(&ends.sender, ends.proof);
}

/* A peer without the key pretends that there is none, or that there is one. */
static void test_downgrades(void)
{
    struct ends ends, open;
    begin(&ends, &ours, &ours);
    begin(&open, NULL, NULL);
    until_proof(&ends);
    until_verdict(&open);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.sender, open.proof, SIZE, &e));
    expect_failed(&ends.sender, ends.proof);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.receiver, open.verdict, SIZE, &e));
    expect_failed(&ends.receiver, ends.verdict);
    begin(&ends, &ours, &ours);
    until_proof(&ends);
    open.proof[WHAT] = open.verdict[WHAT] = 1; /* a MAC of zeros */
    expect_refused_proof(&ends, open.proof, "the keys differ: ");
    begin(&ends, &ours, &ours);
    until_proof(&ends);
    EXPECT(GPUD_NO_ACCESS, "cannot prove that it has the key",
           handle(&ends.receiver, open.verdict, SIZE, &e));
    expect_failed(&ends.receiver, ends.verdict);
    begin(&open, NULL, NULL);
    until_proof(&open);
    open.proof[WHAT] = 1;
    EXPECT(GPUD_PEER, "malformed", handle(&open.sender, open.proof, SIZE, &e));
}

/* Proofs that were valid on another connection, or in another context. */
static void test_replays(void)
{
    struct ends old, ends;
    begin(&old, &ours, &ours);
    until_verdict(&old);
    begin(&ends, &ours, &ours);
    until_proof(&ends);
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
}

/* A peer's own messages are reflected, unchanged and as the expected type. */
static void test_reflections(void)
{
    struct ends ends, other;
    uint8_t bent[SIZE];
    begin(&ends, &ours, &ours);
    until_proof(&ends);
    EXPECT(GPUD_PEER, "malformed", handle(&ends.sender, ends.challenge, SIZE, &e));
    EXPECT(GPUD_PEER, "malformed", handle(&ends.receiver, ends.proof, SIZE, &e));

    begin(&ends, &ours, &ours);
    until_proof(&ends);
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
    begin(&ends, &ours, &ours);
    until_proof(&ends);
    memcpy(bent, ends.proof, SIZE);
    memcpy(bent + MAC, other.verdict + MAC, 32);
    expect_refused_proof(&ends, bent, "the keys differ: ");
    counted = 0;
    begin(&ends, &ours, &ours);
    until_proof(&ends);
    memcpy(bent + MAC, other.proof + MAC, 32);
    WORKS(handle(&ends.sender, bent, SIZE, &e));
    source = RANDOM;
}

int main(void)
{
    prepare();
    SAY("what works");
    expect_success(NULL);
    expect_success(&ours);
    expect_success(&longest);
    test_known_answers();
    test_begin();
    SAY("refused peers");
    test_keys();
    test_downgrades();
    test_replays();
    test_reflections();
    return 0;
}
