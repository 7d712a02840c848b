/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the monitor knows: it asks, and remembers. */
#include "monitor/monitor.h"

#include "channels/channels.h"

#include <gio/gio.h>
#include <gpudirect/channel.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* === expect ================================================================================== */

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* "cam1", "cam1/audio", "unix:/run/studio/cam1", "tcp://10.0.0.1:7175/cam1" */
static bool is_address(const char *text)
{
    struct gpud_channel_info info;
    size_t length = strlen(text), name = strspn(text, NAME_CHARACTERS);
    const char *stream = text[name] == '/' ? text + name + 1 : NULL;
    if (length >= sizeof(info.address) || text[length - 1] == '/')
        return false;
    if (g_str_has_prefix(text, "unix:/") || gpud_address_get_host(text))
        return true;
    if (name == 0 || text[0] == '.')
        return false;
    return stream ? stream[0] && stream[0] != '.' && !stream[strspn(stream, NAME_CHARACTERS)]
                  : text[name] == '\0';
}

static bool expect_read_file(GHashTable *expected, const char *path, GError **error)
{
    char *text;
    bool works = true;
    if (!g_file_get_contents(path, &text, NULL, error))
        return false;
    char **lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; works && lines[i]; i++) {
        char *line = lines[i];
        line[strcspn(line, "#")] = '\0';
        g_strstrip(line);
        works = !line[0] || is_address(line);
        if (!works)
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                        "%s, line %u: \"%.64s\" is not an address: write one a line, such as cam1, "
                        "unix:/run/studio/cam1 or tcp://10.0.0.1:7175/cam1",
                        path, i + 1, line);
        else if (line[0])
            g_hash_table_add(expected, g_strdup(line));
    }
    g_strfreev(lines);
    g_free(text);
    return works;
}

/* All files of a folder but hidden ones and an editor's copies. */
static bool read_folder(GHashTable *expected, const char *path, GError **error)
{
    bool works = true;
    GDir *folder = g_dir_open(path, 0, error);
    if (!folder)
        return false;
    for (const char *name; works && (name = g_dir_read_name(folder));) {
        char *file = g_build_filename(path, name, NULL);
        if (name[0] != '.' && !g_str_has_suffix(name, "~") &&
            g_file_test(file, G_FILE_TEST_IS_REGULAR))
            works = expect_read_file(expected, file, error);
        g_free(file);
    }
    g_dir_close(folder);
    return works;
}

GHashTable *monitor_expect_read(char *const *paths, GError **error)
{
    GHashTable *expected = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (; *paths; paths++) {
        bool works = g_file_test(*paths, G_FILE_TEST_IS_DIR)
                         ? read_folder(expected, *paths, error)
                         : expect_read_file(expected, *paths, error);
        if (!works) {
            g_hash_table_unref(expected);
            return NULL;
        }
    }
    return expected;
}

/* === poll ==================================================================================== */

struct monitor_poll {
    const struct channels_scope *scope;
    char *const *expect;
    monitor_poll_done done;
    void *user;
    GThread *thread;
    GMutex lock;
    GCond wake;
    bool stopping;
    GQueue answers; /* struct monitor_answer; as many calls of deliver() are under way */
};

static void answer_free(gpointer data)
{
    struct monitor_answer *answer = data;
    g_clear_pointer(&answer->folders, g_ptr_array_unref);
    g_clear_pointer(&answer->expected, g_hash_table_unref);
    g_free(answer->expect_error);
    g_free(answer);
}

static gboolean deliver(gpointer data)
{
    struct monitor_poll *poll = data;
    g_mutex_lock(&poll->lock);
    struct monitor_answer *answer = g_queue_pop_head(&poll->answers);
    g_mutex_unlock(&poll->lock);
    poll->done(poll->user, answer);
    answer_free(answer);
    return G_SOURCE_REMOVE;
}

