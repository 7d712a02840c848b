/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two processes: memory by descriptor and by IPC handle, words between streams of both, and what
 * is left when one is killed. */

#include "test_common.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define SIZE (4 * MIB)
#define GEQ CU_STREAM_WAIT_VALUE_GEQ

static int wire;
static CUcontext context;
static CUstream stream;
static unsigned *words;
static CUdeviceptr device_words;

/* Plain bytes, with a descriptor beside them where one is given. */
static void send_with(const void *bytes, size_t size, int fd)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof fd)];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof fd),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        message.msg_control = &control;
        message.msg_controllen = sizeof control.space;
    }
    CHECK(sendmsg(wire, &message, MSG_NOSIGNAL) == (ssize_t)size, "the other process is gone");
}

static int receive(void *bytes, size_t size)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    int fd = -1;
    CHECK(recvmsg(wire, &message, MSG_CMSG_CLOEXEC) == (ssize_t)size, "the other process is gone");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

static void say(char letter)
{
    send_with(&letter, 1, -1);
}

static void hear(char letter)
{
    char heard = 0;
    receive(&heard, 1);
    CHECK(heard == letter, "heard %c, not %c", heard, letter);
}

static void open_device(int page)
{
    open_driver();
    DO(init(0));
    DO(device_primary_ctx_retain(&context, 0));
    DO(ctx_push_current(context));
    DO(stream_create(&stream, CU_STREAM_NON_BLOCKING));
    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    CHECK(words != MAP_FAILED, "no page");
    DO(mem_host_register(words, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    DO(mem_host_get_device_pointer(&device_words, words, 0));
}

static size_t available(void)
{
    size_t bytes, total;
    DO(mem_get_info(&bytes, &total));
    return bytes;
}

static void *as_pointer(int fd)
{
    return (void *)(uintptr_t)fd;
}

static void owner_vmm(void)
{
    CUmemAllocationProp prop = prop_of(0, true);
    CUmemGenericAllocationHandle handle;
    struct mapping mapping;
    int fd;
    DO(mem_create(&handle, SIZE, &prop, 0));
    map_handle(&mapping, handle, SIZE, 0);
    OK(cuMemsetD8_v2(mapping.address, 0x5a, SIZE));
    OK(cuCtxSynchronize());
    DO(mem_export(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_with("v", 1, fd);
    close(fd);
    unmap(&mapping); /* the other process still has it */
    say('u');
    hear('d');
}

static void user_vmm(void)
{
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    struct mapping mapping;
    char letter;
    int fd = receive(&letter, 1);
    int foreign = memfd_create("foreign", MFD_CLOEXEC);
    CHECK(ftruncate(foreign, SIZE) == 0, "no memfd");
    DRIVER(CUDA_ERROR_UNKNOWN, mem_import(&handle, as_pointer(foreign), type));
    REFUSED(mem_import(&handle, as_pointer(999), type));
    REFUSED(mem_import(&handle, as_pointer(-1), type));
    close(foreign);
    hear('u');
    DO(mem_import(&handle, as_pointer(fd), type));
    close(fd);
    DO(mem_get_allocation_properties(&prop, handle));
    CHECK_EQUAL(prop.location.id, 0);
    map_handle(&mapping, handle, SIZE, 0);
    CHECK(is_filled(mapping.address, SIZE, 0x5a), "imported memory has other bytes");
    CUipcMemHandle ipc;
    DRIVER(CUDA_ERROR_INVALID_VALUE, ipc_get_mem_handle(&ipc, mapping.address));
    unmap(&mapping);
    say('d');
}

/* The memory of a dma-buf, and that it is not taken for an exported handle. */
static void owner_dmabuf(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr memory = alloc_filled(SIZE, 0x6b);
    int fd, supported;
    const unsigned one = 1;
    DO(device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    if (supported && cuda.fake) {
        unsigned before = reports();
        REFUSED(mem_get_handle_for_address_range(&fd, memory, SIZE,
                                                 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
        CHECK_EQUAL(reports(), before + 1); /* its synchronous operations may be asynchronous */
    }
    DO(pointer_set_attribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    if (supported) {
        const CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        REFUSED(mem_get_handle_for_address_range(&fd, memory + 512, 4096, type, 0));
        REFUSED(mem_get_handle_for_address_range(&fd, memory, 1000, type, 0));
        REFUSED(mem_get_handle_for_address_range(&fd, memory, SIZE * 2, type, 0));
        DO(mem_get_handle_for_address_range(&fd, memory, SIZE, type, 0));
        CHECK(lseek(fd, 0, SEEK_END) == (off_t)SIZE, "a dma-buf of another size");
        REFUSED(mem_import(&handle, as_pointer(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        close(fd);
    }
    DO(mem_free(memory));
}

static void owner_ipc(void)
{
    CUdeviceptr big = alloc_filled(SIZE, 0x21), small = alloc_filled(3000, 0x22), opened;
    CUipcMemHandle handles[2];
    DO(ipc_get_mem_handle(&handles[0], big));
    DO(ipc_get_mem_handle(&handles[1], small));
    DRIVER(CUDA_ERROR_INVALID_CONTEXT, ipc_open_mem_handle(&opened, handles[0], 1));
    if (cuda.fake)
        DRIVER(CUDA_ERROR_INVALID_VALUE, ipc_get_mem_handle(&handles[1], big + 512));
    send_with(handles, sizeof handles, -1);
    hear('o');
    CHECK(is_filled(big, SIZE, 0x31), "what the other process wrote is not here");
    CHECK(is_filled(small, 3000, 0x32), "what the other process wrote is not here");
    if (cuda.fake) {
        unsigned before = reports();
        DO(mem_free(big));
        CHECK_EQUAL(reports(), before + 1); /* freed while open elsewhere */
    }
    say('c');
    hear('c');
    if (!cuda.fake)
        DO(mem_free(big));
    DO(mem_free(small));
}

static void user_ipc(void)
{
    CUdeviceptr big, small, again;
    CUipcMemHandle handles[2], wrong = {.reserved = "no handle"}, nested;
    receive(handles, sizeof handles);
    REFUSED(ipc_open_mem_handle(&big, wrong, 1));
    if (cuda.fake)
        REFUSED(ipc_open_mem_handle(&big, handles[0], 77));
    DO(ipc_open_mem_handle(&big, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    DO(ipc_open_mem_handle(&small, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CUresult twice = cuda.driver.ipc_open_mem_handle(&again, handles[0], 1);
    SAY("the second open of a handle gives %d", (int)twice);
    if (cuda.fake)
        CHECK_EQUAL(twice, 208);
    REFUSED(ipc_get_mem_handle(&nested, big));
    CHECK(is_filled(big, SIZE, 0x21) && is_filled(small, 3000, 0x22), "other bytes");
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.mem_free(big));
    OK(cuMemsetD8_v2(big, 0x31, SIZE));
    OK(cuMemsetD8_v2(small, 0x32, 3000));
    OK(cuCtxSynchronize());
    say('o');
    hear('c');
    DO(ipc_close_mem_handle(big));
    DO(ipc_close_mem_handle(small));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.ipc_close_mem_handle(big));
    if (cuda.fake)
        REFUSED(ipc_open_mem_handle(&again, handles[0], 1)); /* freed by now */
    say('c');
}

/* A hundred rounds of ready and release, word to word, without the host. */
enum { ROUNDS = 100, READY = 0, RELEASE = 16 };

static void owner_words(void)
{
    say('w');
    for (unsigned i = 1; i <= ROUNDS; i++) {
        DO(stream_write_value(stream, device_words + READY * 4, i, 0));
        DO(stream_wait_value(stream, device_words + RELEASE * 4, i, GEQ));
    }
    finish(stream);
    CHECK_EQUAL(__atomic_load_n(&words[RELEASE], __ATOMIC_ACQUIRE), ROUNDS);
}

static void user_words(void)
{
    hear('w');
    for (unsigned i = 1; i <= ROUNDS; i++) {
        DO(stream_wait_value(stream, device_words + READY * 4, i, GEQ));
        DO(stream_write_value(stream, device_words + RELEASE * 4, i, 0));
    }
    finish(stream);
}

/* The user dies with work queued behind a wait: its word is never written, its memory comes
 * back, and a wait of ours for it is ended by our own CPU. */
static void user_dies(void)
{
    CUdeviceptr memory = alloc_filled(SIZE, 1);
    DO(stream_wait_value(stream, device_words + 32 * 4, 1, GEQ));
    DO(memset_d8_async(memory, 2, SIZE, stream));
    DO(stream_write_value(stream, device_words + 48 * 4, 1, 0));
    say('k');
    pause();
}

static void owner_kills(pid_t user, size_t baseline)
{
    bool shared = !cuda.fake || getenv("GPUD_FAKE_CUDA_ACCOUNT");
    hear('k');
    if (shared)
        CHECK(available() + SIZE <= baseline, "the other process's memory is not counted");
    DO(stream_wait_value(stream, device_words + 48 * 4, 1, GEQ));
    kill(user, SIGKILL);
    CHECK(waitpid(user, NULL, 0) == user, "no child");
    __atomic_store_n(&words[32], 1, __ATOMIC_RELEASE);
    usleep(20000);
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(stream));
    __atomic_store_n(&words[48], 1, __ATOMIC_RELEASE);
    finish(stream);
    if (shared && cuda.fake)
        CHECK_EQUAL(available(), baseline);
}

/* In a PID namespace of its own, as in a container: descriptors pass. IPC handles do not with many
 * a driver, and never here. */
static void owner_elsewhere(void)
{
    CUdeviceptr memory = alloc_filled(SIZE, 1);
    CUipcMemHandle handle;
    DO(ipc_get_mem_handle(&handle, memory));
    send_with(&handle, sizeof handle, -1);
    hear('n');
    DO(mem_free(memory));
}

static void user_elsewhere(void)
{
    CUdeviceptr memory;
    CUipcMemHandle handle;
    receive(&handle, sizeof handle);
    CUresult result = cuda.driver.ipc_open_mem_handle(&memory, handle, 1);
    if (cuda.fake)
        CHECK_EQUAL(result, CUDA_ERROR_INVALID_VALUE);
    else if (result == CUDA_SUCCESS)
        DO(ipc_close_mem_handle(memory));
    SAY("opening a handle of another PID namespace gives %d", (int)result);
    say('n');
}

/* Only a child of the process that asks is in the new namespace; the process itself could start no
 * thread any more. The driver needs a /proc that fits. */
static void enter_namespace(void)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        say('s');
        _exit(0);
    }
    pid_t inner = fork();
    CHECK(inner >= 0, "no process");
    if (inner > 0) {
        int status = 1;
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    if (mount("proc", "/proc", "proc", 0, NULL)) {
        say('s');
        _exit(0);
    }
    say('n');
}

static void test_namespace(pid_t child)
{
    char letter;
    int status;
    receive(&letter, 1);
    if (letter == 's')
        SKIP("no right to make a PID namespace with a /proc of its own");
    owner_vmm();
    owner_elsewhere();
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process failed");
}

int main(int argc, char **argv)
{
    bool elsewhere = argc == 2 && strcmp(argv[1], "namespace") == 0;
    int ends[2], page = memfd_create("words", MFD_CLOEXEC);
    CHECK(page >= 0 && ftruncate(page, 4096) == 0, "no memfd");
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    wire = ends[child == 0];
    close(ends[child != 0]);
    if (child == 0 && elsewhere)
        enter_namespace();
    open_device(page);
    size_t baseline = available();
    if (child == 0) {
        user_vmm();
        if (elsewhere) {
            user_elsewhere();
            return 0;
        }
        user_ipc();
        user_words();
        user_dies();
        return 1;
    }
    if (elsewhere) {
        test_namespace(child);
        return 0;
    }
    owner_vmm();
    owner_dmabuf();
    owner_ipc();
    owner_words();
    owner_kills(child, baseline);
    DO(stream_destroy(stream));
    DO(mem_host_unregister(words));
    SAY("passed, %u reports as wanted", reports());
    return 0;
}
