/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The package gpudirect: what its files share. */
#ifndef GPUD_PYTHON_H
#define GPUD_PYTHON_H

/* Python's API as the extension uses it: the stable ABI of 3.11, the first that has the buffer
 * protocol. */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <gpudirect/device.h>
#include <gpudirect/frame.h>
#include <gpudirect/media.h>
#include <gpudirect/receiver.h>
#include <gpudirect/sender.h>
#include <gpudirect/types.h>
#include <pthread.h>
#include <stdatomic.h>

/* === array =================================================================================== */
/* Where an array of numbers lies in a frame. */

#define ARRAY_DIMENSIONS_MAX GPUD_TENSOR_DIMENSIONS_MAX
#define ARRAY_NAME_MAX 32

struct array {
    enum gpud_tensor_code kind;
    unsigned bytes;  /* of an element */
    bool big_endian; /* the elements are, and have more than one byte */
    int dimensions;
    int64_t shape[ARRAY_DIMENSIONS_MAX];
    int64_t strides[ARRAY_DIMENSIONS_MAX]; /* in bytes */
    uint64_t offset;                       /* of the first element in the frame */
    uint64_t length;                       /* bytes of all elements */
};

/* So many bytes of a frame, from its first one on. */
void array_raw(struct array *array, uint64_t size);

/* A frame as one array; size: its bytes in use. Planes that are alike become its first dimension.
 * False with a sentence in error if it needs several arrays, or its pixels do not lie in one. */
bool array_of_frame(struct array *array, const struct gpud_media *media,
                    const struct gpud_layout *layout, uint64_t size, struct gpud_error *error);

/* A plane, and its name: "Y", "UV"; the plane's number where the format is not known, whose rows
 * are arrays of bytes. */
bool array_of_plane(struct array *array, char name[ARRAY_NAME_MAX],
                    const struct gpud_layout *layout, uint32_t plane, struct gpud_error *error);

/* A tensor and its name: its number where it has none. size: the frame's bytes in use. */
bool array_of_tensor(struct array *array, char name[ARRAY_NAME_MAX],
                     const struct gpud_tensors *tensors, uint32_t tensor, uint64_t size,
                     struct gpud_error *error);

/* Copies elements of the same shape and type, whose strides are in bytes, into the array of the
 * frame that begins at `to`. */
void array_copy(const struct array *array, char *to, const char *from, const int64_t *strides);

/* === types =================================================================================== */
/* The package's types, of which the package's own classes extend four. The extension works in the
 * main interpreter alone, so that each is made once. */

enum type { TYPE_PLANE, TYPE_FRAME, TYPE_RECEIVER, TYPE_SENDER, TYPE_CAPTURE, TYPE_GROUP, TYPES };

extern PyTypeObject *types[TYPES];
extern PyType_Spec view_spec, frame_spec, receiver_spec, sender_spec, capture_spec, group_spec;

/* === context ================================================================================= */
/* The process's context, which lives until the process ends: tensors may be dropped at any time
 * until then, and need it. */

/* The context of this process. NULL with an exception if it cannot be created, or if the process
 * was forked from the one that created it. */
struct gpud_context *context_get(void);

/* Objects of a parent process are neither used nor destroyed by its children. */
bool context_is_foreign(long pid);

/* === convert ================================================================================= */
/* Values between Python and C. */

/* A text of the library's, which may end in mid-character. For Py_BuildValue's "N". */
PyObject *convert_text(const char *text);

/* "hidden", "peer-access", "user", "failed"; "": the route is not worse than it has to be. */
PyObject *convert_degraded(enum gpud_degraded degraded);

/* None for UINT64_MAX. */
PyObject *convert_time(uint64_t ns);

/* The media in the syntax of caps; None if it cannot be written. */
PyObject *convert_media(const struct gpud_media *media);

/* `__array__` of what has the buffer protocol. numpy calls it only where that refuses, and makes an
 * array of the object itself, without the reason, where there is no such method. */
PyObject *convert_to_numpy(PyObject *self, PyObject *args, PyObject *names);

/* A converter for PyArg_Parse's "O&", into an enum gpud_slow_receiver. */
int convert_parse_policy(PyObject *object, void *policy);

