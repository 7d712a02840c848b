/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc in a harness, and on its address a scripted sender. */
#include "hostile.h"

#include "base/base.h"
#include "device/device.h"
#include "support/picture.h"

#include <glib/gstdio.h>
#include <unistd.h>

void hostile_open(struct hostile *self, const gchar *properties, guint width, guint height)
{
    static guint count;
    g_autofree gchar *address = g_strdup_printf("hostile-%d-%u", (int)getpid(), count++);
    g_autofree gchar *directory = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "gpudirect", NULL);

    memset(self, 0, sizeof(*self));
    g_mkdir_with_parents(directory, 0700);
    raw_listen(&self->server, address);
    hostile_reshape(self, width, height);
    self->src = ends_src_at(address, properties);
    self->bus = ends_bus(self->src);
}

void hostile_close(struct hostile *self)
{
    ends_close(self->src);
    raw_server_close(&self->server);
    gst_object_unref(self->bus);
}

void hostile_reshape(struct hostile *self, guint width, guint height)
{
    struct raw_server *server = &self->server;
    struct gpud_error error;

    fail_unless(gpud_layout_init(&server->layout, "GRAY8", width, height, 0, &error) == GPUD_OK);
    gpud_fd_close(&server->ring_fd);
    gpud_memory_unmap_pages(server->ring, server->ring_size);
    server->slot_size = (server->layout.size + 4095) / 4096 * 4096;
    server->ring_size = 4 * server->slot_size;
    fail_unless(gpud_memfd_create("ring", server->ring_size, GPUD_SHARE_READ_ONLY, &server->ring_fd,
                                  &server->ring, &error) == GPUD_OK,
                "%s", error.reason);
}

gboolean hostile_say(struct hostile *self, struct gpud_message *message)
{
    struct raw_server *server = &self->server;

    if (!raw_send_message(server->fd, message))
        return FALSE;
    if (server->page) {
        gpud_page_count_message(&server->view);
        gpud_page_notify(&server->view.end);
    }
    return TRUE;
}

gboolean hostile_event(struct hostile *self, uint32_t kind, const void *bytes, size_t size)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};

    message.event.kind = kind;
    message.event.size = (uint32_t)size;
    memcpy(message.event.data, bytes, size);
    return hostile_say(self, &message);
}

void hostile_publish(struct hostile *self, const struct gpud_descriptor *described)
{
    struct raw_server *server = &self->server;
    struct gpud_descriptor *descriptor;
    uint32_t entry, back;

    for (int i = 0; i < 500; i++) {
        while (gpud_page_reap(&server->view, &back) > 0)
            ;
        if (gpud_page_take(&server->view, &entry))
            break;
        fail_unless(i < 499, "the receiver gives no credit back");
        g_usleep(10000);
    }
    descriptor = &server->page->sender.descriptor[entry];
    *descriptor = *described;
    descriptor->slot = entry;
    descriptor->sequence = ++server->sequence;
    picture_write(&server->layout, (char *)server->ring + entry * server->slot_size,
                  server->sequence);
    gpud_page_publish(&server->view, entry);
    gpud_page_notify(&server->view.end);
}

void hostile_serve(struct hostile *self, int from, enum raw_server_step to)
{
    raw_serve(&self->server, from, to);
}

GstMessageType hostile_complaint(struct hostile *self, GError **error)
{
    g_autoptr(GstMessage) message =
        ends_wait_message(self->bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING, 10);

    fail_unless(message != NULL, "no complaint within 10 s");
    GstMessageType type = GST_MESSAGE_TYPE(message);
    if (type == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, error, NULL);
    else
        gst_message_parse_warning(message, error, NULL);
    return type;
}

guint64 hostile_resident(void)
{
    g_autofree gchar *status = NULL;

    fail_unless(g_file_get_contents("/proc/self/status", &status, NULL, NULL));
    const gchar *line = strstr(status, "VmRSS:");
    fail_unless(line != NULL);
    return g_ascii_strtoull(line + strlen("VmRSS:"), NULL, 10);
}