static gpointer poll_run(gpointer data)
{
    struct monitor_poll *poll = data;
    g_mutex_lock(&poll->lock);
    while (!poll->stopping) {
        g_mutex_unlock(&poll->lock);
        struct monitor_answer *answer = g_new0(struct monitor_answer, 1);
        /* A late question delays the next one, since rates over a short time are but noise. */
        gint64 next = (answer->asked = g_get_monotonic_time()) + G_USEC_PER_SEC;
        /* The files are read each time: they may change at any time, and are small. */
        struct channels_scope scope = *poll->scope;
        GPtrArray *more = g_ptr_array_new();
        GError *error = NULL;
        GHashTableIter iter;
        gpointer address;
        if (poll->expect && !(answer->expected = monitor_expect_read(poll->expect, &error))) {
            answer->expect_error = g_strdup(error->message);
            g_error_free(error);
        }
        for (char *const *given = scope.more; given && *given; given++)
            g_ptr_array_add(more, *given);
        if (answer->expected)
            g_hash_table_iter_init(&iter, answer->expected);
        while (answer->expected && g_hash_table_iter_next(&iter, &address, NULL))
            /* A bare name is found by its folder, if that is searched. */
            if (strchr(address, ':') || scope.folders)
                g_ptr_array_add(more, address);
        g_ptr_array_add(more, NULL);
        scope.more = (char **)more->pdata;
        answer->folders = channels_ask(&scope, &answer->error);
        g_ptr_array_unref(more);
        g_mutex_lock(&poll->lock);
        g_queue_push_tail(&poll->answers, answer);
        g_idle_add_full(G_PRIORITY_DEFAULT, deliver, poll, NULL);
        while (!poll->stopping && g_cond_wait_until(&poll->wake, &poll->lock, next))
            ;
    }
    g_mutex_unlock(&poll->lock);
    return NULL;
}

struct monitor_poll *monitor_poll_start(const struct channels_scope *scope, char *const *expect,
                                        monitor_poll_done done, void *user)
{
    struct monitor_poll *poll = g_new0(struct monitor_poll, 1);
    poll->scope = scope;
    poll->expect = expect;
    poll->done = done;
    poll->user = user;
    g_mutex_init(&poll->lock);
    g_cond_init(&poll->wake);
    poll->thread = g_thread_new("poll", poll_run, poll);
    return poll;
}

void monitor_poll_stop(struct monitor_poll *poll)
{
    g_mutex_lock(&poll->lock);
    poll->stopping = true;
    g_cond_signal(&poll->wake);
    g_mutex_unlock(&poll->lock);
    g_thread_join(poll->thread);
    while (g_source_remove_by_user_data(poll))
        ;
    g_queue_clear_full(&poll->answers, answer_free);
    g_mutex_clear(&poll->lock);
    g_cond_clear(&poll->wake);
    g_free(poll);
}

/* === model =================================================================================== */

/* Without a frame for so long it is the signal that is missing. */
#define SEEN_AGE (5 * G_USEC_PER_SEC)
/* Without a frame for so long a channel has no signal. */
#define SIGNAL_AGE (2 * (uint64_t)GPUD_SEC)
/* A loss is over when there was none for so long. */
#define LOSS_PAUSE (5 * G_USEC_PER_SEC)
/* A picture that stands still, or is black, and silence are a trouble after so many seconds. */
#define CONTENT_PATIENCE 10
/* A channel that is gone is remembered for so long. */
#define DAY (24 * 60 * 60 * (gint64)G_USEC_PER_SEC)
/* A receiver that loses this part of its frames is as good as without a signal. */
#define LOSS_BAD 0.1

/* --- events -------------------------------------------------------------------------------- */

static void event_free(gpointer data)
{
    struct monitor_event *event = data;
    g_free(event->channel);
    g_free(event->text);
    g_free(event);
}

static void add_event(struct monitor_model *model, const char *kind, const char *channel,
                      const char *format, ...) G_GNUC_PRINTF(4, 5);
static void add_event(struct monitor_model *model, const char *kind, const char *channel,
                      const char *format, ...)
{
    struct monitor_event *event = g_new0(struct monitor_event, 1);
    va_list args;
    va_start(args, format);
    event->number = ++model->event_count;
    event->time = g_get_real_time();
    event->kind = kind;
    event->channel = g_strdup(channel);
    event->text = g_strdup_vprintf(format, args);
    va_end(args);
    g_queue_push_tail(&model->events, event);
    if (model->events.length > MONITOR_EVENTS) {
        /* Drops the oldest event of the channel that has the most, so that none can push out what
         * others have to tell. */
        GHashTable *counts = g_hash_table_new(g_str_hash, g_str_equal);
        const char *busiest = "";
        guint most = 0;
        for (const GList *link = model->events.tail; link; link = link->prev) {
            char *own = ((const struct monitor_event *)link->data)->channel;
            guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, own)) + 1;
            g_hash_table_insert(counts, own, GUINT_TO_POINTER(count));
            if (count >= most)
                busiest = own, most = count;
        }
        g_hash_table_unref(counts);
        GList *oldest = model->events.head;
        while (strcmp(((const struct monitor_event *)oldest->data)->channel, busiest) != 0)
            oldest = oldest->next;
        event_free(oldest->data);
        g_queue_delete_link(&model->events, oldest);
    }
}

/* --- series -------------------------------------------------------------------------------- */

