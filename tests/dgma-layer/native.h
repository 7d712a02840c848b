/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The answers by which native_test.c knows that native_driver.c gave them. */

#ifndef TESTS_DGMA_LAYER_NATIVE_H
#define TESTS_DGMA_LAYER_NATIVE_H

#define NATIVE_FLAGS ((cl_mem_flags)1 << 30)
#define NATIVE_BUFFER (-9001)
#define NATIVE_WAIT (-9002)
#define NATIVE_WRITE (-9003)
#define NATIVE_RESIDENT (-9004)

#endif
