/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of smsc_cma_probe.c: which answers make an endpoint and which make which reason.
 */
#include "opal_config.h"

#include "fault.h"
#include "smsc_cma_probe.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOREIGN_PID 3999999

static smsc_cma_identity_t own, peers;
static pid_t translated;
static int translations, maps;
static bool map_works;
static void (*after_map)(void);

static pid_t fake_translate(uint64_t name)
{
    (void) name;
    ++translations;
    return translated;
}

static void *fake_map(pid_t pid, const smsc_cma_modex_t *record)
{
    void *page = NULL;

    (void) pid;
    ++maps;
    if (map_works) {
        /* A second mapping of the page, as a peer would have it. */
        page = smsc_cma_probe_map(getpid(), record);
    }
    if (NULL != after_map) {
        after_map();
    }
    return page;
}

static const smsc_cma_probe_sys_t sys = {
    .copy = {fault_readv, fault_writev, fault_wait},
    .translate = fake_translate,
    .map = fake_map,
};

static smsc_cma_peer_t peer;

/* The peer lives in this process under a pid that is not ours. */
static smsc_cma_modex_t record_of_peer(void)
{
    smsc_cma_modex_t record = peers.modex;

    record.pid = FOREIGN_PID;
    return record;
}

static void reset(void)
{
    fault_reset();
    translated = translations = maps = 0;
    map_works = true;
    after_map = NULL;
}

static smsc_cma_reason_t probe(const smsc_cma_modex_t *record)
{
    smsc_cma_probe_release(&peer);
    return smsc_cma_probe_peer(&sys, &own, record, 3, &peer);
}

static uint64_t scratch_word(unsigned int index)
{
    uint64_t word;

    memcpy(&word, (char *) peers.page + SMSC_CMA_PAGE_SCRATCH + index * sizeof(word), sizeof(word));
    return word;
}

static void test_good(void)
{
    smsc_cma_modex_t record = record_of_peer();

    reset();
    tap_same(probe(&record), SMSC_CMA_REASON_NONE, "a peer that answers as it should passes");
    tap_ok(NULL != peer.target.life && 1 == maps, "its life word is watched");
    tap_ok(0 < fault.writes && 0 < fault.reads && 4 > fault.calls,
           "both calls were tried, with no more than three");
    tap_ok(scratch_word(3) == own.modex.nonce && 0 == scratch_word(2) && 0 == scratch_word(4),
           "only the scratch word of the caller was written");
    tap_same(translations, 0, "within one pid namespace nothing is translated");

    reset();
    map_works = false;
    tap_same(probe(&record), SMSC_CMA_REASON_NONE, "a peer whose page cannot be mapped passes");
    tap_ok(NULL == peer.target.life && NULL == peer.page, "it is recognised by its nonce");

    reset();
    record.flags = 0;
    tap_same(probe(&record), SMSC_CMA_REASON_NONE, "a peer without a life word passes");
    tap_same(maps, 0, "what is not offered is not mapped");

    reset();
    record = record_of_peer();
    record.life_value ^= 1;
    tap_ok(SMSC_CMA_REASON_NONE == probe(&record) && NULL == peer.target.life,
           "a life word that does not say alive is not used");
}

