/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * deny: run a program for which chosen system calls fail, as a container's filter makes them fail.
 *
 *     deny [OPTION]... CALL[,CALL]... PROGRAM [ARGUMENT]...
 *
 *     --errno E         what the calls answer: a name such as EPERM or a number; 0 makes them
 *                       return 0 without doing anything (default: EPERM)
 *     --ranks LIST      only if the launcher gave this process one of these ranks: numbers and
 *                       ranges "0,2-3", or "odd", "even"; other ranks run unfiltered
 *     --after SECONDS   let the calls through at first
 *     --after-calls N   let the first N of them through
 *     --every N         deny only every Nth (combines with the two above)
 *     --on-signal       let them through until SIGUSR1 reaches the process whose id is in the
 *                       environment variable DENY_PID; SIGUSR2 lets them through again
 *
 * Without one of the last four the kernel answers by itself; with one, each such call asks a
 * supervisor process first (some 10 us), which ends with the program and its children. The filter
 * stays over fork and exec. The program keeps the launcher's child's pid. Exit status: the
 * program's, or 125 if it could not be run so, 77 if this kernel cannot do it.
 *
 * Written to the kernel's interface (seccomp(2), seccomp_unotify(2)) so that nothing has to be
 * installed for it. Used by test/mpi, test/faults, test/proc.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#    define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#    define NATIVE_ARCH AUDIT_ARCH_AARCH64
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#    define NATIVE_ARCH AUDIT_ARCH_PPC64LE
#elif defined(__riscv) && 64 == __riscv_xlen
#    define NATIVE_ARCH AUDIT_ARCH_RISCV64
#else
#    define NATIVE_ARCH 0
#endif

#define CALLS_MAX 32

static const struct {
    const char *name;
    int number;
} known_calls[] = {
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"kcmp", SYS_kcmp},
    {"ptrace", SYS_ptrace},
    {"prctl", SYS_prctl},
    {"memfd_create", SYS_memfd_create},
    {"mbind", SYS_mbind},
    {"get_mempolicy", SYS_get_mempolicy},
    {"set_mempolicy", SYS_set_mempolicy},
    {"move_pages", SYS_move_pages},
    {"getrandom", SYS_getrandom},
    {"socket", SYS_socket},
    {"bind", SYS_bind},
    {"listen", SYS_listen},
    {"connect", SYS_connect},
    {"fallocate", SYS_fallocate},
    {"ftruncate", SYS_ftruncate},
    {"futex", SYS_futex},
    {"set_robust_list", SYS_set_robust_list},
    {"unlinkat", SYS_unlinkat},
    {"membarrier", SYS_membarrier},
    {"madvise", SYS_madvise},
    {"sched_setaffinity", SYS_sched_setaffinity},
#ifdef SYS_pidfd_open
    {"pidfd_open", SYS_pidfd_open},
#endif
#ifdef SYS_pidfd_getfd
    {"pidfd_getfd", SYS_pidfd_getfd},
#endif
#ifdef SYS_userfaultfd
    {"userfaultfd", SYS_userfaultfd},
#endif
#ifdef SYS_futex_waitv
    {"futex_waitv", SYS_futex_waitv},
#endif
#ifdef SYS_process_madvise
    {"process_madvise", SYS_process_madvise},
#endif
#ifdef SYS_memfd_secret
    {"memfd_secret", SYS_memfd_secret},
#endif
#ifdef SYS_unlink
    {"unlink", SYS_unlink},
#endif
};

static const struct {
    const char *name;
    int number;
} known_errors[] = {
    {"EPERM", EPERM},   {"ENOENT", ENOENT}, {"ESRCH", ESRCH},   {"EINTR", EINTR},
    {"EIO", EIO},       {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES},
    {"EFAULT", EFAULT}, {"EBUSY", EBUSY},   {"EINVAL", EINVAL}, {"EMFILE", EMFILE},
    {"ENFILE", ENFILE}, {"ENOSPC", ENOSPC}, {"ENOSYS", ENOSYS}, {"ENOTSUP", ENOTSUP},
};

static struct {
    int error;
    int calls[CALLS_MAX];
    size_t count;
    bool asks; /* a supervisor decides */
    bool on_signal;
    double after; /* seconds */
    long after_calls;
    long every;
} rule = {.error = EPERM, .every = 1};

static volatile sig_atomic_t switched_on;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *text, ...)
{
    va_list values;

    va_start(values, text);
    fputs("deny: ", stderr);
    vfprintf(stderr, text, values);
    fputs("\n", stderr);
    va_end(values);
    exit(125);
}

