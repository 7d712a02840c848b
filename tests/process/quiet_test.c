/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels without frames: no thread of either side wakes up, and the next frame wakes both. */
#include "actor.h"

#include <dirent.h>

#define CHANNELS 16
#define ROUNDS 2
#define WINDOW (2 * GPUD_SEC)

static struct channel {
    char address[32];
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    pthread_t thread;
    atomic_uint frames;
} channels[CHANNELS];
static struct gpud_context *contexts[2];
static const char *device;

static void *receive(void *arg)
{
    struct channel *channel = arg;
    struct gpud_frame *frame;
    enum gpud_status status;
    while ((status = gpud_receiver_acquire(channel->receiver, 60 * GPUD_SEC, &frame, NULL)) ==
           GPUD_OK) {
        gpud_frame_release(&frame);
        atomic_fetch_add(&channel->frames, 1);
    }
    CHECK(status == GPUD_AGAIN, "%s ended with %s", channel->address, gpud_status_string(status));
    return NULL;
}

static void send_frames(void)
{
    for (int i = 0; i < CHANNELS; i++) {
        struct channel *channel = &channels[i];
        unsigned before = atomic_load(&channel->frames);
        struct gpud_frame *frame = ACQUIRE_SLOT(channel->sender, 30 * GPUD_SEC);
        WORKS(gpud_sender_submit(channel->sender, &frame, 30 * GPUD_SEC, &e));
        PEER_UNTIL("a frame", 30000, atomic_load(&channel->frames) > before);
    }
}

/* This thread, and those of a sanitizer, which were there before. */
static int others[16];
static size_t others_count;

static bool is_other(int task)
{
    for (size_t i = 0; i < others_count; i++)
        if (others[i] == task)
            return true;
    return false;
}

static DIR *open_tasks(void)
{
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks, "no /proc/self/task");
    return tasks;
}

/* How often the library's threads have gone to sleep: each sleep follows a wake-up. */
static unsigned long long count_sleeps(void)
{
    unsigned long long sum = 0, count;
    DIR *tasks = open_tasks();
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[200];
        if (task->d_name[0] == '.' || is_other(atoi(task->d_name)))
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof(line), status))
            if (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1)
                sum += count;
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return sum;
}

static bool is_quiet(void)
{
    unsigned long long before = count_sleeps();
    nanosleep(&(struct timespec){.tv_sec = WINDOW / GPUD_SEC}, NULL);
    return count_sleeps() == before;
}

int main(int argc, char **argv)
{
    test_alarm(110);
    baseline_take(); /* a sanitizer starts its thread with the program's first one */
    DIR *tasks = open_tasks();
    for (struct dirent *task; (task = readdir(tasks)) && others_count < 16;)
        if (task->d_name[0] != '.')
            others[others_count++] = atoi(task->d_name);
    closedir(tasks);
    device = argc > 1 ? argv[1] : "host";
    runtime_make();
    for (int i = 0; i < 2; i++)
        contexts[i] = NEW_CONTEXT();
    for (int i = 0; i < CHANNELS; i++) {
        snprintf(channels[i].address, sizeof(channels[i].address), "quiet%d", i);
        channels[i].sender =
            NEW_SENDER(contexts[0], .address = channels[i].address, .device = device);
        CONFIGURE(channels[i].sender, "UYVY", 64, 32);
        channels[i].receiver =
            NEW_RECEIVER(contexts[1], .address = channels[i].address, .device = device);
        channels[i].thread = NEW_THREAD(receive, &channels[i]);
        WORKS(gpud_sender_wait(channels[i].sender, 1, 30 * GPUD_SEC, &e));
    }
    SAY("%d channels on %s without a frame become quiet", CHANNELS, device);
    PEER_UNTIL("quiet", 40000, is_quiet());
    for (int i = 0; i < ROUNDS; i++) {
        SAY("frames flow, and they become quiet again");
        send_frames();
        PEER_UNTIL("quiet", 40000, is_quiet());
    }
    send_frames();
    for (int i = 0; i < CHANNELS; i++) {
        gpud_receiver_interrupt(channels[i].receiver, true);
        pthread_join(channels[i].thread, NULL);
        gpud_receiver_destroy(&channels[i].receiver);
        gpud_sender_destroy(&channels[i].sender);
    }
    for (int i = 0; i < 2; i++)
        gpud_context_destroy(&contexts[i]);
    return runtime_done();
}
