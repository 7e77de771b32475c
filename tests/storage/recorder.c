/* Record, in order, what a process does to files called data.mdb and what it acknowledges.
 *
 * Preloaded into a writer. A record is one byte of kind, seven of padding, offset and length as 64-bit numbers, and
 * the bytes written. Kinds: 'w' a write that only reached the page cache, 'd' one that was durable when it returned
 * (O_DSYNC), 's' a sync, 'l' the link that gives a new data file its name, 'a' an acknowledgement: a write to a file
 * called acks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 4096
#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

enum role { UNKNOWN, OTHER, DATA, DATA_SYNCED, ACKS };

static enum role roles[DESCRIPTORS];
static off_t positions[DESCRIPTORS];
static int record_fd = -1;

static ssize_t plain_write(int fd, const void *bytes, size_t count) {
    static typeof(&write) next;
    if (!next) next = NEXT(write);
    return next(fd, bytes, count);
}

static void record(char kind, off_t offset, const void *bytes, size_t count) {
    struct { char kind; char padding[7]; uint64_t offset, count; } head = {kind, {0}, offset, count};
    if (record_fd < 0)
        record_fd = open(getenv("RECORD"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    plain_write(record_fd, &head, sizeof head);
    if (count) plain_write(record_fd, bytes, count);
}

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && !strcmp(text + length - wanted, end);
}

static enum role role_of(int fd) {
    char link[64], path[1024];
    if (fd < 0 || fd >= DESCRIPTORS) return OTHER;
    if (roles[fd] != UNKNOWN) return roles[fd];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    roles[fd] = OTHER;
    if (ends_with(path, "/data.mdb"))
        roles[fd] = fcntl(fd, F_GETFL) & O_DSYNC ? DATA_SYNCED : DATA;
    else if (ends_with(path, "/acks"))
        roles[fd] = ACKS;
    return roles[fd];
}

static void wrote(int fd, off_t offset, const void *bytes, size_t count) {
    enum role role = role_of(fd);
    if (role == DATA) record('w', offset, bytes, count);
    if (role == DATA_SYNCED) record('d', offset, bytes, count);
}

static void wrote_pieces(int fd, off_t offset, const struct iovec *pieces, int many, ssize_t left) {
    for (int i = 0; i < many && left > 0; i++) {
        size_t count = pieces[i].iov_len < (size_t)left ? pieces[i].iov_len : (size_t)left;
        wrote(fd, offset, pieces[i].iov_base, count);
        offset += count;
        left -= count;
    }
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t offset) {
    ssize_t written = NEXT(pwrite64)(fd, bytes, count, offset);
    if (written > 0) wrote(fd, offset, bytes, written);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return pwrite64(fd, bytes, count, offset); }

ssize_t pwritev64(int fd, const struct iovec *pieces, int many, off_t offset) {
    ssize_t written = NEXT(pwritev64)(fd, pieces, many, offset);
    wrote_pieces(fd, offset, pieces, many, written);
    return written;
}

ssize_t pwritev(int fd, const struct iovec *pieces, int many, off_t offset) {
    return pwritev64(fd, pieces, many, offset);
}

off_t lseek64(int fd, off_t offset, int whence) {
    off_t position = NEXT(lseek64)(fd, offset, whence);
    if (fd >= 0 && fd < DESCRIPTORS) positions[fd] = position;
    return position;
}

off_t lseek(int fd, off_t offset, int whence) { return lseek64(fd, offset, whence); }

ssize_t writev(int fd, const struct iovec *pieces, int many) {
    ssize_t written = NEXT(writev)(fd, pieces, many);
    if (written > 0 && role_of(fd) >= DATA) {
        wrote_pieces(fd, positions[fd], pieces, many, written);
        positions[fd] += written;
    }
    return written;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t written = plain_write(fd, bytes, count);
    enum role role = role_of(fd);
    if (written > 0 && role == ACKS) record('a', 0, bytes, written);
    if (written > 0 && (role == DATA || role == DATA_SYNCED)) {
        wrote(fd, positions[fd], bytes, written);
        positions[fd] += written;
    }
    return written;
}

int fdatasync(int fd) {
    int failed = NEXT(fdatasync)(fd);
    if (!failed && (role_of(fd) == DATA || role_of(fd) == DATA_SYNCED)) record('s', 0, 0, 0);
    return failed;
}

int fsync(int fd) {
    int failed = NEXT(fsync)(fd);
    if (!failed && (role_of(fd) == DATA || role_of(fd) == DATA_SYNCED)) record('s', 0, 0, 0);
    return failed;
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    int failed = NEXT(linkat)(from_folder, from, to_folder, to, flags);
    if (!failed && ends_with(to, "/data.mdb")) record('l', 0, 0, 0);
    return failed;
}

int link(const char *from, const char *to) {
    int failed = NEXT(link)(from, to);
    if (!failed && ends_with(to, "/data.mdb")) record('l', 0, 0, 0);
    return failed;
}

int close(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS) roles[fd] = UNKNOWN;
    return NEXT(close)(fd);
}
