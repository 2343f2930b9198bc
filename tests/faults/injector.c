/* Runs a command and makes system calls of it, and of all that it starts, fail.
 *
 *     injector CONTROL COMMAND [ARGUMENT...]
 *     injector --calls                          lists the calls it knows: number, name, what it is about
 *
 * Calls are stopped by a filter that asks this process (seccomp_unotify(2)), which lets them go on or answers in the
 * kernel's place: so what is confined, has other users' ids, or was linked statically is no exception. CONTROL is a file
 * that holds a `struct control`; who started this maps it, changes it at any time, and reads there how often which call
 * was made to fail. tests/faults/injecting.py is the other side.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "not known how on this machine"
#endif

enum { CALLS = 512, PATHS = 12, LENGTH = 512, LINGER_MS = 60000 };

/* What a call is about. */
enum { BY_PATH = 1, BY_DESCRIPTOR, BY_TWO_PATHS, NEW_DESCRIPTOR, DUPLICATING };

struct call {
    int number;
    const char *name;
    int about;
    int at; /* which argument is the descriptor, or the directory of the path before it; -1: the path is argument 0 */
};

#define CALL(name, about, at) {SYS_##name, #name, about, at}
static const struct call KNOWN[] = {
#ifdef SYS_open
    CALL(open, BY_PATH, -1), CALL(stat, BY_PATH, -1), CALL(lstat, BY_PATH, -1), CALL(access, BY_PATH, -1),
    CALL(mkdir, BY_PATH, -1), CALL(rmdir, BY_PATH, -1), CALL(unlink, BY_PATH, -1), CALL(chmod, BY_PATH, -1),
    CALL(readlink, BY_PATH, -1), CALL(rename, BY_PATH, -1), CALL(link, BY_PATH, -1),
    CALL(pipe, NEW_DESCRIPTOR, 0), CALL(dup2, NEW_DESCRIPTOR, 0), CALL(epoll_create, NEW_DESCRIPTOR, 0),
    CALL(inotify_init, NEW_DESCRIPTOR, 0),
#endif
    CALL(openat, BY_PATH, 0), CALL(newfstatat, BY_PATH, 0), CALL(statx, BY_PATH, 0), CALL(faccessat, BY_PATH, 0),
    CALL(mkdirat, BY_PATH, 0), CALL(unlinkat, BY_PATH, 0), CALL(readlinkat, BY_PATH, 0), CALL(fchmodat, BY_PATH, 0),
    CALL(utimensat, BY_PATH, 0), CALL(chdir, BY_PATH, -1), CALL(truncate, BY_PATH, -1), CALL(statfs, BY_PATH, -1),
    CALL(renameat, BY_TWO_PATHS, 0), CALL(renameat2, BY_TWO_PATHS, 0), CALL(linkat, BY_TWO_PATHS, 0),
    CALL(read, BY_DESCRIPTOR, 0), CALL(pread64, BY_DESCRIPTOR, 0), CALL(write, BY_DESCRIPTOR, 0),
    CALL(pwrite64, BY_DESCRIPTOR, 0), CALL(fstat, BY_DESCRIPTOR, 0), CALL(fsync, BY_DESCRIPTOR, 0),
    CALL(fdatasync, BY_DESCRIPTOR, 0), CALL(ftruncate, BY_DESCRIPTOR, 0), CALL(fallocate, BY_DESCRIPTOR, 0),
    CALL(getdents64, BY_DESCRIPTOR, 0), CALL(flock, BY_DESCRIPTOR, 0), CALL(fchmod, BY_DESCRIPTOR, 0),
    CALL(fgetxattr, BY_DESCRIPTOR, 0), CALL(fstatfs, BY_DESCRIPTOR, 0), CALL(mmap, BY_DESCRIPTOR, 4),
    CALL(inotify_add_watch, BY_PATH, 0), CALL(fcntl, DUPLICATING, 0),
    CALL(socket, NEW_DESCRIPTOR, 0), CALL(socketpair, NEW_DESCRIPTOR, 0), CALL(pipe2, NEW_DESCRIPTOR, 0),
    CALL(accept4, NEW_DESCRIPTOR, 0), CALL(dup, NEW_DESCRIPTOR, 0), CALL(dup3, NEW_DESCRIPTOR, 0),
    CALL(memfd_create, NEW_DESCRIPTOR, 0), CALL(eventfd2, NEW_DESCRIPTOR, 0), CALL(epoll_create1, NEW_DESCRIPTOR, 0),
    CALL(inotify_init1, NEW_DESCRIPTOR, 0), CALL(pidfd_open, NEW_DESCRIPTOR, 0),
};
enum { COUNT = sizeof KNOWN / sizeof KNOWN[0] };