/* The latency that this part of the frames since then did not exceed. */
static double quantile(const struct monitor_counts *newest, const struct monitor_counts *since,
                       double part)
{
    static const uint32_t bounds[] = GPUD_LATENCY_BOUNDS_NS;
    double total = 0, sum = 0;
    for (size_t i = 0; i < GPUD_LATENCY_BUCKETS; i++)
        total += (double)(newest->latency_bucket[i] - since->latency_bucket[i]);
    if (total == 0)
        return NAN;
    for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++) {
        sum += (double)(newest->latency_bucket[i] - since->latency_bucket[i]);
        if (sum >= part * total)
            return (double)bounds[i] / 1e9;
    }
    return INFINITY;
}

/* Counters that went back belong to another process, or were reset with its connection. */
static bool went_back(const struct monitor_counts *newest, const struct monitor_counts *last)
{
    bool back = newest->frames < last->frames || newest->dropped < last->dropped;
    for (size_t i = 0; i < GPUD_LATENCY_BUCKETS; i++)
        back |= newest->latency_bucket[i] < last->latency_bucket[i];
    return back;
}

/* rate_hz: by the sender's own clock; NAN: from the counts. */
static void add_sample(struct monitor_series *series, struct monitor_figures *figures,
                       const struct monitor_counts *newest, double rate_hz)
{
    if (series->in_window > 0 && went_back(newest, &series->window[series->in_window - 1]))
        series->in_window = 0;
    if (series->in_window == G_N_ELEMENTS(series->window))
        memmove(&series->window[0], &series->window[1],
                --series->in_window * sizeof(series->window[0]));
    series->window[series->in_window++] = *newest;
    const struct monitor_counts *since = &series->window[0];
    const struct monitor_counts *before =
        &series->window[series->in_window > 1 ? series->in_window - 2 : 0];
    double seconds = (double)(newest->time - since->time) / G_USEC_PER_SEC;
    figures->rate_hz = series->in_window > 1 ? rate_hz : NAN;
    if (isnan(rate_hz) && seconds > 0)
        figures->rate_hz = (double)(newest->frames - since->frames) / seconds;
    figures->dropped_hz = seconds > 0 ? (double)(newest->dropped - since->dropped) / seconds : NAN;
    figures->latency_p50_s = quantile(newest, since, 0.5);
    figures->latency_p99_s = quantile(newest, since, 0.99);

    seconds = (double)(newest->time - before->time) / G_USEC_PER_SEC;
    struct monitor_sample *sample = &series->sample[series->next];
    sample->rate_hz =
        (float)(isnan(rate_hz) && seconds > 0 ? (double)(newest->frames - before->frames) / seconds
                                              : figures->rate_hz);
    sample->latency_p99_s = (float)quantile(newest, before, 0.99);
    sample->dropped = (uint32_t)MIN(newest->dropped - before->dropped, UINT32_MAX);
    series->next = (series->next + 1) % MONITOR_HISTORY;
    series->count += series->count < MONITOR_HISTORY;
}

const struct monitor_sample *monitor_series_get(const struct monitor_series *series, unsigned at)
{
    unsigned oldest = series->next + MONITOR_HISTORY - series->count;
    return &series->sample[(oldest + at) % MONITOR_HISTORY];
}

/* --- receivers ----------------------------------------------------------------------------- */

static const char *model_name_of(const struct gpud_link_info *link)
{
    return link->name[0] ? link->name : "a process";
}

static void note_changes(struct monitor_model *model, const struct monitor_channel *channel,
                         struct monitor_receiver *receiver, const struct gpud_link_info *now,
                         gint64 time)
{
    const struct gpud_link_info *before = &receiver->info;
    const char *address = channel->info.address;
    uint64_t lost = now->dropped - before->dropped;
    if (before->path[0] && strcmp(before->path, now->path) != 0)
        add_event(model, "connect", address, "%s #%" PRIu64 " by route %s%s%s", model_name_of(now),
                  now->id, now->path, now->fallback_reason[0] ? "; not better, because " : "",
                  now->fallback_reason);
    if (now->dropped < before->dropped)
        return;
    if (lost > 0 && !receiver->loss_since) {
        const char *cause = now->dropped_failed > before->dropped_failed ? "copies to it fail"
                            : now->dropped_format > before->dropped_format
                                ? "it is not ready for the new format in time"
                            : now->dropped_oldest > before->dropped_oldest
                                ? "it is slow, and newer frames replace those that wait"
                                : "it is slow, and has no free slot";
        receiver->loss_since = time;
        receiver->lost = 0;
        add_event(model, "loss", address, "%s #%" PRIu64 " loses frames: %s", model_name_of(now),
                  now->id, cause);
    }
    if (lost > 0)
        receiver->loss_last = time;
    receiver->lost += lost;
    if (receiver->loss_since && time - receiver->loss_last > LOSS_PAUSE) {
        add_event(model, "loss", address,
                  "%s #%" PRIu64 " lost %" PRIu64 " frame%s in %" PRId64 " s", model_name_of(now),
                  now->id, receiver->lost, receiver->lost == 1 ? "" : "s",
                  (receiver->loss_last - receiver->loss_since) / G_USEC_PER_SEC + 1);
        receiver->loss_since = 0;
    }
}

