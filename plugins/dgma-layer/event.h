/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Command types of the events that the layer hands out. */

#ifndef DGMA_LAYER_EVENT_H
#define DGMA_LAYER_EVENT_H

#include <CL/cl_icd.h>

void dgma_event_track(cl_event event, cl_command_type type); /* the program holds one reference */
void dgma_event_install(cl_icd_dispatch *table);

#endif
