/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender replaces another one of its process on their address: receivers find the new one, also
 * those that connect meanwhile, and one that stands by does not get the address. */
#include "actor.h"

#define ADDRESS "replace"

static struct gpud_context *context;
static struct gpud_layout layout;
static uint64_t number;
static atomic_int connects, disconnects;

static void on_connect(void *user, const struct gpud_peer_info *peer)
{
    CHECK(user == &number && peer->pid > 0, "another connection than ours");
    atomic_fetch_add(&connects, 1);
}

static void on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    CHECK(user == &number && peer->pid > 0, "another connection than ours");
    atomic_fetch_add(&disconnects, 1);
}

static enum gpud_status create(const char *address, struct gpud_sender **replaces,
                               struct gpud_sender **sender, struct gpud_error *error)
{
    return gpud_sender_create(context,
                              WITH_SIZE(gpud_sender_params, .address = address,
                                        .replaces = replaces, .on_connect = on_connect,
                                        .on_disconnect = on_disconnect, .user = &number),
                              sender, error);
}

static void configure(struct gpud_sender *sender)
{
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
}

/* Pictures to both receivers; the sender blocks, so that they lose none. */
static void send_some(struct gpud_sender *sender, struct peer receivers[2])
{
    WORKS(gpud_sender_wait(sender, 2, 20 * GPUD_SEC, &e));
    for (int i = 0; i < 10; i++)
        SEND_LENT(sender, &layout, ++number);
    for (int i = 0; i < 2; i++)
        PEER_UNTIL("a receiver has them", 20000,
                   atomic_load(&receivers[i].board->last_value) == number);
}

static void refuse(struct gpud_sender **sender)
{
    struct gpud_sender *made = NULL, *none = NULL, *before = *sender;
    EXPECT(GPUD_INVALID, "give both one address", create("elsewhere", sender, &made, &e));
    EXPECT(GPUD_INVALID, "route",
           gpud_sender_create(
               context,
               WITH_SIZE(gpud_sender_params, .address = ADDRESS, .route = "no", .replaces = sender),
               &made, &e));
    EXPECT(GPUD_NO_DEVICE, "",
           gpud_sender_create(context,
                              WITH_SIZE(gpud_sender_params, .address = ADDRESS, .device = "cuda:77",
                                        .replaces = sender),
                              &made, &e));
    /* Nothing is replaced, and the address is taken. */
    EXPECT(GPUD_IO, "", create(ADDRESS, &none, &made, &e));
    CHECK(*sender == before && !made, "a refusal changes something");
}

int main(int argc, char **argv)
{
    struct gpud_sender *sender, *next;
    struct peer receivers[2];
    struct peer_orders orders = {.address = ADDRESS, .device = "host"};
    peer_main(argc, argv);
    test_alarm(110);
    runtime_make();
    struct baseline before = baseline_take();
    context = NEW_CONTEXT();
    layout = LAYOUT("UYVY", 64, 36, 0);
    WORKS(create(ADDRESS, NULL, &sender, &e));
    configure(sender);
    struct gpud_sender *standby = NEW_SENDER(context, .address = ADDRESS, .standby = true);
    configure(standby);
    for (int i = 0; i < 2; i++)
        peer_start(&receivers[i], &orders);
    send_some(sender, receivers);
    refuse(&sender);
    send_some(sender, receivers);
    for (int i = 1; i <= 20; i++) {
        WORKS(create(ADDRESS, &sender, &next, &e));
        CHECK(!sender, "the sender is replaced, and still there");
        CHECK_EQUAL(atomic_load(&disconnects), 2 * i);
        sender = next;
        configure(sender);
        send_some(sender, receivers);
        CHECK(INFO(sender, standby).stands_by, "one that stands by got the address");
        CHECK(!INFO(sender, sender).stands_by, "the new one stands by");
        CHECK_EQUAL(atomic_load(&connects), 2 * i + 2);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(atomic_load(&receivers[i].board->lost), 20);
        CHECK_EQUAL(atomic_load(&receivers[i].board->ends), 0);
    }
    /* One that stands by is replaced by one that does. */
    WORKS(create(ADDRESS, &standby, &next, &e));
    configure(next);
    CHECK(!standby && INFO(sender, next).stands_by, "it does not stand by");
    gpud_sender_destroy(&sender);
    send_some(next, receivers);
    for (int i = 0; i < 2; i++) {
        PEER_LEAVE(&receivers[i]);
    }
    gpud_sender_destroy(&next);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
    return runtime_done();
}
