/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues that are slow on purpose: code that does not wait for their work always sees the old
 * content. For any test that links the core's internals. */
#ifndef GPUD_CONFORMANCE_HOLD_H
#define GPUD_CONFORMANCE_HOLD_H

#include "device/device.h"

struct conformance_hold;

/* Makes a queue hold until it is released: what is enqueued from here on is late. By a user event
 * on OpenCL, a timeline on Vulkan, elsewhere by a wait for a word. A synchronous queue cannot be
 * held and gives NULL, which can be released like any. */
struct conformance_hold *conformance_hold_queue(struct gpud_queue *queue);

/* Whether the device's other queues go on meanwhile; not where the driver has one for all of them.
 */
bool conformance_holds_alone(const struct gpud_device *device);

/* broken: what is on the queue fails; OpenCL alone. */
void conformance_release_queue(struct conformance_hold *hold, bool broken);

/* Makes the copies of all CUDA streams of this process late until it lets them go, also those of
 * queues that a test cannot get at. false: there is no fake driver to do so. */
bool conformance_hold_copies(bool hold);

#endif
