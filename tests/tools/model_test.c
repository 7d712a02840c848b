/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirect-monitor makes of answers: rates of answers that it takes late, events that one
 * channel cannot push out of the list, and how connections are encrypted, in JSON and metrics. */
#include "monitor/monitor.h"
#include "support/check.h"
#include "support/media.h"

#include <gpudirect/gpudirect.h>

#include <math.h>

#define RECEIVERS 16
#define DEADLINE (30 * G_USEC_PER_SEC)

static struct gpud_context *context;
static struct channels_scope scope;

static struct gpud_sender *send_as(const char *name)
{
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = name;
    params.device = "host";
    WORKS(gpud_sender_create(context, &params, &sender, &e));
    WORKS(gpud_layout_init(&layout, "GRAY8", 16, 16, 0, &e));
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    return sender;
}

static struct gpud_receiver *receive(const char *name)
{
    struct gpud_receiver *receiver;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = name;
    params.device = "host";
    WORKS(gpud_receiver_create(context, &params, &receiver, &e));
    return receiver;
}

static void connect_all(struct gpud_sender *sender, struct gpud_receiver **receivers,
                        uint32_t count)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gint64 end = g_get_monotonic_time() + DEADLINE;
    do {
        struct gpud_frame *none;
        for (uint32_t i = 0; i < count; i++)
            gpud_receiver_acquire(receivers[i], 0, &none, NULL);
        gpud_sender_get_info(sender, &info);
        CHECK(g_get_monotonic_time() < end, "%u of %u receivers are connected", info.receivers,
              count);
    } while (info.receivers < count);
}

static void send_frames(struct gpud_sender *sender, struct gpud_receiver *receiver, int count)
{
    struct gpud_frame *frame;
    for (int i = 0; i < count; i++) {
        WORKS(gpud_sender_acquire(sender, GPUD_SEC * 30, &frame, &e));
        WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC * 30, &e));
        WORKS(gpud_receiver_acquire(receiver, GPUD_SEC * 30, &frame, &e));
        gpud_frame_release(&frame);
    }
}

static GPtrArray *ask(void)
{
    struct gpud_error error;
    GPtrArray *folders = channels_ask(&scope, &error);
    CHECK(folders, "%s", error.reason);
    return folders;
}

/* --- rates ----------------------------------------------------------------------------------- */

static void check_rate(const struct monitor_series *series, double most, const char *whose)
{
    for (unsigned i = 0; i < series->count; i++) {
        double rate = (double)monitor_series_get(series, i)->rate_hz;
        CHECK(isnan(rate) || rate <= most, "sample %u of the %s: %g/s, of at most %g", i, whose,
              rate, most);
    }
}

/* The monitor stands still, and takes two answers at once. */
static void test_late_answers(void)
{
    struct gpud_sender *sender = send_as("late");
    struct gpud_receiver *receiver = receive("late");
    struct monitor_model *model = monitor_model_new();
    connect_all(sender, &receiver, 1);
    send_frames(sender, receiver, 5);
    gint64 first = g_get_monotonic_time();
    GPtrArray *before = ask();
    gint64 begin = g_get_monotonic_time();
    for (int i = 0; i < 10; i++) {
        send_frames(sender, receiver, 5);
        g_usleep(50000);
    }
    gint64 second = g_get_monotonic_time();
    GPtrArray *after = ask();
    monitor_model_update(model, first, before, NULL);
    monitor_model_update(model, second, after, NULL);
    struct monitor_channel *channel = monitor_model_find(model, "late");
    CHECK(channel && channel->receivers->len == 1, "the channel and its receiver are not there");
    struct monitor_receiver *shown = channel->receivers->pdata[0];
    double most = 50 / ((double)(second - begin) / G_USEC_PER_SEC);
    CHECK(shown->figures.rate_hz > 0 && shown->figures.rate_hz <= most,
          "the receiver has %g/s, of at most %g", shown->figures.rate_hz, most);
    check_rate(&shown->series, most, "receiver");
    /* The sender's own rate, over the last second or two: bursts of 5 without a pause at the most.
     */
    check_rate(&channel->series, 2 * most, "channel");
    CHECK(shown->series.count == 2 && channel->series.count == 2, "two answers are two samples");
    monitor_model_free(model);
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    SAY("rates of answers that are taken late");
}

