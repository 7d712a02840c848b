/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "middle.h"

#include <string.h>

#define ENTRIES GPUD_PAGE_ENTRIES

void wake_both(struct gpud_page *page)
{
    _Atomic uint32_t *const kicks[] = {&page->sender.kicks, &page->receiver.kicks};
    for (int i = 0; i < 2; i++) {
        atomic_fetch_add(kicks[i], 1);
        gpud_futex_wake(kicks[i]);
    }
}

/* A word that both ends compare with others of the page. */
void lie_word(struct gpud_page *page, struct fuzz_input *input)
{
    _Atomic uint32_t *const words[] = {
        &page->sender.head,     &page->receiver.claimed, &page->receiver.returned,
        &page->sender.messages, &page->sender.announced, &page->sender.taken_back,
        &page->sender.asleep,   &page->receiver.asleep,  &page->sender.kicks,
        &page->receiver.kicks,  &page->sender.wanted,
    };
    uint32_t which = fuzz_number(input, 1), how = fuzz_number(input, 1);
    _Atomic uint32_t *word = words[which % (sizeof(words) / sizeof(words[0]))];
    uint32_t base = which & 8 ? atomic_load(&page->receiver.claimed) : atomic_load(word);
    switch (how % 8) {
    case 0:
        base += how >> 3;
        break;
    case 1:
        base -= how >> 3;
        break;
    case 2:
        base += UINT32_C(1) << 31;
        break;
    case 3:
        base += INT32_MAX;
        break;
    case 4:
        base += fuzz_number(input, 1);
        break;
    case 5:
        base = 0;
        break;
    default:
        base = fuzz_number(input, 4);
        break;
    }
    if (which & 16) { /* an entry of one of the two queues instead */
        _Atomic uint32_t *queue = which & 32 ? page->sender.published : page->receiver.given_back;
        for (uint32_t i = 0; i < ENTRIES; i++)
            atomic_store(&queue[i], base);
    } else {
        atomic_store(word, base);
    }
    if (!(which & 64))
        wake_both(page);
}

void lie_descriptor(struct gpud_page *page, struct fuzz_input *input)
{
    uint32_t which = fuzz_number(input, 1), entry = which / 8 % 8;
    struct gpud_descriptor *bent = &page->sender.descriptor[entry];
    uint32_t value = fuzz_number(input, 2);
    switch (which % 8) {
    case 0:
        bent->slot = value & 0x8000 ? 0 - value : value;
        break;
    case 1:
        bent->value = value & 0x8000 ? 0 - value : value;
        break;
    case 2:
        bent->meta_size = value & 0x8000 ? UINT32_MAX : value;
        bent->bytes = value & 0x4000 ? UINT64_MAX - value : value;
        bent->large_meta_size = value & 0x2000 ? UINT32_MAX - value : value;
        break;
    case 3:
        bent->sequence = value & 0x8000 ? UINT64_MAX - value : value;
        break;
    case 4:
        bent->flags = value;
        break;
    case 5:
        bent->submit_time = value & 1 ? (uint64_t)INT64_MIN : UINT64_MAX;
        bent->pts = bent->dts = bent->duration = bent->submit_time;
        break;
    case 6:
        atomic_store(&page->sender.ready[entry].word, value & 0x8000 ? value << 16 : value);
        atomic_store(&page->sender.lines[entry], value & 0x4000 ? 0 - value : value % 80);
        break;
    case 7:
        atomic_store(&page->receiver.release[entry].word, value & 0x8000 ? value << 16 : value);
        break;
    }
}

/* As a sender would, in an entry that may be in use. */
void lie_frame(struct gpud_page *page, struct fuzz_input *input)
{
    uint32_t which = fuzz_number(input, 1), entry = which % 4;
    uint32_t head = atomic_load(&page->sender.head);
    struct gpud_descriptor *descriptor = &page->sender.descriptor[entry];
    if (!(which & 4)) {
        memset(descriptor, 0, offsetof(struct gpud_descriptor, meta));
        descriptor->slot = entry;
        descriptor->sequence = fuzz_number(input, 1);
        descriptor->value = descriptor->slot + 1;
        descriptor->flags = which & 8 ? GPUD_FRAME_CANARY : 0;
    }
    if (which & 16)
        atomic_store(&page->sender.ready[entry].word, descriptor->value);
    atomic_store(&page->sender.published[head % ENTRIES], entry);
    atomic_store(&page->sender.head, head + 1);
    wake_both(page);
}

void lie_anywhere(struct middle *middle, struct fuzz_input *input)
{
    uint32_t at = fuzz_number(input, 2), by = fuzz_number(input, 1);
    if (at & 1 && middle->twin)
        middle->twin[(at >> 1) % middle->twin_size] ^= (uint8_t)by;
    else if (middle->page)
        ((uint8_t *)middle->page)[at % (at & 2 ? sizeof(*middle->page) : 1200)] ^= (uint8_t)by;
}
