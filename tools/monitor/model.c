/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "monitor/model.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Without a frame for so long a channel has no signal. */
#define SIGNAL_AGE (2 * (uint64_t)GPUD_SEC)
/* A loss is over when there was none for so long. */
#define LOSS_PAUSE (5 * G_USEC_PER_SEC)

/* --- events -------------------------------------------------------------------------------- */

static void event_free(gpointer data)
{
    struct monitor_event *event = data;
    g_free(event->channel);
    g_free(event->text);
    g_free(event);
}

/* Drops the oldest event of the channel that has the most, so that none can push out what others
 * have to tell. */
static void drop_event(struct monitor_model *model)
{
    GHashTable *counts = g_hash_table_new(g_str_hash, g_str_equal);
    const char *busiest = "";
    guint most = 0;
    for (const GList *link = model->events.tail; link; link = link->prev) {
        const char *channel = ((const struct monitor_event *)link->data)->channel;
        guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, channel)) + 1;
        g_hash_table_insert(counts, (gpointer)channel, GUINT_TO_POINTER(count));
        if (count >= most)
            busiest = channel, most = count;
    }
    g_hash_table_unref(counts);
    GList *oldest = model->events.head;
    while (strcmp(((const struct monitor_event *)oldest->data)->channel, busiest) != 0)
        oldest = oldest->next;
    event_free(oldest->data);
    g_queue_delete_link(&model->events, oldest);
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
    if (model->events.length > MONITOR_EVENTS)
        drop_event(model);
}

/* --- series -------------------------------------------------------------------------------- */

static double quantile(const uint64_t *bucket, double part)
{
    static const uint32_t bounds[] = GPUD_LATENCY_BOUNDS_NS;
    double total = 0, sum = 0;
    for (size_t i = 0; i < GPUD_LATENCY_BUCKETS; i++)
        total += (double)bucket[i];
    if (total == 0)
        return NAN;
    for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++) {
        sum += (double)bucket[i];
        if (sum >= part * total)
            return (double)bounds[i] / 1e9;
    }
    return INFINITY;
}