struct control {
    uint32_t on;
    uint32_t error;
    uint32_t every;    /* one of so many calls fails, at random */
    uint32_t anywhere; /* descriptors of all kinds count, but those of files below `spared` */
    uint64_t seed;
    uint64_t left; /* how many may still fail */
    int32_t pid;   /* the command's */
    uint32_t children; /* whether what the command starts counts too */
    uint8_t wanted[CALLS];
    uint64_t failed[2][CALLS]; /* of the command itself, and of what it started */
    char broken[PATHS][LENGTH];
    char spared[PATHS][LENGTH];
};

static volatile struct control *control;

static void fail(const char *what) {
    fprintf(stderr, "injector: %s: %s\n", what, strerror(errno));
    exit(125);
}

static const struct call *known(int number) {
    for (int i = 0; i < COUNT; i++)
        if (KNOWN[i].number == number)
            return &KNOWN[i];
    return NULL;
}

static uint64_t chance(void) {
    uint64_t z = (control->seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int below(const char *path, volatile char (*places)[LENGTH]) {
    for (int i = 0; i < PATHS && places[i][0]; i++) {
        size_t length = strlen((const char *)places[i]);
        if (!strncmp(path, (const char *)places[i], length) && (!path[length] || path[length] == '/'))
            return 1;
    }
    return 0;
}

/* The path behind a link in /proc; "" where it can't be told. */
static void linked(pid_t thread, const char *what, int fd, char *path) {
    char link[64];
    if (fd >= 0)
        snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, fd);
    else
        snprintf(link, sizeof link, "/proc/%d/%s", thread, what);
    ssize_t length = readlink(link, path, 2 * LENGTH - 1);
    path[length < 0 ? 0 : length] = 0;
}

/* The path that a call names, by a directory and a pointer. */
static void named(pid_t thread, int directory, uint64_t pointer, char *path) {
    char text[LENGTH + 1] = "";
    /* A string may end just before a page that isn't there, so by pages. */
    size_t done = 0;
    while (pointer && done < LENGTH) {
        size_t part = 4096 - (pointer + done) % 4096;
        part = part < LENGTH - done ? part : LENGTH - done;
        struct iovec here = {text + done, part}, there = {(void *)(pointer + done), part};
        ssize_t got = process_vm_readv(thread, &here, 1, &there, 1, 0);
        if (got <= 0)
            break;
        if (memchr(text + done, 0, got))
            break;
        done += got;
        text[done] = 0;
    }
    if (text[0] == '/') {
        strcpy(path, text);
        return;
    }
    linked(thread, "cwd", directory, path);
    if (path[0] && text[0]) {
        strcat(path, "/");
        strcat(path, text);
    }
}

static int concerns(const struct call *call, const struct seccomp_notif *asked) {
    const __u64 *args = asked->data.args;
    char path[2 * LENGTH + LENGTH + 2] = "";
    pid_t thread = asked->pid;
    switch (call->about) {
    case NEW_DESCRIPTOR:
        return control->anywhere != 0;
    case DUPLICATING:
        if (args[1] == F_DUPFD || args[1] == F_DUPFD_CLOEXEC)
            return control->anywhere != 0;
        if (control->anywhere || (args[1] != F_SETLK && args[1] != F_SETLKW))
            return 0;
        /* fall through */
    case BY_DESCRIPTOR:
        if ((int)args[call->at] < 0)
            return 0;
        linked(thread, "", (int)args[call->at], path);
        return below(path, control->broken);
    case BY_TWO_PATHS:
        named(thread, (int)args[2], args[3], path);
        if (below(path, control->broken))
            return 1;
        /* fall through */
    default:
        if (call->at < 0)
            named(thread, -1, args[0], path);
        else
            named(thread, (int)args[call->at], args[call->at + 1], path);
        if (below(path, control->broken))
            return 1;
        return control->anywhere && path[0] && !below(path, control->spared);
    }
}

static int is_own(pid_t thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", control->pid, thread);
    return !access(path, F_OK);
}

/* The error that a call is to fail with; 0 for none. */
static int verdict(const struct seccomp_notif *asked) {
    int number = asked->data.nr;
    const struct call *call = known(number);
    if (!control->on || !call || number >= CALLS || !control->wanted[number] || !control->left)
        return 0;
    if (chance() % control->every)
        return 0;
    int own = is_own(asked->pid);
    if ((!own && !control->children) || !concerns(call, asked))
        return 0;
    control->left--;
    control->failed[!own][number]++;
    return control->error;
}

static int filtered(void) {
    struct sock_filter lines[COUNT + 8];
    int n = 0;
    lines[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    lines[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    lines[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    lines[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        lines[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, KNOWN[i].number, COUNT - i, 0);
    lines[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    lines[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {n, lines};
    /* Root needs not give this up, and what it starts may count on it. */
    if (geteuid() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* A descriptor as a message: neither of these calls is filtered. */
static void send_fd(int channel, int fd) {
    char byte = 0, space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(channel, &message, 0) != 1)
        _exit(125);
}

static int receive_fd(int channel) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        return -1;
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void serve(int listener) {
    struct seccomp_notif asked;
    struct seccomp_notif_resp answer;
    memset(&asked, 0, sizeof asked);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
        return; /* it was killed meanwhile */
    memset(&answer, 0, sizeof answer);
    answer.id = asked.id;
    int error = verdict(&asked);
    if (error)
        answer.error = -error;
    else
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "--calls")) {
        for (int i = 0; i < COUNT; i++)
            printf("%d %s %d\n", KNOWN[i].number, KNOWN[i].name, KNOWN[i].about);
        return 0;
    }
    if (count < 3)
        return fprintf(stderr, "usage: injector CONTROL COMMAND [ARGUMENT...]\n"), 125;
    int fd = open(words[1], O_RDWR | O_CLOEXEC);
    control = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        fail(words[1]);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        fail("socketpair");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int listener = filtered();
        if (listener < 0)
            _exit(125);
        send_fd(ends[1], listener);
        close(listener);
        execvp(words[2], words + 2);
        _exit(127);
    }
    close(ends[1]);
    control->pid = pid;
    int listener = receive_fd(ends[0]);
    if (listener < 0) {
        fprintf(stderr, "injector: the kernel has no filter that asks (seccomp_unotify(2))\n");
        return 125;
    }
    int gone = syscall(SYS_pidfd_open, pid, 0);
    struct pollfd polled[2] = {{listener, POLLIN, 0}, {gone, POLLIN, 0}};
    int status = 0, left = -1;
    for (;;) {
        int ready = poll(polled, gone < 0 ? 1 : 2, left);
        if (ready < 0 && errno != EINTR)
            fail("poll");
        if (ready == 0 || polled[0].revents & POLLHUP)
            break; /* nobody is left, or somebody who won't end */
        if (polled[0].revents & POLLIN)
            serve(listener);
        if (gone >= 0 && polled[1].revents) {
            waitpid(pid, &status, 0);
            pid = 0;
            close(gone);
            gone = -1;
            left = LINGER_MS;
        }
    }
    if (pid)
        waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
