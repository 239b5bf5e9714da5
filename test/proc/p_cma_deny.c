/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * smsc/cma under system call filters: each call refused with each errno, both, one, or in mid-run;
 * and calls that it must not depend on. The prober runs under test/support/deny, the peer does not.
 * smx-timeout: check=120 long=120
 */
#include "opal_config.h"

#include "cma_peer.h"

#include <stdio.h>

static const char *deny_path;
static peer_shared_t *shared;
static proc_group_t group;

/* ---- the prober: this program again, under a filter
 * ---------------------------------------------- */

static unsigned char local[1 << 16];

/* Exit status of the prober: what it saw. */
enum { SAW_STATUS = 64 };

static int prober(const char *mode)
{
    smsc_cma_modex_t record;
    smsc_cma_identity_t own;
    smsc_cma_peer_t peer;
    smsc_cma_reason_t reason;

    alarm(50);
    if (sizeof(record) != read(STDIN_FILENO, &record, sizeof(record))
        || 0 != smsc_cma_identity_create(&own)) {
        return 125;
    }
    reason = smsc_cma_probe_peer(&peer_sys_word, &own, &record, 0, &peer);
    if (SMSC_CMA_REASON_NONE != reason) {
        char text[512];

        smsc_cma_probe_explain(&peer, &record, text, sizeof(text));
        fprintf(stderr, "# %s\n", text);
        return (int) reason + (SMSC_CMA_WRITE == peer.direction ? 32 : 0);
    }
    if (0 == strcmp("probe", mode)) {
        return SMSC_CMA_REASON_NONE;
    }
    if (0 == strcmp("watch", mode)) {
        /* Is the life word there; is the nonce enough if not? */
        const smsc_cma_result_t result = peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096);

        return SMSC_CMA_OK != result.status ? 124 : NULL != peer.target.life ? 1 : 2;
    }
    /* Copy until it fails, at most 100 times each way; every copy that succeeded must be right. */
    for (int i = 0; i < 100; ++i) {
        smsc_cma_result_t result;

        memset(local, 0, sizeof(local));
        result = peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, sizeof(local));
        if (SMSC_CMA_OK == result.status) {
            if (sizeof(local) != pattern_good(local, sizeof(local), PEER_SEED, 0)) {
                return 123;
            }
            result = peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER, sizeof(local));
        }
        if (SMSC_CMA_OK != result.status) {
            return SAW_STATUS + (int) result.status;
        }
    }
    return SMSC_CMA_REASON_NONE;
}

/** Run the prober, under deny if options are given. @return its exit status */
static int run_prober(const char *mode, const char *const *options)
{
    const char *arguments[16];
    int channel[2], n = 0, status = -1;
    pid_t child;

    if (NULL != options) {
        arguments[n++] = deny_path;
        for (; NULL != *options; ++options) {
            arguments[n++] = *options;
        }
    }
    arguments[n++] = "/proc/self/exe";
    arguments[n++] = "--prober";
    arguments[n++] = mode;
    arguments[n] = NULL;
    if (0 != pipe(channel)
        || sizeof(shared->record) != write(channel[1], &shared->record, sizeof(shared->record))) {
        return -1;
    }
    child = fork();
    if (0 == child) {
        static char self[4096];
        const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

        self[0 < len ? len : 0] = '\0';
        for (int i = 0; i < n; ++i) {
            if (0 == strcmp("/proc/self/exe", arguments[i])) {
                arguments[i] = self;
            }
        }
        /* In a sanitizer build: looking for leaks takes ptrace, which some filters refuse. */
        setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
        dup2(channel[0], STDIN_FILENO);
        close(channel[0]);
        close(channel[1]);
        execv(arguments[0], (char **) arguments);
        _exit(126);
    }
    close(channel[0]);
    close(channel[1]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

/* ---- the tests
 * ------------------------------------------------------------------------------------ */

static void test_refusals(void)
{
    static const struct {
        const char *error;
        int reason;
    } errors[] = {
        {"EPERM", SMSC_CMA_REASON_DENIED},   {"EACCES", SMSC_CMA_REASON_DENIED},
        {"ENOSYS", SMSC_CMA_REASON_MISSING}, {"EINVAL", SMSC_CMA_REASON_INVALID},
        {"ESRCH", SMSC_CMA_REASON_EXITED},   {"ENOMEM", SMSC_CMA_REASON_SCARCE},
        {"EIO", SMSC_CMA_REASON_FAILED},     {"0", SMSC_CMA_REASON_FAILED},
        {"EINTR", SMSC_CMA_REASON_SCARCE},
    };
    static const struct {
        const char *calls;
        int direction;
    } filters[] = {
        {"process_vm_readv,process_vm_writev", 0},
        {"process_vm_readv", 0},
        {"process_vm_writev", 32},
    };

    for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); ++e) {
        for (size_t f = 0; f < sizeof(filters) / sizeof(*filters); ++f) {
            const char *const options[] = {"--errno", errors[e].error, filters[f].calls, NULL};

            tap_same(run_prober("probe", options), errors[e].reason + filters[f].direction,
                     "%s from %s: no endpoint, with the reason", errors[e].error, filters[f].calls);
        }
    }
}

