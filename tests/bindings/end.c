/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end in C, against which those of the bindings are tested: see conformance.py. */
#include <gpudirect/gpudirect.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 16
#define HELD_MAX 64

static struct {
    const char *address, *media, *sizes, *pause;
    uint64_t count, slots, receivers, key, hold, quiet, late;
    int64_t timeout_ns;
} orders = {.count = UINT64_MAX, .receivers = 1, .timeout_ns = 10 * GPUD_SEC};

static struct gpud_error error;

static enum gpud_status tell(enum gpud_status status)
{
    printf("status %s %s\n", gpud_status_string(status), error.reason);
    return status;
}

static void await_line(void)
{
    int got;
    do
        got = getchar();
    while (got != '\n' && got != EOF);
}

/* The numbers of "A,B,C". */
static uint64_t read_list(const char *text, uint64_t numbers[LIST_MAX])
{
    uint64_t count = 0;
    for (char *end; text && *text && count < LIST_MAX; text = *end ? end + 1 : end)
        numbers[count++] = strtoull(text, &end, 10);
    return count;
}

static bool pause_at(uint64_t frames)
{
    uint64_t at[LIST_MAX], count = read_list(orders.pause, at);
    for (uint64_t i = 0; i < count; i++)
        if (at[i] == frames) {
            printf("paused %" PRIu64 "\n", frames);
            await_line();
            return true;
        }
    return false;
}

/* --- the end, and the thread that interrupts it ----------------------------------------------- */

static struct gpud_context *context;
static struct gpud_sender *sender;
static struct gpud_receiver *receiver;
static sigset_t signals; /* blocked in all threads, the library's too */
static pthread_t watcher;

static void *await_signal(void *unused)
{
    int which;
    sigwait(&signals, &which);
    if (sender)
        gpud_sender_interrupt(sender, true);
    if (receiver)
        gpud_receiver_interrupt(receiver, true);
    return NULL;
}

static void open_end(void)
{
    if (pthread_create(&watcher, NULL, await_signal, NULL) != 0)
        abort();
    printf("ready\n");
}

static void close_end(void)
{
    if (sender || receiver) {
        pthread_kill(watcher, SIGINT);
        pthread_join(watcher, NULL);
    }
    gpud_sender_destroy(&sender);
    gpud_receiver_destroy(&receiver);
}

/* Goes through the rows of all planes, or the bytes in use, and returns Adler's sum of them. With a
 * frame's number it writes them before. */
static uint32_t go_through(const struct gpud_frame_info *info, uint8_t *data,
                           const uint64_t *number)
{
    uint32_t low = 1, high = 0;
    uint64_t at = 0;
    for (uint32_t p = 0; p < info->layout.planes; p++) {
        const struct gpud_plane *plane = &info->layout.plane[p];
        for (uint32_t y = 0; y < plane->rows; y++) {
            uint64_t start = plane->offset + (uint64_t)y * plane->stride;
            for (uint64_t i = start; i < start + plane->row_bytes && i < info->bytes; i++, at++) {
                if (number)
                    data[i] = (uint8_t)((7 * *number + at) % 251);
                low = (low + data[i]) % 65521;
                high = (high + low) % 65521;
            }
        }
    }
    return high << 16 | low;
}

/* --- sender ----------------------------------------------------------------------------------- */

static enum gpud_status send_one(uint64_t number)
{
    uint64_t sizes[LIST_MAX], count = read_list(orders.sizes, sizes);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame = NULL;
    void *data;
    enum gpud_status status = gpud_sender_acquire(sender, orders.timeout_ns, &frame, &error);
    if (status == GPUD_OK && count)
        status = gpud_frame_set_size(frame, sizes[number % count], &error);
    if (status == GPUD_OK)
        status = gpud_frame_map(frame, GPUD_WRITE, orders.timeout_ns, &data, &error);
    if (status == GPUD_OK) {
        gpud_frame_get_info(frame, &info);
        go_through(&info, data, &number);
        gpud_frame_unmap(frame);
        info.pts_ns = number * 40 * GPUD_MSEC;
        info.flags = orders.key && number % orders.key ? GPUD_FRAME_DELTA : 0;
        status = gpud_frame_set_info(frame, &info, &error);
    }
    if (status == GPUD_OK)
        status = gpud_sender_submit(sender, &frame, orders.timeout_ns, &error);
    gpud_frame_release(&frame);
    return status;
}

