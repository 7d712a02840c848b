/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* images <device> [modifier]: frames that are images as the driver arranges them, of the implicit
 * modifier or of the driver's DRM format modifiers. The applications have VkDevices of their own,
 * in several processes, and every byte is compared. */
#include "app_vulkan.h"

#include "base/base.h"
#include "device/device.h"
#include "route/route.h"
#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "stream/shared/shared.h"
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"
#include "support/spawn_again.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG (60 * GPUD_SEC)
#define HANGS_AFTER 170 /* s: the process is ended then */
#define ADDRESS "images"
#define ADDRESS_NEXT "images-next"
#define SLOTS 3
#define FRAMES 9 /* a test */

static const char *device; /* "vulkan:0" */
static bool implicit;
static uint64_t modifiers[GPUD_MODIFIERS_MAX];
static uint32_t modifier_count;

/* A device in a context of its own. */
struct side {
    struct gpud_context *context;
    struct gpud_device *device;
};

static struct side side_open(const char *name)
{
    struct side made = {.context = NEW_CONTEXT()};
    struct gpud_error why;
    enum gpud_status status = gpud_device_open(made.context, name, &made.device, &why);
    if (status == GPUD_NO_DEVICE)
        SKIP("%s", why.reason);
    CHECK(status == GPUD_OK, "%s: %s", name, why.reason);
    return made;
}

static void side_close(struct side *side)
{
    gpud_device_close(&side->device);
    gpud_context_destroy(&side->context);
}

/* --- pictures --------------------------------------------------------------------------------- */

/* A width that no driver likes, so that its rows are wider than the picture's. */
static struct gpud_layout rows_of(const char *format)
{
    return LAYOUT(format, 332, 118, 0);
}

static struct gpud_media media_of(const struct gpud_layout *layout)
{
    return (struct gpud_media){.kind = GPUD_MEDIA_PICTURE, .picture.layout = *layout};
}

static unsigned char byte_of(uint32_t plane, uint32_t row, uint32_t at, uint64_t number)
{
    return (unsigned char)(at * 7 + row * 13 + plane * 31 + number * 17 + at / 256 * 3);
}

static void paint(unsigned char *data, const struct gpud_layout *rows, uint64_t number)
{
    for (uint32_t p = 0; p < rows->planes; p++)
        for (uint32_t y = 0; y < rows->plane[p].rows; y++)
            for (uint32_t i = 0; i < rows->plane[p].row_bytes; i++)
                data[rows->plane[p].offset + (uint64_t)y * rows->plane[p].stride + i] =
                    byte_of(p, y, i, number);
}

static bool is_painted(const unsigned char *data, const struct gpud_layout *rows, uint64_t number)
{
    for (uint32_t p = 0; p < rows->planes; p++)
        for (uint32_t y = 0; y < rows->plane[p].rows; y++)
            for (uint32_t i = 0; i < rows->plane[p].row_bytes; i++)
                if (data[rows->plane[p].offset + (uint64_t)y * rows->plane[p].stride + i] !=
                    byte_of(p, y, i, number))
                    return false;
    return true;
}

static unsigned char *new_picture(const struct gpud_layout *rows)
{
    unsigned char *data = aligned_alloc(4096, (rows->size + 4095) / 4096 * 4096);
    CHECK(data, "out of memory");
    memset(data, 0, rows->size);
    return data;
}

/* --- sending ---------------------------------------------------------------------------------- */

struct sending {
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout rows;
    struct app *app;
    struct gpud_memory *of; /* the memory that the application has seen first; compared alone */
    uint64_t number;
};

static struct sending start_sending(const char *address, const char *format)
{
    struct sending made = {.context = NEW_CONTEXT(), .rows = rows_of(format)};
    struct gpud_media media = media_of(&made.rows);
    made.host = OPEN_DEVICE(made.context, "host");
    made.sender = NEW_SENDER(made.context, .address = address, .device = device, .slots = SLOTS,
                             .modifiers = modifiers, .modifier_count = modifier_count);
    WORKS(gpud_sender_configure(made.sender, &media, &e));
    return made;
}

static void stop_sending(struct sending *sending)
{
    gpud_sender_destroy(&sending->sender);
    app_close(&sending->app);
    gpud_device_close(&sending->host);
    gpud_context_destroy(&sending->context);
}

static void number_frame(struct gpud_frame *frame, uint64_t number)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
}

