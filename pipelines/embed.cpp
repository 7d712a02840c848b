/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receives frames, marks them and sends them on, in C++17 with the core alone:
 *
 *     c++ -std=c++17 embed.cpp $(pkg-config --cflags --libs gpudirect) -o embed-cpp
 *     ./embed-cpp demo marked 100        beside: ./embed-send demo 250, and ./embed marked host 50
 *
 * It prints one line for each format and for each frame, and survives a sender that goes away and
 * comes back. What it has not sent is given back by the destructors, whatever fails. */
#include <gpudirect/gpudirect.hpp>

#include <cstdlib>
#include <cstring>
#include <iostream>

using namespace std::chrono_literals;

/* Copies a picture into a slot of the sender, with a white bar over its upper rows. */
static void send_marked(gpud::sender &sender, gpud::frame &picture)
{
    gpud_frame_info info = picture.info();
    gpud::frame marked = sender.acquire(1s);
    {
        gpud::mapping from = picture.map(GPUD_READ, 1s), to = marked.map(GPUD_WRITE, 1s);
        std::memcpy(to.data(), from.data(), info.bytes);
        const gpud_plane &plane = info.layout.plane[0];
        for (uint32_t y = 0; y < plane.rows / 8; y++)
            std::memset(to.row(plane, y), 0xff, plane.row_bytes);
    }
    marked.set_info(info); /* times, flags and metas; the rest of it is the library's */
    sender.submit(std::move(marked), 1s);
    std::cout << "frame " << info.sequence << " pts " << info.pts_ns << std::endl;
}

int main(int argc, char **argv)
{
    const char *from = argc > 1 ? argv[1] : "demo", *to = argc > 2 ? argv[2] : "marked";
    long wanted = argc > 3 ? std::strtol(argv[3], nullptr, 10) : 100;
    try {
        gpud::context context;
        gpud::sender sender(context, to);
        std::optional<gpud_media> format; /* a new one */
        gpud::receiver receiver(context, from, [&](gpud_event event, const void *data) {
            if (event == GPUD_EVENT_FORMAT)
                format = static_cast<const gpud_format_event *>(data)->media;
        });
        gpud_error why;
        for (long got = 0; got < wanted;) {
            if (auto frame = receiver.try_acquire(10s, &why)) {
                if (format) {
                    std::cout << "format " << gpud::to_string(*format) << std::endl;
                    sender.configure(*std::exchange(format, std::nullopt));
                }
                send_marked(sender, *frame);
                got++;
            } else if (why.status == GPUD_PEER) {
                std::cerr << why.reason << ": waiting for the next sender" << std::endl;
            } else if (why.status == GPUD_CLOSED) {
                break; /* the end of the stream */
            } else {
                throw gpud::error(why);
            }
        }
        sender.send_eos();
    } catch (const gpud::error &error) {
        std::cerr << gpud_status_string(error.status()) << ": " << error.what() << std::endl;
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
