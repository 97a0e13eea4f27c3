/* Preloaded into a process, it notes every change below HOODIE_RECORD_ROOT in the file HOODIE_RECORD_LOG, in
 * the order in which they happened: see tests/support/power.py, which reads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char tracked[FDS];
static int out = -1;
static char root[PATH_MAX];
static size_t root_length;

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("HOODIE_RECORD_ROOT"), *file = getenv("HOODIE_RECORD_LOG");
    if (!folder || !file) return;
    root_length = strlen(strncpy(root, folder, sizeof root - 1));
    out = REAL(open)(file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
}

static int absolute(int at, const char *path, char *full) {
    if (out < 0 || !path) return 0;
    if (path[0] == '/' || at == AT_FDCWD) {
        if (snprintf(full, PATH_MAX, "%s", path) >= PATH_MAX) return 0;
    } else {
        char link[64], folder[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, folder, sizeof folder - 1);
        if (length < 0) return 0;
        folder[length] = 0;
        if (snprintf(full, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return 0;
    }
    return strncmp(full, root, root_length) == 0 && (full[root_length] == '/' || !full[root_length]);
}

static void all(const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t done = REAL(write)(out, at, size);
        if (done < 0) abort();
        at += done, size -= done;
    }
}

static void note(char kind, int64_t number, int64_t offset, const char *first, const char *second,
                 const void *data, size_t size) {
    int64_t head[5] = {number, offset, first ? strlen(first) : 0, second ? strlen(second) : 0, size};
    all(&kind, 1), all(head, sizeof head);
    all(first, head[2]), all(second, head[3]), all(data, size);
}

#define KEPT(call, condition, noting) \
    do { \
        pthread_mutex_lock(&lock); \
        typeof(call) result = call; \
        int error = errno; \
        if (result >= 0 && (condition)) noting; \
        pthread_mutex_unlock(&lock); \
        errno = error; \
        return result; \
    } while (0)

static int opened(int at, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    int ours = absolute(at, path, full);
    pthread_mutex_lock(&lock);
    int fd = REAL(openat)(at, path, flags, mode), error = errno;
    if (fd >= 0 && fd < FDS) tracked[fd] = ours;
    if (fd >= 0 && ours) note('O', fd, flags & (O_CREAT | O_TRUNC), full, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define MODE(flags) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }
int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static int ours(int fd) { return out >= 0 && fd >= 0 && fd < FDS && tracked[fd]; }

int close(int fd) {
    int noted = ours(fd);
    if (noted) tracked[fd] = 0;
    KEPT(REAL(close)(fd), noted, note('C', fd, 0, NULL, NULL, NULL, 0));
}
ssize_t write(int fd, const void *data, size_t size) {
    if (!ours(fd)) return REAL(write)(fd, data, size);
    off_t at = lseek(fd, 0, SEEK_CUR);
    KEPT(REAL(write)(fd, data, size), 1, note('W', fd, at, NULL, NULL, data, result));
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    KEPT(REAL(pwrite)(fd, data, size, at), ours(fd), note('W', fd, at, NULL, NULL, data, result));
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    KEPT(REAL(pwrite64)(fd, data, size, at), ours(fd), note('W', fd, at, NULL, NULL, data, result));
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (ours(fd)) abort(); /* nobody does so far */
    return REAL(writev)(fd, parts, count);
}
int ftruncate(int fd, off_t size) {
    KEPT(REAL(ftruncate)(fd, size), ours(fd), note('T', fd, size, NULL, NULL, NULL, 0));
}
int ftruncate64(int fd, off64_t size) {
    KEPT(REAL(ftruncate64)(fd, size), ours(fd), note('T', fd, size, NULL, NULL, NULL, 0));
}
int fsync(int fd) { KEPT(REAL(fsync)(fd), ours(fd), note('S', fd, 0, NULL, NULL, NULL, 0)); }
int fdatasync(int fd) { KEPT(REAL(fdatasync)(fd), ours(fd), note('S', fd, 0, NULL, NULL, NULL, 0)); }

#define PATHS char first[PATH_MAX], second[PATH_MAX]
int renameat(int from, const char *a, int to, const char *b) {
    PATHS;
    int noted = absolute(from, a, first) & absolute(to, b, second);
    KEPT(REAL(renameat)(from, a, to, b), noted, note('R', 0, 0, first, second, NULL, 0));
}
int rename(const char *a, const char *b) { return renameat(AT_FDCWD, a, AT_FDCWD, b); }
int linkat(int from, const char *a, int to, const char *b, int flags) {
    PATHS;
    int noted = absolute(from, a, first) & absolute(to, b, second);
    KEPT(REAL(linkat)(from, a, to, b, flags), noted, note('L', 0, 0, first, second, NULL, 0));
}
int link(const char *a, const char *b) { return linkat(AT_FDCWD, a, AT_FDCWD, b, 0); }
int unlinkat(int at, const char *path, int flags) {
    PATHS;
    (void)second;
    int noted = absolute(at, path, first);
    KEPT(REAL(unlinkat)(at, path, flags), noted, note('U', 0, 0, first, NULL, NULL, 0));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int at, const char *path, mode_t mode) {
    PATHS;
    (void)second;
    int noted = absolute(at, path, first);
    KEPT(REAL(mkdirat)(at, path, mode), noted, note('D', 0, 0, first, NULL, NULL, 0));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
