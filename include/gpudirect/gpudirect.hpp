/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * The C API for C++17. A class owns its C object, and throws gpud::error where a C function fails.
 * Each function names the C function that it calls, whose description holds here, too.
 *
 * @code
 *   gpud::context context;
 *   gpud::receiver receiver(context, "cam1");
 *   for (;;) {
 *       gpud::frame frame = receiver.acquire(10s);
 *       use(frame.map(GPUD_READ, 1s).data(), frame.info().layout);
 *   }
 * @endcode
 *
 * - Objects can be moved, not copied; a moved-from one is empty, for assignment and destruction
 *   alone. Destructors destroy, close or release. A context stays until all its objects are gone.
 * - sender::submit() consumes a frame; one that is not submitted is given back.
 * - acquire() throws on every failure. try_acquire() and try_submit() throw on none and give the
 *   reason in a gpud_error, for loops in which a timeout or the end of a stream is expected.
 * - Params and infos are the C structs; gpud::sized sets the `size` of those that go in.
 * - Threads: as in the C headers. Callbacks of the application must not throw.
 */
/* clang-format on */
#ifndef GPUDIRECT_GPUDIRECT_HPP
#define GPUDIRECT_GPUDIRECT_HPP

#include <gpudirect/gpudirect.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/** C++ over the C API. */
namespace gpud {
/** How long a call waits at most, as in `500ms`; 0 does not wait. */
using timeout = std::chrono::nanoseconds;

/** Why a function failed; what() is the library's error message. */
class error : public std::runtime_error {
  public:
    /** From the gpud_error of a C function that has failed. */
    explicit error(const gpud_error &from) : std::runtime_error(from.reason), from_(from) {}
    /** What the C function returned: GPUD_TIMEOUT, GPUD_CLOSED… */
    gpud_status status() const noexcept { return from_.status; }
    /** The C struct, which also has the number that the system or a driver gave. */
    const gpud_error &get() const noexcept { return from_; }

  private:
    gpud_error from_;
};

/** A C struct whose `size` is set and whose other fields are 0: `sized<gpud_sender_params> p;` */
template <class C> struct sized : C {
    sized() : C() { this->size = sizeof(C); }
    /** Params with this address, and otherwise defaults. */
    sized(const char *to) : sized() { this->address = to; }
    /** Copies the struct, with its size. */
    sized(const C &from) : C(from) {}
};

/** Calls a C function whose last argument is a gpud_error, and throws an error if it fails. */
template <class F, class... A> void check(F function, A... arguments)
{
    gpud_error why;
    if (function(arguments..., &why) != GPUD_OK)
        throw error(why);
}

/** Calls a C function that fills an info. */
template <class Info, class F, class... A> Info ask(F function, A... arguments)
{
    sized<Info> info;
    function(arguments..., &info);
    return info;
}

/** Owns a C object, and keeps its context. */
template <class C, void (*destroy)(C **)> class object {
  public:
    /** Empty. */
    object() noexcept = default;
    /** Takes over a C object. */
    object(C *taken, std::shared_ptr<gpud_context> keep) : keep_(std::move(keep)), c_(taken) {}
    /** Leaves the other one empty. */
    object(object &&from) noexcept : keep_(std::move(from.keep_)), c_(std::exchange(from.c_, {})) {}
    /** Destroys what this one has, and leaves the other one empty. */
    object &operator=(object &&from) noexcept
    {
        object old(std::move(from));
        std::swap(c_, old.c_);
        keep_.swap(old.keep_);
        return *this;
    }
    ~object() { destroy(&c_); }
    /** Destroys the C object: empty from now on. */
    void reset() noexcept { *this = object(); }
    /** The C object, for C functions; NULL: empty. */
    C *get() const noexcept { return c_; }
    /** The pointer, for C functions that set it, or consume the object and set it to NULL. */
    C **pointer() noexcept { return &c_; }
    /** Whether it is not empty. */
    explicit operator bool() const noexcept { return c_ != nullptr; }
    /** The context, which is kept. */
    const std::shared_ptr<gpud_context> &keep() const noexcept { return keep_; }

  protected:
    /** check() of a C function of this object. */
    template <class F, class... A> void call(F function, A... arguments) const
    {
        check(function, c_, arguments...);
    }

  private:
    std::shared_ptr<gpud_context> keep_;
    C *c_ = nullptr;
};

/** gpud_media_from_string() */
inline gpud_media parse_media(const std::string &text)
{
    gpud_media media;
    check(gpud_media_from_string, &media, text.c_str());
    return media;
}

/** gpud_media_to_string() */
inline std::string to_string(const gpud_media &media)
{
    std::vector<char> text(GPUD_MEDIA_TEXT_MAX);
    check(gpud_media_to_string, &media, text.data(), text.size());
    return text.data();
}

/** A gpud_context. Copies share it. */
class context {
  public:
    /** gpud_context_create() */
    explicit context(const gpud_context_params *params = nullptr)
    {
        gpud_context *made;
        check(gpud_context_create, params, &made);
        c_ = {made, [](gpud_context *last) { gpud_context_destroy(&last); }};
    }
    /** The C object, for C functions. */
    gpud_context *get() const noexcept { return c_.get(); }
    /** The same, kept alive by the pointer. */
    const std::shared_ptr<gpud_context> &keep() const noexcept { return c_; }

