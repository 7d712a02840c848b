/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Khronos' validation layer watches the tests on lavapipe: it ends a process that writes a buffer
 * twice without a barrier between the two writes. */
#include "conformance.h"

#include "device/vulkan/vulkan.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static void fill_twice(const struct vulkan_device *vulkan, VkCommandBuffer buffer, const void *what)
{
    const struct vulkan_block *block = what;
    vulkan->calls.CmdFillBuffer(buffer, block->buffer, 0, VK_WHOLE_SIZE, 1);
    vulkan->calls.CmdFillBuffer(buffer, block->buffer, 0, VK_WHOLE_SIZE, 2);
}

int main(int argc, char **argv)
{
    if (!getenv("VK_LAYER_SETTINGS_PATH"))
        SKIP(
            "without Khronos' validation layer, as in builds with a sanitizer: install it (Debian: "
            "apt install vulkan-validationlayers) and configure the build again");
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) {
        struct side side = side_open(argc > 1 ? argv[1] : "vulkan:0");
        struct gpud_memory *memory = NEW_MEMORY(side.device, PAGE);
        const struct vulkan_block *block = &gpud_vulkan_record(memory)->block;
        gpud_vulkan_queue_record(side.device, side.queue->backend,
                                 (const struct vulkan_block *const[]){block, NULL}, fill_twice,
                                 block);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child, "the process cannot be waited for");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP,
          "two writes without a barrier are not reported: the process ends with status %#x",
          (unsigned)status);
    return 0;
}