static void test_who(void)
{
    smsc_cma_modex_t record = record_of_peer();

    reset();
    record.pid = (uint32_t) getpid();
    tap_same(probe(&record), SMSC_CMA_REASON_OWN_PID, "our own pid is nobody else's");
    tap_same((long long) fault.calls, 0, "no call is made to find that out");

    reset();
    record = record_of_peer();
    record.pid_namespace ^= 1;
    record.flags &= ~SMSC_CMA_MODEX_SOCKET;
    tap_same(probe(&record), SMSC_CMA_REASON_NAMESPACE,
             "another pid namespace, no translation offered");
    record.flags |= SMSC_CMA_MODEX_SOCKET;
    tap_same(probe(&record), SMSC_CMA_REASON_NAMESPACE,
             "another pid namespace that we cannot see into");
    tap_ok(0 == fault.calls && 1 == translations, "nobody is read or written on a guess");
    translated = getpid();
    tap_same(probe(&record), SMSC_CMA_REASON_OWN_PID, "a translation to our own pid is refused");
    translated = 777;
    tap_same(probe(&record), SMSC_CMA_REASON_NONE, "another pid namespace that we can see into");
    tap_same(fault.pid, 777, "the calls use the pid as it is numbered here");

    reset();
    record = record_of_peer();
    record.pid_namespace = 0;
    tap_same(probe(&record), SMSC_CMA_REASON_NONE, "an unknown pid namespace: the nonce decides");

    reset();
    record = record_of_peer();
    record.nonce ^= 2;
    tap_same(probe(&record), SMSC_CMA_REASON_STRANGER, "another nonce: a stranger");
    tap_same((long long) fault.writes, 0, "a stranger is not written to");

    reset();
    record = record_of_peer();
    fault.hole = (uintptr_t) record.page_address;
    fault.hole_end = fault.hole + 8;
    tap_same(probe(&record), SMSC_CMA_REASON_STRANGER,
             "no memory where the page should be: a stranger");
    tap_same((long long) fault.writes, 0, "nor is that one written to");
}

static void test_refusals(void)
{
    static const struct {
        int error;
        smsc_cma_reason_t reason;
    } table[] = {
        {EPERM, SMSC_CMA_REASON_DENIED},   {EACCES, SMSC_CMA_REASON_DENIED},
        {ENOSYS, SMSC_CMA_REASON_MISSING}, {EINVAL, SMSC_CMA_REASON_INVALID},
        {ESRCH, SMSC_CMA_REASON_EXITED},   {ENOMEM, SMSC_CMA_REASON_SCARCE},
        {EIO, SMSC_CMA_REASON_FAILED},
    };
    const smsc_cma_modex_t record = record_of_peer();
    char text[512];

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        reset();
        fault.after = FAULT_ERROR(table[i].error);
        probe(&record);
        smsc_cma_probe_explain(&peer, &record, text, sizeof(text));
        tap_ok(table[i].reason == peer.reason && SMSC_CMA_READ == peer.direction
                   && table[i].error == peer.error && NULL == peer.page && 0 == fault.writes
                   && NULL != strstr(text, "process_vm_readv"),
               "reading gives errno %d: %s", table[i].error, text);

        /* Reading works, writing does not. */
        {
            const fault_answer_t script[] = {FAULT_ALL, FAULT_ERROR(table[i].error)};

            reset();
            fault.script = script;
            fault.script_len = 2;
            fault.after = FAULT_ERROR(table[i].error);
            probe(&record);
            smsc_cma_probe_explain(&peer, &record, text, sizeof(text));
            tap_ok(table[i].reason == peer.reason && SMSC_CMA_WRITE == peer.direction
                       && NULL != strstr(text, "process_vm_writev") && NULL == peer.page,
                   "writing alone gives errno %d: %s", table[i].error,
                   smsc_cma_reason_name(peer.reason));
        }
    }
    reset();
    fault.after = FAULT_RETURN(0);
    tap_same(probe(&record), SMSC_CMA_REASON_FAILED, "calls that return 0 are no single copy");
    {
        const fault_answer_t script[] = {FAULT_ALL, FAULT_RETURN(8), FAULT_ALL, FAULT_RETURN(8),
                                         FAULT_ALL};

        reset();
        memset((char *) peers.page + SMSC_CMA_PAGE_SCRATCH, 0, 64);
        fault.script = script;
        fault.script_len = 5;
        tap_same(probe(&record), SMSC_CMA_REASON_NONE,
                 "a scratch word disturbed once is tried again");
        reset();
        memset((char *) peers.page + SMSC_CMA_PAGE_SCRATCH, 0, 64);
    }
}

