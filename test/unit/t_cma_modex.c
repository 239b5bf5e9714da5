/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of smsc_cma_modex.h: what is accepted from a peer, and what never is.
 */
#include "opal_config.h"

#include "rng.h"
#include "smsc_cma_modex.h"
#include "tap.h"

#include <stdlib.h>

static smsc_cma_modex_t sound(void)
{
    smsc_cma_modex_t record;

    smsc_cma_modex_init(&record);
    record.pid = 1234;
    record.nonce = 1;
    record.page_address = 0x7f0000001000;
    record.flags = SMSC_CMA_MODEX_LIFE;
    record.page_fd = 5;
    record.life_offset = SMSC_CMA_PAGE_MUTEX;
    record.life_value = 1234;
    return record;
}

static smsc_cma_modex_status_t accept_record(const smsc_cma_modex_t *record)
{
    smsc_cma_modex_t out;

    return smsc_cma_modex_accept(record, sizeof(*record), &out);
}

#define REFUSED(field, value, status)                                                     \
    do {                                                                                  \
        smsc_cma_modex_t record = sound();                                                \
        record.field = (value);                                                           \
        tap_same(accept_record(&record), status, #field " = " #value " is not accepted"); \
    } while (0)

static void test_lengths(void)
{
    const smsc_cma_modex_t record = sound();
    unsigned char *bytes;
    smsc_cma_modex_t out;
    bool good = true;

    for (size_t size = 0; size <= 2 * sizeof(record); ++size) {
        smsc_cma_modex_status_t status;

        /* Exactly as much memory as is said: a read beyond it is an error of its own. */
        bytes = malloc(0 == size ? 1 : size);
        memset(bytes, 0, size);
        memcpy(bytes, &record, size < sizeof(record) ? size : sizeof(record));
        status = smsc_cma_modex_accept(bytes, size, &out);
        good &= (sizeof(record) == size) == (SMSC_CMA_MODEX_OK == status);
        good &= sizeof(record) == size || SMSC_CMA_MODEX_FOREIGN == status;
        free(bytes);
    }
    tap_ok(good, "a record is accepted at its own length and at no other");
    tap_same(smsc_cma_modex_accept(NULL, sizeof(record), &out), SMSC_CMA_MODEX_FOREIGN,
             "nothing is not a record");

    bytes = malloc(sizeof(record) + 1);
    memcpy(bytes + 1, &record, sizeof(record));
    tap_ok(SMSC_CMA_MODEX_OK == smsc_cma_modex_accept(bytes + 1, sizeof(record), &out)
               && 0 == memcmp(&out, &record, sizeof(out)),
           "a record may arrive at any alignment");
    free(bytes);
}

static void test_versions(void)
{
    smsc_cma_modex_t out;
    struct {
        smsc_cma_modex_t record;
        uint64_t more;
    } longer = {.record = sound(), .more = 1};

    longer.record.version = SMSC_CMA_MODEX_VERSION + 1;
    longer.record.length = sizeof(longer);
    tap_same(smsc_cma_modex_accept(&longer, sizeof(longer), &out), SMSC_CMA_MODEX_OTHER,
             "a longer record of a later version is told from garbage");
    longer.record.version = SMSC_CMA_MODEX_VERSION;
    tap_same(smsc_cma_modex_accept(&longer, sizeof(longer), &out), SMSC_CMA_MODEX_OTHER,
             "a longer record of this version does not exist");
    REFUSED(version, 0, SMSC_CMA_MODEX_OTHER);
    REFUSED(magic, 4711, SMSC_CMA_MODEX_FOREIGN);
    REFUSED(length, 16, SMSC_CMA_MODEX_FOREIGN);
}

static void test_fields(void)
{
    REFUSED(pid, 0, SMSC_CMA_MODEX_BROKEN);
    REFUSED(pid, UINT32_MAX, SMSC_CMA_MODEX_BROKEN);
    REFUSED(nonce, 0, SMSC_CMA_MODEX_BROKEN);
    REFUSED(page_address, 0, SMSC_CMA_MODEX_BROKEN);
    REFUSED(page_address, 0x7f0000001004, SMSC_CMA_MODEX_BROKEN);
    REFUSED(page_address, UINT64_MAX - 7, SMSC_CMA_MODEX_BROKEN);
    REFUSED(flags, 4, SMSC_CMA_MODEX_BROKEN);
    REFUSED(reserved, 1, SMSC_CMA_MODEX_BROKEN);
    REFUSED(life_offset, 0, SMSC_CMA_MODEX_BROKEN);
    REFUSED(life_offset, SMSC_CMA_PAGE_MUTEX + 2, SMSC_CMA_MODEX_BROKEN);
    REFUSED(life_offset, SMSC_CMA_PAGE_SCRATCH, SMSC_CMA_MODEX_BROKEN);
    REFUSED(life_offset, UINT32_MAX - 3, SMSC_CMA_MODEX_BROKEN);
    REFUSED(life_value, 0, SMSC_CMA_MODEX_BROKEN);
    REFUSED(page_fd, UINT32_MAX, SMSC_CMA_MODEX_BROKEN);
}

/* Whatever arrives: accepted records obey what the users of the fields rely on. */
static void test_random(void)
{
    rng_t rng = rng_split(tap_seed(), 3);
    bool good = true;
    int accepted = 0;

    for (int trial = 0; trial < 200000; ++trial) {
        smsc_cma_modex_t record = sound(), out;
        unsigned char *bytes = (unsigned char *) &record;

        for (uint64_t hits = rng_below(&rng, 4); 0 < hits; --hits) {
            bytes[rng_below(&rng, sizeof(record))] = (unsigned char) rng_next(&rng);
        }
        if (SMSC_CMA_MODEX_OK == smsc_cma_modex_accept(&record, sizeof(record), &out)) {
            ++accepted;
            good &= 0 == memcmp(&record, &out, sizeof(out)) && 0 < (int32_t) out.pid
                    && 0 != out.page_address
                    && (0 == (out.flags & SMSC_CMA_MODEX_LIFE)
                        || (out.life_offset + sizeof(uint32_t) <= SMSC_CMA_PAGE_SCRATCH
                            && 0 == out.life_offset % 4));
        }
    }
    tap_ok(good && 0 < accepted, "200000 damaged records: none that is accepted can mislead");
}

int main(void)
{
    const smsc_cma_modex_t record = sound();

    tap_deadline(60);
    tap_same(accept_record(&record), SMSC_CMA_MODEX_OK, "a sound record is accepted");
    test_lengths();
    test_versions();
    test_fields();
    test_random();
    return tap_done();
}