/* --- encryption ------------------------------------------------------------------------------ */

/* The member "encrypted" of a receiver's JSON; to be freed with json_node_unref(). */
static JsonNode *encrypted_of(const struct gpud_link_info *link)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();
    json_builder_begin_object(builder);
    channels_put_receiver(builder, link);
    json_builder_end_object(builder);
    g_autoptr(JsonNode) root = json_builder_get_root(builder);
    JsonNode *member = json_object_get_member(json_node_get_object(root), "encrypted");
    CHECK(member, "no member \"encrypted\"");
    return json_node_copy(member);
}

static void test_encryption(void)
{
    struct gpud_link_info link = {.size = sizeof(link), .id = 1, .encrypted = "TLS 1.3 AES"};
    const struct gpud_link_info *links[] = {&link};
    struct metrics_channel channel = {
        .info = {.address = "tcp://192.0.2.1/cam1", .answered = true, .links = 1, .link = links},
        .is_there = true};
    g_autoptr(GPtrArray) channels = g_ptr_array_new();
    g_ptr_array_add(channels, &channel);

    g_autoptr(JsonNode) known = encrypted_of(&link);
    CHECK(g_strcmp0(json_node_get_string(known), "TLS 1.3 AES") == 0, "in JSON: %s",
          json_node_get_string(known));
    GString *metrics = metrics_format(channels, false);
    CHECK(strstr(metrics->str, "encrypted=\"TLS 1.3 AES\""), "the metrics are %s", metrics->str);
    g_string_free(metrics, TRUE);
    link.encrypted[0] = '\0';
    g_autoptr(JsonNode) local = encrypted_of(&link);
    CHECK(json_node_is_null(local), "on one host it is not null");
    SAY("how connections are encrypted");
}

/* --- events ---------------------------------------------------------------------------------- */

static guint count_events(const struct monitor_model *model, const char *channel)
{
    guint count = 0;
    uint64_t last = 0;
    for (const GList *link = model->events.head; link; link = link->next) {
        const struct monitor_event *event = link->data;
        count += strcmp(event->channel, channel) == 0;
        CHECK(event->number > last, "event %llu behind %llu", (unsigned long long)event->number,
              (unsigned long long)last);
        last = event->number;
    }
    return count;
}

/* Receivers that come and go, of one channel. */
static void test_flood(void)
{
    struct gpud_sender *quiet = send_as("quiet"), *noisy = send_as("noisy");
    struct monitor_model *model = monitor_model_new();
    gint64 time = g_get_monotonic_time();
    monitor_model_update(model, time, ask(), NULL);
    guint known = count_events(model, "quiet");
    CHECK(known > 0, "a channel that was found is no event");
    while (model->event_count < 2 * MONITOR_EVENTS) {
        struct gpud_receiver *receivers[RECEIVERS];
        for (int i = 0; i < RECEIVERS; i++)
            receivers[i] = receive("noisy");
        connect_all(noisy, receivers, RECEIVERS);
        monitor_model_update(model, time += G_USEC_PER_SEC, ask(), NULL);
        for (int i = 0; i < RECEIVERS; i++)
            gpud_receiver_destroy(&receivers[i]);
        struct gpud_sender_info info = GPUD_INFO_INIT(info);
        do
            gpud_sender_get_info(noisy, &info);
        while (info.receivers > 0);
        monitor_model_update(model, time += G_USEC_PER_SEC, ask(), NULL);
    }
    CHECK_EQUAL(model->events.length, MONITOR_EVENTS);
    CHECK_EQUAL(count_events(model, "quiet"), known);
    monitor_model_free(model);
    gpud_sender_destroy(&quiet);
    gpud_sender_destroy(&noisy);
    SAY("a channel's events push out its own alone");
}