/* The decision must hang on nothing but the two calls. */
static void test_independence(void)
{
    static const struct {
        const char *calls;
        int saw; /* 1: the life word is watched, 2: the nonce is used */
    } table[] = {
        {"kcmp,ptrace,pidfd_open,pidfd_getfd", 1},
        {"prctl,mbind,set_mempolicy,get_mempolicy,move_pages,userfaultfd", 1},
        {"socket,bind,listen,connect", 1},
        {"memfd_create",
         1}, /* the prober's own page is private then; the peer's can still be mapped */
        {"getrandom", 1},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        const char *const options[] = {table[i].calls, NULL};

        tap_same(run_prober("watch", options), table[i].saw, "single copy works without %s",
                 table[i].calls);
    }
}

/* Container profiles as they were found in their sources: what is left of single copy. */
static void test_profiles(void)
{
    static const struct {
        const char *name;
        const char *error;
        const char *calls;
        int expected;
    } table[] = {
        {"docker before 2021", "EPERM",
         "process_vm_readv,process_vm_writev,ptrace,kcmp,pidfd_getfd,mbind,set_mempolicy,"
         "get_mempolicy,move_pages,userfaultfd",
         SMSC_CMA_REASON_DENIED},
        {"docker since 2021", "EPERM",
         "kcmp,pidfd_getfd,mbind,set_mempolicy,get_mempolicy,move_pages,userfaultfd",
         SMSC_CMA_REASON_NONE},
        {"podman, older", "EPERM", "process_vm_readv,process_vm_writev,kcmp,mbind",
         SMSC_CMA_REASON_DENIED},
        {"podman, newer", "ENOSYS", "kcmp,userfaultfd", SMSC_CMA_REASON_NONE},
        {"containerd of mid-2022", "EPERM", "process_vm_readv,process_vm_writev,kcmp,pidfd_getfd",
         SMSC_CMA_REASON_DENIED},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        const char *const options[] = {"--errno", table[i].error, table[i].calls, NULL};

        tap_same(run_prober("copy", options), table[i].expected, "filter like %s: %s",
                 table[i].name,
                 SMSC_CMA_REASON_NONE == table[i].expected ? "single copy" : "a quiet refusal");
    }
}

static void test_mid_run(void)
{
    static const struct {
        const char *error;
        int status;
    } table[] = {
        {"EPERM", SMSC_CMA_DENIED},       {"ESRCH", SMSC_CMA_GONE},
        {"EFAULT", SMSC_CMA_BAD_ADDRESS}, {"0", SMSC_CMA_STUCK},
        {"ENOSYS", SMSC_CMA_UNSUPPORTED}, {"ENOMEM", SMSC_CMA_NO_MEMORY},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        const char *const options[] = {
            "--errno", table[i].error, "--after-calls", "21", "process_vm_readv,process_vm_writev",
            NULL};
        const int saw = run_prober("copy", options);

        if (77 == saw) {
            tap_skip("no supervised filters in this kernel", "%s in mid-run", table[i].error);
            continue;
        }
        tap_same(saw, SAW_STATUS + table[i].status,
                 "%s in mid-run ends in \"%s\", all before it was right", table[i].error,
                 smsc_cma_status_name((smsc_cma_status_t) table[i].status));
    }
    {
        static const char *const passing[] = {"EINTR", "EAGAIN", "ENOMEM"};

        for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); ++i) {
            const char *const options[] = {
                "--errno", passing[i], "--every", "3", "process_vm_readv,process_vm_writev", NULL};
            const int saw = run_prober("copy", options);

            if (77 == saw) {
                tap_skip("no supervised filters in this kernel", "%s now and then", passing[i]);
                continue;
            }
            tap_same(saw, SMSC_CMA_REASON_NONE, "%s at every third call is passed over",
                     passing[i]);
        }
    }
}

int main(int argc, char **argv)
{
    static peer_plan_t plan;
    static char path[4096];
    const char *build = getenv("SMX_BUILD_DIR");

    if (3 == argc && 0 == strcmp("--prober", argv[1])) {
        return prober(argv[2]);
    }
    tap_deadline(110);
    deny_path = getenv("SMX_DENY");
    if (NULL == deny_path) {
        snprintf(path, sizeof(path), "%s/test/support/deny", NULL != build ? build : ".");
        deny_path = path;
    }
    if (0 != access(deny_path, X_OK)) {
        tap_ok(false, "test/support/deny was built (%s)", deny_path);
        return tap_done();
    }
    if (!proc_become_plain(65534)) {
        tap_skip_all("this process cannot get rid of its privileges");
    }
    if (0 != access(deny_path, X_OK)) {
        tap_skip_all("an ordinary user may not run %s", deny_path);
    }
    if (!peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return tap_done();
    }
    shared = group.segment;
    tap_same(run_prober("copy", NULL), SMSC_CMA_REASON_NONE,
             "without a filter the peer is copied with");
    if (77 == run_prober("probe", (const char *const[]) {"kcmp", NULL})) {
        peer_stop(&group);
        tap_skip_all("this kernel takes no filters");
    }
    test_refusals();
    test_independence();
    test_profiles();
    test_mid_run();
    tap_same(peer_touched(&group), 0, "the peer's memory is as it was");
    tap_ok(peer_stop(&group), "the peer ends well");
    return tap_done();
}
