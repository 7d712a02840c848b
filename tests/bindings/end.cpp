/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end in C++: see conformance.py. */
#include <gpudirect/gpudirect.hpp>

#include <csignal>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>
#include <thread>

using namespace std::chrono_literals;

namespace
{

class orders
{
  public:
    orders(int argc, char **argv)
    {
        for (int i = 3; i < argc; i++) {
            std::string word = argv[i];
            size_t equals = word.find('=');
            if (equals == word.npos)
                throw std::invalid_argument(word);
            given_[word.substr(0, equals)] = word.substr(equals + 1);
        }
    }
    std::string text(const std::string &name) const
    {
        auto found = given_.find(name);
        return found == given_.end() ? "" : found->second;
    }
    uint64_t number(const std::string &name, uint64_t otherwise = 0) const
    {
        return text(name).empty() ? otherwise : std::stoull(text(name));
    }
    std::vector<uint64_t> numbers(const std::string &name) const
    {
        std::vector<uint64_t> all;
        std::istringstream words(text(name));
        for (std::string word; std::getline(words, word, ',');)
            all.push_back(std::stoull(word));
        return all;
    }
    gpud::timeout timeout() const
    {
        std::chrono::duration<double> wait(text("timeout").empty() ? 10
                                                                   : std::stod(text("timeout")));
        return std::chrono::duration_cast<gpud::timeout>(wait);
    }

