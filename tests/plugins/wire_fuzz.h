/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Everything in the plugin that reads a peer's bytes, called with the same bytes: for the fuzzer
 * and for the tests that replay and mutate what the writers write. */
#ifndef GPUD_TESTS_PLUGINS_WIRE_FUZZ_H
#define GPUD_TESTS_PLUGINS_WIRE_FUZZ_H

#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What elements downstream do with what was read. */
void wire_use_metas(GstBuffer *buffer);
void wire_use_event(const struct wire_event *event);

#endif