static ssize_t lying_writev(pid_t pid, const struct iovec *here, unsigned long nlocal,
                            const struct iovec *there, unsigned long nremote, unsigned long flags)
{
    (void) pid;
    (void) there;
    (void) nremote;
    (void) flags;
    return (ssize_t) fault_total(here, nlocal);
}

/* An emulated kernel may say that it wrote and not have done so. */
static void test_lies(void)
{
    const smsc_cma_probe_sys_t liar = {.copy = {fault_readv, lying_writev, fault_wait},
                                       .translate = fake_translate,
                                       .map = fake_map};
    const smsc_cma_modex_t record = record_of_peer();

    reset();
    smsc_cma_probe_release(&peer);
    memset((char *) peers.page + SMSC_CMA_PAGE_SCRATCH, 0, 64);
    tap_ok(SMSC_CMA_REASON_FAILED == smsc_cma_probe_peer(&liar, &own, &record, 3, &peer)
               && SMSC_CMA_WRITE == peer.direction && 20 > fault.calls,
           "writing that only claims to work is no single copy");
}

/* The question that doctor asks about a stranger. */
static void test_permission(void)
{
    static const struct {
        fault_answer_t read, write;
        smsc_cma_reason_t reason;
        smsc_cma_direction_t direction;
    } table[] = {
        {FAULT_ERROR(EFAULT), FAULT_ERROR(EFAULT), SMSC_CMA_REASON_NONE, SMSC_CMA_WRITE},
        {FAULT_ERROR(EPERM), FAULT_ERROR(EPERM), SMSC_CMA_REASON_DENIED, SMSC_CMA_READ},
        {FAULT_ERROR(EFAULT), FAULT_ERROR(ENOSYS), SMSC_CMA_REASON_MISSING, SMSC_CMA_WRITE},
        {FAULT_ERROR(ESRCH), FAULT_ERROR(ESRCH), SMSC_CMA_REASON_EXITED, SMSC_CMA_READ},
        {FAULT_RETURN(0), FAULT_ERROR(EFAULT), SMSC_CMA_REASON_FAILED, SMSC_CMA_READ},
    };
    bool good = true;

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        const fault_answer_t script[] = {table[i].read, table[i].write};
        smsc_cma_peer_t made_up;

        reset();
        fault.script = script;
        fault.script_len = 2;
        good &= table[i].reason == smsc_cma_probe_permission(&sys.copy, 777, &made_up)
                && table[i].direction == made_up.direction && 777 == fault.pid;
    }
    tap_ok(good, "a stranger's permission is what the calls say about an address of nobody");
}

/* Where the call itself is not refused to ourselves, no filter is blamed. */
static void test_causes(void)
{
    const smsc_cma_sys_t real = {process_vm_readv, process_vm_writev, fault_wait};
    smsc_cma_diagnosis_t diagnosis;
    smsc_cma_peer_t made_up;

    if (SMSC_CMA_REASON_NONE != smsc_cma_probe_permission(&real, getpid(), &made_up)) {
        smsc_cma_diagnose(made_up.reason, SMSC_CMA_READ, made_up.error, getpid(), 0, &diagnosis);
        tap_ok(SMSC_CMA_CAUSE_SECCOMP == diagnosis.cause
                   || SMSC_CMA_CAUSE_KERNEL == diagnosis.cause,
               "who is refused on itself has a filter or no such call");
        return;
    }
    smsc_cma_diagnose(SMSC_CMA_REASON_DENIED, SMSC_CMA_READ, EPERM, getpid(), 0, &diagnosis);
    tap_ok(SMSC_CMA_CAUSE_YAMA == diagnosis.cause || SMSC_CMA_CAUSE_LSM == diagnosis.cause,
           "a refusal that nothing explains is a security module's: %s",
           smsc_cma_cause_name(diagnosis.cause));
    smsc_cma_diagnose(SMSC_CMA_REASON_DENIED, SMSC_CMA_READ, EPERM, 1, 0, &diagnosis);
    tap_ok(0 == getuid() || SMSC_CMA_CAUSE_OTHER_USER == diagnosis.cause,
           "a refusal by another user's process is told as that");
    smsc_cma_diagnose(SMSC_CMA_REASON_STRANGER, SMSC_CMA_READ, 0, getpid(),
                      smsc_cma_identity_start_time(0), &diagnosis);
    tap_same(diagnosis.cause, SMSC_CMA_CAUSE_EXEC, "the same process without the nonce: exec");
    smsc_cma_diagnose(SMSC_CMA_REASON_STRANGER, SMSC_CMA_READ, 0, getpid(), 1, &diagnosis);
    tap_same(diagnosis.cause, SMSC_CMA_CAUSE_ENDED, "another process with that pid: it has ended");
}

