/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/shared.h"

#include "base/base.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A dead peer is detected within this time; a live one costs a check of its socket as often. */
#define TURN (20 * GPUD_MSEC)
#define TURN_ENDING GPUD_MSEC
/* While nothing waits for the peer; the next wait ends it. */
#define REST (INT64_MAX / 4)
/* The limit even while our own device stalls, or seems to. */
#define PATIENCE_MAX (4 * GPUD_WATCHDOG_TIMEOUT)
/* How long a watchdog that was ended waits for its device. */
#define ENDING_MAX (10 * GPUD_SEC)

struct gpud_watchdog {
    struct gpud_device *device;
    struct gpud_page *page;
    struct gpud_memory *words; /* the page as the device sees it */
    uint32_t entries;
    enum gpud_side side;
    struct gpud_channel *channel;
    struct gpud_page_signal *their_words, *our_words; /* in the page, one for each entry */
    struct gpud_signal *theirs[GPUD_PAGE_ENTRIES], *ours[GPUD_PAGE_ENTRIES];
    /* A receiver's queues also record their posts here, where only they write: a sender that frees
     * its own queue writes the page's words while those queues may still be reading. */
    struct gpud_memory *record;
    struct gpud_signal *passed[GPUD_PAGE_ENTRIES];
    _Atomic uint32_t waited[GPUD_PAGE_ENTRIES]; /* the value our queue waits for; 0: none */
    _Atomic int64_t began[GPUD_PAGE_ENTRIES], since[GPUD_PAGE_ENTRIES];
    _Atomic uint64_t before[GPUD_PAGE_ENTRIES]; /* the number of the last post before the wait */
    _Atomic uint32_t posted[GPUD_PAGE_ENTRIES]; /* the last value put on a queue */
    _Atomic uint64_t order[GPUD_PAGE_ENTRIES];  /* its number among all posts */
    atomic_uint_fast64_t posts;
    _Atomic uint64_t deferred[GPUD_PAGE_ENTRIES]; /* see gpud_watchdog_post_now() */
    _Atomic uint32_t poison[GPUD_PAGE_ENTRIES];   /* the value that the watchdog wrote; 0: none */
    atomic_bool broken, ending;
    atomic_bool is_at_rest; /* takes no turns */
    int64_t ended;
    struct gpud_work work; /* watches, and finishes after the end */
    void (*done)(void *arg);
    void *arg;
};

/* The word that shows how far our queue is. */
static _Atomic uint32_t *passed_word(const struct gpud_watchdog *watchdog, uint32_t entry)
{
    return watchdog->record ? gpud_signal_word(watchdog->passed[entry])
                            : &watchdog->our_words[entry].word;
}

/* --- creating and destroying --------------------------------------------------------------- */

#define RECORD_SIZE (GPUD_PAGE_ENTRIES * sizeof(struct gpud_page_signal))

static void unmap_page(void *page)
{
    gpud_memory_unmap_pages(page, sizeof(struct gpud_page));
}

static void unmap_record(void *record)
{
    gpud_memory_unmap_pages(record, RECORD_SIZE);
}

static void watchdog_destroy(struct gpud_watchdog *watchdog)
{
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++) {
        gpud_signal_destroy(&watchdog->theirs[i]);
        gpud_signal_destroy(&watchdog->ours[i]);
        gpud_signal_destroy(&watchdog->passed[i]);
    }
    gpud_memory_unref(&watchdog->record);
    if (watchdog->words)
        gpud_memory_unref(&watchdog->words); /* and the mapping with it */
    else
        unmap_page(watchdog->page);
    gpud_channel_unref(&watchdog->channel);
    gpud_device_close(&watchdog->device);
    free(watchdog);
}

static enum gpud_status make_signal(struct gpud_watchdog *watchdog, const _Atomic uint32_t *word,
                                    struct gpud_signal **signal, struct gpud_error *error)
{
    uint64_t offset = (uint64_t)((const char *)word - (const char *)watchdog->page);
    return gpud_signal_import(watchdog->words, offset, signal, error);
}