  private:
    std::shared_ptr<gpud_context> c_;
};

/** A gpud_device. */
class device : public object<gpud_device, gpud_device_close> {
  public:
    using object::object;
    /** gpud_device_open() */
    device(const context &context, const char *name) : object(nullptr, context.keep())
    {
        check(gpud_device_open, context.get(), name, pointer());
    }
};

/** A reference to a gpud_memory. */
class memory : public object<gpud_memory, gpud_memory_unref> {
  public:
    using object::object;
    /** gpud_memory_alloc() */
    memory(const device &device, uint64_t size, gpud_memory_usage usage = GPUD_MEMORY_PLAIN)
        : object(nullptr, device.keep())
    {
        check(gpud_memory_alloc, device.get(), size, usage, pointer());
    }
};

/** What frame::map() gives. It must end before the frame is submitted or given back. */
class mapping {
  public:
    /** Takes over one gpud_frame_map(). */
    mapping(gpud_frame *frame, void *data) : frame_(frame, gpud_frame_unmap), data_(data) {}
    /** The frame's first byte. */
    uint8_t *data() const noexcept { return static_cast<uint8_t *>(data_); }
    /** The first byte of a plane's row. */
    uint8_t *row(const gpud_plane &plane, uint32_t y) const noexcept
    {
        return data() + plane.offset + uint64_t{y} * plane.stride;
    }
    /** gpud_frame_unmap(), which the destructor calls otherwise. */
    void unmap() noexcept { frame_.reset(); }

