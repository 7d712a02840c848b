/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pipelines of sinks and sources in threads of one process that change their states without pause,
 * on addresses that they share, and ask for figures and URIs meanwhile: no change of state hangs,
 * and after so many rounds nothing is left open. */
#include "pipes.h"
#include "../support/count.h"

#define ADDRESSES 2
#define ROUNDS 25
#define DEADLINE (60 * GST_SECOND)

static gint playing; /* how often a pipeline was */

struct thread {
    GThread *thread;
    guint number;
    GRand *random;
};

static const gchar *const sinks[] = {
    "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=16,framerate=100/1 ! "
    "gpudirectsink name=ends device=host wait-for-connection=false async=false address=storm-%u",
    "videotestsrc is-live=true ! video/x-raw,format=UYVY,width=32,height=16,framerate=100/1 ! "
    "gpudirectsink name=ends device=host wait-for-connection=false async=false "
    "address=storm-%u",
};
static const gchar *const sources[] = {
    "gpudirectsrc name=ends device=host address=storm-%u ! fakesink async=false",
    "gpudirectsrc name=ends device=host on-disconnect=eos address=storm-%u ! queue ! "
    "fakesink async=false",
    "gpudirectsrc name=ends device=host on-disconnect=black address=storm-%u ! fakesink sync=true "
    "async=false",
};

static void run_once(struct thread *self, const gchar *description, guint address)
{
    g_autoptr(GstElement) pipeline = ends_pipeline(description, address);

    for (gint changes = g_rand_int_range(self->random, 1, 6); changes > 0; changes--) {
        GstState state =
            (GstState)g_rand_int_range(self->random, GST_STATE_NULL, GST_STATE_PLAYING + 1);
        /* One that has no address, as another sender has it, cannot; that is said on the bus. */
        if (gst_element_set_state(pipeline, state) == GST_STATE_CHANGE_FAILURE)
            break;
        GstElement *element = pipe_part(pipeline, "ends");
        g_autoptr(GstStructure) stats = NULL;
        g_object_get(element, "stats", &stats, NULL);
        fail_unless(stats != NULL);
        g_free(gst_uri_handler_get_uri(GST_URI_HANDLER(element)));
        if (state == GST_STATE_PLAYING) {
            g_usleep((gulong)g_rand_int_range(self->random, 0, 20000));
            g_atomic_int_inc(&playing);
        }
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    fail_unless_equals_int(gst_element_get_state(pipeline, NULL, NULL, DEADLINE),
                           GST_STATE_CHANGE_SUCCESS);
}

/* A sink has its address to itself: two at one wait for each other. */
static gpointer run_often(gpointer data)
{
    struct thread *self = data;

    for (guint i = 0; i < ROUNDS; i++)
        if (self->number < ADDRESSES)
            run_once(self, sinks[i % G_N_ELEMENTS(sinks)], self->number);
        else
            run_once(self, sources[i % G_N_ELEMENTS(sources)],
                     (guint)g_rand_int_range(self->random, 0, ADDRESSES));
    return NULL;
}

static void storm(void)
{
    struct thread threads[ADDRESSES + 3];

    for (guint i = 0; i < G_N_ELEMENTS(threads); i++) {
        threads[i].number = i;
        threads[i].random = g_rand_new_with_seed(4711 + i);
        threads[i].thread = g_thread_new("storm", run_often, &threads[i]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++) {
        g_thread_join(threads[i].thread);
        g_rand_free(threads[i].random);
    }
}

TEST(test_storm)
{
    storm(); /* what is opened once stays open */
    guint fds = count_fds();
    storm();
    fail_unless(g_atomic_int_get(&playing) > 20, "%d", playing);
    /* Threads of GStreamer's pools let go of their last elements a little later. */
    ENDS_UNTIL(20, count_fds() <= fds, "descriptors %u → %u", fds, count_fds());
}

ENDS_MAIN(280)
