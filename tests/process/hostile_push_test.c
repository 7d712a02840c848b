/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers that own the host pages of a link (route staged-push), and lie about them: the sender
 * pins no more of them than its frames need. */
#include "device/device.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define ADDRESS "hostile-push"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define ENTRIES 4 /* as raw_accept() has it */
#define SLOT UINT64_C(8192)

/* An ACCEPT with this ring: memories of one sparse file. */
static void accept_ring(struct raw *raw, uint32_t memories, uint32_t slots, uint64_t slot_size,
                        int seals)
{
    struct gpud_message message;
    uint64_t size = slots * slot_size;
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "a sparse file: %s", strerror(errno));
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS: %s", strerror(errno));
    raw_accept(raw, &message);
    message.accept.ring = (struct gpud_ring_description){
        .slot_size = slot_size, .slots_per_memory = slots, .memories = memories};
    for (uint32_t i = 0; i < memories; i++)
        message.accept.ring.handle[i] =
            (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = fd, .size = size};
    CHECK(raw_send_message(raw->fd, &message), "ACCEPT is not sent");
    close(fd);
}

static void refused(const char *what, uint32_t memories, uint32_t slots, uint64_t slot_size,
                    int seals, const char *says)
{
    struct raw raw;
    SAY("%s", what);
    raw_connect_as_gpu(&raw, ADDRESS);
    accept_ring(&raw, memories, slots, slot_size, seals);
    if (!raw_wait_hangup(raw.fd, 10 * GPUD_SEC) || !raw_log_says(says, 10 * GPUD_SEC)) {
        raw_log_print();
        FAIL("the sender does not hang up and say \"%s\"", says);
    }
    raw_close(&raw);
    raw_log_clear();
}

/* The test picture is in the ring: an honest receiver is accepted. */
static void taken(void)
{
    struct raw raw;
    SAY("a ring as it should be");
    raw_connect_as_gpu(&raw, ADDRESS);
    accept_ring(&raw, 1, ENTRIES, SLOT, SEALS);
    raw_to(&raw, RAW_ACCEPTED, RAW_CANARY_GOT);
    raw_close(&raw);
    raw_log_clear();
}

int main(void)
{
    test_alarm(100);
    runtime_make();
    struct gpud_context *context = raw_context();
    struct gpud_sender *sender = NEW_SENDER(context, .address = ADDRESS, .device = "cuda:0");
    struct gpud_layout layout = LAYOUT("GRAY8", 128, 64, 0); /* SLOT bytes */
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));

    taken();
    refused("slots of a terabyte", 1, ENTRIES, UINT64_C(1) << 40, SEALS, "slots of");
    refused("slots a page larger", 1, ENTRIES, SLOT + 4096, SEALS, "is needed");
    refused("more slots than entries", 1, 64, SLOT, SEALS, "is needed");
    refused("fewer slots than entries", 1, 1, SLOT, SEALS, "is needed");
    refused("more memories", 64, ENTRIES, SLOT, SEALS, "is needed");
    refused("no memory", 0, ENTRIES, SLOT, SEALS, "0 memories");
    refused("a ring that can shrink", 1, ENTRIES, SLOT, F_SEAL_GROW, "not sealed");
    taken();
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
