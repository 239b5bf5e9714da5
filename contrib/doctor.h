/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of contrib/doctor share: a trial of single copy between two processes, and what is
 * to be known of the machine.
 *
 * Called by doctor.c, doctor_trial.c, doctor_system.c.
 */
#ifndef CONTRIB_DOCTOR_H
#define CONTRIB_DOCTOR_H

#include "smsc_cma_reason.h"

#include <stdbool.h>
#include <sys/types.h>

#define DOCTOR_TEXT 512

/** One direction between two processes, tried. */
typedef struct doctor_trial_t {
    char who[128]; /**< who copies with whom */
    bool tried;    /**< false: note says why not */
    bool works;
    smsc_cma_diagnosis_t diagnosis;
    char text[DOCTOR_TEXT]; /**< the diagnosis as one line */
    bool life_word;         /**< a copy proves its peer without a system call */
    double mib_us;          /**< time of reading 1 MiB, 0 if not measured */
    char note[DOCTOR_TEXT]; /**< what the reader has to know besides; may be empty */
} doctor_trial_t;

/** Two new processes of the caller's kind, or of a plain user's. */
void doctor_try_here(bool plain, doctor_trial_t *trial);

/** A process of the user of `pid`, started here, with the process `pid`. */
void doctor_try_process(pid_t pid, doctor_trial_t *trial);

/** The process `from`, as far as somebody else can take its place, with the process `to`. */
void doctor_try_pair(pid_t from, pid_t to, doctor_trial_t *trial);

/** Numbers after a label in /proc/PID/status; how many there were, at most cap. */
int doctor_status(pid_t pid, const char *label, int base, unsigned long long *value, int cap);

/** The machine or container around this process. Members named error: 0 if it works, else errno. */
typedef struct doctor_system_t {
    char kernel[128];
    int yama;                       /**< ptrace_scope, -1 where there is no Yama */
    bool filter;                    /**< a seccomp filter is on this process */
    bool ptrace;                    /**< CAP_SYS_PTRACE is effective */
    char label[128];                /**< security module's name for this process, or empty */
    bool initial_user, initial_pid; /**< namespaces */
    unsigned long long shm_bytes, shm_free;
    int shm_error, unnamed_error, reserve_error, memfd_error;
    long online, usable; /**< processors */
} doctor_system_t;

void doctor_look_around(doctor_system_t *here);

#endif /* CONTRIB_DOCTOR_H */