static void update_receiver(struct monitor_model *model, struct monitor_channel *channel,
                            const struct gpud_link_info *now, gint64 time)
{
    struct monitor_receiver *receiver = NULL;
    struct monitor_counts counts = {
        .time = time, .frames = now->stats.frames, .dropped = now->dropped};
    memcpy(counts.latency_bucket, now->stats.latency_bucket, sizeof(counts.latency_bucket));
    for (guint i = 0; i < channel->receivers->len && !receiver; i++)
        if (((struct monitor_receiver *)channel->receivers->pdata[i])->info.id == now->id)
            receiver = channel->receivers->pdata[i];
    if (!receiver) {
        receiver = g_new0(struct monitor_receiver, 1);
        receiver->is_own = now->pid == getpid() && strcmp(now->name, MONITOR_NAME) == 0;
        g_ptr_array_add(channel->receivers, receiver);
        if (!receiver->is_own && model->updated)
            add_event(model, "connect", channel->info.address,
                      "%s #%" PRIu64 " connects: process %" PRId64 "%s%s, route %s",
                      model_name_of(now), now->id, now->pid, now->host[0] ? " on " : "", now->host,
                      now->path);
        receiver->info = *now;
    }
    if (!receiver->is_own)
        note_changes(model, channel, receiver, now, time);
    if (!receiver->is_own && now->degraded && !receiver->degraded)
        add_event(model, "degraded", channel->info.address,
                  "%s #%" PRIu64 " by %s is worse than the devices allow (%s), because %s",
                  model_name_of(now), now->id, now->path, channels_degraded_name(now->degraded),
                  now->fallback_reason);
    receiver->degraded = now->degraded;
    receiver->info = *now;
    receiver->seen = true;
    add_sample(&receiver->series, &receiver->figures, &counts, NAN);
}

static void update_receivers(struct monitor_model *model, struct monitor_channel *channel,
                             const struct gpud_channel_info *now, gint64 time)
{
    for (guint i = 0; i < channel->receivers->len; i++)
        ((struct monitor_receiver *)channel->receivers->pdata[i])->seen = false;
    for (uint32_t i = 0; i < now->links; i++)
        update_receiver(model, channel, now->link[i], time);
    for (guint i = channel->receivers->len; i-- > 0;) {
        const struct monitor_receiver *receiver = channel->receivers->pdata[i];
        if (receiver->seen)
            continue;
        if (!receiver->is_own)
            add_event(model, "disconnect", channel->info.address, "%s #%" PRIu64 " is gone",
                      model_name_of(&receiver->info), receiver->info.id);
        g_ptr_array_remove_index(channel->receivers, i);
    }
}

/* --- channels ------------------------------------------------------------------------------ */

static void channel_free(gpointer data)
{
    struct monitor_channel *channel = data;
    g_ptr_array_unref(channel->receivers);
    g_ptr_array_unref(channel->waiting);
    g_free(channel);
}

struct monitor_channel *monitor_model_find(const struct monitor_model *model, const char *address)
{
    for (guint i = 0; i < model->channels->len; i++) {
        struct monitor_channel *channel = model->channels->pdata[i];
        if (strcmp(channel->info.address, address) == 0)
            return channel;
    }
    return NULL;
}

/* As caps, without the types: "width=1920", not "width=(int)1920". */
static void describe_media(const struct gpud_channel_info *info, char media[GPUD_MEDIA_TEXT_MAX])
{
    char *to = media;
    media[0] = '\0';
    if (!info->configured ||
        gpud_media_to_string(&info->media, media, GPUD_MEDIA_TEXT_MAX, NULL) != GPUD_OK)
        return;
    for (const char *from = media; *from; from++) {
        size_t type = strncmp(from, "=(", 2) == 0 ? strcspn(from, ")") : 0;
        *to++ = *from;
        from += from[type] == ')' ? type : 0;
    }
    *to = '\0';
}