static int64_t watchdog_watch(void *arg);

enum gpud_status gpud_watchdog_create(struct gpud_device *device, struct gpud_page *page,
                                      uint32_t entries, struct gpud_channel *channel,
                                      enum gpud_side side, struct gpud_watchdog **watchdog,
                                      struct gpud_error *error)
{
    struct gpud_watchdog *made = calloc(1, sizeof(*made));
    if (!made) {
        unmap_page(page);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for the watchdog of a ring page");
    }
    made->device = gpud_device_ref(device);
    made->page = page;
    made->entries = entries;
    made->side = side;
    bool receives = side == GPUD_SIDE_RECEIVER;
    made->their_words = receives ? page->sender.ready : page->receiver.release;
    made->our_words = receives ? page->receiver.release : page->sender.ready;
    made->channel = gpud_channel_ref(channel);
    enum gpud_status status = gpud_memory_wrap_host(device, page, sizeof(*page), false, unmap_page,
                                                    page, &made->words, error);
    for (uint32_t i = 0; i < entries && status == GPUD_OK; i++) {
        status = make_signal(made, &made->their_words[i].word, &made->theirs[i], error);
        if (status == GPUD_OK)
            status = make_signal(made, &made->our_words[i].word, &made->ours[i], error);
    }
    if (status == GPUD_OK && side == GPUD_SIDE_RECEIVER) {
        /* Shared, so that copy-on-write after fork() does not detach it from the device. */
        void *record =
            mmap(NULL, RECORD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (record == MAP_FAILED) {
            status = gpud_fail_errno(error, "no page for what queues have posted");
        } else {
            status = gpud_memory_wrap_host(device, record, RECORD_SIZE, false, unmap_record, record,
                                           &made->record, error);
            if (status != GPUD_OK)
                unmap_record(record);
        }
        for (uint32_t i = 0; i < entries && status == GPUD_OK; i++)
            status = gpud_signal_create(made->record, i * sizeof(struct gpud_page_signal),
                                        &made->passed[i], error);
    }
    if (status != GPUD_OK) {
        watchdog_destroy(made);
        return status;
    }
    gpud_worker_add(&device->context->watch, &made->work, watchdog_watch, made);
    *watchdog = made;
    return GPUD_OK;
}

/* --- waiting and posting ------------------------------------------------------------------- */

/* Compares cyclically, as a device does: a word that a peer sets far ahead releases no queue. */
static bool is_past(uint32_t seen, uint32_t value)
{
    return (int32_t)(seen - value) >= 0;
}

static bool is_at(const _Atomic uint32_t *word, uint32_t value)
{
    return is_past(atomic_load_explicit(word, memory_order_acquire), value);
}

bool gpud_watchdog_reached(const struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value)
{
    return is_at(&watchdog->their_words[entry].word, value);
}

bool gpud_watchdog_is_free(const struct gpud_watchdog *watchdog, uint32_t entry)
{
    return gpud_watchdog_reached(watchdog, entry, atomic_load(&watchdog->waited[entry]));
}

/* After the store of what it has to watch; watchdog_watch() checks once more after its own store.
 */
static void end_rest(struct gpud_watchdog *watchdog)
{
    if (atomic_load(&watchdog->is_at_rest) && atomic_exchange(&watchdog->is_at_rest, false))
        gpud_worker_hurry(&watchdog->device->context->watch);
}

/* Stores the value last, because the watchdog checks it first. A later call does not restart the
 * clock. */
static void begin_wait(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value, int64_t now)
{
    if (atomic_load(&watchdog->waited[entry]) == value)
        return;
    atomic_store(&watchdog->began[entry], now);
    atomic_store(&watchdog->since[entry], now);
    atomic_store(&watchdog->before[entry], atomic_load(&watchdog->posts));
    atomic_store(&watchdog->waited[entry], value);
    end_rest(watchdog);
}

enum gpud_status gpud_watchdog_wait_all(const struct gpud_watchdog_word *words, uint32_t count,
                                        struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_signal_value waits[GPUD_SIGNALS_AT_ONCE];
    uint32_t left = 0;
    int64_t now = 0;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_watchdog *watchdog = words[i].watchdog;
        if (gpud_watchdog_reached(watchdog, words[i].entry, words[i].value))
            continue;
        /* Noted before the call, from which the driver may not return, and kept if it fails: a
         * queue may still wait for an earlier value of the entry, and writing a word for which no
         * queue waits is harmless. */
        if (left == 0)
            now = gpud_now();
        begin_wait(watchdog, words[i].entry, words[i].value, now);
        waits[left++] =
            (struct gpud_signal_value){watchdog->theirs[words[i].entry], words[i].value};
    }
    if (left == 0)
        return GPUD_OK;
    if (left > 1 && gpud_signal_wait_all(waits, left, queue, NULL) == GPUD_OK)
        left = 0;
    for (uint32_t i = 0; i < left && status == GPUD_OK; i++)
        status = gpud_signal_wait_queue(waits[i].signal, waits[i].value, queue, error);
    GPUD_STOP_POINT(words[0].watchdog->side == GPUD_SIDE_SENDER ? "sender: wait enqueued"
                                                                : "receiver: wait enqueued");
    return status;
}

