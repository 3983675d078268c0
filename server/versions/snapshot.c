#include "server/versions/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/files/file.h"
#include "server/replay/golden.h"
#include "server/versions/source.h"

enum {
    PIECE = 1 << 16,   /* number of bytes that are copied between two checks */
    MAX_FILES = 50000, /* of a version, as in source.h */
    MAX_DEPTH = 16,
    /* attempts to name the new version, while others make versions in the same directory */
    MAX_NAMES = 100,
};

static enum rt_status fail_length(struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "a snapshot's files would have names of more than %d "
                   "bytes",
                   RT_FILE_NAME_BYTES - 1);
}

/* Writes "DIR/NAME" into `out`. */
static enum rt_status join(char out[RT_FILE_NAME_BYTES], const char *dir, const char *name,
                           struct rt_error *err)
{
    const int n = snprintf(out, RT_FILE_NAME_BYTES, "%s/%s", dir, name);

    return n < RT_FILE_NAME_BYTES ? RT_OK : fail_length(err);
}

/* ---- the files of the served version ---- */

static enum rt_status write_all(int fd, const char *name, const char *p, size_t n,
                                struct rt_error *err)
{
    while (n) {
        const ssize_t k = write(fd, p, n);
        if (k < 0 && errno != EINTR)
            return rt_fail_errno(err, name, errno);
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return RT_OK;
}

static enum rt_status copy_bytes(int in, int out, const char *from, const char *to,
                                 const struct rt_check *check, struct rt_error *err)
{
    char piece[PIECE];
    enum rt_status st = RT_OK;

    while (!st) {
        const ssize_t n = read(in, piece, sizeof piece);
        if (n == 0)
            return RT_OK;
        if (n < 0 && errno != EINTR)
            return rt_fail_errno(err, from, errno);
        st = rt_check_call(check, err);
        if (!st)
            st = write_all(out, to, piece, n > 0 ? (size_t)n : 0, err);
    }
    return st;
}

static enum rt_status copy_file(const char *from, const char *to, const struct rt_check *check,
                                struct rt_error *err)
{
    struct stat s;
    int in;
    enum rt_status st = rt_open_regular(from, &in, &s, err);

    if (st)
        return st;
    st = rt_file_check_space(to, (size_t)s.st_size, err);
    const int out = st ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (!st && out < 0)
        st = rt_fail_errno(err, to, errno);
    if (!st)
        st = copy_bytes(in, out, from, to, check, err);
    close(in);
    if (out >= 0 && close(out) && !st)
        st = rt_fail_errno(err, to, errno);
    return st;
}

/* Returns whether a file or directory is not copied. The variables are written anew, and the
 * fingerprint and the goldens are those of the old variables. */
static bool is_left_out(const char *name)
{
    return strcmp(name, "variables") == 0 || strcmp(name, "fingerprint.pb") == 0 ||
           strcmp(name, SRV_GOLDEN_FILE) == 0;
}

/* Makes the copy `to` of a directory. */
static enum rt_status copy_directory(const FTSENT *e, const char *to, const struct stat *copy,
                                     struct rt_error *err)
{
    if (e->fts_statp->st_dev == copy->st_dev && e->fts_statp->st_ino == copy->st_ino)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the directory of a snapshot lies in that of the version itself");
    return mkdir(to, 0777) ? rt_fail_errno(err, to, errno) : RT_OK;
}

/* Copies one entry. `n` is the length of the name of the version's directory, and `copy` are the
 * attributes of the directory `to`. */
static enum rt_status copy_entry(FTS *tree, FTSENT *e, size_t n, const char *to,
                                 const struct stat *copy, const struct rt_check *check,
                                 struct rt_error *err)
{
    char path[RT_FILE_NAME_BYTES];

