/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Authentication: the input assigns the keys, and then drives a man in the middle, which sees,
 * alters, cuts, splices and repeats all messages, but has no key. No end that has one is done but
 * by a proof of the other one, with the same key, of the same two nonces and in the same context.
 * Left alone, both ends are done, or both say why not. */
#include "fuzz.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SIZE GPUD_AUTH_MESSAGE_SIZE
#define SLOTS 8

/* Instead of the C library's: the same input gives the same run. */
static uint32_t drawn;
ssize_t getrandom(void *data, size_t size, unsigned flags)
{
    uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        drawn = drawn * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(drawn >> 24);
    }
    return (ssize_t)size;
}

struct setup {
    const struct gpud_auth_key *key[2]; /* by role, as all here */
    char context[2];
};

static void begin(struct gpud_auth ends[2], const struct setup *setup)
{
    for (int role = 0; role < 2; role++)
        if (gpud_auth_begin(&ends[role], (enum gpud_auth_role)role, "x", setup->key[role],
                            &setup->context[role], 1, NULL) != GPUD_OK)
            abort();
}

static void check_proof(const struct gpud_auth ends[2], const struct setup *setup)
{
    for (int role = 0; role < 2; role++)
        if (gpud_auth_is_done(&ends[role]) && setup->key[role] &&
            (setup->key[0] != setup->key[1] || setup->context[0] != setup->context[1] ||
             memcmp(ends[0].nonce, ends[1].nonce, sizeof(ends[0].nonce)) != 0))
            abort();
}

/* Refused with a reason, and permanently. */
static enum gpud_status hand_over(struct gpud_auth *end, const uint8_t *bytes, size_t size)
{
    /* An exact copy on the heap, so that a sanitizer sees a read past its end. */
    uint8_t *copy = malloc(size ? size : 1);
    struct gpud_error error = {.reason = ""};
    bool failed = end->state == GPUD_AUTH_FAILED;
    if (!copy)
        return GPUD_OK;
    memcpy(copy, bytes, size);
    enum gpud_status status = gpud_auth_handle(end, copy, size, &error);
    free(copy);
    if (status != GPUD_OK &&
        (error.status != status || strlen(error.reason) < 10 || end->key || gpud_auth_is_done(end)))
        abort();
    if (failed && (status == GPUD_OK || end->state != GPUD_AUTH_FAILED))
        abort();
    if (status != GPUD_OK && status != GPUD_NO_ACCESS && status != GPUD_PEER &&
        status != GPUD_UNSUPPORTED)
        abort();
    return status;
}

/* Delivers messages unchanged, and records them. */
static void leave_alone(const struct setup *setup, uint8_t kept[SLOTS][SIZE])
{
    struct gpud_auth ends[2];
    enum gpud_status status[2] = {GPUD_OK, GPUD_OK};
    bool right = setup->key[0] == setup->key[1] &&
                 (!setup->key[0] || setup->context[0] == setup->context[1]);
    unsigned count = 0;
    begin(ends, setup);
    for (int from = 0; count < 4 && gpud_auth_next(&ends[from], kept[count]); from = !from)
        status[!from] = hand_over(&ends[!from], kept[count++], SIZE);
    if (count != (!setup->key[0] == !setup->key[1] ? 3 : 2))
        abort();
    for (int role = 0; role < 2; role++)
        if (gpud_auth_is_done(&ends[role]) != right ||
            status[role] != (right ? GPUD_OK : GPUD_NO_ACCESS))
            abort();
    check_proof(ends, setup);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gpud_auth_key keys[2] = {{.size = 32, .bytes = "the one"},
                                           {.size = 33, .bytes = "the other"}};
    const struct gpud_auth_key *const choice[] = {NULL, &keys[0], &keys[1]};
    uint8_t slot[SLOTS][SIZE] = {{0}}, old[SLOTS][SIZE] = {{0}}, long_one[256];
    struct gpud_auth ends[2];
    struct fuzz_input input = {data, size};
    uint32_t who_has = fuzz_number(&input, 1);
    struct setup setup = {{choice[who_has % 3], choice[who_has / 3 % 3]},
                          {'a', who_has / 9 % 4 ? 'a' : 'b'}};
    drawn = who_has;
    leave_alone(&setup, old);
    begin(ends, &setup);
    while (input.size) {
        uint32_t what = fuzz_number(&input, 1), at;
        struct gpud_auth *end = &ends[what >> 3 & 1];
        uint8_t *bytes = slot[what >> 4 & 7];
        switch (what & 7) {
        case 0:
            gpud_auth_next(end, bytes);
            break;
        case 1:
            hand_over(end, bytes, SIZE);
            break;
        case 2: /* longer or shorter */
            memset(long_one, (int)fuzz_number(&input, 1), sizeof(long_one));
            memcpy(long_one, bytes, SIZE);
            hand_over(end, long_one, fuzz_number(&input, 1));
            break;
        case 3: /* bent */
            at = fuzz_number(&input, 1) % SIZE;
            bytes[at] ^= (uint8_t)fuzz_number(&input, 1);
            break;
        case 4: /* a part of another one */
            at = fuzz_number(&input, 1);
            memmove(bytes + at / 8 % 5 * 16, slot[at & 7] + at / 40 % 5 * 16, 16);
            break;
        case 5: /* a nonce or a MAC of another one */
            at = fuzz_number(&input, 1);
            memmove(bytes + (at & 8 ? 16 : 48), slot[at & 7] + (at & 16 ? 16 : 48), 32);
            break;
        case 6: /* heard before */
            memcpy(bytes, old[fuzz_number(&input, 1) % SLOTS], SIZE);
            break;
        case 7: /* made up */
            at = fuzz_number(&input, 1) % SIZE;
            for (uint32_t left = fuzz_number(&input, 1); left && at < SIZE; left--)
                bytes[at++] = (uint8_t)fuzz_number(&input, 1);
            break;
        }
        check_proof(ends, &setup);
    }
    leave_alone(&setup, old);
    return 0;
}