/* A lent frame; by the application's own device where it is an image. */
static void send_lent(struct sending *sending)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sending->sender, LONG);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    unsigned char *data = new_picture(&sending->rows);
    gpud_frame_get_info(frame, &info);
    paint(data, &sending->rows, sending->number);
    if (info.layout.modifier) {
        if (!sending->app)
            sending->app = app_open(info.memory);
        app_write(sending->app, frame, &sending->rows, data);
    } else {
        void *to = MAP_FRAME(frame, GPUD_WRITE, LONG);
        memcpy(to, data, sending->rows.size);
        gpud_frame_unmap(frame);
    }
    free(data);
    number_frame(frame, sending->number);
    WORKS(gpud_sender_submit(sending->sender, &frame, LONG, &e));
}

/* Rows of the application's in host memory; `apart`: from there on, where no driver pins them. */
static void send_rows(struct sending *sending, uint64_t apart)
{
    uint64_t size = sending->rows.size + apart;
    unsigned char *data = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    CHECK(data, "out of memory");
    memset(data, 0, size);
    paint(data + apart, &sending->rows, sending->number);
    WORKS(
        gpud_memory_wrap(sending->host, data + apart, sending->rows.size, NULL, NULL, &memory, &e));
    WORKS(gpud_frame_wrap(memory, 0, &sending->rows, &frame, &e));
    number_frame(frame, sending->number);
    WORKS(gpud_sender_submit_keep(sending->sender, frame, LONG, &e));
    gpud_frame_release(&frame);
    /* The copies of a kept frame may be under way. */
    WORKS(gpud_queue_finish(sending->sender->queue, gpud_deadline(LONG), &e));
    gpud_memory_unref(&memory);
    free(data);
}

static void send_one(struct sending *sending)
{
    sending->number++;
    if (sending->number % 3 == 0)
        send_rows(sending, sending->number % 2 ? 0 : 64);
    else
        send_lent(sending);
}

/* --- receiving -------------------------------------------------------------------------------- */

struct receiving {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct app *app;
    bool takes;
    unsigned formats, image_formats;
};

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiving *receiving = user;
    if (event != GPUD_EVENT_FORMAT)
        return;
    receiving->formats++;
    receiving->image_formats +=
        ((const struct gpud_format_event *)data)->media.picture.layout.modifier != 0;
}

static void start_receiving(struct receiving *made, const char *address, const char *where,
                            bool takes)
{
    *made = (struct receiving){.context = NEW_CONTEXT(), .takes = takes};
    made->receiver =
        NEW_RECEIVER(made->context, .address = address, .device = where, .slots = SLOTS,
                     .on_event = on_event, .user = made, .modifiers = takes ? modifiers : NULL,
                     .modifier_count = takes ? modifier_count : 0);
}

static void stop_receiving(struct receiving *receiving)
{
    gpud_receiver_destroy(&receiving->receiver);
    app_close(&receiving->app);
    gpud_context_destroy(&receiving->context);
}

/* By the application's own device where it is an image, else by the CPU. */
static void check_frame(struct receiving *receiving, struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    const struct gpud_layout *layout = &info.layout;
    if (!layout->modifier) {
        const unsigned char *data = MAP_FRAME(frame, GPUD_READ, LONG);
        CHECK(is_painted(data, layout, info.offset), "the rows of frame %llu are wrong",
              (unsigned long long)info.offset);
        gpud_frame_unmap(frame);
        return;
    }
    struct gpud_layout rows = rows_of(layout->format);
    unsigned char *data = new_picture(&rows);
    if (!receiving->app)
        receiving->app = app_open(info.memory);
    app_read(receiving->app, frame, &rows, data);
    CHECK(is_painted(data, &rows, info.offset), "the image of frame %llu is wrong",
          (unsigned long long)info.offset);
    free(data);
}

static void receive(struct receiving *receiving, unsigned frames)
{
    for (unsigned i = 0; i < frames; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(receiving->receiver, LONG);
        check_frame(receiving, frame);
        gpud_frame_release(&frame);
    }
}

