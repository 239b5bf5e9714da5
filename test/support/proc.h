/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Real processes for tests: N children of the test program, one piece of shared memory mapped at a
 * different address in each, events to order them by, a watchdog, and a table of how each ended.
 *
 * Used by test/proc, test/stress and the micro benchmarks. The parent prints the results; a child
 * reports by its exit status and by notes on stderr.
 */
#ifndef SMX_TEST_PROC_H
#define SMX_TEST_PROC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_MAX    64
#define PROC_EVENTS 64

typedef struct proc_group_t proc_group_t;

/** What a child runs. @return its exit status, 0 is good */
typedef int (*proc_body_t)(proc_group_t *group, int index, void *argument);

struct proc_control_t; /* shared by all of a group */

struct proc_group_t {
    int count;
    size_t bytes;  /**< of the shared segment */
    void *segment; /**< where it is mapped in this process */
    struct proc_control_t *control;
    pid_t pid[PROC_MAX];  /**< parent only */
    int status[PROC_MAX]; /**< parent only: as waitpid gives it, -1 while running */
    int segment_fd;
    unsigned int seconds;
};

/**
 * @brief Start count children.
 *
 * @param[out] group     to be finished by proc_finish()
 * @param[in]  count     1 to PROC_MAX
 * @param[in]  bytes     of the shared segment, zeroed, may be 0
 * @param[in]  seconds   after which a child is ended by SIGALRM
 * @param[in]  body      what they run
 * @param[in]  argument  handed to body; each child has a copy of what it points to
 * @return true; false if the children could not be made (a note says why)
 * A child ends with its parent.
 */
bool proc_start(proc_group_t *group, int count, size_t bytes, unsigned int seconds,
                proc_body_t body, void *argument);

/** @brief Wait for one child. @return its status as from waitpid */
int proc_join(proc_group_t *group, int index);

/**
 * @brief Wait for all, undo proc_start.
 * @return true if each child ended with status 0; otherwise a note tells about each that did not
 */
bool proc_finish(proc_group_t *group);

/** @brief Send a signal to a child. */
void proc_kill(proc_group_t *group, int index, int signal);

/** @brief Add one to an event counter and wake who waits. Any member, or the parent. */
void proc_post(proc_group_t *group, int event);

/**
 * @brief Wait until an event counter has reached value.
 * @return false after the group's time limit
 */
bool proc_await(proc_group_t *group, int event, uint32_t value);

/** @return how often an event was posted so far */
uint32_t proc_count(proc_group_t *group, int event);

/** @return true if the child has not ended; notes its status if it has. Parent only. */
bool proc_running(proc_group_t *group, int index);

/** @brief Wait until all children are here. Not to be used once one has died. */
bool proc_barrier(proc_group_t *group);

/** @return a word that all share, for flags and small results; index below PROC_EVENTS */
_Atomic uint64_t *proc_word(proc_group_t *group, int index);

/** @brief In a child: note on stderr, one line with the child's number. */
void proc_note(proc_group_t *group, const char *text, ...) __attribute__((format(printf, 2, 3)));

/** @return how a status reads, for instance "exit 1" or "signal 9"; static text */
const char *proc_status_text(int status);

/**
 * @brief Become an ordinary user without any privilege, as far as this process is root.
 * @param[in] uid  for instance 65534
 * @return true if the process has no capability left
 */
bool proc_become_plain(uid_t uid);

#endif /* SMX_TEST_PROC_H */