static void describe_briefly(struct monitor_channel *channel, const struct gpud_channel_info *info)
{
    const struct gpud_picture *picture = &info->media.picture;
    const struct gpud_audio *audio = &info->media.audio;
    size_t room = sizeof(channel->brief);
    describe_media(info, channel->media);
    if (!info->configured) {
        g_strlcpy(channel->brief, "no format yet", room);
        return;
    }
    if (info->media.kind == GPUD_MEDIA_AUDIO) {
        g_snprintf(channel->brief, room, "%.6g kHz, %u channel%s, %s", audio->rate / 1000.0,
                   audio->channels, audio->channels == 1 ? "" : "s", audio->format);
    } else if (info->media.kind == GPUD_MEDIA_PICTURE) {
        int length = g_snprintf(channel->brief, room, "%s %u×%u", picture->layout.format,
                                picture->layout.width, picture->layout.height);
        if (picture->rate.num > 0 && picture->rate.den > 0)
            g_snprintf(channel->brief + length, room - (size_t)length, " at %.5g",
                       (double)picture->rate.num / picture->rate.den);
    } else if (info->media.kind == GPUD_MEDIA_TENSOR) {
        gpud_tensors_to_string(&info->media.tensors, channel->brief, room);
    } else {
        g_snprintf(channel->brief, room, "%s, %.*s",
                   info->media.kind == GPUD_MEDIA_ANCILLARY ? "ancillary data" : "data",
                   (int)strcspn(channel->media, ","), channel->media);
    }
}

static bool has_signal(const struct gpud_channel_info *info)
{
    return info->answered && (info->ended || info->age_ns < SIGNAL_AGE);
}

char *monitor_name(const char *name, const char *program)
{
    if (!name[0] || !program[0] || strcmp(name, program) == 0)
        return g_strdup(name[0] ? name : program[0] ? program : "a process");
    return g_strdup_printf("%s (%s)", name, program);
}

static struct monitor_channel *new_channel(struct monitor_model *model, const char *address)
{
    struct monitor_channel *channel = g_new0(struct monitor_channel, 1);
    channel->receivers = g_ptr_array_new_with_free_func(g_free);
    channel->waiting = g_ptr_array_new();
    channel->presence = MONITOR_NEVER;
    channel->absent_since = g_get_real_time();
    g_strlcpy(channel->info.address, address, sizeof(channel->info.address));
    g_ptr_array_add(model->channels, channel);
    return channel;
}

static void update_channel(struct monitor_model *model, const struct gpud_channel_info *now,
                           gint64 time)
{
    struct monitor_channel *channel = monitor_model_find(model, now->address);
    if (!channel)
        channel = new_channel(model, now->address);
    if (channel->presence != MONITOR_THERE) {
        /* It is there for the first time, or again. */
        char *name = monitor_name(now->name, now->program);
        bool again = channel->presence == MONITOR_GONE_SINCE;
        channel->presence = MONITOR_THERE;
        channel->info = *now;
        channel->has_signal = has_signal(now);
        describe_briefly(channel, now);
        add_event(model, "channel", now->address, "%s: %s%s%s", again ? "back" : "found",
                  now->pid ? name : "", now->pid ? ", " : "",
                  now->answered ? channel->brief : now->reason);
        g_free(name);
    }
    const struct gpud_channel_info *before = &channel->info;
    if (before->pid != now->pid && now->answered)
        add_event(model, "channel", now->address, "another sender: process %" PRId64 " (%s)",
                  now->pid, now->program);
    if (before->answered && !now->answered)
        add_event(model, "silent", now->address, "the sender %s", now->reason);
    if (!before->answered && now->answered)
        add_event(model, "channel", now->address, "the sender answers again");
    if (now->answered) {
        if (before->pid != now->pid) /* their ids start again */
            g_ptr_array_set_size(channel->receivers, 0);
        char media[GPUD_MEDIA_TEXT_MAX];
        describe_media(now, media);
        if (strcmp(media, channel->media) != 0)
            add_event(model, "format", now->address, "%s", media);
        if (now->ended && !before->ended)
            add_event(model, "signal", now->address, "the stream has ended");
        if (!has_signal(now) && channel->has_signal)
            add_event(model, "signal", now->address, "no frame for 2 s");
        if (has_signal(now) && !channel->has_signal && !now->ended)
            add_event(model, "signal", now->address, "frames come");
        if (now->refused > before->refused && before->pid == now->pid)
            add_event(model, "refused", now->address,
                      "%" PRIu64 " connections refused; the sender's log says why",
                      now->refused - before->refused);
        update_receivers(model, channel, now, time);
        describe_briefly(channel, now);
        channel->has_signal = has_signal(now);
        channel->info = *now;
    } else if (now->announced) {
        channel->info = *now;
        describe_briefly(channel, now);
    } else {
        /* A sender that is stopped keeps its receivers, and hands them nothing. */
        for (guint i = 0; i < channel->receivers->len; i++) {
            struct monitor_receiver *receiver = channel->receivers->pdata[i];
            struct monitor_series *series = &receiver->series;
            struct monitor_counts same = series->window[series->in_window - 1];
            same.time = time;
            add_sample(series, &receiver->figures, &same, NAN);
        }
        channel->info.answered = false;
        channel->info.receiver_pid = now->receiver_pid;
        g_strlcpy(channel->info.reason, now->reason, sizeof(channel->info.reason));
        channel->info.rate = 0;
    }
    channel->info.link = NULL;
    channel->seen = true;
    struct monitor_counts counts = {.time = time, .frames = channel->info.frames};
    for (guint i = 0; i < channel->receivers->len; i++) {
        const struct monitor_receiver *receiver = channel->receivers->pdata[i];
        if (!receiver->is_own)
            counts.dropped += receiver->info.dropped;
    }
    add_sample(&channel->series, &channel->figures, &counts, channel->info.rate);
}