/* The peer is replaced while its page is being mapped: the nonce is read after that. */
static void replace(void)
{
    memset(peers.page, 0, 8);
}

static void test_replaced(void)
{
    const smsc_cma_modex_t record = record_of_peer();
    uint64_t nonce = peers.modex.nonce;

    reset();
    after_map = replace;
    tap_ok(SMSC_CMA_REASON_STRANGER == probe(&record) && 0 == fault.writes,
           "a peer that goes while its page is mapped is not written to");
    memcpy(peers.page, &nonce, sizeof(nonce));
}

static void test_forked(void)
{
    const smsc_cma_modex_t record = record_of_peer();
    int status = -1;
    pid_t child = fork();

    if (0 == child) {
        reset();
        _exit(SMSC_CMA_REASON_FORKED == probe(&record) && 0 == fault.calls ? 0 : 1);
    }
    waitpid(child, &status, 0);
    tap_same(status, 0, "a forked child gets no endpoint");
}

static void test_texts(void)
{
    bool good = true;
    char text[512], tiny[8];

    for (int reason = 0; reason < SMSC_CMA_REASON_COUNT; ++reason) {
        smsc_cma_peer_t made_up = {.reason = (smsc_cma_reason_t) reason, .target = {.pid = 1}};

        smsc_cma_probe_explain(&made_up, NULL, text, sizeof(text));
        good &= NULL == strchr(text, '\n') && strlen(text) + 1 < sizeof(text) && 10 < strlen(text);
        smsc_cma_probe_explain(&made_up, NULL, tiny, sizeof(tiny));
        good &= 7 >= strlen(tiny);
        for (int other = 0; other < reason; ++other) {
            good &= 0
                    != strcmp(smsc_cma_reason_name((smsc_cma_reason_t) reason),
                              smsc_cma_reason_name((smsc_cma_reason_t) other));
        }
    }
    tap_ok(good, "every reason has a name of its own and an explanation of one line");
    tap_ok(NULL != smsc_cma_reason_name(SMSC_CMA_REASON_COUNT)
               && NULL != smsc_cma_reason_text(SMSC_CMA_REASON_COUNT),
           "a reason out of range has a name too");
    good = true;
    for (int cause = 0; cause <= SMSC_CMA_CAUSE_COUNT; ++cause) {
        good &= 5 < strlen(smsc_cma_cause_text((smsc_cma_cause_t) cause))
                && NULL != smsc_cma_cause_cure((smsc_cma_cause_t) cause);
        for (int other = 0; other < cause; ++other) {
            good &= 0
                    != strcmp(smsc_cma_cause_name((smsc_cma_cause_t) cause),
                              smsc_cma_cause_name((smsc_cma_cause_t) other));
        }
    }
    tap_ok(good, "every cause has a name of its own, a text and a cure, out of range ones too");
}

int main(void)
{
    tap_deadline(60);
    if (0 != smsc_cma_identity_create(&own) || 0 != smsc_cma_identity_create(&peers)) {
        tap_ok(false, "two identities");
        return tap_done();
    }
    test_good();
    test_who();
    test_refusals();
    test_lies();
    test_permission();
    test_causes();
    test_replaced();
    test_forked();
    test_texts();
    smsc_cma_probe_release(&peer);
    smsc_cma_identity_retire(&peers);
    smsc_cma_identity_retire(&own);
    return tap_done();
}
