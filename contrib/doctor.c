/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor: says whether single copy between processes works here, by trying it, and if not what
 * refuses it and what to change. Compiled and started by the script contrib/doctor, which has the
 * description of the arguments and of the exit status.
 *
 *     doctor MPI_FILE [--json] [PID [PID]]
 *
 * MPI_FILE holds lines "key=value" about mpirun, which the script has found out.
 */
#include "opal_config.h"

#include "doctor.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKS = 0, WORKS_NOT = 1, BAD_USAGE = 2 };

typedef struct report_t {
    doctor_trial_t trial[2];
    int trials;
    bool hidden; /* a capability makes the first trial say nothing about other users */
    bool works;
    bool pair; /* about given processes: the machine's shared memory and mpirun do not matter */
    doctor_system_t here;
    const char *mpi_file;
} report_t;

static void __attribute__((noreturn, format(printf, 2, 3))) stop(int status, const char *text, ...)
{
    va_list values;

    va_start(values, text);
    fputs("doctor: ", stderr);
    vfprintf(stderr, text, values);
    fputs("\n", stderr);
    va_end(values);
    exit(status);
}

/* ------------------------------------------------------------------------------------------------
 * What the script found out about mpirun */

static const char *mpi_value(const report_t *report, const char *key)
{
    static char line[2048];
    FILE *file = fopen(report->mpi_file, "re");
    const char *found = "";

    while (NULL != file && '\0' == *found && NULL != fgets(line, sizeof(line), file)) {
        const size_t len = strlen(key);

        line[strcspn(line, "\n")] = '\0';
        if (0 == strncmp(line, key, len) && '=' == line[len]) {
            found = line + len + 1;
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return found;
}

/* ------------------------------------------------------------------------------------------------
 * As text */

static const char *answer(int error)
{
    return 0 == error ? "works" : strerror(error);
}

/** Where btl/sm would put its segment, NULL if nowhere. */
static const char *backing(const doctor_system_t *here)
{
    if (0 == here->unnamed_error && 0 == here->reserve_error) {
        return "an unnamed file in /dev/shm";
    }
    return 0 == here->memfd_error ? "anonymous memory (memfd)" : NULL;
}

static void print_trial(const doctor_trial_t *trial)
{
    if (!trial->tried) {
        printf("  %s: not tried: %s\n", trial->who, trial->note);
        return;
    }
    printf("  %s: %s", trial->who, trial->works ? "works" : "does not work");
    if (trial->works && 0 < trial->mib_us) {
        printf(", read and write; 1 MiB in %.0f us, the peer is recognised by its %s",
               trial->mib_us, trial->life_word ? "life word" : "nonce (slower)");
    }
    printf("\n");
    if (!trial->works) {
        const char *cause = smsc_cma_cause_text(trial->diagnosis.cause);
        const char *cure = smsc_cma_cause_cure(trial->diagnosis.cause);
        const char *end = strstr(trial->text, cause);

        printf("    %.*s\n", NULL != end ? (int) (end - trial->text) - 2 : -1, trial->text);
        printf("    cause:  %s [%s]\n", cause, smsc_cma_cause_name(trial->diagnosis.cause));
        printf("    change: %s\n", '\0' != cure[0] ? cure : "nothing can be changed here");
    }
    if ('\0' != trial->note[0]) {
        printf("    note:   %s\n", trial->note);
    }
}

static void print_rights(const doctor_system_t *here)
{
    printf("kernel: %s\n", here->kernel);
    if (0 > here->yama) {
        printf("  Yama: not there\n");
    } else {
        printf("  Yama: kernel.yama.ptrace_scope is %d%s\n", here->yama,
               1 == here->yama ? " (MPI ranks let each other in)" : "");
    }
    printf("  seccomp filter on this process: %s\n", here->filter ? "yes" : "no");
    printf("  CAP_SYS_PTRACE: %s\n", here->ptrace ? "yes" : "no");
    printf("  security module's label: %s\n", '\0' != here->label[0] ? here->label : "none");
    printf("  user namespace: %s, pid namespace: %s\n",
           here->initial_user ? "the first" : "of its own",
           here->initial_pid ? "the first" : "of its own");
}

static void print_memory(const doctor_system_t *here)
{
    const char *where = backing(here);

    printf("shared memory\n");
    if (0 == here->shm_error) {
        printf("  /dev/shm: %llu MiB, %llu MiB free\n", here->shm_bytes >> 20,
               here->shm_free >> 20);
    } else {
        printf("  /dev/shm: %s\n", strerror(here->shm_error));
    }
    printf("  unnamed file there (O_TMPFILE): %s; reserving its blocks (fallocate): %s\n",
           answer(here->unnamed_error), answer(here->reserve_error));
    printf("  anonymous memory (memfd_create, fallocate): %s\n", answer(here->memfd_error));
    printf("  btl/sm would use: %s\n", NULL != where
                                           ? where
                                           : "nothing, so that another transport serves the ranks; "
                                             "mount a tmpfs at /dev/shm or allow memfd_create");
}

static void print_processors(const doctor_system_t *here)
{
    printf("processors: %ld, usable by this process: %ld\n", here->online, here->usable);
    printf("  up to %ld ranks can run at the same time; with more, those that wait sleep\n",
           here->usable);
}

static const char *plugin_text(const char *path)
{
    return '\0' != path[0] ? path : "Open MPI's own, linked in";
}

static void print_mpi(const report_t *report)
{
    const char *value = mpi_value(report, "mpirun");

    if ('\0' == value[0]) {
        printf("mpirun: none on PATH (contrib/setup finds, installs or builds an Open MPI)\n");
        return;
    }
    printf("mpirun: %s", value);
    printf(" (Open MPI %s)\n", mpi_value(report, "version"));
    value = mpi_value(report, "problem");
    if ('\0' != value[0]) {
        printf("  which plugins a rank loads was not found out: %s\n", value);
        return;
    }
    value = mpi_value(report, "btl");
    printf("  a rank loads btl/sm: %s", plugin_text(value));
    printf("%s\n", '\0' == mpi_value(report, "btl_ours")[0] ? "" : " (this project's)");
    printf("  a rank loads smsc/cma: %s", plugin_text(mpi_value(report, "smsc")));
    printf("%s\n", '\0' == mpi_value(report, "smsc_ours")[0] ? "" : " (this project's)");
    if ('\0' == mpi_value(report, "btl_ours")[0]) {
        printf("    for this project's: eval \"$(contrib/setup --print-env)\"\n");
    }
}

static const char *verdict(const report_t *report)
{
    bool tried = true;

    for (int i = 0; report->trials > i; ++i) {
        tried = tried && report->trial[i].tried;
    }
    if (report->works) {
        return "works";
    }
    if (!tried) {
        return "could not be tried";
    }
    return report->pair ? "does not work between these; their messages go through shared memory"
                        : "does not work; messages go through shared memory";
}

static void print_text(const report_t *report)
{
    printf("single copy (process_vm_readv, process_vm_writev), tried between two processes of\n");
    for (int i = 0; report->trials > i; ++i) {
        print_trial(&report->trial[i]);
        if (0 == i && report->hidden) {
            printf("    note:   CAP_SYS_PTRACE hides what other users meet; hence the next line\n");
        }
    }
    print_rights(&report->here);
    if (!report->pair) {
        print_memory(&report->here);
        print_processors(&report->here);
        print_mpi(report);
    }
    printf("verdict: single copy %s\n", verdict(report));
}

/* ------------------------------------------------------------------------------------------------
 * As JSON */

/** A string with what JSON wants escaped; bytes that are no UTF-8 come out as "?". */
static void json_string(const char *text)
{
    putchar('"');
    for (const unsigned char *at = (const unsigned char *) text; '\0' != *at; ++at) {
        if ('"' == *at || '\\' == *at) {
            printf("\\%c", *at);
        } else if (0x20 > *at) {
            printf("\\u%04x", *at);
        } else {
            putchar(0x7f > *at ? *at : '?');
        }
    }
    putchar('"');
}

static void json_member(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    json_string(text);
}

static const char *boolean(bool value)
{
    return value ? "true" : "false";
}

static void json_trial(const doctor_trial_t *trial)
{
    const bool call = trial->tried && SMSC_CMA_REASON_DENIED <= trial->diagnosis.reason;

    printf("    {\"who\": ");
    json_string(trial->who);
    printf(", \"tried\": %s, \"works\": %s", boolean(trial->tried), boolean(trial->works));
    json_member("reason", trial->tried ? smsc_cma_reason_name(trial->diagnosis.reason) : "");
    json_member("cause", trial->tried ? smsc_cma_cause_name(trial->diagnosis.cause) : "");
    json_member("call", call ? smsc_cma_call_name(trial->diagnosis.direction) : "");
    printf(", \"errno\": %d", trial->works ? 0 : trial->diagnosis.error);
    json_member("text", trial->text);
    json_member("cure", trial->tried ? smsc_cma_cause_cure(trial->diagnosis.cause) : "");
    printf(", \"read_1_mib_us\": %.1f, \"life_word\": %s", trial->mib_us,
           boolean(trial->life_word));
    json_member("note", trial->note);
    printf("}");
}

static void json_system(const doctor_system_t *here)
{
    const char *where = backing(here);

    printf("  \"kernel\": {\"release\": ");
    json_string(here->kernel);
    if (0 > here->yama) {
        printf(", \"yama_ptrace_scope\": null");
    } else {
        printf(", \"yama_ptrace_scope\": %d", here->yama);
    }
    printf(", \"seccomp_filter\": %s, \"cap_sys_ptrace\": %s", boolean(here->filter),
           boolean(here->ptrace));
    json_member("security_label", here->label);
    printf(", \"first_user_namespace\": %s, \"first_pid_namespace\": %s},\n",
           boolean(here->initial_user), boolean(here->initial_pid));
    printf("  \"shared_memory\": {\"bytes\": %llu, \"free_bytes\": %llu", here->shm_bytes,
           here->shm_free);
    json_member("unnamed_file", answer(here->unnamed_error));
    json_member("reserve", answer(here->reserve_error));
    json_member("memfd", answer(here->memfd_error));
    json_member("would_use", NULL != where ? where : "");
    printf("},\n  \"processors\": {\"online\": %ld, \"usable\": %ld}", here->online, here->usable);
}

static void print_json(const report_t *report)
{
    static const char *const keys[] = {"version", "btl",       "btl_ours",
                                       "smsc",    "smsc_ours", "problem"};

    printf("{\n  \"schema\": \"smx-doctor/1\",\n  \"works\": %s,\n  \"single_copy\": [\n",
           boolean(report->works));
    for (int i = 0; report->trials > i; ++i) {
        json_trial(&report->trial[i]);
        printf("%s\n", report->trials > i + 1 ? "," : "");
    }
    printf("  ],\n");
    json_system(&report->here);
    if (!report->pair) {
        printf(",\n  \"open_mpi\": {\"mpirun\": ");
        json_string(mpi_value(report, "mpirun"));
        for (size_t i = 0; sizeof(keys) / sizeof(keys[0]) > i; ++i) {
            json_member(keys[i], mpi_value(report, keys[i]));
        }
        printf("}");
    }
    printf("\n}\n");
}

/* ------------------------------------------------------------------------------------------------ */

/** A pid from the command line that somebody has; ends with one line otherwise. */
static pid_t pid_of(const char *text)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || '\0' != *end || 0 != errno || 0 >= value || 0x7fffffff < value) {
        stop(BAD_USAGE, "%s: not a process number (see --help)", text);
    }
    if (0 != kill((pid_t) value, 0) && ESRCH == errno) {
        stop(BAD_USAGE, "%s: there is no process with this number here", text);
    }
    return (pid_t) value;
}