/* --- channels that are not there -------------------------------------------------------------- */

/* It was never there: it stays as long as it is expected, or receivers wait for it. */
static void model_forget(struct monitor_channel *channel)
{
    struct gpud_channel_info empty = {.size = sizeof(empty)};
    g_strlcpy(empty.address, channel->info.address, sizeof(empty.address));
    channel->info = empty;
    channel->presence = MONITOR_NEVER;
    channel->media[0] = channel->brief[0] = '\0';
}

static void lose_channel(struct monitor_model *model, struct monitor_channel *channel,
                         const GPtrArray *folders)
{
    static const char *const texts[] = {
        [CHANNELS_END_UNKNOWN] = "the sender is gone",
        [CHANNELS_END_ORDERLY] = "the sender has ended, with a goodbye",
        [CHANNELS_END_DEATH] = "the sender has died, without a goodbye",
    };
    if (channel->info.announced && !channel->expected) { /* nothing bounds what hosts announce */
        model_forget(channel);
        return;
    }
    channel->presence = MONITOR_GONE_SINCE;
    channel->absent_since = g_get_real_time();
    channel->end = channels_find_end(folders, channel->info.address);
    channel->info.answered = channel->has_signal = false;
    channel->info.rate = 0;
    channel->figures = (struct monitor_figures){NAN, NAN, NAN, NAN};
    g_strlcpy(channel->info.reason, texts[channel->end], sizeof(channel->info.reason));
    g_ptr_array_set_size(channel->receivers, 0);
    add_event(model, "gone", channel->info.address, "%s", channel->info.reason);
}

/* Those that are expected, and those that receivers wait for. */
static void await_channels(struct monitor_model *model, const GPtrArray *folders)
{
    GHashTableIter iter;
    gpointer address;
    for (guint i = 0; i < model->channels->len; i++) {
        struct monitor_channel *channel = model->channels->pdata[i];
        const char *own = channel->info.address;
        channel->expected = model->expected && g_hash_table_contains(model->expected, own);
        g_ptr_array_set_size(channel->waiting, 0);
    }
    if (model->expected)
        g_hash_table_iter_init(&iter, model->expected);
    while (model->expected && g_hash_table_iter_next(&iter, &address, NULL)) {
        if (monitor_model_find(model, address))
            continue;
        new_channel(model, address)->expected = true;
        add_event(model, "missing", address, "expected, and not there");
    }
    GPtrArray *waiters = channels_collect_waiting(folders);
    for (guint i = 0; i < waiters->len; i++) {
        struct channels_waiter *waiter = waiters->pdata[i];
        struct monitor_channel *channel = monitor_model_find(model, waiter->address);
        if (!channel) {
            channel = new_channel(model, waiter->address);
            add_event(model, "waiting", waiter->address, "%s waits for a sender", waiter->name);
        }
        g_ptr_array_add(channel->waiting, waiter);
    }
    g_ptr_array_unref(waiters);
}

static struct monitor_channel *find_oldest_gone(const struct monitor_model *model, guint *count)
{
    struct monitor_channel *oldest = NULL;
    *count = 0;
    for (guint i = 0; i < model->channels->len; i++) {
        struct monitor_channel *channel = model->channels->pdata[i];
        if (channel->presence != MONITOR_GONE_SINCE || channel->expected)
            continue;
        (*count)++;
        if (!oldest || channel->absent_since < oldest->absent_since)
            oldest = channel;
    }
    return oldest;
}