enum gpud_status gpud_watchdog_wait(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value,
                                    struct gpud_queue *queue, struct gpud_error *error)
{
    const struct gpud_watchdog_word word = {watchdog, entry, value};
    return gpud_watchdog_wait_all(&word, 1, queue, error);
}

bool gpud_watchdog_is_poisoned(const struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value)
{
    return value && atomic_load(&watchdog->poison[entry]) == value;
}

enum gpud_status gpud_watchdog_wait_host(struct gpud_watchdog *watchdog, uint32_t entry,
                                         uint32_t value, int64_t deadline, struct gpud_error *error)
{
    if (!gpud_watchdog_reached(watchdog, entry, value)) {
        begin_wait(watchdog, entry, value, gpud_now());
        enum gpud_status status =
            gpud_signal_wait_host(watchdog->theirs[entry], value, deadline, error);
        if (status != GPUD_OK)
            return status;
    }
    if (gpud_watchdog_is_poisoned(watchdog, entry, value))
        return gpud_fail(error, GPUD_PEER,
                         "the frame is incomplete: the other side died, or its device stalled, "
                         "in mid-copy");
    return GPUD_OK;
}

/* Whether the entry's word has the last value that was put on a queue. */
bool gpud_watchdog_is_posted(const struct gpud_watchdog *watchdog, uint32_t entry)
{
    return is_at(passed_word(watchdog, entry), atomic_load(&watchdog->posted[entry]));
}

/* Words only grow, whichever side writes them. */
static void raise_word(_Atomic uint32_t *word, uint32_t value)
{
    uint32_t seen = atomic_load(word);
    while (!is_past(seen, value) && !atomic_compare_exchange_weak(word, &seen, value))
        ;
}

/* A queue will write the value. */
static void note_post(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value)
{
    atomic_store(&watchdog->order[entry], atomic_fetch_add(&watchdog->posts, 1) + 1);
    atomic_store(&watchdog->posted[entry], value);
}

enum gpud_status gpud_watchdog_post_all(const struct gpud_watchdog_word *words, uint32_t count,
                                        struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_signal_value posts[GPUD_SIGNALS_AT_ONCE];
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < count; i++)
        posts[i] =
            (struct gpud_signal_value){words[i].watchdog->ours[words[i].entry], words[i].value};
    bool all = count > 1 && gpud_signal_post_all(posts, count, queue, NULL) == GPUD_OK;
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        if (!all)
            status = gpud_signal_post(posts[i].signal, posts[i].value, queue, error);
        if (status == GPUD_OK)
            note_post(words[i].watchdog, words[i].entry, words[i].value);
    }
    return status;
}

