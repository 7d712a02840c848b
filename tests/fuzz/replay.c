/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* replay <folder>: every file of a corpus, then some hundred copies of each with a few bytes
 * changed (the same in each run), without libFuzzer. */
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX 65536
#define COPIES 200

static uint32_t state = 1;

/* The current input, so that a crash can be traced to it. */
static char path[512];
static unsigned copy_number;

/* Where the coverage is counted, up to here. */
extern int __llvm_profile_write_file(void) __attribute__((weak));

static void say_where(int number)
{
    char text[600];
    int length = snprintf(text, sizeof(text), "replay: %s, copy %u of it\n", path, copy_number);
    if (length > 0)
        (void)!write(STDERR_FILENO, text, (size_t)length);
    if (__llvm_profile_write_file)
        __llvm_profile_write_file();
    raise(number);
}

static uint32_t next(void)
{
    state = state * 1664525 + 1013904223;
    return state >> 7;
}

int main(int argc, char **argv)
{
    static uint8_t input[INPUT_MAX];
    unsigned files = 0, runs = 0;
    if (argc < 2)
        return 2;
    unsigned copies = argc > 2 ? (unsigned)atoi(argv[2]) : COPIES;
    DIR *dir = opendir(argv[1]);
    if (!dir) {
        perror(argv[1]);
        return 1;
    }
    struct sigaction say = {.sa_handler = say_where, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGABRT, &say, NULL);
    sigaction(SIGBUS, &say, NULL);
    sigaction(SIGALRM, &say, NULL);
    sigaction(SIGTRAP, &say, NULL);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        FILE *file = fopen(path, "rb");
        if (!file)
            continue;
        size_t size = fread(input, 1, sizeof(input), file);
        fclose(file);
        files++;
        copy_number = 0;
        alarm(100); /* a hang is a finding */
        LLVMFuzzerTestOneInput(input, size);
        for (unsigned i = 0; i < copies && size; i++, runs++) {
            /* An exact copy on the heap, so that a sanitizer sees a read past its end. */
            size_t length = i % 8 == 0 ? next() % size + 1 : size;
            uint8_t *copy = malloc(length);
            if (!copy)
                return 1;
            memcpy(copy, input, length);
            copy_number = i + 1;
            for (unsigned k = 0; k < 1 + i % 4; k++)
                copy[next() % length] = (uint8_t)(i % 3 ? next() : (uint32_t) - (i % 2));
            LLVMFuzzerTestOneInput(copy, length);
            free(copy);
        }
    }
    closedir(dir);
    printf("%u files, %u bent copies\n", files, runs);
    return files ? 0 : 1;
}
