/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_CREATE_H
#define GPUD_GST_SRC_CREATE_H

#include "src/src.h"

/* GstPushSrc's method. */
GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer);

#endif