    if (e->fts_info == FTS_DP || e->fts_level == 0)
        return e->fts_info == FTS_DNR || e->fts_info == FTS_NS
                   ? rt_fail_errno(err, e->fts_path, e->fts_errno)
                   : RT_OK;
    if (is_left_out(e->fts_path + n + 1)) {
        fts_set(tree, e, FTS_SKIP);
        return RT_OK;
    }
    enum rt_status st = join(path, to, e->fts_path + n + 1, err);
    if (st)
        return st;
    if (e->fts_level > MAX_DEPTH)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: the version is deeper than %d directories",
                       e->fts_path, MAX_DEPTH);
    switch (e->fts_info) {
    case FTS_F:
        return copy_file(e->fts_path, path, check, err);
    case FTS_D:
        return copy_directory(e, path, copy, err);
    case FTS_SL:
    case FTS_SLNONE:
        /* What a link reaches would become a file that the new version's ops may read. */
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%s is a symbolic link, which is not copied to a snapshot", e->fts_path);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return rt_fail_errno(err, e->fts_path, e->fts_errno);
    default:
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s is not a regular file", e->fts_path);
    }
}

/* Copies the files of the version's directory `from` to `to`, except for the variables. */
static enum rt_status copy_tree(const char *from, const char *to, const struct rt_check *check,
                                struct rt_error *err)
{
    char dir[RT_FILE_NAME_BYTES];
    char *const roots[] = {dir, NULL};
    const size_t n = strlen(from);
    enum rt_status st = RT_OK;
    struct stat copy;

    if (n >= sizeof dir)
        return fail_length(err);
    if (stat(to, &copy))
        return rt_fail_errno(err, to, errno);
    memcpy(dir, from, n + 1);
    /* The version's directory itself may be a symbolic link. */
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (!tree)
        return rt_fail_memory(err, "a list of files", 0);
    FTSENT *e = NULL;
    for (int i = 0; !st && (errno = 0, e = fts_read(tree)); i++) {
        st = i < MAX_FILES
                 ? rt_check_call(check, err)
                 : rt_fail(err, RT_INVALID_ARGUMENT, "%s has more than %d files", from, MAX_FILES);
        if (!st)
            st = copy_entry(tree, e, n, to, &copy, check, err);
    }
    if (!st && errno)
        st = rt_fail_errno(err, from, errno);
    fts_close(tree);
    return st;
}

/* Removes a directory and everything below it. */
static void remove_tree(const char *path)
{
    char dir[RT_FILE_NAME_BYTES];
    char *const roots[] = {dir, NULL};

    snprintf(dir, sizeof dir, "%s", path);
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *e; tree && (e = fts_read(tree));)
        if (e->fts_info != FTS_D)
            unlinkat(AT_FDCWD, e->fts_path, e->fts_info == FTS_DP ? AT_REMOVEDIR : 0);
    if (tree)
        fts_close(tree);
}

/* Checks that the SavedModel in `dir` has the graph that is served. */
static enum rt_status check_graph(const struct rt_model *m, const char *dir,
                                  const struct rt_check *check, struct rt_error *err)
{
    const struct rt_meta_graph *served = m->meta_graph, *g;
    struct rt_saved_model *copy;
    enum rt_status st = rt_saved_model_read(&copy, dir, check, err);

    if (st)
        return st;
    st = rt_saved_model_choose(copy, served->tags, served->n_tags, &g, err);
    if (!st && !rt_span_eq(g->graph_def, served->graph_def))
        st = rt_fail(err, RT_FAILED_PRECONDITION, "the graph in %s has changed since it was loaded",
                     m->saved_model->dir);
    rt_saved_model_free(copy);
    return st;
}

/* ---- the new version ---- */

/* Returns whether a component of an absolute path is "..". The permission is that of the path after
 * ".." has dropped the component before it, but the system would follow that component first if it
 * is a symbolic link. */
static bool goes_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (at[3] == '/' || at[3] == '\0')
            return true;
    return false;
}

/* Returns whether a version's SavedModel is in a directory of its own, as in Triton's
 * repositories. */
static bool has_own_dir(const char *dir)
{
    static const char name[] = "/model.savedmodel";
    const size_t n = strlen(dir);

    return n >= sizeof name - 1 && strcmp(dir + n - (sizeof name - 1), name) == 0;
}

/* Writes the files of the new version below `temp`, which exists. */
static enum rt_status write_version(const struct srv_version *from, const char *temp,
                                    const struct rt_check *check, const _Atomic bool *cancelled,
                                    struct rt_error *err)
{
    struct rt_model *m = from->loaded;
    const struct rt_meta_graph *g = m->meta_graph;
    const bool is_nested = has_own_dir(m->saved_model->dir);
    char dir[RT_FILE_NAME_BYTES];
    enum rt_status st = join(dir, temp, is_nested ? "model.savedmodel" : ".", err);