/* A converter for PyArg_Parse's "O&": a device's name or None, into a const char * that lives as
 * long as the object. */
int convert_parse_device(PyObject *object, void *device);

/* === media =================================================================================== */
/* What frames are: shared by the frames of one epoch. */

struct media {
    atomic_uint refs;
    struct gpud_media media;
    char text[GPUD_MEDIA_TEXT_MAX]; /* in the syntax of caps */
};

/* NULL: out of memory. Any thread, without the GIL. */
struct media *media_new(const struct gpud_media *media);
struct media *media_ref(struct media *media);
void media_unref(struct media *media);

/* === hold ==================================================================================== */
/* A frame and all that uses its bytes: the Frame object, its planes, buffers and tensors. The last
 * of them to go gives the frame back, on any thread, with or without the GIL.
 *
 * Every holder of a reference may read the constant fields. Whatever drops the GIL has a reference
 * of its own, since another thread may release the Frame meanwhile: HELD declares one. `frame`,
 * `mapped` and the streams are guarded by `calls`, which is held while the library waits for the
 * frame and is therefore taken only without the GIL. The info is read with either of them and
 * changed with both. hold_unref() takes no lock: it is alone with the frame. */

/* Streams of consumers that use one frame. */
#define HOLD_STREAMS_MAX 16

enum hold_device {
    HOLD_HOST,
    HOLD_CUDA,
    HOLD_HIP,
    HOLD_OPENCL,
    HOLD_VULKAN,
};

struct hold {
    atomic_uint refs;
    atomic_uint arrays; /* those of refs that use the bytes: planes, buffers, tensors */
    /* constant */
    struct media *media;
    char *native; /* of the frame's first byte; or the object that it is offset bytes in */
    uint64_t offset;
    char device[32];
    char route[32]; /* by which the frame came; "": it did not */
    enum hold_device kind;
    int number; /* of the device among its kind */
    bool lent;  /* by a sender: to be written, and submitted */
    bool read_only;
    bool allow_old_dlpack; /* although that cannot say that the frame is read-only */
    long pid;

    struct gpud_frame_info info; /* as it arrived; of a lent frame, as it shall be submitted */
    void *large_meta;            /* its own copy of info's, which outlives the frame */

    pthread_mutex_t calls;
    struct gpud_frame *frame;        /* NULL: submitted */
    struct gpud_frame *keeper;       /* of a submitted frame: keeps its memory for its arrays */
    void *mapped;                    /* by gpud_frame_map(); NULL: it is not */
    bool by_lines;                   /* its rows are waited for, or submitted, a part at a time */
    void *streams[HOLD_STREAMS_MAX]; /* that the release or the submission waits for */
    unsigned stream_count;
};

/* Owns the frame in any case. NULL with an exception if it fails. */
struct hold *hold_new(struct gpud_frame *frame, struct media *media, bool lent);
void hold_unref(struct hold *hold);

static inline void hold_cleanup(struct hold **hold)
{
    hold_unref(*hold);
}

/* A variable whose reference, or NULL, ends with its block. */
#define HELD __attribute__((cleanup(hold_cleanup))) struct hold *

/* Whether native is an object of the driver's (cl_mem, VkBuffer), and no address. */
static inline bool hold_is_object(const struct hold *hold)
{
    return hold->kind == HOLD_OPENCL || hold->kind == HOLD_VULKAN;
}

/* 0, or -1 with an exception if the bytes may not be used any more. */
int hold_check(struct hold *hold);

/* Takes the frame out, to be submitted: its info is set and the consumers' streams are posted. NULL
 * with an exception. */
struct gpud_frame *hold_take(struct hold *hold);

/* A part of submitting the first rows of a lent frame, which stays here. Without the GIL. */
enum gpud_status hold_submit_lines(struct hold *hold, struct gpud_sender *sender, uint32_t lines,
                                   int64_t timeout_ns, struct gpud_error *error);

/* Undoes hold_take(). */
void hold_put_back(struct hold *hold, struct gpud_frame *frame);

/* === error =================================================================================== */
/* Failures of the library as Python's exceptions. */

/* The exception of error->status, whose text is the library's sentence. NULL with another exception
 * if it cannot be made. */