static void check_way(struct receiving *receiving, bool images)
{
    struct gpud_receiver_info info = INFO(receiver, receiving->receiver);
    CHECK(!images || strcmp(info.path, "map") == 0, "images by %s: %s", info.path,
          info.fallback_reason);
    CHECK(images || strcmp(info.path, "map") != 0, "rows by map");
    CHECK(images || strstr(info.fallback_reason, "frames are images"), "the reason: \"%s\"",
          info.fallback_reason);
    CHECK(!images || info.copies_cpu + info.copies_gpu == 0, "images are copied");
    CHECK(receiving->image_formats == (images ? receiving->formats : 0),
          "%u of %u formats are images", receiving->image_formats, receiving->formats);
}

/* --- other processes -------------------------------------------------------------------------- */

/* receive DEVICE KIND ADDRESS WHERE TAKES FRAMES: ends with 0 once they came, all right. */
static int play_receiver(char **argv)
{
    struct receiving receiving;
    bool takes = argv[2][0] == '1';
    unsigned frames = (unsigned)atoi(argv[3]);
    start_receiving(&receiving, argv[0], argv[1], takes);
    receive(&receiving, frames ? frames : UINT32_MAX);
    check_way(&receiving, takes);
    stop_receiving(&receiving);
    return 0;
}

/* send DEVICE KIND ADDRESS FORMAT: until it is killed. */
static _Noreturn void play_sender(char **argv)
{
    struct sending sending = start_sending(argv[0], argv[1]);
    for (;;) {
        WORKS(gpud_sender_wait(sending.sender, 1, LONG, &e));
        send_one(&sending);
    }
}

static pid_t start(const char *role, const char *address, const char *what, const char *takes,
                   const char *frames)
{
    extern char **environ;
    pid_t pid;
    char *argv[] = {(char *)"images", (char *)device,  (char *)(implicit ? "implicit" : "modifier"),
                    (char *)role,     (char *)address, (char *)what,
                    (char *)takes,    (char *)frames,  NULL};
    int failed = spawn_again(&pid, NULL, argv, environ);
    CHECK(failed == 0, "no process: %s", strerror(failed));
    return pid;
}

static pid_t start_receiver_of(const char *address, const char *where, bool takes, unsigned frames)
{
    char count[16];
    snprintf(count, sizeof(count), "%u", frames);
    return start("receive", address, where, takes ? "1" : "0", count);
}

static pid_t start_receiver(const char *where, bool takes, unsigned frames)
{
    return start_receiver_of(ADDRESS, where, takes, frames);
}

static void finish(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "the other process ended with %d", status);
}

static void end(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "it had ended by itself: %d",
          status);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* How a picture of the format would be lent. */
static bool has_image(struct gpud_device *on, const char *format, struct gpud_layout *image,
                      struct gpud_error *why)
{
    struct gpud_layout rows = rows_of(format);
    return gpud_image_find(on, &rows, modifiers, modifier_count, image, why) == GPUD_OK;
}

/* The bytes of a lent frame as they lie; a driver may well lay a picture out by rows. */
static void say_arranged(struct sending *sending)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sending->sender, LONG);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    unsigned char *data = new_picture(&sending->rows);
    gpud_frame_get_info(frame, &info);
    paint(data, &sending->rows, 1);
    if (!sending->app)
        sending->app = app_open(info.memory);
    app_write(sending->app, frame, &sending->rows, data);
    const unsigned char *bytes = MAP_FRAME(frame, GPUD_READ, LONG);
    SAY("  modifier 0x%016llx, %llu bytes for %llu of rows, which lie %s",
        (unsigned long long)info.layout.modifier, (unsigned long long)info.layout.size,
        (unsigned long long)sending->rows.size,
        memcmp(bytes, data, sending->rows.size) == 0 ? "the same" : "otherwise");
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
    free(data);
}

static void test_beside(const char *format)
{
    SAY("%s: images for one process, rows for others beside it", format);
    struct sending sending = start_sending(ADDRESS, format);
    struct gpud_frame *lent = ACQUIRE_SLOT(sending.sender, LONG);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(lent, &info);
    CHECK(info.layout.modifier && (info.layout.modifier == GPUD_MODIFIER_IMPLICIT) == implicit,
          "a frame with the modifier 0x%llx is lent", (unsigned long long)info.layout.modifier);
    gpud_frame_release(&lent);
    say_arranged(&sending);
    pid_t peers[] = {start_receiver(device, true, FRAMES), start_receiver(device, false, FRAMES),
                     start_receiver("host", false, FRAMES)};
    WORKS(gpud_sender_wait(sending.sender, 3, LONG, &e));
    for (unsigned i = 0; i < FRAMES; i++)
        send_one(&sending);
    for (unsigned i = 0; i < 3; i++)
        finish(peers[i]);
    stop_sending(&sending);
}