  private:
    std::map<std::string, std::string> given_;
};

void tell(const gpud_error &why)
{
    std::cout << "status " << gpud_status_string(why.status) << " " << why.reason << std::endl;
}

void await_line()
{
    std::string line;
    std::getline(std::cin, line);
}

bool pause_at(const orders &orders, uint64_t frames)
{
    for (uint64_t at : orders.numbers("pause"))
        if (at == frames) {
            std::cout << "paused " << frames << std::endl;
            await_line();
            return true;
        }
    return false;
}

/* A thread that SIGINT, which is blocked in all threads, makes interrupt an endpoint. */
template <class Endpoint> class watcher
{
  public:
    explicit watcher(Endpoint &endpoint)
        : thread_([&endpoint] {
              sigset_t signals;
              int which;
              sigemptyset(&signals);
              sigaddset(&signals, SIGINT);
              sigwait(&signals, &which);
              endpoint.interrupt();
          })
    {
        std::cout << "ready" << std::endl;
    }
    ~watcher()
    {
        pthread_kill(thread_.native_handle(), SIGINT);
        thread_.join();
    }

  private:
    std::thread thread_;
};

/* Adler's sum of the rows of all planes, or of the bytes in use; use() sees each byte before. */
template <class Use>
uint32_t go_through(const gpud_frame_info &info, const gpud::mapping &mapping, Use use)
{
    uint32_t low = 1, high = 0;
    uint64_t at = 0;
    for (uint32_t p = 0; p < info.layout.planes; p++) {
        const gpud_plane &plane = info.layout.plane[p];
        for (uint32_t y = 0; y < plane.rows; y++) {
            uint8_t *row = mapping.row(plane, y), *end = mapping.data() + info.bytes;
            for (uint32_t x = 0; x < plane.row_bytes && row + x < end; x++) {
                use(row[x], at++);
                low = (low + row[x]) % 65521;
                high = (high + low) % 65521;
            }
        }
    }
    return high << 16 | low;
}

void send_one(gpud::sender &sender, uint64_t number, const orders &orders)
{
    gpud::frame frame = sender.acquire(orders.timeout());
    auto sizes = orders.numbers("sizes");
    if (!sizes.empty())
        frame.set_size(sizes[number % sizes.size()]);
    gpud::mapping mapping = frame.map(GPUD_WRITE, orders.timeout());
    gpud_frame_info info = frame.info();
    go_through(info, mapping, [number](uint8_t &byte, uint64_t at) {
        byte = static_cast<uint8_t>((7 * number + at) % 251);
    });
    mapping.unmap();
    uint64_t key = orders.number("key");
    info.pts_ns = number * 40 * GPUD_MSEC;
    info.flags = key && number % key ? GPUD_FRAME_DELTA : 0;
    frame.set_info(info);
    sender.submit(std::move(frame), orders.timeout());
}

void send(const gpud::context &context, const char *address, const orders &orders)
{
    gpud::sized<gpud_sender_params> params(address);
    params.slots = static_cast<uint32_t>(orders.number("slots"));
    gpud::sender sender(context, params);
    watcher<gpud::sender> watcher(sender);
    sender.configure(gpud::parse_media(orders.text("media")));
    sender.wait(static_cast<uint32_t>(orders.number("receivers", 1)), 10s);
    for (uint64_t number = 0; number < orders.number("count", UINT64_MAX); number++) {
        for (bool sent = false; !sent;) {
            try {
                send_one(sender, number, orders);
                sent = true;
            } catch (const gpud::error &error) {
                if (error.status() != GPUD_TIMEOUT)
                    throw;
                tell(error.get());
                await_line();
            }
        }
        pause_at(orders, number + 1);
    }
    sender.send_eos();
}

void look_at(const char *word, gpud::frame &frame, const orders &orders)
{
    gpud_frame_info info = frame.info();
    uint32_t sum =
        go_through(info, frame.map(GPUD_READ, orders.timeout()), [](uint8_t, uint64_t) {});
    if (word != std::string("frame") || !orders.number("quiet"))
        std::cout << word << " " << info.sequence << " " << info.pts_ns << " " << info.flags << " "
                  << info.bytes << " " << sum << std::endl;
}

void release(std::vector<gpud::frame> &held, const orders &orders)
{
    for (gpud::frame &frame : held) {
        look_at("held", frame, orders);
        frame.reset();
    }
    held.clear();
}

void receive_all(gpud::receiver &receiver, std::vector<gpud::frame> &held, const orders &orders)
{
    watcher<gpud::receiver> watcher(receiver);
    for (uint64_t count = 0; count < orders.number("count", UINT64_MAX);) {
        gpud_error why;
        std::optional<gpud::frame> frame = receiver.try_acquire(orders.timeout(), &why);
        if (!frame) {
            tell(why);
            if (why.status == GPUD_PEER)
                continue; /* the next call connects again */
            return;
        }
        look_at("frame", *frame, orders);
        if (count < orders.number("hold"))
            held.push_back(std::move(*frame));
        frame.reset();
        if (pause_at(orders, ++count) && !orders.number("late"))
            release(held, orders);
    }
}

void receive(const gpud::context &context, const char *address, const orders &orders)
{
    std::vector<gpud::frame> held;
    gpud::sized<gpud_receiver_params> params(address);
    params.slots = static_cast<uint32_t>(orders.number("slots"));
    gpud::receiver receiver(context, params, [](gpud_event event, const void *data) {
        if (event == GPUD_EVENT_FORMAT)
            std::cout << "media "
                      << gpud::to_string(static_cast<const gpud_format_event *>(data)->media)
                      << std::endl;
    });
    receive_all(receiver, held, orders);
    if (orders.number("late")) {
        receiver.reset();
        std::cout << "late" << std::endl;
        await_line();
    }
    release(held, orders);
}

} // namespace

int main(int argc, char **argv)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::string role = argc > 2 ? argv[1] : "";
    try {
        orders orders(argc, argv);
        if (role != "send" && role != "receive")
            throw std::invalid_argument(role);
        gpud::context context;
        (role == "send" ? send : receive)(context, argv[2], orders);
    } catch (const gpud::error &error) {
        tell(error.get());
    } catch (const std::logic_error &wrong) {
        std::cerr << "usage: end send|receive ADDRESS NAME=VALUE…: see conformance.py: "
                  << wrong.what() << std::endl;
        return 2;
    }
    std::cout << "end" << std::endl;
    return 0;
}