/* --- channels that are not there -------------------------------------------------------------- */

static struct monitor_channel *find(const struct monitor_model *model, const char *address,
                                    enum monitor_presence presence)
{
    struct monitor_channel *channel = monitor_model_find(model, address);
    CHECK(channel && channel->presence == presence, "%s is %s", address,
          channel ? channel->state : "not known");
    return channel;
}

static void update(struct monitor_model *model)
{
    monitor_model_update(model, g_get_monotonic_time(), ask(), NULL);
}

/* One that ends is remembered for a day; one that is expected stays. */
static void test_memory(void)
{
    struct gpud_sender *brief = send_as("brief"), *steady = send_as("steady");
    struct monitor_model *model = monitor_model_new();
    GHashTable *expected = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const gint64 day = 24 * 60 * 60 * (gint64)G_USEC_PER_SEC, minute = 60 * (gint64)G_USEC_PER_SEC;
    g_hash_table_add(expected, g_strdup("steady"));
    monitor_model_expect(model, expected);
    update(model);
    find(model, "brief", MONITOR_THERE);
    gpud_sender_destroy(&brief);
    gpud_sender_destroy(&steady);
    update(model);
    struct monitor_channel *gone = find(model, "brief", MONITOR_GONE_SINCE);
    CHECK(gone->end == CHANNELS_END_ORDERLY && gone->severity == MONITOR_OFF, "it is %s",
          gone->state);
    CHECK(find(model, "steady", MONITOR_GONE_SINCE)->severity == MONITOR_BAD,
          "one that is expected may end");
    gone->absent_since -= day - minute;
    update(model);
    find(model, "brief", MONITOR_GONE_SINCE)->absent_since -= 2 * minute;
    find(model, "steady", MONITOR_GONE_SINCE)->absent_since -= day + minute;
    update(model);
    CHECK(!monitor_model_find(model, "brief"), "it is remembered for more than a day");
    find(model, "steady", MONITOR_GONE_SINCE);
    CHECK_EQUAL(monitor_model_dismiss(model, NULL), 0);
    monitor_model_expect(model, NULL);
    update(model);
    CHECK(!monitor_model_find(model, "steady"), "what is expected no longer stays");
    monitor_model_free(model);
    SAY("channels that are gone are remembered for a day");
}

/* An answer that fails says nothing of a channel: it is not gone, and not well. */
static void test_no_answer(void)
{
    struct gpud_sender *sender = send_as("steady");
    struct monitor_model *model = monitor_model_new();
    update(model);
    monitor_model_update(model, g_get_monotonic_time(), NULL, "the folder cannot be read");
    struct monitor_channel *channel = find(model, "steady", MONITOR_THERE);
    CHECK(!channel->info.answered && channel->severity == MONITOR_BAD, "it is %s", channel->state);
    update(model);
    CHECK(find(model, "steady", MONITOR_THERE)->info.answered, "it does not answer again");
    monitor_model_free(model);
    gpud_sender_destroy(&sender);
    SAY("a question that fails is no end");
}

int main(void)
{
    char folder[] = "/tmp/gpud-model-XXXXXX";
    CHECK(mkdtemp(folder), "no folder");
    CHECK(setenv("XDG_RUNTIME_DIR", folder, 1) == 0, "no environment");
    WORKS(gpud_context_create(NULL, &context, &e));
    test_encryption();
    test_late_answers();
    test_flood();
    test_memory();
    test_no_answer();
    gpud_context_destroy(&context);
    char *remove = g_strdup_printf("rm -rf %s", folder);
    int status = system(remove);
    g_free(remove);
    return status;
}