/* One in the sender's own process and context, and one that leaves and comes again. */
static void test_same_process(void)
{
    SAY("images inside one process, by pointer; and other formats in between");
    static const char *const formats[] = {"RGBA", "UYVY", "RGBA"};
    struct sending sending = start_sending(ADDRESS, "RGBA");
    struct receiving receiving = {.context = sending.context, .takes = true};
    receiving.receiver =
        NEW_RECEIVER(sending.context, .address = ADDRESS, .device = device, .slots = SLOTS,
                     .modifiers = modifiers, .modifier_count = modifier_count);
    for (unsigned i = 0; i < 3; i++) {
        sending.rows = rows_of(formats[i]);
        struct gpud_media media = media_of(&sending.rows);
        struct gpud_frame *frame = NULL;
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        WORKS(gpud_sender_configure(sending.sender, &media, &e));
        /* The handshake runs in this thread's acquire. */
        for (int64_t deadline = gpud_deadline(LONG);
             gpud_sender_wait(sending.sender, 1, 0, NULL) != GPUD_OK;) {
            struct gpud_error why;
            enum gpud_status got =
                gpud_receiver_acquire(receiving.receiver, 20 * GPUD_MSEC, &frame, &why);
            CHECK(got == GPUD_TIMEOUT, "acquire: %s", why.reason);
            CHECK(gpud_now() < deadline, "no link for %s", formats[i]);
        }
        sending.number++;
        send_lent(&sending);
        frame = ACQUIRE_FRAME(receiving.receiver, LONG);
        gpud_frame_get_info(frame, &info);
        CHECK(strcmp(info.layout.format, formats[i]) == 0, "a frame of %s", info.layout.format);
        CHECK((info.layout.modifier != 0) == (i != 1), "%s with modifier 0x%llx", formats[i],
              (unsigned long long)info.layout.modifier);
        check_frame(&receiving, frame);
        gpud_frame_release(&frame);
        app_close(&receiving.app); /* the next epoch's memories may have the same addresses */
        app_close(&sending.app);
    }
    gpud_receiver_destroy(&receiving.receiver);
    stop_sending(&sending);
}

static void wait_alone(const struct sending *sending)
{
    int64_t deadline = gpud_deadline(LONG);
    while (INFO(sender, sending->sender).receivers) {
        CHECK(gpud_now() < deadline, "a receiver that is gone still counts");
        usleep(1000);
    }
}

static void test_kill_receivers(void)
{
    SAY("receivers are killed: the others get every frame, and new ones images");
    struct sending sending = start_sending(ADDRESS, "RGBA");
    for (unsigned round = 0; round < 2; round++) {
        pid_t image = start_receiver(device, true, round == 0 ? 0 : FRAMES);
        pid_t rows = start_receiver("host", false, round == 1 ? 0 : FRAMES);
        WORKS(gpud_sender_wait(sending.sender, 2, LONG, &e));
        for (unsigned i = 0; i < FRAMES; i++) {
            if (i == FRAMES / 2)
                end(round == 0 ? image : rows);
            send_one(&sending);
        }
        finish(round == 0 ? rows : image);
        wait_alone(&sending);
    }
    stop_sending(&sending);
}

static void test_kill_sender(void)
{
    SAY("the sender is killed: a held image stays, and the next sender's images come");
    struct receiving receiving;
    struct gpud_frame *held = NULL;
    start_receiving(&receiving, ADDRESS, device, true);
    for (unsigned round = 0; round < 2; round++) {
        pid_t sender = start("send", ADDRESS, "RGBA", NULL, NULL);
        receive(&receiving, FRAMES);
        check_way(&receiving, true);
        held = ACQUIRE_FRAME(receiving.receiver, LONG);
        end(sender);
        struct gpud_error why = {.reason = ""};
        enum gpud_status got = GPUD_OK;
        while (got == GPUD_OK) {
            struct gpud_frame *frame = NULL;
            got = gpud_receiver_acquire(receiving.receiver, LONG, &frame, &why);
            gpud_frame_release(&frame);
        }
        CHECK(got == GPUD_PEER, "status %d: %s", (int)got, why.reason);
        check_frame(&receiving, held);
        gpud_frame_release(&held);
        app_close(&receiving.app);
    }
    stop_receiving(&receiving);
}