enum gpud_status gpud_watchdog_post(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value,
                                    struct gpud_queue *queue, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    /* Another queue may still have to post the release of an earlier frame. This frame's bytes come
     * after that, so waiting for them keeps the order. */
    if (watchdog->side == GPUD_SIDE_RECEIVER && !gpud_watchdog_is_posted(watchdog, entry))
        status = gpud_watchdog_wait(watchdog, entry, value, queue, error);
    if (status != GPUD_OK)
        return status;
    const struct gpud_signal_value words[] = {{watchdog->ours[entry], value},
                                              {watchdog->passed[entry], value}};
    bool both = watchdog->record && gpud_signal_post_all(words, 2, queue, NULL) == GPUD_OK;
    if (!both)
        status = gpud_signal_post(watchdog->ours[entry], value, queue, error);
    if (status != GPUD_OK)
        return status;
    note_post(watchdog, entry, value); /* even if the record fails */
    if (watchdog->record && !both &&
        gpud_signal_post(watchdog->passed[entry], value, queue, NULL) != GPUD_OK &&
        /* Waits for the queue and writes the record, which the driver refused although it took the
         * word. If the queue does not finish, the record stays behind until a later post of the
         * entry, and nothing is given back or freed before. */
        gpud_queue_finish(queue, gpud_deadline(GPUD_SEC / 4), NULL) == GPUD_OK)
        raise_word(passed_word(watchdog, entry), value);
    if (watchdog->side == GPUD_SIDE_RECEIVER)
        GPUD_STOP_POINT("receiver: release posted");
    return GPUD_OK;
}

void gpud_watchdog_post_now(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value)
{
    if (gpud_watchdog_is_posted(watchdog, entry)) {
        raise_word(&watchdog->our_words[entry].word, value);
        return;
    }
    /* The watchdog writes the value once earlier posts are in the word. */
    uint64_t before = atomic_load(&watchdog->posted[entry]);
    atomic_store(&watchdog->deferred[entry], before << 32 | value);
    end_rest(watchdog);
}

bool gpud_watchdog_is_broken(const struct gpud_watchdog *watchdog)
{
    return atomic_load(&watchdog->broken);
}

/* --- the watchdog -------------------------------------------------------------------------- */

/* Whether work put on our queue before the wait is not done: then our own device stalls, and the
 * peer may be waiting for it. Work after the wait may be blocked by it and does not count. A peer
 * that lowers the words gains a few seconds at most (PATIENCE_MAX). */
static bool is_held_up_here(const struct gpud_watchdog *watchdog, uint32_t entry)
{
    uint64_t before = atomic_load(&watchdog->before[entry]);
    for (uint32_t i = 0; i < watchdog->entries; i++)
        if (!gpud_watchdog_is_posted(watchdog, i) && atomic_load(&watchdog->order[i]) <= before)
            return true;
    return false;
}

/* Writes the words that our queues wait for in vain, in the peer's half, where nothing else on this
 * side writes (wire/wire.h). A sender that ends releases its waits at once, because it will not
 * write those slots again; a receiver that ends still wants its last frames. */
