#include "server/request_log/request_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/tfrecord.h"
#include "runtime/files/file.h"

enum { RETRY_S = 5, TRIES = 1000, NAME = 64 };

void srv_request_file_init(struct srv_request_file *f)
{
    *f = (struct srv_request_file){.fd = -1};
}

void srv_request_file_close(struct srv_request_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->is_suspended = false;
}

void srv_request_file_suspend(struct srv_request_file *f)
{
    srv_request_file_close(f);
    f->is_suspended = true;
}

/* Closes the file after a failure. Deletes an empty file, because each further attempt creates a
 * file, and a full disk may stay full for long. */
static void hold_back(struct srv_request_file *f)
{
    if (f->fd >= 0 && !f->size && !srv_request_file_is_removed(f))
        unlink(f->path);
    srv_request_file_close(f);
    f->not_before_ns = rt_now_ns() + RETRY_S * INT64_C(1000000000);
}

static enum rt_status fail(struct srv_request_file *f, int number, struct rt_error *err)
{
    hold_back(f);
    return rt_fail(err, RT_UNAVAILABLE, "%s: %s", f->path, strerror(number));
}

static bool is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Writes a model's name as a part of a file name. A leading '.' and all characters except letters,
 * digits, '_', '-' and '.' become '_'. */
static void write_name(char *buffer, size_t n, const char *model)
{
    size_t i = 0;
    for (; model[i] && i + 1 < n; i++) {
        char c = model[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || (c == '.' && i);
        buffer[i] = c;
        if (!plain)
            buffer[i] = '_';
    }
    buffer[i] = '\0';
}

/* Writes the beginning of a new file's path, before the number and the suffix. Returns false if the
 * beginning does not fit the buffer. */
static bool write_stem(char *buffer, size_t n, const char *prefix, const char *model)
{
    char name[NAME] = "", when[32];
    size_t length = strlen(prefix);
    struct tm tm;
    time_t now = time(NULL);

    bool in_dir = (length && prefix[length - 1] == '/') || is_dir(prefix);
    if (in_dir)
        write_name(name, sizeof name, model);
    gmtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &tm);
    int w = snprintf(buffer, n, "%s%s%s-%s-%ld", prefix,
                     in_dir && prefix[length - 1] != '/' ? "/" : "", name, when, (long)getpid());
    return w > 0 && (size_t)w < n;
}

static enum rt_status make_dirs(const char *stem, struct rt_error *err)
{
    char dir[512];
    const char *slash = strrchr(stem, '/');

    if (!slash || slash == stem)
        return RT_OK;
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - stem), stem);
    return rt_file_make_dirs(dir, err);
}

enum rt_status srv_request_file_open(struct srv_request_file *f, const char *prefix,
                                     const char *model, struct rt_error *err)
{
    char stem[480];

    srv_request_file_close(f);
    if (rt_now_ns() < f->not_before_ns)
        return rt_fail(err, RT_UNAVAILABLE, "their file is tried again in a moment");
    if (!write_stem(stem, sizeof stem, prefix, model))
        return rt_fail(err, RT_INVALID_ARGUMENT, "filename_prefix is longer than %zu bytes",
                       sizeof stem - NAME - 40);
    enum rt_status st = make_dirs(stem, err);
    if (st) {
        hold_back(f);
        return st;
    }
    for (int i = 0; i < TRIES; i++) {
        snprintf(f->path, sizeof f->path, "%s-%u.tfrecord", stem, f->n_opened++);
        f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
        if (f->fd >= 0 || errno != EEXIST)
            break;
    }
    struct stat s;
    if (f->fd < 0 || fstat(f->fd, &s))
        return fail(f, errno, err);
    f->device = s.st_dev;
    f->inode = s.st_ino;
    f->size = 0;
    f->opened_ns = rt_now_ns();
    return RT_OK;
}

bool srv_request_file_is_removed(const struct srv_request_file *f)
{
    struct stat s;
    return fstat(f->fd, &s) == 0 && s.st_nlink == 0;
}

enum rt_status srv_request_file_resume(struct srv_request_file *f, struct rt_error *err)
{
    struct stat s;

    if (!f->is_suspended)
        return RT_OK;
    int fd = open(f->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    /* the path may now refer to a symbolic link, a FIFO without a reader or another file */
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENXIO)
        return fail(f, errno, err);
    if (fd >= 0 && (fstat(fd, &s) || s.st_dev != f->device || s.st_ino != f->inode)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        return rt_fail(err, RT_NOT_FOUND, "%s was removed while it was written", f->path);
    f->fd = fd;
    f->is_suspended = false;
    return RT_OK;
}

/* Writes all n elements of `parts`, in several steps if necessary. Returns 0 or an errno. */
static int write_all(int fd, struct iovec *parts, int n)
{
    while (n) {
        ssize_t w = writev(fd, parts, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return errno;
        while (n && (size_t)w >= parts->iov_len) {
            w -= (ssize_t)parts->iov_len;
            parts++;
            n--;
        }
        if (n) {
            parts->iov_base = (char *)parts->iov_base + w;
            parts->iov_len -= (size_t)w;
        }
    }
    return 0;
}

enum rt_status srv_request_file_add(struct srv_request_file *f, struct rt_span record,
                                    struct rt_error *err)
{
    unsigned char header[RT_TFRECORD_HEADER], footer[RT_TFRECORD_FOOTER];
    /* The union casts const away. iovec has no const pointer, but writev only reads. */
    union {
        const void *in;
        void *out;
    } bytes = {.in = record.p};
    struct iovec parts[] = {
        {header, sizeof header}, {bytes.out, record.n}, {footer, sizeof footer}};

    rt_tfrecord_header(header, record.n);
    rt_tfrecord_footer(footer, record.p, record.n);
    int failed = write_all(f->fd, parts, 3);
    if (failed) {
        int ignored = ftruncate(f->fd, f->size);
        (void)ignored;
        return fail(f, failed, err);
    }
    f->size += (int64_t)(sizeof header + record.n + sizeof footer);
    return RT_OK;
}