static void subtract(uint64_t *difference, const struct monitor_counts *newest,
                     const struct monitor_counts *since)
{
    for (size_t i = 0; i < GPUD_LATENCY_BUCKETS; i++)
        difference[i] = newest->latency_bucket[i] - since->latency_bucket[i];
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
    uint64_t bucket[GPUD_LATENCY_BUCKETS];
    unsigned last = series->in_window - 1;
    if (series->in_window > 0 && went_back(newest, &series->window[last]))
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
    subtract(bucket, newest, since);
    figures->latency_p50_s = quantile(bucket, 0.5);
    figures->latency_p99_s = quantile(bucket, 0.99);

    subtract(bucket, newest, before);
    seconds = (double)(newest->time - before->time) / G_USEC_PER_SEC;
    struct monitor_sample *sample = &series->sample[series->next];
    sample->rate_hz =
        (float)(isnan(rate_hz) && seconds > 0 ? (double)(newest->frames - before->frames) / seconds
                                              : figures->rate_hz);
    sample->latency_p99_s = (float)quantile(bucket, 0.99);
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

static const char *name_of(const struct gpud_link_info *link)
{
    return link->name[0] ? link->name : "a process";
}

static struct monitor_receiver *find_receiver(const struct monitor_channel *channel, uint64_t id)
{
    for (guint i = 0; i < channel->receivers->len; i++) {
        struct monitor_receiver *receiver = channel->receivers->pdata[i];
        if (receiver->info.id == id)
            return receiver;
    }
    return NULL;
}

static void note_loss(struct monitor_model *model, const struct monitor_channel *channel,
                      struct monitor_receiver *receiver, const struct gpud_link_info *now,
                      gint64 time)
{
    const struct gpud_link_info *before = &receiver->info;
    const char *address = channel->info.address;
    uint64_t lost = now->dropped - before->dropped;
    if (lost > 0 && !receiver->loss_since) {
        const char *cause = now->dropped_failed > before->dropped_failed ? "copies to it fail"
                            : now->dropped_format > before->dropped_format
                                ? "it is not ready for the new format in time"
                            : now->dropped_oldest > before->dropped_oldest
                                ? "it is slow, and newer frames replace those that wait"
                                : "it is slow, and has no free slot";
        receiver->loss_since = time;
        receiver->lost = 0;
        add_event(model, "loss", address, "%s %" PRIu64 " loses frames: %s", name_of(now), now->id,
                  cause);
    }
    if (lost > 0)
        receiver->loss_last = time;
    receiver->lost += lost;
    if (receiver->loss_since && time - receiver->loss_last > LOSS_PAUSE) {
        add_event(model, "loss", address,
                  "%s %" PRIu64 " lost %" PRIu64 " frame%s in %" PRId64 " s", name_of(now), now->id,
                  receiver->lost, receiver->lost == 1 ? "" : "s",
                  (receiver->loss_last - receiver->loss_since) / G_USEC_PER_SEC + 1);
        receiver->loss_since = 0;
    }
}

static void note_changes(struct monitor_model *model, const struct monitor_channel *channel,
                         struct monitor_receiver *receiver, const struct gpud_link_info *now,
                         gint64 time)
{
    const struct gpud_link_info *before = &receiver->info;
    if (receiver->is_own)
        return;
    if (before->path[0] && strcmp(before->path, now->path) != 0)
        add_event(model, "connect", channel->info.address, "%s %" PRIu64 " by route %s%s%s",
                  name_of(now), now->id, now->path,
                  now->fallback_reason[0] ? "; not better, because " : "", now->fallback_reason);
    if (now->dropped >= before->dropped)
        note_loss(model, channel, receiver, now, time);
}

static void update_receiver(struct monitor_model *model, struct monitor_channel *channel,
                            const struct gpud_link_info *now, gint64 time)
{
    struct monitor_receiver *receiver = find_receiver(channel, now->id);
    struct monitor_counts counts = {
        .time = time, .frames = now->stats.frames, .dropped = now->dropped};
    memcpy(counts.latency_bucket, now->stats.latency_bucket, sizeof(counts.latency_bucket));
    if (!receiver) {
        receiver = g_new0(struct monitor_receiver, 1);
        receiver->is_own = now->pid == getpid() && strcmp(now->name, MONITOR_NAME) == 0;
        g_ptr_array_add(channel->receivers, receiver);
        if (!receiver->is_own && model->updated)
            add_event(model, "connect", channel->info.address,
                      "%s %" PRIu64 " connects: process %" PRId64 "%s%s, route %s", name_of(now),
                      now->id, now->pid, now->host[0] ? " on " : "", now->host, now->path);
        receiver->info = *now;
    }
    note_changes(model, channel, receiver, now, time);
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
            add_event(model, "disconnect", channel->info.address, "%s %" PRIu64 " is gone",
                      name_of(&receiver->info), receiver->info.id);
        g_ptr_array_remove_index(channel->receivers, i);
    }
}

/* A sender that is stopped keeps its receivers, and hands them nothing. */
static void repeat_counts(struct monitor_channel *channel, gint64 time)
{
    for (guint i = 0; i < channel->receivers->len; i++) {
        struct monitor_receiver *receiver = channel->receivers->pdata[i];
        const struct monitor_series *series = &receiver->series;
        struct monitor_counts counts = series->window[series->in_window - 1];
        counts.time = time;
        add_sample(&receiver->series, &receiver->figures, &counts, NAN);
    }
}

/* --- channels ------------------------------------------------------------------------------ */

static void channel_free(gpointer data)
{
    struct monitor_channel *channel = data;
    g_ptr_array_unref(channel->receivers);
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
    size_t room = sizeof(channel->brief);
    describe_media(info, channel->media);
    if (!info->configured) {
        g_strlcpy(channel->brief, "no format yet", room);
        return;
    }
    g_strlcpy(channel->brief, channel->media, room);
    if (info->media.kind != GPUD_MEDIA_PICTURE)
        return;
    int length = g_snprintf(channel->brief, room, "%s %u×%u", picture->layout.format,
                            picture->layout.width, picture->layout.height);
    if (picture->rate.num > 0 && picture->rate.den > 0)
        g_snprintf(channel->brief + length, room - (size_t)length, " at %.5g",
                   (double)picture->rate.num / picture->rate.den);
}