    if (!st && is_nested && mkdir(dir, 0777))
        st = rt_fail_errno(err, dir, errno);
    if (!st)
        st = copy_tree(m->saved_model->dir, dir, check, err);
    if (!st)
        st = check_graph(m, dir, check, err);
    if (!st)
        st = rt_model_save(m, dir, &(struct rt_run_options){.cancelled = cancelled}, err);
    return st ? st : rt_saved_model_is_complete(dir, g->tags, g->n_tags, check, NULL, err);
}

/* Writes what was written to the disk, so that a version is complete after a power failure too. */
static enum rt_status sync_files(const char *dir, struct rt_error *err)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int number = fd < 0 || syncfs(fd) ? errno : 0;

    if (fd >= 0)
        close(fd);
    return number ? rt_fail_errno(err, dir, number) : RT_OK;
}

/* Raises *highest to the highest number of a version in `dir`. */
static enum rt_status find_highest(const char *dir, int64_t *highest, struct rt_error *err)
{
    DIR *d = opendir(dir);
    int64_t version;

    if (!d)
        return rt_fail_errno(err, dir, errno);
    for (struct dirent *e; (e = readdir(d));)
        if (srv_source_is_version(e->d_name, &version) && version > *highest)
            *highest = version;
    closedir(d);
    return RT_OK;
}

/* Gives the complete version in `temp` its number and name in `dir`. */
static enum rt_status publish(const char *temp, const char *dir, int64_t from,
                              struct srv_snapshot *out, struct rt_error *err)
{
    char name[32];

    out->version = from;
    for (int i = 0; i < MAX_NAMES; i++) {
        enum rt_status st = find_highest(dir, &out->version, err);
        if (!st && out->version == INT64_MAX)
            st = rt_fail(err, RT_OUT_OF_RANGE, "%s has a version %lld, after which there is none",
                         dir, (long long)out->version);
        if (st)
            return st;
        snprintf(name, sizeof name, "%lld", (long long)++out->version);
        st = join(out->path, dir, name, err);
        if (st)
            return st;
        /* A directory with files is not replaced. */
        if (rename(temp, out->path) == 0)
            return sync_files(dir, err);
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return rt_fail_errno(err, out->path, errno);
    }
    return rt_fail(err, RT_ABORTED, "others make versions in %s at the same time", dir);
}

enum rt_status srv_snapshot_write(const struct srv_version *from, struct rt_span output,
                                  const struct rt_file_access *access, const struct rt_check *check,
                                  const _Atomic bool *cancelled, struct srv_snapshot *out,
                                  struct rt_error *err)
{
    static atomic_uint counter;
    char dir[RT_FILE_NAME_BYTES], temp[RT_FILE_NAME_BYTES], name[64];

    if (output.n == 0 || output.p[0] != '/' || memchr(output.p, 0, output.n))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the directory of a snapshot must be an absolute path on the server");
    if (output.n >= sizeof dir)
        return fail_length(err);
    memcpy(dir, output.p, output.n);
    dir[output.n] = '\0';
    if (goes_up(dir))
        return rt_fail(err, RT_PERMISSION_DENIED,
                       "%s: the directory of a snapshot must not contain \"..\"", dir);
    if (!rt_utf8_is_valid(dir)) /* the response has the path as a string of protobuf */
        return rt_fail(err, RT_INVALID_ARGUMENT, "the directory of a snapshot is not UTF-8");
    snprintf(name, sizeof name, ".snapshot-%ld-%u", (long)getpid(), atomic_fetch_add(&counter, 1));
    enum rt_status st = join(temp, dir, name, err);
    if (!st)
        st = rt_file_access_make_dir(access, output, err);
    if (st)
        return st;
    if (mkdir(temp, 0777))
        return rt_fail_errno(err, temp, errno);
    st = write_version(from, temp, check, cancelled, err);
    if (!st)
        st = sync_files(temp, err);
    if (!st)
        st = publish(temp, dir, from->version, out, err);
    if (st)
        remove_tree(temp);
    return st;
}