/* What another process lends is sent on, to one that takes images and to one that does not. */
static void test_relay(void)
{
    SAY("received images are sent on");
    struct sending next = start_sending(ADDRESS_NEXT, "RGBA");
    struct receiving receiving = {.context = next.context};
    pid_t sender = start("send", ADDRESS, "RGBA", NULL, NULL);
    pid_t peers[] = {start_receiver_of(ADDRESS_NEXT, device, true, FRAMES),
                     start_receiver_of(ADDRESS_NEXT, "host", false, FRAMES)};
    WORKS(gpud_sender_wait(next.sender, 2, LONG, &e));
    receiving.receiver =
        NEW_RECEIVER(next.context, .address = ADDRESS, .device = device, .slots = SLOTS,
                     .modifiers = modifiers, .modifier_count = modifier_count);
    for (unsigned i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(receiving.receiver, LONG);
        WORKS(gpud_sender_submit(next.sender, &frame, LONG, &e));
    }
    finish(peers[0]);
    finish(peers[1]);
    end(sender);
    gpud_receiver_destroy(&receiving.receiver);
    stop_sending(&next);
}

static void test_lies(struct side *side)
{
    SAY("images that do not lie as the driver arranges them are refused");
    struct gpud_layout image, lie;
    struct gpud_error why;
    CHECK(has_image(side->device, "RGBA", &image, &why), "%s", why.reason);
    WORKS(gpud_image_check(side->device, &image, image.size, modifiers, modifier_count, &e));
    lie = image;
    EXPECT(GPUD_PEER, "",
           gpud_image_check(side->device, &lie, image.size + 4096, modifiers, modifier_count, &e));
    lie.modifier = UINT64_C(0x0e00000000000001); /* no vendor's */
    EXPECT(GPUD_UNSUPPORTED, "",
           gpud_image_check(side->device, &lie, lie.size, modifiers, modifier_count, &e));
    EXPECT(GPUD_UNSUPPORTED, "",
           gpud_image_check(side->device, &lie, lie.size, &lie.modifier, 1, &e));
    lie = image;
    lie.width *= 2; /* its rows are half as long */
    CHECK(gpud_image_check(side->device, &lie, lie.size, modifiers, modifier_count, &why) !=
              GPUD_OK,
          "half of a picture is taken for one");
    lie = image;
    snprintf(lie.format, sizeof(lie.format), "UYVY");
    EXPECT(GPUD_UNSUPPORTED, "",
           gpud_image_check(side->device, &lie, lie.size, modifiers, modifier_count, &e));
    lie = image;
    lie.size -= 4096; /* too small for it */
    CHECK(gpud_image_check(side->device, &lie, lie.size, modifiers, modifier_count, &why) ==
              GPUD_PEER,
          "an image that is too small is taken");
    if (implicit)
        return;
    lie = image;
    lie.plane[0].stride += 64;
    EXPECT(GPUD_PEER, "",
           gpud_image_check(side->device, &lie, lie.size, modifiers, modifier_count, &e));
}

/* A sender that says something else of its images than they are; the receiver finds out in its
 * handshake, says so, and gets rows. */
static void test_lying_sender(void)
{
    SAY("a sender that lies about its images");
    struct sending sending = start_sending(ADDRESS, "RGBA");
    gpud_sender_lock(sending.sender);
    /* The ring and the offer agree; the driver does not. */
    if (implicit)
        sending.sender->layout.width /= 2;
    else
        sending.sender->layout.plane[0].stride -= 8;
    gpud_sender_unlock(sending.sender);
    struct receiving receiving;
    struct gpud_frame *frame;
    struct gpud_error why = {.reason = ""};
    receiving = (struct receiving){.context = NEW_CONTEXT()};
    receiving.receiver =
        NEW_RECEIVER(receiving.context, .address = ADDRESS, .device = device, .route = "map",
                     .modifiers = modifiers, .modifier_count = modifier_count);
    enum gpud_status got = gpud_receiver_acquire(receiving.receiver, LONG, &frame, &why);
    CHECK(got == GPUD_UNSUPPORTED && strstr(why.reason, "map: "), "status %d: %s", (int)got,
          why.reason);
    SAY("  %s", why.reason);
    stop_receiving(&receiving);
    stop_sending(&sending);
}

