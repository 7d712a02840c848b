/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Raw calls of the driver, whichever libcuda.so.1 is found. What only the fake does, such as its
 * reports, is asked only of the fake: run on a machine with a GPU, the same tests show that the
 * fake answers as the driver does. */
#ifndef FAKE_CUDA_TEST_COMMON_H
#define FAKE_CUDA_TEST_COMMON_H

#include "functions.h"
#include "support/check.h"

#include <stdbool.h>

#define LOCAL_POINTER(symbol, arguments) CUresult(*symbol) arguments;
struct calls {
    struct cuda_driver driver;
    FAKE_FUNCTIONS(LOCAL_POINTER)
    bool fake;
};
extern struct calls cuda;

void open_driver(void);
unsigned reports(void);

/* The member's name is the driver's function's in driver.h. */
#define CU(wanted, call)                                                                     \
    do {                                                                                     \
        int got_ = (int)cuda.call;                                                           \
        if (got_ != (int)(wanted))                                                           \
            FAIL("%s gives %d where %d (%s) is right", #call, got_, (int)(wanted), #wanted); \
    } while (0)
#define OK(call) CU(CUDA_SUCCESS, call)
#define DRIVER(wanted, call) CU(wanted, driver.call)
#define DO(call) CU(CUDA_SUCCESS, driver.call)

/* An error that the driver may answer with another number. */
#define REFUSED(call)                                   \
    do {                                                \
        if ((int)cuda.driver.call == (int)CUDA_SUCCESS) \
            FAIL("%s is not refused", #call);           \
    } while (0)

/* Refused, and reported once; of the fake only. */
#define REPORTED(wanted, call)                                               \
    do {                                                                     \
        if (cuda.fake) {                                                     \
            unsigned before_ = reports();                                    \
            CU(wanted, call);                                                \
            if (reports() != before_ + 1)                                    \
                FAIL("%s is reported %u times", #call, reports() - before_); \
        }                                                                    \
    } while (0)

/* A stream's work is done within a minute, or the test fails: nothing here may hang. */
void finish(CUstream stream);

CUdeviceptr alloc_filled(size_t size, unsigned char value);
/* Are these bytes of the device all of this value? */
bool is_filled(CUdeviceptr address, size_t size, unsigned char value);

/* A VMM allocation, mapped for a device. */
struct mapping {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t size;
};
CUmemAllocationProp prop_of(CUdevice device, bool shareable);
void map_handle(struct mapping *mapping, CUmemGenericAllocationHandle handle, size_t size,
                CUdevice device);
void unmap(struct mapping *mapping);

#endif