static void remove_forgotten(struct monitor_model *model)
{
    for (guint i = model->channels->len; i-- > 0;) {
        const struct monitor_channel *channel = model->channels->pdata[i];
        if (channel->presence == MONITOR_NEVER && !channel->expected && channel->waiting->len == 0)
            g_ptr_array_remove_index(model->channels, i);
    }
}

/* --- how channels are ------------------------------------------------------------------------ */

static double age(gint64 now, gint64 since)
{
    return since ? (double)(now - since) / G_USEC_PER_SEC : NAN;
}

static struct monitor_content_ages find_ages(const struct monitor_content *content)
{
    gint64 now = g_get_monotonic_time();
    if (!content->seen || now - content->seen > SEEN_AGE)
        return (struct monitor_content_ages){NAN, NAN, NAN};
    return (struct monitor_content_ages){.frozen_s = age(now, content->moved),
                                         .black_s = age(now, content->lit),
                                         .silent_s = age(now, content->loud)};
}

static void set_state(struct monitor_channel *channel, enum monitor_severity severity,
                      const char *state)
{
    channel->severity = severity;
    g_strlcpy(channel->state, state, sizeof(channel->state));
}

static void model_judge(struct monitor_channel *channel)
{
    const struct gpud_channel_info *info = &channel->info;
    double loss = 0; /* of the receiver that loses the largest part of its frames */
    bool degraded = false;
    for (guint i = 0; i < channel->receivers->len; i++) {
        const struct monitor_receiver *receiver = channel->receivers->pdata[i];
        const struct monitor_figures *figures = &receiver->figures;
        degraded |= !receiver->is_own && receiver->info.degraded;
        if (!receiver->is_own && figures->dropped_hz > 0)
            loss =
                MAX(loss, figures->dropped_hz / (figures->dropped_hz +
                                                 (isnan(figures->rate_hz) ? 0 : figures->rate_hz)));
    }
    if (channel->presence != MONITOR_THERE) {
        if (channel->presence == MONITOR_NEVER)
            set_state(channel, channel->expected ? MONITOR_BAD : MONITOR_WARNING,
                      channel->expected ? "Never there" : "No sender");
        else if (channel->end == CHANNELS_END_DEATH)
            set_state(channel, MONITOR_BAD, "Died");
        else if (channel->end == CHANNELS_END_ORDERLY)
            set_state(channel, channel->expected ? MONITOR_BAD : MONITOR_OFF, "Ended");
        else
            set_state(channel, MONITOR_BAD, "Gone");
        if (channel->waiting->len > 0)
            channel->severity = MAX(channel->severity, MONITOR_WARNING);
    } else if (info->announced && !info->answered) {
        set_state(channel, MONITOR_OFF, "Announced");
    } else if (!info->answered) {
        set_state(channel, info->receiver_pid ? MONITOR_OFF : MONITOR_BAD,
                  info->receiver_pid ? "Received here" : "No answer");
    } else if (info->ended) {
        set_state(channel, MONITOR_OFF, "Stream ended");
    } else if (info->frames == 0 && info->links == 0) { /* it may wait for its first receiver */
        set_state(channel, MONITOR_OFF, "No frame yet");
    } else if (!channel->has_signal) {
        set_state(channel, MONITOR_BAD, "No signal");
    } else if (loss > 0) {
        channel->severity = loss < LOSS_BAD ? MONITOR_WARNING : MONITOR_BAD;
        g_snprintf(channel->state, sizeof(channel->state), "Loses %s%.0f %%",
                   loss < 0.01 ? "less than " : "", MAX(100 * loss, 1));
    } else {
        const struct monitor_content_ages *ages = &channel->ages;
        if (ages->black_s > CONTENT_PATIENCE)
            set_state(channel, MONITOR_WARNING, "Black");
        else if (ages->frozen_s > CONTENT_PATIENCE)
            set_state(channel, MONITOR_WARNING, "Frozen");
        else if (ages->silent_s > CONTENT_PATIENCE)
            set_state(channel, MONITOR_WARNING, "Silent");
        else if (degraded)
            set_state(channel, MONITOR_WARNING, "Route degraded");
        else
            set_state(channel, MONITOR_GOOD, "OK");
    }
}

guint monitor_model_dismiss(struct monitor_model *model, const char *address)
{
    guint dismissed = 0;
    for (guint i = 0; i < model->channels->len; i++) {
        struct monitor_channel *channel = model->channels->pdata[i];
        if (channel->presence != MONITOR_GONE_SINCE || channel->expected ||
            (address && strcmp(channel->info.address, address) != 0))
            continue;
        add_event(model, "dismissed", channel->info.address, "no longer shown as gone");
        model_forget(channel);
        model_judge(channel);
        dismissed++;
    }
    remove_forgotten(model);
    return dismissed;
}

