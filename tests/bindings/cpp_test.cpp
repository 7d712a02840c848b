/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect.hpp: who owns a frame after each call, what moves, what outlives what, and what errors
 * carry. Streams between processes are conformance.py's. */
#include <gpudirect/gpudirect.hpp>

#include <cstdlib>
#include <iostream>
#include <type_traits>

using namespace std::chrono_literals;

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " #condition << "\n"; \
            std::exit(1);                                                        \
        }                                                                        \
    } while (false)

static_assert(!std::is_copy_constructible_v<gpud::frame> &&
              !std::is_copy_assignable_v<gpud::frame>);
static_assert(!std::is_copy_constructible_v<gpud::receiver>);
static_assert(std::is_nothrow_move_constructible_v<gpud::frame>); /* as std::vector wants it */

namespace
{

const gpud_media media = gpud::parse_media("video/x-raw,format=GRAY8,width=16,height=4");

template <class Call> gpud_error failure(Call call)
{
    try {
        call();
    } catch (const gpud::error &error) {
        CHECK(error.status() == error.get().status &&
              error.what() == std::string(error.get().reason));
        return error.get();
    }
    std::cerr << "a call that should fail does not\n";
    std::exit(1);
}

gpud::sender make_sender(const gpud::context &context, const char *address)
{
    gpud::sized<gpud_sender_params> params(address);
    params.slots = 2;
    gpud::sender sender(context, params);
    sender.configure(media);
    return sender;
}

/* Both ends in this thread: the receiver connects in its calls. */
void connect(gpud::sender &sender, gpud::receiver &receiver)
{
    for (int tries = 0; sender.info().receivers == 0; tries++) {
        CHECK(tries < 1000);
        CHECK(!receiver.try_acquire(10ms));
    }
}

void send(gpud::sender &sender, uint64_t pts, uint8_t value)
{
    gpud::frame frame = sender.acquire(10s);
    *frame.map(GPUD_WRITE, 1s).data() = value;
    gpud_frame_info info = frame.info();
    info.pts_ns = pts;
    frame.set_info(info);
    sender.submit(std::move(frame), 10s);
    CHECK(!frame && !frame.get());
}

void errors_carry_the_librarys_sentence()
{
    gpud::context context;
    gpud_error why = failure([&] { gpud::sender(context, "a/b/c"); });
    CHECK(why.status == GPUD_INVALID &&
          std::string(why.reason).find("is not an address") != std::string::npos);
    why = failure([&] { gpud::parse_media("video/x-raw,format={NV12,I420}"); });
    CHECK(why.status == GPUD_INVALID && why.reason[0]);
    gpud::receiver receiver(context, "nothing-here");
    CHECK(failure([&] { receiver.acquire(0s); }).status == GPUD_TIMEOUT);
    CHECK(!receiver.try_acquire(0s, &why) && why.status == GPUD_TIMEOUT);
    CHECK(failure([&] { receiver.acquire(-1s); }).status == GPUD_INVALID);
    receiver.interrupt();
    CHECK(failure([&] { receiver.acquire(10s); }).status == GPUD_AGAIN);
    receiver.interrupt(false);
    CHECK(failure([&] { receiver.acquire(0s); }).status == GPUD_TIMEOUT);
    CHECK(gpud::to_string(media).find("format=(string)GRAY8") != std::string::npos);
}

void submit_consumes()
{
    gpud::context context;
    gpud::sender sender = make_sender(context, "consumes");
    gpud::receiver receiver(context, "consumes");
    connect(sender, receiver);
    send(sender, 0, 0);
    send(sender, 1, 1);
    /* Two slots, both on their way: a third frame waits. After a timeout it is still the caller's.
     */
    gpud::memory memory(gpud::device(context, "host"), 64);
    gpud_layout layout;
    gpud::check(gpud_media_get_layout, &media, &layout);
    gpud::frame third(memory, 0, layout);
    CHECK(failure([&] { sender.submit(std::move(third), 10ms); }).status == GPUD_TIMEOUT);
    CHECK(third);
    gpud_error why;
    CHECK(sender.try_submit(third, 10ms, &why) == GPUD_TIMEOUT && why.status == GPUD_TIMEOUT &&
          third);
    CHECK(receiver.acquire(10s).info().pts_ns == 0);
    CHECK(sender.try_submit(third, 10s) == GPUD_OK && !third);
    CHECK(*receiver.acquire(10s).map(GPUD_READ, 1s).data() == 1);
    /* After another failure it is gone. */
    gpud::frame other(memory, 0, layout);
    CHECK(failure([&] { sender.submit(std::move(other), -1s); }).status == GPUD_INVALID);
    CHECK(!other);
    CHECK(failure([&] { sender.submit(std::move(other), 1s); }).status == GPUD_INVALID);
    CHECK(failure([&] { sender.submit_keep(other, 1s); }).status == GPUD_INVALID);
    CHECK(sender.list_links().size() == 1 && sender.list_links()[0].delivered >= 2);
    CHECK(!sender.take_key_request() && sender.fd() >= 0 && receiver.fd() >= 0);
}

void unsent_frames_are_given_back()
{
    gpud::context context;
    gpud::sender sender = make_sender(context, "unsent");
    for (int i = 0; i < 100; i++)
        sender.acquire(0s);
    CHECK(sender.info().frames == 0);
}

void objects_move()
{
    gpud::frame last;
    {
        gpud::context context;
        gpud::sender first = make_sender(context, "moves-1"),
                     second = make_sender(context, "moves-2");
        int formats = 0;
        gpud::receiver made(context, "moves-2", [&](gpud_event event, const void *) {
            formats += event == GPUD_EVENT_FORMAT;
        });
        gpud::receiver receiver = std::move(made);
        CHECK(!made && receiver);
        first = std::move(second); /* the old one is gone, so that its address is free */
        CHECK(first && !second);
        gpud::sender again = make_sender(context, "moves-1");
        connect(first, receiver);
        CHECK(formats == 1); /* the handler has moved with it */
        send(first, 7, 42);
        last = receiver.acquire(10s);
        gpud::frame shared = last.share();
        last.reset();
        CHECK(!last && shared);
        last = std::move(shared);
        CHECK(last && !shared);
    }
    /* Sender, receiver and context are gone, but for what the frame needs. */
    CHECK(last.info().pts_ns == 7 && *last.map(GPUD_READ, 1s).data() == 42);
}

void a_group_owns_its_members()
{
    gpud::context context;
    gpud::sender left = make_sender(context, "left"), right = make_sender(context, "right");
    std::vector<gpud::receiver> members;
    members.emplace_back(context, "left");
    members.emplace_back(context, "right");
    gpud::sized<gpud_group_params> params;
    params.history = 63;
    CHECK(failure([&] { gpud::group(context, std::move(members), params); }).status ==
          GPUD_INVALID);
    CHECK(members.size() == 2 && members[1]); /* a failure leaves them */
    params.history = 0;
    params.tolerance_ns = GPUD_MSEC;
    std::array<int, 2> formats{};
    gpud::group made(context, std::move(members), params,
                     [&](uint32_t member, gpud_event event, const void *) {
                         formats.at(member) += event == GPUD_EVENT_FORMAT;
                     });
    gpud::group group = std::move(made);
    left.wait(1, 10s);
    right.wait(1, 10s);
    send(left, 1000, 1);
    send(right, 1001, 2);
    gpud::instant instant = group.acquire(10s);
    CHECK(instant.time_ns == 1000 && instant.missing == 0 && !instant.held[2]);
    CHECK(*instant.held[0].map(GPUD_READ, 1s).data() == 1 &&
          *instant.held[1].map(GPUD_READ, 1s).data() == 2);
    CHECK(formats[0] == 1 && formats[1] == 1);
    CHECK(group.info(1).members == 2 && group.member(1).info().connected);
    group.member(0).interrupt();
    CHECK(failure([&] { group.acquire(10s); }).status == GPUD_AGAIN);
    group.member(0).interrupt(false);
    {
        gpud::group ends = std::move(group);
    }
    CHECK(*instant.held[1].map(GPUD_READ, 1s).data() == 2); /* a frame may outlive its group */
}

} // namespace

int main()
{
    errors_carry_the_librarys_sentence();
    submit_consumes();
    unsent_frames_are_given_back();
    objects_move();
    a_group_owns_its_members();
    gpud::context context;
    CHECK(failure([&] { gpud::capture(context, "v4l2:///dev/nothing-here"); }).status ==
          GPUD_NO_DEVICE);
    return 0;
}