static long number_of(const char *text, const char *what)
{
    char *end;
    const long value = strtol(text, &end, 0);

    if (end == text || '\0' != *end || 0 > value) {
        die("%s: not a number: %s", what, text);
    }
    return value;
}

static int error_of(const char *text)
{
    for (size_t i = 0; i < sizeof(known_errors) / sizeof(*known_errors); ++i) {
        if (0 == strcmp(known_errors[i].name, text)) {
            return known_errors[i].number;
        }
    }
    return (int) number_of(text, "--errno");
}

static void add_call(const char *name)
{
    if (CALLS_MAX == rule.count) {
        die("too many calls");
    }
    for (size_t i = 0; i < sizeof(known_calls) / sizeof(*known_calls); ++i) {
        if (0 == strcmp(known_calls[i].name, name)) {
            rule.calls[rule.count++] = known_calls[i].number;
            return;
        }
    }
    rule.calls[rule.count++] = (int) number_of(name, "system call");
}

/** Whether this process's rank is in the list; without a rank it counts as 0. */
static bool rank_in(char *list)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    long rank;

    if (NULL == text) {
        text = getenv("PMIX_RANK");
    }
    rank = NULL == text ? 0 : strtol(text, NULL, 10);
    if (0 == strcmp("odd", list) || 0 == strcmp("even", list)) {
        return (1 == rank % 2) == (0 == strcmp("odd", list));
    }
    for (char *item = strtok(list, ","); NULL != item; item = strtok(NULL, ",")) {
        char *dash = strchr(item, '-');

        if (NULL != dash) {
            *dash = '\0';
        }
        if (number_of(item, "--ranks") <= rank
            && number_of(NULL != dash ? dash + 1 : item, "--ranks") >= rank) {
            return true;
        }
    }
    return false;
}

/** @return the listener's descriptor if the rule asks a supervisor, else 0 */
static int install_filter(void)
{
    const uint32_t verdict = rule.asks
                                 ? SECCOMP_RET_USER_NOTIF
                                 : SECCOMP_RET_ERRNO | ((uint32_t) rule.error & SECCOMP_RET_DATA);
    struct sock_filter code[CALLS_MAX + 5];
    struct sock_fprog program = {.filter = code};
    size_t n = 0;
    long rc;

    code[n++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                              offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 0,
                                              (unsigned char) (rule.count + 1));
    code[n++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                              offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < rule.count; ++i) {
        code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                  (uint32_t) rule.calls[i],
                                                  (unsigned char) (rule.count - i), 0);
    }
    code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, verdict);
    program.len = (unsigned short) n;

    if (0 != prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        die("PR_SET_NO_NEW_PRIVS: %s", strerror(errno));
    }
    rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 rule.asks ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &program);
    if (0 > rc) {
        fprintf(stderr, "deny: this kernel takes no such filter: %s\n", strerror(errno));
        exit(77);
    }
    return (int) rc;
}

static void on_signal(int number)
{
    switched_on = SIGUSR1 == number;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

/** Answer calls until nobody is left who could make one. */
static void __attribute__((noreturn)) supervise(int listener)
{
    const double start = seconds_now();
    long seen = 0, denied_turn = 0;

    for (;;) {
        struct pollfd poll_fd = {.fd = listener, .events = POLLIN};
        struct seccomp_notif request;
        struct seccomp_notif_resp answer;
        bool deny;

        if (0 > poll(&poll_fd, 1, -1)) {
            if (EINTR == errno) {
                continue;
            }
            _exit(0);
        }
        if (0 == (poll_fd.revents & POLLIN)) {
            _exit(0);
        }
        memset(&request, 0, sizeof(request));
        if (0 != ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request)) {
            continue; /* the caller was killed meanwhile, or a signal came */
        }
        deny = (!rule.on_signal || switched_on) && seen++ >= rule.after_calls
               && seconds_now() - start >= rule.after;
        deny = deny && 0 == ++denied_turn % rule.every;
        memset(&answer, 0, sizeof(answer));
        answer.id = request.id;
        answer.error = deny ? -rule.error : 0;
        answer.flags = deny ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        (void) ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

static void send_descriptor(int channel, int descriptor)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    char byte = 'x';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};

    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.head), &descriptor, sizeof(descriptor));
    if (1 != sendmsg(channel, &message, 0)) {
        die("cannot hand the listener over: %s", strerror(errno));
    }
}

