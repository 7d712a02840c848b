// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Each call of device/gpu/calls.h is passed as CUDA's and HIP's call of that name is, and the numbers and structures
// are theirs, by the declarations that unit-cuda-headers and unit-hip-headers compare with the vendors'. It only has to
// compile.

#include "device/cuda/driver.h"
#include "device/gpu/calls.h"
#include "device/hip/driver.h"

#include <type_traits>

// A register that holds a number or a pointer, or a structure in memory: equal in size and in kind.
template <typename A, typename B> constexpr bool passed_alike()
{
    return sizeof(A) == sizeof(B) && std::is_class<A>::value == std::is_class<B>::value &&
           std::is_floating_point<A>::value == std::is_floating_point<B>::value;
}

template <typename Ours, typename Theirs> struct alike : std::false_type {};
template <typename R, typename... A, typename S, typename... B> struct alike<R (*)(A...), S (*)(B...)> {
    template <bool same, typename...> struct all : std::false_type {};
    template <typename... C> struct all<true, C...> : std::bool_constant<(passed_alike<A, C>() && ...)> {};
    static constexpr bool value = passed_alike<R, S>() && all<sizeof...(A) == sizeof...(B), B...>::value;
};

struct calls {
#define MEMBER(member, arguments) int(*member) arguments;
    GPUD_GPU_CALLS(MEMBER)
};

#define ALIKE(member, arguments)                                                                  \
    static_assert(alike<decltype(calls::member), decltype(cuda_driver::member)>::value, #member); \
    static_assert(alike<decltype(calls::member), decltype(hip_driver::member)>::value, #member);
GPUD_GPU_CALLS(ALIKE)

#define SAME_AS(ours, theirs) static_assert(int(ours) == int(theirs), #ours);
#define SAME(ours, cuda, hip) SAME_AS(ours, cuda) SAME_AS(ours, hip)
SAME(GPUD_GPU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, hipErrorInvalidValue)
SAME(GPUD_GPU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory)
SAME_AS(GPUD_GPU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY)
SAME_AS(GPUD_GPU_INSUFFICIENT_DRIVER, hipErrorInsufficientDriver)
SAME(GPUD_GPU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, hipErrorNoDevice)
SAME(GPUD_GPU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice)
SAME(GPUD_GPU_NOT_READY, CUDA_ERROR_NOT_READY, hipErrorNotReady)
SAME_AS(GPUD_GPU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED)
SAME(GPUD_GPU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED, hipErrorNotSupported)
SAME_AS(GPUD_GPU_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY)
SAME_AS(GPUD_GPU_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
SAME_AS(GPUD_GPU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT)
SAME(GPUD_GPU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE)
SAME(GPUD_GPU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, HIP_POINTER_ATTRIBUTE_IS_MANAGED)
SAME(GPUD_GPU_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
SAME(GPUD_GPU_POINTER_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR)
SAME(GPUD_GPU_POINTER_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE, HIP_POINTER_ATTRIBUTE_RANGE_SIZE)
SAME(GPUD_GPU_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, hipMemAllocationTypePinned)
SAME(GPUD_GPU_ON_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, hipMemLocationTypeDevice)
SAME(GPUD_GPU_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, hipMemHandleTypePosixFileDescriptor)
SAME(GPUD_GPU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM, hipMemAllocationGranularityMinimum)
SAME(GPUD_GPU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed)
SAME(GPUD_GPU_READ, CU_MEM_ACCESS_FLAGS_PROT_READ, hipMemAccessFlagsProtRead)
SAME(GPUD_GPU_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, hipMemAccessFlagsProtReadWrite)
SAME(GPUD_GPU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, hipStreamNonBlocking)
SAME(GPUD_GPU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, hipEventDisableTiming)
SAME(GPUD_GPU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, hipHostMallocPortable)
SAME(GPUD_GPU_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP, hipHostMallocMapped)
SAME(GPUD_GPU_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, hipHostRegisterPortable)
SAME(GPUD_GPU_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP, hipHostRegisterMapped)
SAME_AS(0, CU_STREAM_WRITE_VALUE_DEFAULT)

#define PLACED(type, member, theirs, their_member) \
    static_assert(offsetof(type, member) == offsetof(theirs, their_member), #type "." #member);
PLACED(gpud_gpu_allocation, handles, CUmemAllocationProp, requestedHandleTypes)
PLACED(gpud_gpu_allocation, location, CUmemAllocationProp, location)
PLACED(gpud_gpu_allocation, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
static_assert(sizeof(gpud_gpu_allocation) == sizeof(CUmemAllocationProp), "an allocation");
PLACED(gpud_gpu_access, flags, CUmemAccessDesc, flags)
PLACED(gpud_gpu_access, flags, hipMemAccessDesc, flags)
static_assert(sizeof(gpud_gpu_access) == sizeof(CUmemAccessDesc), "an access");
static_assert(sizeof(gpud_gpu_access) == sizeof(hipMemAccessDesc), "an access");
