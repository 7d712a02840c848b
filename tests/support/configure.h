/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpud_capture_configure() with one thing to set. */
#ifndef GPUD_TESTS_CONFIGURE_H
#define GPUD_TESTS_CONFIGURE_H

#include <gpudirect/capture.h>

#include <stdio.h>

static inline enum gpud_status configure_mode(struct gpud_capture *capture,
                                              const struct gpud_capture_mode *mode,
                                              struct gpud_error *error)
{
    const struct gpud_capture_config config = {.size = sizeof(config), .mode = mode};
    return gpud_capture_configure(capture, &config, error);
}

static inline enum gpud_status configure_format(struct gpud_capture *capture, const char *format,
                                                uint32_t width, uint32_t height, uint32_t fps_num,
                                                uint32_t fps_den, struct gpud_error *error)
{
    struct gpud_capture_mode mode = {
        .size = sizeof(mode),
        .width_min = width,
        .height_min = height,
        .fps_num = fps_num,
        .fps_den = fps_den,
    };
    snprintf(mode.format, sizeof(mode.format), "%s", format ? format : "");
    return configure_mode(capture, &mode, error);
}

static inline enum gpud_status configure_input(struct gpud_capture *capture, const char *input,
                                               struct gpud_error *error)
{
    const struct gpud_capture_config config = {.size = sizeof(config), .input = input};
    return gpud_capture_configure(capture, &config, error);
}

static inline enum gpud_status configure_controls(struct gpud_capture *capture,
                                                  const struct gpud_capture_control *controls,
                                                  uint32_t count, struct gpud_error *error)
{
    const struct gpud_capture_config config = {
        .size = sizeof(config), .controls = controls, .control_count = count};
    return gpud_capture_configure(capture, &config, error);
}

#endif