static int receive_descriptor(int channel)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int descriptor = -1;

    if (1 == recvmsg(channel, &message, MSG_CMSG_CLOEXEC) && NULL != CMSG_FIRSTHDR(&message)) {
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(descriptor));
    }
    return descriptor;
}

/** Fork the supervisor away from us, so that the program finds no child that it does not know. */
static void start_supervisor(int channel[2])
{
    pid_t child;
    int status;
    char text[24];

    if (0 != socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel)) {
        die("socketpair: %s", strerror(errno));
    }
    child = fork();
    if (0 > child) {
        die("fork: %s", strerror(errno));
    }
    if (0 == child) {
        pid_t supervisor = fork();

        if (0 != supervisor) {
            _exit(0 > supervisor ? 1 : 0);
        }
        setsid();
        signal(SIGUSR1, on_signal);
        signal(SIGUSR2, on_signal);
        {
            /* Nothing of the launcher's may stay open here: it waits for the ends of its pipes. */
            const int sink = open("/dev/null", O_RDWR);
            const int keep = fcntl(channel[1], F_DUPFD_CLOEXEC, 10);
            const pid_t self = getpid();
            int listener;

            for (int i = 0; i < 3; ++i) {
                dup2(sink, i);
            }
            for (int i = 3; i < 65536 && i < sysconf(_SC_OPEN_MAX); ++i) {
                if (i != keep) {
                    close(i);
                }
            }
            if ((ssize_t) sizeof(self) != send(keep, &self, sizeof(self), MSG_NOSIGNAL)) {
                _exit(1);
            }
            listener = receive_descriptor(keep);
            if (0 > listener) {
                _exit(1);
            }
            (void) send(keep, "r", 1, MSG_NOSIGNAL);
            close(keep);
            supervise(listener);
        }
    }
    close(channel[1]);
    if (child != waitpid(child, &status, 0) || 0 != status
        || (ssize_t) sizeof(child) != recv(channel[0], &child, sizeof(child), 0)) {
        die("no supervisor");
    }
    snprintf(text, sizeof(text), "%ld", (long) child);
    setenv("DENY_PID", text, 1);
}

static void usage(void)
{
    die("usage: deny [--errno E] [--ranks LIST] [--after SECONDS] [--after-calls N] [--every N] "
        "[--on-signal] CALL[,CALL]... PROGRAM [ARGUMENT]...");
}

int main(int argc, char **argv)
{
    char *ranks = NULL;
    int at = 1, channel[2];

    for (; at < argc && 0 == strncmp(argv[at], "--", 2); ++at) {
        const char *option = argv[at];

        if (0 == strcmp(option, "--on-signal")) {
            rule.asks = rule.on_signal = true;
            continue;
        }
        if (at + 1 >= argc) {
            usage();
        }
        ++at;
        if (0 == strcmp(option, "--errno")) {
            rule.error = error_of(argv[at]);
        } else if (0 == strcmp(option, "--ranks")) {
            ranks = argv[at];
        } else if (0 == strcmp(option, "--after")) {
            rule.asks = true;
            rule.after = strtod(argv[at], NULL);
        } else if (0 == strcmp(option, "--after-calls")) {
            rule.asks = true;
            rule.after_calls = number_of(argv[at], option);
        } else if (0 == strcmp(option, "--every")) {
            rule.asks = true;
            rule.every = number_of(argv[at], option);
        } else {
            usage();
        }
    }
    if (at + 2 > argc || 1 > rule.every) {
        usage();
    }
    for (char *name = strtok(argv[at], ","); NULL != name; name = strtok(NULL, ",")) {
        add_call(name);
    }
    if (0 == rule.count) {
        usage();
    }
    if (0 == NATIVE_ARCH) {
        fprintf(stderr, "deny: not written for this kind of processor\n");
        return 77;
    }
    if (NULL == ranks || rank_in(ranks)) {
        if (rule.asks) {
            char ready;
            int listener;

            start_supervisor(channel);
            listener = install_filter();
            send_descriptor(channel[0], listener);
            close(listener);
            if (1 != recv(channel[0], &ready, 1, 0)) {
                die("the supervisor did not start");
            }
            close(channel[0]);
        } else {
            (void) install_filter();
        }
    }
    execvp(argv[at + 1], argv + at + 1);
    fprintf(stderr, "deny: %s: %s\n", argv[at + 1], strerror(errno));
    return 125;
}
