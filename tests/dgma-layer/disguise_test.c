/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Without GPUDIRECT_DGMA_AS, and with a value that means nothing, a program sees what it sees
 * without the layer; nonsense costs one line on stderr. Each look is a process of its own. */

#include "common.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 1 << 20 };

static void note(unsigned name, cl_int status, size_t size, const unsigned char *value)
{
    printf("%#x %d %zu ", name, status, size);
    for (size_t i = 0; status == CL_SUCCESS && i < size; i++)
        printf("%02x", value[i]);
    putchar('\n');
}

/* The extension strings are the layer's to change, and handles differ from process to process. */
static bool may_differ(unsigned name)
{
    return name == CL_DEVICE_EXTENSIONS || name == CL_DEVICE_EXTENSIONS_WITH_VERSION ||
           name == CL_PLATFORM_EXTENSIONS || name == CL_PLATFORM_EXTENSIONS_WITH_VERSION ||
           name == CL_DEVICE_PLATFORM;
}

static void look(void)
{
    static unsigned char value[8192];
    static const unsigned ranges[][2] = {{0x1000, 0x1080}, {0x4030, 0x4050}};
    static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU,
                                           CL_DEVICE_TYPE_DEFAULT, CL_DEVICE_TYPE_ALL, 0};
    cl_platform_id platform;
    cl_device_id devices[16] = {NULL};
    OK(clGetPlatformIDs(1, &platform, NULL));
    for (unsigned name = 0x0900; name < 0x0930; name++) {
        size_t size = 0;
        cl_int status = clGetPlatformInfo(platform, name, sizeof value, value, &size);
        if (!may_differ(name))
            note(name, status, size, value);
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        cl_uint count = 0;
        cl_int status = clGetDeviceIDs(platform, types[i], 16, devices, &count);
        note((unsigned)i, status, sizeof count, (unsigned char *)&count);
    }
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
        for (unsigned name = ranges[r][0]; name < ranges[r][1]; name++) {
            size_t size = 0;
            cl_int status = clGetDeviceInfo(devices[0], name, sizeof value, value, &size);
            if (!may_differ(name))
                note(name, status, size, value);
        }
}

static char *read_all(int fd)
{
    char *text = calloc(1, LONGEST);
    CHECK(text);
    for (ssize_t n, length = 0; (n = read(fd, text + length, (size_t)(LONGEST - 1 - length))) > 0;)
        length += n;
    close(fd);
    return text;
}

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* What a process sees; `layers`, `as`: its environment, or NULL. */
static char *seen_by(const char *layers, const char *as, char **complaint)
{
    int out[2], err[2], status;
    CHECK(pipe(out) == 0 && pipe(err) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]);
        close(err[0]);
        set("OPENCL_LAYERS", layers);
        set("GPUDIRECT_DGMA_AS", as);
        execl("/proc/self/exe", "disguise", "look", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    char *text = read_all(out[0]);
    *complaint = read_all(err[0]);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return text;
}

static void compare(const char *bare, const char *layers, const char *as, bool complains)
{
    char *complaint, *text = seen_by(layers, as, &complaint);
    if (strcmp(text, bare) != 0)
        FAIL("with GPUDIRECT_DGMA_AS=%s a program sees something else", as ? as : "(unset)");
    const char *end = strchr(complaint, '\n');
    if (!complains && *complaint)
        FAIL("GPUDIRECT_DGMA_AS=%s: \"%s\"", as ? as : "(unset)", complaint);
    if (complains &&
        (!end || end[1] || !strstr(complaint, "GPUDIRECT_DGMA_AS") || !strstr(complaint, as)))
        FAIL("GPUDIRECT_DGMA_AS=%s is not one clear sentence: \"%s\"", as, complaint);
    free(text);
    free(complaint);
}

int main(int argc, char **argv)
{
    static const char *const nonsense[] = {
        "nvidia", "FirePro", "firepro2", "firepro:", "firepro:0", "firepro:9", "firepro:2x"};
    if (argc > 1 && strcmp(argv[1], "look") == 0) {
        look();
        return 0;
    }
    struct cl cl = open_cl(120); /* skips where there is no device */
    close_cl(&cl);
    const char *layers = getenv("OPENCL_LAYERS");
    char *complaint, *bare = seen_by(NULL, NULL, &complaint);
    free(complaint);
    CHECK(strlen(bare) > 1000);
    compare(bare, layers, NULL, false);
    compare(bare, layers, "", false);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        compare(bare, layers, nonsense[i], true);
    char *disguised = seen_by(layers, "firepro", &complaint);
    CHECK(strcmp(disguised, bare) != 0 && !*complaint); /* so the comparison can see one */
    free(complaint);
    free(disguised);
    free(bare);
    return 0;
}