static enum gpud_status send_all(void)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_media media;
    params.address = orders.address;
    params.slots = (uint32_t)orders.slots;
    enum gpud_status status = gpud_media_from_string(&media, orders.media, &error);
    if (status == GPUD_OK)
        status = gpud_sender_create(context, &params, &sender, &error);
    if (status != GPUD_OK)
        return tell(status);
    open_end();
    status = gpud_sender_configure(sender, &media, &error);
    if (status == GPUD_OK)
        status = gpud_sender_wait(sender, (uint32_t)orders.receivers, 10 * GPUD_SEC, &error);
    for (uint64_t number = 0; status == GPUD_OK && number < orders.count; number++) {
        while ((status = send_one(number)) == GPUD_TIMEOUT) {
            tell(status);
            await_line();
        }
        if (status == GPUD_OK)
            pause_at(number + 1);
    }
    if (status == GPUD_OK)
        status = gpud_sender_send_eos(sender, &error);
    return status == GPUD_OK ? status : tell(status);
}

/* --- receiver --------------------------------------------------------------------------------- */

static void on_event(void *user, enum gpud_event event, const void *data)
{
    const struct gpud_format_event *format = data;
    char text[GPUD_MEDIA_TEXT_MAX];
    if (event == GPUD_EVENT_FORMAT &&
        gpud_media_to_string(&format->media, text, sizeof(text), NULL) == GPUD_OK)
        printf("media %s\n", text);
}

static void look_at(const char *word, struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;
    if (gpud_frame_map(frame, GPUD_READ, orders.timeout_ns, &data, &error) != GPUD_OK) {
        tell(error.status);
        return;
    }
    gpud_frame_get_info(frame, &info);
    uint32_t sum = go_through(&info, data, NULL);
    gpud_frame_unmap(frame);
    if (!orders.quiet || strcmp(word, "frame") != 0)
        printf("%s %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu32 "\n", word,
               info.sequence, info.pts_ns, info.flags, info.bytes, sum);
}

static struct gpud_frame *held[HELD_MAX];
static uint64_t held_count;

static void release_held(void)
{
    for (uint64_t i = 0; i < held_count; i++) {
        look_at("held", held[i]);
        gpud_frame_release(&held[i]);
    }
    held_count = 0;
}

static enum gpud_status receive_all(void)
{
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = orders.address;
    params.slots = (uint32_t)orders.slots;
    params.on_event = on_event;
    enum gpud_status status = gpud_receiver_create(context, &params, &receiver, &error);
    if (status != GPUD_OK)
        return tell(status);
    open_end();
    for (uint64_t count = 0; count < orders.count;) {
        struct gpud_frame *frame;
        status = gpud_receiver_acquire(receiver, orders.timeout_ns, &frame, &error);
        if (status == GPUD_OK) {
            look_at("frame", frame);
            if (count < orders.hold)
                held[held_count++] = frame;
            else
                gpud_frame_release(&frame);
            if (pause_at(++count) && !orders.late)
                release_held();
        } else if (tell(status) != GPUD_PEER) { /* after which the next one connects again */
            break;
        }
    }
    if (orders.late) {
        close_end();
        printf("late\n");
        await_line();
    }
    release_held();
    return status;
}

/* --- orders ----------------------------------------------------------------------------------- */

static bool take_order(char *order)
{
    char *value = strchr(order, '=');
    if (!value)
        return false;
    *value++ = '\0';
    struct {
        const char *name;
        const char **text;
        uint64_t *number;
    } all[] = {{"media", &orders.media, NULL}, {"sizes", &orders.sizes, NULL},
               {"pause", &orders.pause, NULL}, {"count", NULL, &orders.count},
               {"slots", NULL, &orders.slots}, {"receivers", NULL, &orders.receivers},
               {"key", NULL, &orders.key},     {"hold", NULL, &orders.hold},
               {"quiet", NULL, &orders.quiet}, {"late", NULL, &orders.late}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(order, all[i].name) == 0) {
            if (all[i].text)
                *all[i].text = value;
            else
                *all[i].number = strtoull(value, NULL, 10);
            return true;
        }
    orders.timeout_ns = (int64_t)(strtod(value, NULL) * (double)GPUD_SEC);
    return strcmp(order, "timeout") == 0;
}

int main(int argc, char **argv)
{
    bool good = argc > 2 && (strcmp(argv[1], "send") == 0 || strcmp(argv[1], "receive") == 0);
    for (int i = 3; i < argc; i++)
        good = good && take_order(argv[i]);
    if (!good || orders.hold > HELD_MAX) {
        fprintf(stderr, "usage: end send|receive ADDRESS NAME=VALUE…: see conformance.py\n");
        return 2;
    }
    orders.address = argv[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (gpud_context_create(NULL, &context, &error) != GPUD_OK) {
        tell(error.status);
        return 1;
    }
    if (strcmp(argv[1], "send") == 0)
        send_all();
    else
        receive_all();
    close_end();
    gpud_context_destroy(&context);
    printf("end\n");
    return 0;
}