  private:
    std::unique_ptr<gpud_frame, void (*)(gpud_frame *)> frame_;
    void *data_;
};

/** A holder of a gpud_frame. Its destructor is gpud_frame_release(). */
class frame : public object<gpud_frame, gpud_frame_release> {
  public:
    using object::object;
    /** gpud_frame_wrap(): a frame in the application's own memory. */
    frame(const memory &memory, uint64_t offset, const gpud_layout &layout)
        : object(nullptr, memory.keep())
    {
        check(gpud_frame_wrap, memory.get(), offset, &layout, pointer());
    }
    /** gpud_frame_ref(): another holder of the same frame. */
    frame share() const { return {gpud_frame_ref(get()), keep()}; }
    /** gpud_frame_get_info() */
    gpud_frame_info info() const { return ask<gpud_frame_info>(gpud_frame_get_info, get()); }
    /** gpud_frame_set_info() */
    void set_info(const gpud_frame_info &info) { call(gpud_frame_set_info, &info); }
    /** gpud_frame_set_size() */
    void set_size(uint64_t bytes) { call(gpud_frame_set_size, bytes); }
    /** gpud_frame_map(), for GPUD_READ, GPUD_WRITE or both. */
    mapping map(unsigned access, timeout wait)
    {
        void *data;
        call(gpud_frame_map, access, wait.count(), &data);
        return {get(), data};
    }
    /** gpud_frame_wait_lines() */
    void wait_lines(uint32_t n, timeout wait) { call(gpud_frame_wait_lines, n, wait.count()); }
    /** gpud_frame_wait(): what is put on the queue from now on comes after the frame. */
    void wait(void *native_queue) { call(gpud_frame_wait, native_queue); }
    /** gpud_frame_post(): the frame comes after what is on the queue now. */
    void post(void *native_queue) { call(gpud_frame_post, native_queue); }
};

/** The calls that senders, receivers and captures share. */
template <class C, void (*destroy)(C **), class Params,
          gpud_status (*create)(gpud_context *, const Params *, C **, gpud_error *), class Info,
          void (*get_info)(C *, Info *),
          gpud_status (*get_frame)(C *, int64_t, gpud_frame **, gpud_error *),
          gpud_status (*get_fd)(C *, int *, gpud_error *), void (*set_interrupted)(C *, bool)>
class endpoint : public object<C, destroy> {
  public:
    using object<C, destroy>::object;
    /** Creates it, by params or an address alone. */
    endpoint(const context &in, const sized<Params> &params) : object<C, destroy>({}, in.keep())
    {
        check(create, in.get(), &params, this->pointer());
    }
    /** Its state and counters. */
    Info info() const { return ask<Info>(get_info, this->get()); }
    /** The descriptor to poll, which stays the endpoint's. */
    int fd() const
    {
        int fd;
        this->call(get_fd, &fd);
        return fd;
    }
    /** Makes waiting calls fail with GPUD_AGAIN until false is set. Any thread. */
    void interrupt(bool interrupted = true) { set_interrupted(this->get(), interrupted); }
    /** Takes the next frame; of a sender: lends the next slot. */
    frame acquire(timeout wait)
    {
        frame got(nullptr, this->keep());
        this->call(get_frame, wait.count(), got.pointer());
        return got;
    }
    /** The same without exceptions: on failure the frame is empty, and *why has the reason. */
    std::optional<frame> try_acquire(timeout wait, gpud_error *why = nullptr)
    {
        frame got(nullptr, this->keep());
        bool good = get_frame(this->get(), wait.count(), got.pointer(), why) == GPUD_OK;
        return good ? std::optional(std::move(got)) : std::nullopt;
    }
};

/** A gpud_sender. To replace one, give its pointer() to gpud_sender_params.replaces. */
class sender : public endpoint<gpud_sender, gpud_sender_destroy, gpud_sender_params,
                               gpud_sender_create, gpud_sender_info, gpud_sender_get_info,
                               gpud_sender_acquire, gpud_sender_get_fd, gpud_sender_interrupt> {
  public:
    using endpoint::endpoint;
    /** gpud_sender_configure() */
    void configure(const gpud_media &media) { call(gpud_sender_configure, &media); }
    /** gpud_sender_wait() */
    void wait(uint32_t count, timeout wait) { call(gpud_sender_wait, count, wait.count()); }
    /** gpud_sender_submit(): consumes the frame, also on failure. Only after GPUD_TIMEOUT and
     * GPUD_AGAIN `sent` still has it. */
    void submit(frame &&sent, timeout t) { call(gpud_sender_submit, sent.pointer(), t.count()); }
    /** The same without exceptions: `sent` is empty if the frame was consumed. */
    [[nodiscard]] gpud_status try_submit(frame &sent, timeout wait, gpud_error *why = nullptr)
    {
        return gpud_sender_submit(get(), sent.pointer(), wait.count(), why);
    }
    /** gpud_sender_submit_keep(): the frame stays the caller's. */
    void submit_keep(const frame &f, timeout t)
    {
        call(gpud_sender_submit_keep, f.get(), t.count());
    }
    /** gpud_sender_submit_lines(): the frame stays the caller's. */
    void submit_lines(const frame &f, uint32_t lines, timeout t)
    {
        call(gpud_sender_submit_lines, f.get(), lines, t.count());
    }
    /** gpud_sender_send_event() */
    void send_event(uint32_t kind, const void *data, size_t size)
    {
        call(gpud_sender_send_event, kind, data, size);
    }
    /** gpud_sender_send_eos() */
    void send_eos() { call(gpud_sender_send_eos); }
    /** gpud_sender_take_key_request() */
    std::optional<gpud_key_request> take_key_request()
    {
        sized<gpud_key_request> key;
        return gpud_sender_take_key_request(get(), &key) ? std::optional<gpud_key_request>(key)
                                                         : std::nullopt;
    }
    /** gpud_sender_list_links() */
    std::vector<gpud_link_info> list_links() const
    {
        std::vector<gpud_link_info> links(GPUD_RECEIVERS_MAX, sized<gpud_link_info>());
        links.resize(
            std::min(links.size(), gpud_sender_list_links(get(), &links[0], links.size())));
        return links;
    }
    /** gpud_sender_set_slow_receiver() */
    void set_slow_receiver(gpud_slow_receiver to) { call(gpud_sender_set_slow_receiver, to); }
};

/** A gpud_receiver. */
class receiver
    : public endpoint<gpud_receiver, gpud_receiver_destroy, gpud_receiver_params,
                      gpud_receiver_create, gpud_receiver_info, gpud_receiver_get_info,
                      gpud_receiver_acquire, gpud_receiver_get_fd, gpud_receiver_interrupt> {
  public:
    /** Called inside acquire(): gpud_receiver_params.on_event. */
    using handler = std::function<void(gpud_event event, const void *data)>;
    using endpoint::endpoint;
    /** Empty. */
    receiver() = default;
    /** gpud_receiver_create(). The handler takes the place of the params' on_event and user. */
    receiver(const context &context, sized<gpud_receiver_params> params, handler on_event)
        : endpoint(nullptr, context.keep()), handler_(new handler(std::move(on_event)))
    {
        params.user = handler_.get();
        params.on_event = [](void *user, gpud_event event, const void *data) noexcept {
            (*static_cast<handler *>(user))(event, data);
        };
        check(gpud_receiver_create, context.get(), &params, pointer());
    }
    receiver(receiver &&) = default;            /**< moves */
    receiver &operator=(receiver &&) = default; /**< moves */
    ~receiver() { reset(); }                    /* before its handler */
    /** gpud_receiver_count_frames() */
    uint32_t count_frames() const noexcept { return gpud_receiver_count_frames(get()); }
    /** gpud_receiver_set_slots() */
    void set_slots(uint32_t slots) { gpud_receiver_set_slots(get(), slots); }
    /** gpud_receiver_request_key() */
    void request_key(const gpud_key_request &key) { gpud_receiver_request_key(get(), &key); }
    /** gpud_receiver_switch() */
    void switch_to(const gpud_switch_params &to) { call(gpud_receiver_switch, &to); }

  private:
    std::unique_ptr<handler> handler_;
};

/** What group::acquire() hands on; the `frames` of the C struct are NULL. */
struct instant : sized<gpud_group_instant> {
    std::array<frame, GPUD_GROUP_MEMBERS_MAX> held; /**< the frames by member; empty: none */
};

/** A gpud_group, which owns its receivers. */
class group : public object<gpud_group, gpud_group_destroy> {
  public:
    /** Called inside acquire(): gpud_group_params.on_event. */
    using handler = std::function<void(uint32_t member, gpud_event event, const void *data)>;
    /** Empty. */
    group() = default;
    /** gpud_group_create(), which takes the members over unless it fails. A handler takes the place
     * of the params' on_event and user. */
    group(const context &in, std::vector<receiver> &&members, gpud_group_params params,
          handler on_event = {})
        : object(nullptr, in.keep()), handler_(new handler(std::move(on_event)))
    {
        std::vector<gpud_receiver *> all;
        for (const receiver &member : members)
            all.push_back(member.get());
        if (*handler_) {
            params.user = handler_.get();
            params.on_event = [](void *user, uint32_t m, gpud_event e, const void *data) noexcept {
                (*static_cast<handler *>(user))(m, e, data);
            };
        }
        check(gpud_group_create, in.get(), &params, all.data(), uint32_t(all.size()), pointer());
        members_ = std::move(members);
    }
    group(group &&) = default;            /**< moves */
    group &operator=(group &&) = default; /**< moves */
    ~group() { reset(); }                 /* before its members */
    /** A receiver, for the calls that a member allows. */
    receiver &member(uint32_t index) { return members_.at(index); }
    /** gpud_group_get_info() */
    gpud_group_info info(uint32_t member = 0) const
    {
        return ask<gpud_group_info>(gpud_group_get_info, get(), member);
    }
    /** gpud_group_acquire() */
    instant acquire(timeout wait, const gpud_group_request *request = nullptr)
    {
        instant got;
        call(gpud_group_acquire, request, wait.count(), &got);
        for (size_t i = 0; i < members_.size(); i++)
            got.held[i] = frame(std::exchange(got.frames[i], nullptr), members_[i].keep());
        return got;
    }

  private:
    std::vector<receiver> members_;
    std::unique_ptr<handler> handler_;
};

/** A gpud_capture. */
class capture : public endpoint<gpud_capture, gpud_capture_destroy, gpud_capture_params,
                                gpud_capture_create, gpud_capture_info, gpud_capture_get_info,
                                gpud_capture_acquire, gpud_capture_get_fd, gpud_capture_interrupt> {
  public:
    using endpoint::endpoint;
    /** gpud_capture_list_modes() */
    std::vector<gpud_capture_mode> list_modes(const char *format = nullptr) const
    {
        size_t count = gpud_capture_list_modes(get(), format, nullptr, 0);
        std::vector<gpud_capture_mode> modes(count, sized<gpud_capture_mode>());
        modes.resize(std::min(count, gpud_capture_list_modes(get(), format, modes.data(), count)));
        return modes;
    }
    /** gpud_capture_configure() */
    void configure(const gpud_capture_config &config) { call(gpud_capture_configure, &config); }
    /** gpud_capture_stop() */
    void stop() { gpud_capture_stop(get()); }
    /** gpud_capture_wait() */
    void wait(timeout wait) { call(gpud_capture_wait, wait.count()); }
};

} // namespace gpud

#endif
