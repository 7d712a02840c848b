/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compiled twice, see support/headers_values.h; GPUD_HIP_VENDOR_HEADER tells driver.h which time it
 * is. */

#include "support/headers_values.h"

#include "device/gpu/calls.h"
#include "device/hip/driver.h"

#ifdef GPUD_HIP_VENDOR_HEADER
#define VALUES vendor_values
#define NUM_VALUES num_vendor_values

/* Each function of the vendor's is of the type that our table says. */
#define SAME_TYPE(member, symbol, arguments)                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol),                           \
                                                __typeof__(((struct hip_driver *)0)->member)), \
                   #symbol " is declared otherwise by the vendor");
HIP_DRIVER_FUNCTIONS(SAME_TYPE)
HIP_DRIVER_OPTIONAL(SAME_TYPE)
SAME_TYPE(get_error_name, hipGetErrorName, ())

/* What changed at 6.0: what we say of this version is what this header says. */
_Static_assert(HIP_IPC_LAZY_PEER_ACCESS(HIP_VERSION) == hipIpcMemLazyEnablePeerAccess, "the flag");
_Static_assert(HIP_MEMORY_HOST(HIP_VERSION) == hipMemoryTypeHost, "host memory");
_Static_assert(HIP_MEMORY_DEVICE(HIP_VERSION) == hipMemoryTypeDevice, "device memory");
#if HIP_VERSION_MAJOR >= 6
_Static_assert(HIP_ATTRIBUTE_VIRTUAL_MEMORY == hipDeviceAttributeVirtualMemoryManagementSupported,
               "the attribute");
_Static_assert(sizeof(struct gpud_gpu_allocation) == sizeof(hipMemAllocationProp), "its size");
_Static_assert(offsetof(struct gpud_gpu_allocation, location) ==
                   offsetof(hipMemAllocationProp, location),
               "its members");
#endif
#else
#define VALUES own_values
#define NUM_VALUES num_own_values
#endif

const struct value VALUES[] = {
    CONSTANT(hipSuccess),
    CONSTANT(hipErrorInvalidValue),
    CONSTANT(hipErrorOutOfMemory),
    CONSTANT(hipErrorNotInitialized),
    CONSTANT(hipErrorInsufficientDriver),
    CONSTANT(hipErrorNoDevice),
    CONSTANT(hipErrorInvalidDevice),
    CONSTANT(hipErrorInvalidContext),
    CONSTANT(hipErrorMapFailed),
    CONSTANT(hipErrorInvalidHandle),
    CONSTANT(hipErrorNotReady),
    CONSTANT(hipErrorPeerAccessAlreadyEnabled),
    CONSTANT(hipErrorHostMemoryAlreadyRegistered),
    CONSTANT(hipErrorHostMemoryNotRegistered),
    CONSTANT(hipErrorNotSupported),
    CONSTANT(hipErrorUnknown),
    CONSTANT(hipDeviceAttributeComputeMode),
    CONSTANT(hipDeviceAttributeIntegrated),
    CONSTANT(hipDeviceAttributeHdpMemFlushCntl),
    CONSTANT(hipDeviceAttributeCanUseStreamWaitValue),
    CONSTANT(hipDevP2PAttrPerformanceRank),
    CONSTANT(hipDevP2PAttrNativeAtomicSupported),
    CONSTANT(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE),
    CONSTANT(HIP_POINTER_ATTRIBUTE_IS_MANAGED),
    CONSTANT(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
    CONSTANT(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR),
    CONSTANT(HIP_POINTER_ATTRIBUTE_RANGE_SIZE),
    CONSTANT(hipStreamCaptureModeRelaxed),
    CONSTANT(hipMemcpyDefault),
    CONSTANT(hipMemAllocationTypePinned),
    CONSTANT(hipMemLocationTypeDevice),
    CONSTANT(hipMemHandleTypePosixFileDescriptor),
    CONSTANT(hipMemAllocationGranularityMinimum),
    CONSTANT(hipMemAccessFlagsProtRead),
    CONSTANT(hipMemAccessFlagsProtReadWrite),
    CONSTANT(hipStreamNonBlocking),
    CONSTANT(hipEventDisableTiming),
    CONSTANT(hipHostMallocPortable),
    CONSTANT(hipHostMallocMapped),
    CONSTANT(hipHostRegisterPortable),
    CONSTANT(hipHostRegisterMapped),
    CONSTANT(hipStreamWaitValueGte),

    SIZE(hipDevice_t),
    SIZE(hipDeviceptr_t),
    SIZE(hipStream_t),
    SIZE(hipEvent_t),
    SIZE(hipMemGenericAllocationHandle_t),
    SIZE(hipUUID),
    SIZE(hipIpcMemHandle_t),
    SIZE(hipError_t),
    SIZE(hipDeviceAttribute_t),
    SIZE(hipPointer_attribute),
    SIZE(hipMemLocation),
    SIZE(hipMemAccessDesc),

    MEMBER(hipUUID, bytes),
    MEMBER(hipIpcMemHandle_t, reserved),
    MEMBER(hipMemLocation, type),
    MEMBER(hipMemLocation, id),
    MEMBER(hipMemAccessDesc, location),
    MEMBER(hipMemAccessDesc, flags),
};
const size_t NUM_VALUES = sizeof VALUES / sizeof *VALUES;
