/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_copy.h: every length and every split into header and payload is copied
 * exactly, and not one byte beside it is written or read.
 *
 * Source and destination end at a page that may not be touched, so that reading or writing too far
 * is a signal; guard bytes catch what is written too early.
 */
#include "btl_sm_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"
#include "tap.h"

enum { ROOM = 32768, GUARD = 128 };

/** ROOM bytes that end where the next page begins, which is closed. */
static unsigned char *fenced(void)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    unsigned char *at = mmap(NULL, ROOM + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);

    if (MAP_FAILED == (void *) at || 0 != mprotect(at + ROOM, page, PROT_NONE)) {
        tap_skip_all("no memory with a closed page behind it");
    }
    return at;
}

static unsigned char *source, *target, *header;

static bool small(size_t len)
{
    unsigned char *to = target + ROOM - len, *from = source + ROOM - len;

    memset(target + ROOM - len - GUARD, PATTERN_GUARD, len + GUARD);
    pattern_fill(from, len, len, 0);
    btl_sm_copy_small(to, from, len);
    return len == pattern_good(to, len, len, 0)
           && GUARD == pattern_run(to - GUARD, GUARD, PATTERN_GUARD);
}

/** A record whose payload area begins at byte 8 of a line and ends with the closed page. */
static bool record(size_t header_size, size_t payload_size)
{
    size_t total = header_size + payload_size, space = (total + 8 + 63) / 64 * 64;
    unsigned char *to = target + ROOM - space + 8;
    unsigned char *head = header + ROOM - header_size, *from = source + ROOM - payload_size;
    size_t rest = space - 8 - total;

    memset(to - GUARD, PATTERN_GUARD, GUARD + space - 8);
    pattern_fill(head, header_size, total, 0);
    pattern_fill(from, payload_size, total, header_size);
    btl_sm_copy_record(to, head, header_size, from, payload_size);
    return total == pattern_good(to, total, total, 0)
           && GUARD == pattern_run(to - GUARD, GUARD, PATTERN_GUARD)
           && rest == pattern_run(to + total, rest, PATTERN_GUARD);
}

int main(void)
{
    static const size_t headers[] = {0, 1, 7, 8, 14, 16, 24, 31, 32, 33, 48, 55, 56};
    bool good = true, records = true, large = true;

    tap_deadline(120);
    source = fenced();
    target = fenced();
    header = fenced();
    for (size_t len = 0; len <= 4200; ++len) {
        good = good && small(len);
    }
    tap_ok(good, "a copy of each length from 0 to 4200 bytes is exact");
    for (size_t h = 0; h < sizeof(headers) / sizeof(headers[0]); ++h) {
        for (size_t payload = 0; payload <= 2600; ++payload) {
            records = records && record(headers[h], payload);
        }
        for (size_t payload = 2600; payload < ROOM - 300; payload = payload * 5 / 4 + 1) {
            large = large && record(headers[h], payload);
        }
    }
    tap_ok(records, "a record of each length is written exactly, with headers of 0 to 56 bytes");
    tap_ok(large, "and so is a long one");
    return tap_done();
}