static gint compare_channels(gconstpointer a, gconstpointer b)
{
    const struct monitor_channel *const *x = a, *const *y = b;
    return strcmp((*x)->info.address, (*y)->info.address);
}

/* --- the model ----------------------------------------------------------------------------- */

struct monitor_model *monitor_model_new(void)
{
    struct monitor_model *model = g_new0(struct monitor_model, 1);
    model->channels = g_ptr_array_new_with_free_func(channel_free);
    model->notes = g_ptr_array_new_with_free_func(g_free);
    g_queue_init(&model->events);
    return model;
}

void monitor_model_free(struct monitor_model *model)
{
    g_ptr_array_unref(model->channels);
    g_ptr_array_unref(model->notes);
    g_clear_pointer(&model->folders, g_ptr_array_unref);
    g_clear_pointer(&model->expected, g_hash_table_unref);
    g_queue_clear_full(&model->events, event_free);
    g_free(model);
}

void monitor_model_expect(struct monitor_model *model, GHashTable *expected)
{
    if (model->expected)
        g_hash_table_unref(model->expected);
    model->expected = expected;
}

void monitor_model_note(struct monitor_model *model, const char *note)
{
    g_ptr_array_add(model->notes, g_strdup(note));
}

static void take_answer(struct monitor_model *model, gint64 asked, const GPtrArray *folders)
{
    struct monitor_channel *oldest;
    guint count;
    bool complete = true; /* a list that is full may leave out one that is there */
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        const struct gpud_channel_search_info *search = &folder->search;
        complete &= search->omitted == 0;
        /* Of what is expected and not there, its channel says so. */
        bool is_said = folder->channels && model->expected &&
                       g_hash_table_contains(model->expected, search->directory);
        if (search->note[0] && !is_said)
            g_ptr_array_add(model->notes,
                            g_strdup_printf("%s: %s", search->directory, search->note));
    }
    GPtrArray *channels = channels_collect(folders);
    for (guint i = 0; i < model->channels->len; i++)
        ((struct monitor_channel *)model->channels->pdata[i])->seen = false;
    for (guint i = 0; i < channels->len; i++)
        update_channel(model, channels->pdata[i], asked);
    for (guint i = model->channels->len; i-- > 0;) {
        struct monitor_channel *channel = model->channels->pdata[i];
        if (channel->seen || channel->presence != MONITOR_THERE || !complete)
            continue;
        if (channel->info.receiver_pid) { /* of another host, whose end is not known here */
            add_event(model, "gone", channel->info.address, "it is received here no longer");
            g_ptr_array_remove_index(model->channels, i);
        } else {
            lose_channel(model, channel, folders);
        }
    }
    await_channels(model, folders);
    while ((oldest = find_oldest_gone(model, &count)) &&
           (count > MONITOR_GONE || g_get_real_time() - oldest->absent_since > DAY))
        model_forget(oldest);
    remove_forgotten(model);
    g_ptr_array_unref(channels);
}

void monitor_model_update(struct monitor_model *model, gint64 asked, GPtrArray *folders,
                          const char *reason)
{
    g_ptr_array_set_size(model->notes, 0);
    if (folders)
        take_answer(model, asked, folders);
    else
        g_ptr_array_add(model->notes, g_strdup(reason));
    /* Channels that cannot be asked: nothing is known of any. */
    for (guint i = 0; i < model->channels->len && !folders; i++) {
        struct monitor_channel *channel = model->channels->pdata[i];
        struct gpud_channel_info now = channel->info;
        now.answered = false;
        g_snprintf(now.reason, sizeof(now.reason), "cannot be asked: %s", reason);
        g_ptr_array_set_size(channel->waiting, 0);
        if (channel->presence == MONITOR_THERE)
            update_channel(model, &now, asked);
    }
    for (guint i = 0; i < model->channels->len; i++) {
        struct monitor_channel *channel = model->channels->pdata[i];
        if (channel->presence != MONITOR_THERE) {
            /* A second of which nothing is known. */
            struct monitor_series *series = &channel->series;
            series->in_window = 0;
            series->sample[series->next] =
                (struct monitor_sample){.rate_hz = NAN, .latency_p99_s = NAN};
            series->next = (series->next + 1) % MONITOR_HISTORY;
            series->count += series->count < MONITOR_HISTORY;
            channel->content = (struct monitor_content){0};
        }
        channel->ages = find_ages(&channel->content);
        model_judge(channel);
    }
    g_ptr_array_sort(model->channels, compare_channels);
    g_clear_pointer(&model->folders, g_ptr_array_unref);
    model->folders = folders;
    model->updated = g_get_real_time();
}
