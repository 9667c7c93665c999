/* Stands before the system calls that write, force to the disk and rename, for tests of writers: below a folder the
 * n-th call of a kind fails, or the process is killed there. Loaded by LD_PRELOAD; tests/python/faults/driver.py
 * arms it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, WRITE, SYNC, RENAME };

static char folder[PATH_MAX];
static atomic_int armed = NONE;
static atomic_long left;
static int with;

/* error: what the call fails with; 0 kills the process. */
void fault_arm(const char *below, int kind, long nth, int error) {
    strncpy(folder, below, sizeof folder - 1);
    left = nth;
    with = error;
    armed = kind;
}

int fault_happened(void) { return armed != NONE && left <= 0; }

static int strikes(int kind, const char *path) {
    if (armed != kind || strncmp(path, folder, strlen(folder)) != 0) return 0;
    if (atomic_fetch_sub(&left, 1) != 1) return 0;
    if (with == 0) kill(getpid(), SIGKILL);
    errno = with;
    return 1;
}

static int strikes_at(int kind, int descriptor) {
    char link[64], path[PATH_MAX];
    if (armed != kind) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strikes(kind, path);
}

static int strikes_name(int kind, const char *name) {
    char path[PATH_MAX];
    if (armed != kind) return 0;
    if (name[0] == '/') return strikes(kind, name);
    if (getcwd(path, sizeof path) == NULL) return 0;
    strncat(path, "/", sizeof path - strlen(path) - 1);
    strncat(path, name, sizeof path - strlen(path) - 1);
    return strikes(kind, path);
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (real == NULL) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *bytes, size_t count) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return strikes_at(WRITE, fd) ? -1 : real(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return strikes_at(WRITE, fd) ? -1 : real(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return strikes_at(WRITE, fd) ? -1 : real(fd, bytes, count, at);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return strikes_at(WRITE, fd) ? -1 : real(fd, pieces, count);
}

ssize_t sendfile(int to, int from, off_t *at, size_t count) {
    REAL(ssize_t, "sendfile", int, int, off_t *, size_t);
    return strikes_at(WRITE, to) ? -1 : real(to, from, at, count);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t count) {
    REAL(ssize_t, "sendfile64", int, int, off64_t *, size_t);
    return strikes_at(WRITE, to) ? -1 : real(to, from, at, count);
}

ssize_t copy_file_range(int from, off64_t *a, int to, off64_t *b, size_t count, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    return strikes_at(WRITE, to) ? -1 : real(from, a, to, b, count, flags);
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return strikes_at(SYNC, fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return strikes_at(SYNC, fd) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return strikes_name(RENAME, to) ? -1 : real(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    return strikes_name(RENAME, to) ? -1 : real(a, from, b, to);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    return strikes_name(RENAME, to) ? -1 : real(from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    return strikes_name(RENAME, to) ? -1 : real(a, from, b, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return strikes_name(RENAME, path) ? -1 : real(path, mode);
}
