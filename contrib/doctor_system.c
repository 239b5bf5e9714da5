/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor: the machine or container around the processes. Shared memory is tried as btl/sm makes it;
 * the rest is read.
 *
 * Called by doctor.c. Must never: leave a file.
 */
#include "opal_config.h"

#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SHM_DIRECTORY "/dev/shm"
#define PTRACE_BIT    19 /* CAP_SYS_PTRACE */
#define SEGMENT       ((off_t) 65536)

/* Inodes of the first namespaces of a kernel (include/linux/proc_ns.h). */
#define FIRST_USER_NAMESPACE 0xeffffffdul
#define FIRST_PID_NAMESPACE  0xeffffffcul

/** The first line of a file without its end, empty if there is none. */
static void first_line(const char *path, char *text, size_t cap)
{
    FILE *file = fopen(path, "re");

    text[0] = '\0';
    if (NULL != file) {
        if (NULL == fgets(text, (int) cap, file)) {
            text[0] = '\0';
        }
        fclose(file);
    }
    text[strcspn(text, "\n")] = '\0';
}

static int reserve(int fd)
{
    if (0 != ftruncate(fd, SEGMENT)) {
        return errno;
    }
    return 0 == fallocate(fd, 0, 0, SEGMENT) ? 0 : errno;
}

static void look_at_memory(doctor_system_t *here)
{
    struct statvfs fs;
    int fd;

    here->shm_error = 0 == statvfs(SHM_DIRECTORY, &fs) ? 0 : errno;
    if (0 == here->shm_error) {
        here->shm_bytes = (unsigned long long) fs.f_blocks * fs.f_frsize;
        here->shm_free = (unsigned long long) fs.f_bavail * fs.f_frsize;
    }
    fd = open(SHM_DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    here->unnamed_error = 0 <= fd ? 0 : errno;
    here->reserve_error = 0 <= fd ? reserve(fd) : here->unnamed_error;
    if (0 <= fd) {
        close(fd);
    }
    fd = (int) syscall(SYS_memfd_create, "doctor", 1u /* MFD_CLOEXEC */);
    here->memfd_error = 0 <= fd ? reserve(fd) : errno;
    if (0 <= fd) {
        close(fd);
    }
}

static void look_at_rights(doctor_system_t *here)
{
    unsigned long long value = 0;
    struct stat info;
    char text[128];

    first_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
    if (1 != sscanf(text, "%d", &here->yama)) {
        here->yama = -1;
    }
    here->filter = 1 == doctor_status(getpid(), "Seccomp:", 10, &value, 1) && 2 == value;
    here->ptrace = 1 == doctor_status(getpid(), "CapEff:", 16, &value, 1)
                   && 0 != (value >> PTRACE_BIT & 1);
    first_line("/proc/self/attr/current", here->label, sizeof(here->label));
    if (0 == strcmp("unconfined", here->label)) {
        here->label[0] = '\0';
    }
    here->initial_user = 0 == stat("/proc/self/ns/user", &info)
                         && FIRST_USER_NAMESPACE == (unsigned long) info.st_ino;
    here->initial_pid = 0 == stat("/proc/self/ns/pid", &info)
                        && FIRST_PID_NAMESPACE == (unsigned long) info.st_ino;
}

void doctor_look_around(doctor_system_t *here)
{
    struct utsname name;
    cpu_set_t set;

    *here = (doctor_system_t) {.yama = -1};
    if (0 == uname(&name)) {
        snprintf(here->kernel, sizeof(here->kernel), "%.50s %.70s", name.sysname, name.release);
    }
    look_at_rights(here);
    look_at_memory(here);
    here->online = sysconf(_SC_NPROCESSORS_ONLN);
    CPU_ZERO(&set);
    here->usable = 0 == sched_getaffinity(0, sizeof(set), &set) ? CPU_COUNT(&set) : here->online;
}