static bool has_signal(const struct gpud_channel_info *info)
{
    return info->answered && (info->ended || info->age_ns < SIGNAL_AGE);
}

static void note_answer(struct monitor_model *model, const struct monitor_channel *channel,
                        const struct gpud_channel_info *now)
{
    const struct gpud_channel_info *before = &channel->info;
    if (before->pid != now->pid && now->answered)
        add_event(model, "channel", now->address, "another sender: process %" PRId64 " (%s)",
                  now->pid, now->program);
    if (before->answered && !now->answered)
        add_event(model, "silent", now->address, "the sender %s", now->reason);
    if (!before->answered && now->answered)
        add_event(model, "channel", now->address, "the sender answers again");
}

static void note_stream(struct monitor_model *model, const struct monitor_channel *channel,
                        const struct gpud_channel_info *now)
{
    const struct gpud_channel_info *before = &channel->info;
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
}

static struct monitor_channel *add_channel(struct monitor_model *model,
                                           const struct gpud_channel_info *now)
{
    struct monitor_channel *channel = g_new0(struct monitor_channel, 1);
    channel->receivers = g_ptr_array_new_with_free_func(g_free);
    channel->info = *now;
    channel->has_signal = has_signal(now);
    describe_briefly(channel, now);
    g_ptr_array_add(model->channels, channel);
    add_event(model, "channel", now->address, "found%s%s: %s", now->program[0] ? ", of " : "",
              now->program, now->answered ? channel->brief : now->reason);
    return channel;
}

static void update_channel(struct monitor_model *model, const struct gpud_channel_info *now,
                           gint64 time)
{
    struct monitor_channel *channel = monitor_model_find(model, now->address);
    if (!channel)
        channel = add_channel(model, now);
    note_answer(model, channel, now);
    if (now->answered) {
        if (channel->info.pid != now->pid) /* their ids start again */
            g_ptr_array_set_size(channel->receivers, 0);
        note_stream(model, channel, now);
        update_receivers(model, channel, now, time);
        describe_briefly(channel, now);
        channel->has_signal = has_signal(now);
        channel->info = *now;
    } else {
        repeat_counts(channel, time);
        channel->info.answered = false;
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
    g_queue_clear_full(&model->events, event_free);
    g_free(model);
}

static void take_notes(struct monitor_model *model, const GPtrArray *folders)
{
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        if (folder->search.note[0])
            g_ptr_array_add(model->notes, g_strdup_printf("%s: %s", folder->search.directory,
                                                          folder->search.note));
    }
}

void monitor_model_update(struct monitor_model *model, gint64 asked, GPtrArray *folders,
                          const char *reason)
{
    g_ptr_array_set_size(model->notes, 0);
    if (!folders) {
        g_ptr_array_add(model->notes, g_strdup(reason));
        return;
    }
    GPtrArray *channels = channels_collect(folders);
    take_notes(model, folders);
    for (guint i = 0; i < model->channels->len; i++)
        ((struct monitor_channel *)model->channels->pdata[i])->seen = false;
    for (guint i = 0; i < channels->len; i++)
        update_channel(model, channels->pdata[i], asked);
    for (guint i = model->channels->len; i-- > 0;) {
        struct monitor_channel *channel = model->channels->pdata[i];
        if (channel->seen)
            continue;
        add_event(model, "gone", channel->info.address, "the sender is gone");
        g_ptr_array_remove_index(model->channels, i);
    }
    g_ptr_array_sort(model->channels, compare_channels);
    g_ptr_array_unref(channels);
    g_clear_pointer(&model->folders, g_ptr_array_unref);
    model->folders = folders;
    model->updated = g_get_real_time();
}
