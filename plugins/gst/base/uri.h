/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The elements by a URI:
 *
 *     gpudirect://cam1?slots=8&device=cuda:0     a name, and the element's properties
 *     gpudirect://cam1/audio                     one stream of a channel
 *     gpudirect:///run/plant/cam1                a socket's path: the address unix:/run/plant/cam1
 *     gpudirect+v4l2:///dev/video0               the source alone: a capture card */
#ifndef GPUD_GST_URI_H
#define GPUD_GST_URI_H

#include <gst/gst.h>

/* For G_IMPLEMENT_INTERFACE with GST_TYPE_URI_HANDLER. */
void uri_handler_init_source(gpointer interface, gpointer data);
void uri_handler_init_programme(gpointer interface, gpointer data);
void uri_handler_init_sink(gpointer interface, gpointer data);

#endif