static void release_waits(struct gpud_watchdog *watchdog)
{
    bool receives = watchdog->side == GPUD_SIDE_RECEIVER;
    bool over = !receives && atomic_load(&watchdog->ending);
    int64_t timeout = receives ? GPUD_WATCHDOG_TIMEOUT_SENDER : GPUD_WATCHDOG_TIMEOUT;
    int dead = -1; /* not checked yet */
    for (uint32_t i = 0; i < watchdog->entries; i++) {
        uint32_t value = atomic_load(&watchdog->waited[i]);
        if (is_at(&watchdog->their_words[i].word, value))
            continue;
        if (dead < 0)
            dead = over || gpud_channel_is_dead(watchdog->channel);
        int64_t now = gpud_now();
        if (is_held_up_here(watchdog, i))
            atomic_store(&watchdog->since[i], now);
        bool late = now - atomic_load(&watchdog->since[i]) > timeout ||
                    now - atomic_load(&watchdog->began[i]) > PATIENCE_MAX;
        if (!dead && !late && !atomic_load(&watchdog->broken))
            continue;
        /* One broken word ends the link, so no other wait is worth keeping. */
        if (!dead)
            atomic_store(&watchdog->broken, true);
        atomic_store(&watchdog->poison[i], value);
        raise_word(&watchdog->their_words[i].word, value);
    }
}

static bool waits_are_over(const struct gpud_watchdog *watchdog)
{
    for (uint32_t i = 0; i < watchdog->entries; i++)
        if (!gpud_watchdog_is_free(watchdog, i))
            return false;
    return true;
}

bool gpud_watchdog_is_idle(const struct gpud_watchdog *watchdog)
{
    for (uint32_t i = 0; i < watchdog->entries; i++)
        if (atomic_load(&watchdog->deferred[i]))
            return false;
    return waits_are_over(watchdog);
}

static int64_t watchdog_finish(void *arg)
{
    struct gpud_watchdog *watchdog = arg;
    void (*done)(void *) = watchdog->done;
    void *done_arg = watchdog->arg;
    struct gpud_context *context = watchdog->device->context;
    watchdog_destroy(watchdog);
    if (done)
        done(done_arg);
    atomic_fetch_sub(&context->ending, 1);
    return -1;
}

static int64_t watchdog_watch(void *arg)
{
    struct gpud_watchdog *watchdog = arg;
    for (uint32_t i = 0; i < watchdog->entries; i++) {
        uint64_t deferred = atomic_load(&watchdog->deferred[i]);
        if (deferred && is_at(passed_word(watchdog, i), (uint32_t)(deferred >> 32)) &&
            atomic_compare_exchange_strong(&watchdog->deferred[i], &deferred, 0))
            raise_word(&watchdog->our_words[i].word, (uint32_t)deferred);
    }
    release_waits(watchdog);
    if (!atomic_load(&watchdog->ending)) {
        atomic_store(&watchdog->is_at_rest, true);
        if (gpud_watchdog_is_idle(watchdog))
            return REST;
        atomic_store(&watchdog->is_at_rest, false);
        return TURN;
    }
    /* A sender posts from the library's own queues, whose work keeps memory alive by itself; only
     * an application's queue must be seen to finish. */
    bool posted = true;
    for (uint32_t i = 0; i < watchdog->entries && watchdog->side == GPUD_SIDE_RECEIVER; i++)
        posted &= gpud_watchdog_is_posted(watchdog, i);
    bool late = gpud_now() - watchdog->ended > ENDING_MAX;
    /* Memory that an application's queue reads stays, however long that takes: otherwise the driver
     * would abort everything that the application does on that GPU. */
    if (!posted || (!waits_are_over(watchdog) && !late))
        return late ? TURN : TURN_ENDING;
    gpud_worker_add(&watchdog->device->context->later, &watchdog->work, watchdog_finish, watchdog);
    return -1;
}

void gpud_watchdog_end(struct gpud_watchdog **watchdog, void (*done)(void *arg), void *arg)
{
    struct gpud_watchdog *gone = *watchdog;
    *watchdog = NULL;
    gone->done = done;
    gone->arg = arg;
    gone->ended = gpud_now();
    struct gpud_worker *worker = &gone->device->context->watch;
    atomic_fetch_add(&gone->device->context->ending, 1);
    atomic_store(&gone->ending, true); /* the worker may free it from here on */
    gpud_worker_hurry(worker);
}
