/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* New names from senders, which GLib keeps forever: one sender cannot exhaust another's account. */
#include "hostile.h"
#include "wires.h"

static struct hostile hostile;

static void send_names(struct hostile *to, guint count)
{
    /* Known to GLib by GStreamer's own use of it before 1.26 only: known here, no account pays. */
    g_quark_from_string("taglist");
    for (guint i = 0; i < count; i++) {
        struct pack pack = PACK(GPUD_EVENT_SIZE_MAX);
        g_autofree gchar *field = g_strdup_printf("flood-%u", i);
        wire_head_pack(&pack, &(struct wire_head){.monotonic = TRUE});
        pack_u8(&pack, GST_TAG_SCOPE_STREAM);
        pack_begin(&pack, "taglist", 1);
        pack_field(&pack, field, 2); /* an unsigned number */
        pack_u32(&pack, 7);
        ENDS_UNTIL(10, hostile_event(to, EVENT_TAGS, pack.data, pack.used),
                   "the receiver reads no events for 10 s");
    }
}

/* A picture from a sender whose caps have this field. TRUE: so have the receiver's. */
static gboolean arrives_with(struct hostile *self, const gchar *field)
{
    struct gpud_descriptor plain = {.pts = GPUD_TIME_NONE, .dts = GPUD_TIME_NONE};
    struct gpud_message message;
    guint value;

    hostile_serve(self, -1, RAW_SERVER_HELLO);
    raw_offer(&self->server, &message);
    g_snprintf(message.offer.media.extra, sizeof(message.offer.media.extra), "%s=(uint)7", field);
    fail_unless(hostile_say(self, &message));
    fail_unless(raw_receive(self->server.fd, &message, 5 * GPUD_SEC) &&
                message.type == GPUD_MESSAGE_ACCEPT);
    raw_adopt_page(&self->server, &message);
    hostile_serve(self, RAW_SERVER_PAGE, RAW_SERVER_READY);
    hostile_publish(self, &plain);
    gst_buffer_unref(ends_pull(self->src));
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(self->src->sinkpad);
    return gst_structure_get_uint(gst_caps_get_structure(caps, 0), field, &value);
}

/* A sender that brings ever new names: its own next format lacks a field, and its pictures come all
 * the same. A sender on another address does not notice. */
TEST(test_names_without_end)
{
    struct hostile honest;

    hostile_open(&hostile, NULL, 64, 64);
    hostile_serve(&hostile, -1, RAW_SERVER_STREAMING);
    gst_buffer_unref(ends_pull(hostile.src));
    send_names(&hostile, 2000);
    ENDS_UNTIL(10, ends_stat(hostile.src, "lost-names") >= 2000 - NAMES_MAX);
    fail_unless_equals_uint64(ends_stat(hostile.src, "lost-names"), 2000 - NAMES_MAX);
    hostile_open(&honest, NULL, 64, 64);
    fail_unless(arrives_with(&honest, "gamut"));
    fail_unless_equals_uint64(ends_stat(honest.src, "lost-names"), 0);
    hostile_close(&honest);
    raw_hang_up(&hostile.server);
    fail_if(arrives_with(&hostile, "look"));
    hostile_close(&hostile);
}

ENDS_MAIN(60)