/* By what each of them says of itself. */
static void test_choice(struct side *side, struct side *host)
{
    SAY("who says that it takes images gets them only where it can");
    struct gpud_endpoint sender, receiver;
    char reason[GPUD_REASON_MAX];
    struct gpud_route_trials *trials = gpud_route_trials_create();
    gpud_endpoint_describe(&sender, side->device, NULL);
    sender.caps |= GPUD_CAP_IMAGES;
    for (unsigned i = 0; i < 4; i++) {
        gpud_endpoint_describe(&receiver, i == 3 ? host->device : side->device, NULL);
        receiver.token = ~sender.token;
        if (i != 0)
            receiver.caps |= GPUD_CAP_IMAGES;
        if (i == 2) /* another GPU */
            receiver.uuid[0] ^= 1;
        const struct gpud_route_ops *route = gpud_route_select(&sender, &receiver, trials, reason);
        CHECK(route, "no route: %s", reason);
        CHECK((strcmp(route->name, "map") == 0) == (i == 1), "case %u goes by %s", i, route->name);
    }
    gpud_route_trials_destroy(&trials);
}

static void test_bad_parameters(struct side *side)
{
    SAY("nonsense is refused with a sentence");
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_vulkan_memory_info info = GPUD_INFO_INIT(info);
    struct gpud_memory *plain = NEW_MEMORY(side->device, 4096);
    EXPECT(
        GPUD_INVALID, "",
        gpud_sender_create(side->context,
                           WITH_SIZE(gpud_sender_params, .address = ADDRESS, .modifier_count = 1),
                           &sender, &e));
    EXPECT(GPUD_INVALID, "",
           gpud_receiver_create(side->context,
                                WITH_SIZE(gpud_receiver_params, .address = ADDRESS,
                                          .modifiers = modifiers,
                                          .modifier_count = GPUD_MODIFIERS_MAX + 1),
                                &receiver, &e));
    EXPECT(GPUD_UNSUPPORTED, "", gpud_memory_export_vulkan(plain, &info, &e));
    info.size = 0;
    EXPECT(GPUD_INVALID, "", gpud_memory_export_vulkan(plain, &info, &e));
    gpud_memory_unref(&plain);
}

/* Modifiers asked for where there are none. */
static void test_elsewhere(void)
{
    SAY("a sender on the host lends rows");
    const char *before = device;
    device = "host";
    struct sending sending = start_sending(ADDRESS, "RGBA");
    struct gpud_frame *frame = ACQUIRE_SLOT(sending.sender, LONG);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    CHECK(info.layout.modifier == 0, "an image on the host");
    gpud_frame_release(&frame);
    stop_sending(&sending);
    device = before;
}

int main(int argc, char **argv)
{
    static const char *const formats[] = {"RGBA", "GRAY8", "RGBA64_LE", "NV12"};
    CHECK(argc > 1, "usage: %s DEVICE [modifier]", argv[0]);
    device = argv[1];
    implicit = argc < 3 || strcmp(argv[2], "modifier") != 0;
    test_alarm(HANGS_AFTER);
    if (implicit) {
        modifiers[modifier_count++] = GPUD_MODIFIER_IMPLICIT;
    } else {
        struct side tried = side_open(device); /* 77 without a driver */
        side_close(&tried);
        modifier_count = app_list_modifiers("RGBA", modifiers);
    }
    if (argc > 3 && strcmp(argv[3], "send") == 0)
        play_sender(argv + 4);
    if (argc > 3)
        return play_receiver(argv + 4);
    struct side side = side_open(device), host = side_open("host");
    struct gpud_layout image;
    struct gpud_error why;
    SAY("%s is %s", device, INFO(device, side.device).description);
    if (modifier_count == 0)
        SKIP("the driver of %s has no DRM format modifiers "
             "(VK_EXT_image_drm_format_modifier)",
             device);
    if (!has_image(side.device, "RGBA", &image, &why))
        SKIP("%s", why.reason);
    runtime_make();
    test_bad_parameters(&side);
    test_choice(&side, &host);
    test_lies(&side);
    for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (has_image(side.device, formats[i], &image, &why))
            test_beside(formats[i]);
        else
            SAY("%s: %s", formats[i], why.reason);
    }
    side_close(&host);
    side_close(&side);
    test_same_process();
    test_kill_receivers();
    test_kill_sender();
    test_relay();
    test_lying_sender();
    test_elsewhere();
    runtime_done();
    return 0;
}