PyObject *error_new(const struct gpud_error *error);

/* Raises that exception. Returns NULL. */
void *error_raise(const struct gpud_error *error);

/* The same with a sentence of this package. Returns NULL. */
void *error_raise_text(enum gpud_status status, const char *text);

/* Raises gpudirect.TakenBack. Returns NULL. */
void *error_raise_taken_back(void);

/* === frame =================================================================================== */
/* gpudirect.Frame: a received, captured or lent frame. */

/* Owns the hold, also if it fails. lender: what `with` submits a lent frame to, by its method
 * submit(); or NULL. */
PyObject *frame_new(struct hold *hold, PyObject *lender);

/* A reference to the hold of a Frame that is not released, for a variable that is HELD. NULL with
 * an exception, also of what is not a Frame. */
struct hold *frame_find_hold(PyObject *object);

/* === guard =================================================================================== */
/* What lets one thread close an object while others wait in it: the last to leave destroys it. */

struct guard_ops {
    const char *name;
    /* Both run without the GIL; destroy() may find nothing to destroy. */
    void (*destroy)(PyObject *object);
    enum gpud_status (*get_fd)(PyObject *object, int *fd, struct gpud_error *error);
    /* Copies state and counters into the object. With the GIL; there may be nothing to read. */
    void (*read_info)(PyObject *object);
};

struct guard {
    pthread_mutex_t lock; /* guards users, closed; held for a few instructions */
    pthread_mutex_t turn; /* held by the calls that the library wants from one thread at a time */
    unsigned users;
    bool closed;
    long pid; /* of the process that made the object */
    const struct guard_ops *ops;
};

/* Defines read_info() for struct NAME, whose members are called NAME and info. */
#define GUARD_READ_INFO(name)                                               \
    static void name##_read_info(PyObject *object)                          \
    {                                                                       \
        struct name *self = (struct name *)object;                          \
        self->info = (struct gpud_##name##_info)GPUD_INFO_INIT(self->info); \
        if (self->name)                                                     \
            gpud_##name##_get_info(self->name, &self->info);                \
    }

/* How objects with a guard begin. */
struct guarded {
    PyObject_HEAD struct guard guard;
};

/* A new object of a type that begins with struct guarded, for its tp_new; zeroed. */
PyObject *guard_new(PyTypeObject *type, const struct guard_ops *ops);

/* For its tp_dealloc: closes the object, and frees it last. */
void guard_free(PyObject *object);

/* False with an exception if the object is closed. */
bool guard_enter(struct guarded *object);
void guard_leave(struct guarded *object);

/* Lets the object read its info, which stays as it was when the object was closed. False with an
 * exception in a process that was forked. */
bool guard_read_info(struct guarded *object);

/* Closing twice is harmless. */
void guard_close(struct guarded *object);

/* Methods and an attribute that all of them have. */
PyObject *guard_method_close(PyObject *object, PyObject *unused);
PyObject *guard_method_fileno(PyObject *object, PyObject *unused);
PyObject *guard_get_closed(PyObject *object, void *closure);

/* A part of a wait, which runs without the GIL and takes timeout_ns at most. */
typedef enum gpud_status (*guard_slice_fn)(void *call, int64_t timeout_ns,
                                           struct gpud_error *error);

/* Runs with the GIL after each part; -1 with an exception ends the wait. */
typedef int (*guard_between_fn)(void *call);

/* Waits for slice() to return something other than GPUD_TIMEOUT, in parts short enough for Python's
 * signal handlers. between may be NULL. Returns 0, or -1 with an exception; *status is what the
 * exception says, GPUD_OK where it is not the library's but that of a handler. one_at_a_time: takes
 * the guard's turn for each part. */
int guard_wait(struct guarded *object, int64_t timeout_ns, bool one_at_a_time, guard_slice_fn slice,
               guard_between_fn between, void *call, enum gpud_status *status);

/* A converter for PyArg_Parse's "O&": seconds or None, into nanoseconds of an int64_t. */
int guard_parse_timeout(PyObject *object, void *timeout_ns);

/* === links =================================================================================== */
/* A sender's receivers, as dicts. */

PyObject *links_to_list(const struct gpud_link_info *const *link, size_t count);

#endif
