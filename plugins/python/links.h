/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's receivers, as dicts. */
#ifndef GPUDIRECT_PYTHON_LINKS_H
#define GPUDIRECT_PYTHON_LINKS_H

#include "python.h"

#include <gpudirect/sender.h>

PyObject *links_to_list(const struct gpud_link_info *const *link, size_t count);

#endif