static const char *name_of(unsigned long long uid)
{
    static char number[2][32];
    static int turn;
    const struct passwd *entry = getpwuid((uid_t) uid);

    turn = !turn;
    snprintf(number[turn], sizeof(number[turn]), "%.20s%s%llu", NULL != entry ? entry->pw_name : "",
             NULL != entry ? ", uid " : "uid ", uid);
    return number[turn];
}

/** Who is not root cannot do anything in another user's place: one line, and an end. */
static void only_ours(pid_t pid)
{
    unsigned long long uid[4];

    if (0 != geteuid() && 4 == doctor_status(pid, "Uid:", 10, uid, 4) && uid[0] != getuid()) {
        stop(WORKS_NOT,
             "process %ld belongs to another user (%s, you are %s): no single copy; "
             "run all ranks as one user",
             (long) pid, name_of(uid[0]), name_of(getuid()));
    }
}

static void examine_processes(report_t *report, int count, char **text)
{
    pid_t pid[2] = {0, 0};

    report->pair = true;
    for (int i = 0; count > i; ++i) {
        pid[i] = pid_of(text[i]);
    }
    for (int i = 0; count > i; ++i) {
        only_ours(pid[i]);
    }
    if (pid[0] == pid[1]) {
        stop(BAD_USAGE, "%s and %s: two different processes are needed", text[0], text[1]);
    }
    if (1 == count) {
        doctor_try_process(pid[0], &report->trial[report->trials++]);
        return;
    }
    doctor_try_pair(pid[0], pid[1], &report->trial[report->trials++]);
    doctor_try_pair(pid[1], pid[0], &report->trial[report->trials++]);
}

int main(int argc, char **argv)
{
    static report_t report;
    bool json = false;
    int at = 2;

    if (2 > argc) {
        stop(BAD_USAGE, "to be started by contrib/doctor");
    }
    report.mpi_file = argv[1];
    if (argc > at && 0 == strcmp("--json", argv[at])) {
        json = true;
        ++at;
    }
    if (2 < argc - at) {
        stop(BAD_USAGE, "at most two process numbers (see --help)");
    }
    doctor_look_around(&report.here);
    if (argc > at) {
        examine_processes(&report, argc - at, argv + at);
    } else {
        doctor_try_here(false, &report.trial[report.trials++]);
        report.hidden = report.here.ptrace;
        if (report.hidden) {
            doctor_try_here(true, &report.trial[report.trials++]);
        }
    }
    report.works = true;
    for (int i = 0; report.trials > i; ++i) {
        report.works = report.works && report.trial[i].tried && report.trial[i].works;
    }
    if (json) {
        print_json(&report);
    } else {
        print_text(&report);
    }
    return report.works ? WORKS : WORKS_NOT;
}
