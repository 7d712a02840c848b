/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A network that is missing for a while: a receiver that starts before its network is up, and an
 * address that is removed and restored at both ends. Both wait, and report what is missing. To be
 * run by tests/vm/guest --rdma. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <pthread.h>
#include <unistd.h>

#define HOST "192.168.88.1"
#define ON_CARD HOST "/24 dev v0"
#define ADDRESS "rdma://" HOST ":7174/net"
#define KEY "/tmp/network-key"
#define PATIENCE (120 * GPUD_SEC)
#define SLICE (100 * GPUD_MSEC)
#define ROUNDS 2

static void run(const char *command)
{
    CHECK(system(command) == 0, "%s failed", command);
}

/* --- the sender ------------------------------------------------------------------------------- */

static struct gpud_context *context;
static atomic_bool leave;

/* As soon as its address is there for RDMA, too, which is a moment later. */
static struct gpud_sender *create_sender(void)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_sender *sender;
    struct gpud_error error;
    int64_t deadline = gpud_test_now() + PATIENCE;
    params.address = ADDRESS;
    params.psk_file = KEY;
    params.slow_receiver =
        GPUD_SLOW_DROP_NEWEST; /* nothing is received while channels are listed */
    while (gpud_sender_create(context, &params, &sender, &error) != GPUD_OK) {
        CHECK(gpud_test_now() < deadline, "no sender: %s", error.reason);
        gpud_test_nap(10);
    }
    return sender;
}

static void *play_sender(void *arg)
{
    struct gpud_sender *sender = arg;
    struct gpud_layout layout = LAYOUT("UYVY", 64, 48, 0);
    WORKS(gpud_sender_configure(sender, PICTURE_AT(&layout, 25), &e));
    for (uint64_t number = 1; !atomic_load(&leave); number++) {
        SEND_LENT(sender, &layout, number);
        gpud_test_nap(5);
    }
    return NULL;
}

/* --- the receiver ----------------------------------------------------------------------------- */

/* Acquires until the outcome is this one; every other one is a time-out, or, if that may be, the
 * loss of the sender. The reason of the last time-out says so. */
static void acquire_until(struct gpud_receiver *receiver, enum gpud_status wanted, const char *says,
                          bool may_lose)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_frame *frame = NULL;
    int64_t deadline = gpud_test_now() + PATIENCE;
    for (;;) {
        enum gpud_status status = gpud_receiver_acquire(receiver, SLICE, &frame, &error);
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        if (status == wanted && (status == GPUD_OK || strstr(error.reason, says)))
            return;
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT || (may_lose && status == GPUD_PEER),
              "a receiver that waits ends with \"%s\": %s", gpud_status_string(status),
              error.reason);
        CHECK(gpud_test_now() < deadline, "no \"%s\" (%s), but \"%s\"", gpud_status_string(wanted),
              says, error.reason);
    }
}

/* This user can list it without a key, but gets no frames without one. */
static void check_list(void)
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame;
    char address[256];
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    WORKS(gpud_channel_list_create(NULL, PATIENCE, &channels, &count, &search, &e));
    CHECK_EQUAL(count, 1);
    WORKS(gpud_channel_list_get_info(channels, 0, &info, &e));
    CHECK(strcmp(info.address, ADDRESS) == 0 && info.answered && info.pid == getpid() &&
              info.links == 1,
          "%s, of %d, with %u receivers: %s", info.address, (int)info.pid, info.links, info.reason);
    CHECK(strcmp(info.link[0]->encrypted, "no") == 0, "encrypted: \"%s\"", info.link[0]->encrypted);
    snprintf(address, sizeof(address), "unix:%s/.rdma!" HOST ":7174!net", search.directory);
    gpud_channel_list_destroy(&channels);

    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = address);
    enum gpud_status status = GPUD_TIMEOUT;
    struct gpud_error error = {.reason = ""};
    for (int i = 0; i < 10 && status == GPUD_TIMEOUT; i++)
        status = gpud_receiver_acquire(receiver, SLICE, &frame, &error);
    CHECK(status == GPUD_UNSUPPORTED && strstr(error.reason, "only answers queries"),
          "frames without the key: %s", error.reason);
    gpud_receiver_destroy(&receiver);
    SAY("it is in the list of channels, where only questions are answered: \"%s\"", error.reason);
}

int main(void)
{
    make_key(KEY, "the key of a test, which both ends know");
    CHECK(getenv("GPUDIRECT_HOST"), "run it by tests/vm/guest --rdma");
    context = NEW_CONTEXT();

    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = ADDRESS, .psk_file = KEY);
    acquire_until(receiver, GPUD_TIMEOUT, "no route leads there", false);
    SAY("before the network is up: waits, and says what is missing");

    run("ip address add " ON_CARD);
    struct gpud_sender *sender = create_sender();
    pthread_t thread = NEW_THREAD(play_sender, sender);
    acquire_until(receiver, GPUD_OK, "", false);
    SAY("the network comes up, and pictures come");

    for (int i = 0; i < ROUNDS; i++) {
        run("ip address delete " ON_CARD);
        acquire_until(receiver, GPUD_PEER, "", false);
        acquire_until(receiver, GPUD_TIMEOUT, "no route leads there", true);
        run("ip address add " ON_CARD);
        int64_t start = gpud_test_now();
        acquire_until(receiver, GPUD_OK, "", true);
        SAY("the address leaves and returns: pictures after %lld ms",
            (long long)((gpud_test_now() - start) / GPUD_MSEC));
    }
    check_list();
    atomic_store(&leave, true);
    pthread_join(thread, NULL);
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return 0;
}
