#include "runtime/files/file_access.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/file.h"

enum {
    PIECE = 1 << 20,  /* number of bytes written between two checks */
    MAX_LEVELS = 32,  /* components of a pattern from its first wildcard on */
    MAX_NEW_DIRS = 32 /* directories that one write may make */
};

/* A name of a file, taken apart. */
struct place {
    const char *name;              /* the name as the op gave it, for messages */
    char path[RT_FILE_NAME_BYTES]; /* absolute, without empty components, "." and ".." */
    size_t n_dir;                  /* length of the permitted directory at the start of `path` */
    const char *dir; /* the permitted directory as it is opened, or NULL: the start of `path` */
    size_t skip;     /* length of "file://HOST" at the start of `name` */
};

/* Appends the components of `name` to `path`, which has n bytes. Like TensorFlow, lets ".." drop
 * the component before it, whatever that is in the file system. Returns the new length, or SIZE_MAX
 * if the result would be too long. */
static size_t add_components(char path[RT_FILE_NAME_BYTES], size_t n, const char *name, size_t size)
{
    for (size_t i = 0, k; i < size; i += k + 1) {
        const char *slash = memchr(name + i, '/', size - i);
        k = slash ? (size_t)(slash - name) - i : size - i;
        if (k == 0 || (k == 1 && name[i] == '.'))
            continue;
        if (k == 2 && name[i] == '.' && name[i + 1] == '.') {
            while (n && path[--n] != '/')
                ;
            continue;
        }
        if (n + 1 + k >= RT_FILE_NAME_BYTES)
            return SIZE_MAX;
        path[n++] = '/';
        memcpy(path + n, name + i, k);
        n += k;
    }
    path[n] = '\0';
    return n;
}

/* Makes the name of a file absolute and drops empty components and ".". Sets *length to the length
 * of the result. Returns 0 or an errno number. */
static int make_absolute(char path[RT_FILE_NAME_BYTES], const char *name, size_t size,
                         size_t *length)
{
    char cwd[RT_FILE_NAME_BYTES];
    size_t n = 0;

    path[0] = '\0';
    if (size == 0 || name[0] != '/') {
        if (!getcwd(cwd, sizeof cwd))
            return errno;
        n = add_components(path, 0, cwd, strlen(cwd));
    }
    n = n == SIZE_MAX ? n : add_components(path, n, name, size);
    *length = n;
    return n == SIZE_MAX ? ENAMETOOLONG : 0;
}

/* If the path is below the directory, raises p->n_dir to the length of the directory's name, and
 * returns true. */
static bool is_below(struct place *p, const char *dir, size_t size)
{
    char base[RT_FILE_NAME_BYTES];
    size_t n;

    if (size == 0 || make_absolute(base, dir, size, &n) || strncmp(p->path, base, n) != 0 ||
        (p->path[n] != '/' && p->path[n] != '\0'))
        return false;
    p->n_dir = n > p->n_dir ? n : p->n_dir;
    return true;
}

static bool is_below_any(struct place *p, const char *list)
{
    bool is = false;

    for (size_t n; list && *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        is |= is_below(p, list, n);
    }
    return is;
}

/* Returns whether the path is below the model's own directory. */
static bool is_own(struct place *p, const struct rt_file_access *a)
{
    const size_t n = p->n_dir;

    if (!a->own_dir || !is_below(p, a->own_dir, strlen(a->own_dir)))
        return false;
    /* The name of this directory may contain links and "..", so it is opened as it is. */
    if (p->n_dir > n || !n)
        p->dir = a->own_dir;
    return true;
}

/* Returns the length of "file://HOST" at the start of a name, or 0 if the name has no scheme.
 * Refuses other schemes. */
static enum rt_status skip_scheme(const char *name, size_t *skip, struct rt_error *err)
{
    size_t n = 0;

    *skip = 0;
    if (isalpha((unsigned char)name[0]))
        while (isalnum((unsigned char)name[n]) || name[n] == '.')
            n++;
    if (n == 0 || strncmp(name + n, "://", 3) != 0)
        return RT_OK;
    if (strncmp(name, "file://", 7) != 0)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "File system scheme '%.*s' not implemented (file: '%s')", (int)n, name,
                       name);
    *skip = 7 + strcspn(name + 7, "/");
    return RT_OK;
}

/*
 * Takes the name of a file apart and checks that the file is below a permitted directory. `copy`
 * receives the name as a C string.
 */
static enum rt_status find_place(const struct rt_file_access *a, bool writes, struct rt_span name,
                                 char copy[RT_FILE_NAME_BYTES], struct place *p,
                                 struct rt_error *err)
{
    size_t n;

    if (name.n && memchr(name.p, 0, name.n))
        return rt_fail(err, RT_INVALID_ARGUMENT, "a file's name contains a NUL");
    if (name.n >= RT_FILE_NAME_BYTES)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%.200s...; File name too long",
                       (const char *)name.p);
    if (name.n)
        memcpy(copy, name.p, name.n);
    copy[name.n] = '\0';
    *p = (struct place){.name = copy};
    const enum rt_status st = skip_scheme(copy, &p->skip, err);
    if (st)
        return st;
    if (name.n == p->skip)
        return rt_fail_errno_as_tensorflow(err, copy, ENOENT);
    const int number = make_absolute(p->path, copy + p->skip, name.n - p->skip, &n);
    if (number)
        return rt_fail_errno_as_tensorflow(err, copy, number);
    if (writes && !is_below_any(p, a->write_dirs))
        return rt_fail(err, RT_PERMISSION_DENIED,
                       "%s: a model may write files only below the directories of "
                       "--model_write_directories",
                       copy);
    /* All directories are compared, because links are followed only above the innermost one. */
    bool may_read = !writes && is_below_any(p, a->read_dirs);
    may_read |= !writes && is_own(p, a);
    if (!writes && !may_read)
        return rt_fail(err, RT_PERMISSION_DENIED,
                       "%s: a model may read files only in its own directory and below the "
                       "directories of --model_read_directories",
                       copy);
    return RT_OK;
}

static enum rt_status fail_link(struct rt_error *err, const char *name)
{
    return rt_fail(err, RT_PERMISSION_DENIED,
                   "%s: symbolic links below a permitted directory are not followed", name);
}

/* Opens a directory in directory `at`. Makes it first if it is missing and *may_make, which counts
 * down, is positive. */
static enum rt_status enter(int at, const char *part, int *may_make, const char *name, int *fd,
                            struct rt_error *err)
{
    enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    struct stat s;

    *fd = openat(at, part, FLAGS);
    if (*fd < 0 && errno == ENOENT && *may_make > 0) {
        if (--*may_make == 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s: more than %d directories are missing",
                           name, MAX_NEW_DIRS);
        if (mkdirat(at, part, 0777) && errno != EEXIST)
            return rt_fail_errno_as_tensorflow(err, name, errno);
        *fd = openat(at, part, FLAGS);
    }
    const int number = errno;
    if (*fd >= 0)
        return RT_OK;
    if ((number == ENOTDIR || number == ELOOP) && !fstatat(at, part, &s, AT_SYMLINK_NOFOLLOW) &&
        S_ISLNK(s.st_mode))
        return fail_link(err, name);
    return rt_fail_errno_as_tensorflow(err, name, number);
}

/*
 * Opens the directory that contains a file, component by component, so that no link is followed.
 * *fd is the directory, and *last the file's name in it, which is part of p->path. *last is "" if
 * the name is that of the permitted directory itself.
 */
static enum rt_status open_parent(struct place *p, bool makes, int *fd, const char **last,
                                  struct rt_error *err)
{
    const char saved = p->path[p->n_dir];
    int may_make = makes ? MAX_NEW_DIRS + 1 : 0;
    enum rt_status st = RT_OK;

    p->path[p->n_dir] = '\0';
    int at = open(p->dir ? p->dir : p->n_dir ? p->path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    p->path[p->n_dir] = saved;
    *fd = -1;
    if (at < 0)
        return rt_fail_errno_as_tensorflow(err, p->name, errno);
    char *part = p->path + p->n_dir + (saved == '/');
    for (char *slash; !st && (slash = strchr(part, '/')); part = slash + 1) {
        int next;
        *slash = '\0';
        st = enter(at, part, &may_make, p->name, &next, err);
        *slash = '/';
        close(at);
        at = next;
    }
    if (st)
        return st;
    *fd = at;
    *last = part;
    return RT_OK;
}

/* TensorFlow's message lacks the scheme and the slash at the end. */
static enum rt_status fail_directory(struct rt_error *err, const struct place *p)
{
    char name[RT_FILE_NAME_BYTES];
    size_t n = strlen(p->name + p->skip);

    memcpy(name, p->name + p->skip, n + 1);
    while (n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    return rt_fail_errno_as_tensorflow(err, name, EISDIR);
}

/* Checks the file at which a name ends. */
static enum rt_status check_kind(const struct place *p, const struct stat *s, struct rt_error *err)
{
    if (S_ISLNK(s->st_mode))
        return fail_link(err, p->name);
    if (S_ISDIR(s->st_mode))
        return fail_directory(err, p);
    return rt_check_regular(p->name, s, err);
}

/* Opening a device may have side effects and a FIFO may block, so the kind of file is checked
 * before the file is opened, and again afterwards because the name may mean another file by then.
 */
static enum rt_status open_last(const struct place *p, int parent, const char *last, int *fd,
                                struct stat *s, struct rt_error *err)
{
    if (fstatat(parent, last, s, AT_SYMLINK_NOFOLLOW))
        return rt_fail_errno_as_tensorflow(err, p->name, errno);
    enum rt_status st = check_kind(p, s, err);
    if (st)
        return st;
    const int opened =
        openat(parent, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (opened < 0)
        return errno == ELOOP ? fail_link(err, p->name)
                              : rt_fail_errno_as_tensorflow(err, p->name, errno);
    st =
        fstat(opened, s) ? rt_fail_errno_as_tensorflow(err, p->name, errno) : check_kind(p, s, err);
    if (st)
        close(opened);
    else
        *fd = opened;
    return st;
}

enum rt_status rt_file_access_open(const struct rt_file_access *a, struct rt_span name, int *fd,
                                   struct stat *info, struct rt_error *err)
{
    char copy[RT_FILE_NAME_BYTES];
    struct stat own;
    struct place p;
    const char *last;
    int parent = -1;

    *fd = -1;
    enum rt_status st = find_place(a, false, name, copy, &p, err);
    if (!st)
        st = open_parent(&p, false, &parent, &last, err);
    if (!st)
        st = *last ? open_last(&p, parent, last, fd, info ? info : &own, err)
                   : fail_directory(err, &p);
    if (parent >= 0)
        close(parent);
    return st;
}

/* ---- writing ---- */

static enum rt_status write_all(int fd, const char *name, struct rt_span contents,
                                const struct rt_check *check, struct rt_error *err)
{
    for (size_t done = 0; done < contents.n;) {
        const size_t left = contents.n - done;
        const enum rt_status st = rt_check_call(check, err);
        if (st)
            return st;
        const ssize_t k = write(fd, contents.p + done, left < PIECE ? left : PIECE);
        if (k >= 0)
            done += (size_t)k;
        else if (errno != EINTR)
            return rt_fail_errno_as_tensorflow(err, name, errno);
    }
    return RT_OK;
}

/* Writes a temporary file in the directory, and renames it. The temporary name does not contain the
 * file's name, which may be as long as the system permits. */
static enum rt_status write_in(const struct place *p, int parent, const char *last,
                               struct rt_span contents, const struct rt_check *check,
                               struct rt_error *err)
{
    static atomic_uint counter;
    char temp[64];
    struct stat s;
    enum rt_status st = RT_OK;

    if (fstatat(parent, last, &s, AT_SYMLINK_NOFOLLOW) == 0)
        st = S_ISDIR(s.st_mode) ? rt_fail_errno_as_tensorflow(err, p->name, EISDIR)
                                : check_kind(p, &s, err);
    else if (errno != ENOENT)
        st = rt_fail_errno_as_tensorflow(err, p->name, errno);
    if (st)
        return st;
    snprintf(temp, sizeof temp, ".tempstate%ld.%u", (long)getpid(), atomic_fetch_add(&counter, 1));
    const int fd = openat(parent, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return rt_fail_errno_as_tensorflow(err, p->name, errno);
    st = write_all(fd, p->name, contents, check, err);
    if (close(fd) && !st)
        st = rt_fail_errno_as_tensorflow(err, p->name, errno);
    if (!st && renameat(parent, temp, parent, last))
        st = rt_fail_errno_as_tensorflow(err, p->name, errno);
    if (st)
        unlinkat(parent, temp, 0);
    return st;
}

enum rt_status rt_file_access_write(const struct rt_file_access *a, struct rt_span name,
                                    struct rt_span contents, const struct rt_check *check,
                                    struct rt_error *err)
{
    char copy[RT_FILE_NAME_BYTES];
    struct place p;
    const char *last;
    int parent = -1;
    enum rt_status st = find_place(a, true, name, copy, &p, err);

    if (!st && name.p[name.n - 1] == '/')
        st = rt_fail_errno_as_tensorflow(err, p.name, EISDIR);
    if (!st && p.path[0] && strlen(strrchr(p.path, '/')) > NAME_MAX + 1)
        /* Checked before directories are made. */
        st = rt_fail_errno_as_tensorflow(err, p.name, ENAMETOOLONG);
    if (!st)
        st = rt_file_check_space(p.path, contents.n, err);
    if (!st)
        st = open_parent(&p, true, &parent, &last, err);
    if (!st)
        st = *last ? write_in(&p, parent, last, contents, check, err)
                   : rt_fail_errno_as_tensorflow(err, p.name, EISDIR);
    if (parent >= 0)
        close(parent);
    return st;
}

/* Appends the name of a file to that of its directory. */
static enum rt_status add_file(struct place *p, const char *file, struct rt_error *err)
{
    const size_t n = strlen(p->path), size = strlen(file);

    if (strchr(file, '/')) /* as in TensorFlow, where a part of the name is no directory */
        return rt_fail_errno_as_tensorflow(err, p->name, ENOENT);
    if (size > NAME_MAX || n + 1 + size >= sizeof p->path)
        return rt_fail_errno_as_tensorflow(err, p->name, ENAMETOOLONG);
    p->path[n] = '/';
    memcpy(p->path + n + 1, file, size + 1);
    return RT_OK;
}

enum rt_status rt_file_access_create(const struct rt_file_access *a, struct rt_span directory,
                                     const char *file, int *fd, struct rt_error *err)
{
    char copy[RT_FILE_NAME_BYTES];
    struct place p;
    const char *last;
    int parent = -1;
    enum rt_status st = find_place(a, true, directory, copy, &p, err);

    *fd = -1;
    if (!st)
        st = add_file(&p, file, err);
    if (!st)
        st = rt_file_check_space(p.path, 0, err);
    if (!st)
        st = open_parent(&p, true, &parent, &last, err);
    if (!st) {
        *fd = openat(parent, last, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     0666);
        if (*fd < 0)
            st = rt_fail_errno_as_tensorflow(err, p.name, errno);
    }
    if (parent >= 0)
        close(parent);
    return st;
}

enum rt_status rt_file_access_make_dir(const struct rt_file_access *a, struct rt_span directory,
                                       struct rt_error *err)
{
    char copy[RT_FILE_NAME_BYTES];
    struct place p;
    const char *last;
    int parent = -1;
    enum rt_status st = find_place(a, true, directory, copy, &p, err);

    if (!st)
        st = rt_file_check_space(p.path, 0, err);
    if (!st)
        st = add_file(&p, ".", err); /* opens the directory itself as the parent */
    if (!st)
        st = open_parent(&p, true, &parent, &last, err);
    if (parent >= 0)
        close(parent);
    return st;
}

/* ---- matching ---- */

struct match {
    const struct rt_file_finder *finder;
    const struct rt_check *check;
    struct rt_error *err;
    char name[RT_FILE_NAME_BYTES]; /* the name of the directory that is searched, as found */
    int n_levels;
    char level[MAX_LEVELS][NAME_MAX + 1]; /* the pattern's components, from the first wildcard on */
};

static enum rt_status match_level(struct match *m, int at, int level, size_t n);

static enum rt_status match_entry(struct match *m, DIR *d, const char *entry, int level, size_t n)
{
    const size_t size = strlen(entry);
    enum rt_status st = RT_OK;

    if (strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0 || n + size + 1 >= sizeof m->name ||
        fnmatch(m->level[level], entry, 0) != 0)
        return RT_OK;
    memcpy(m->name + n, entry, size + 1);
    if (level + 1 == m->n_levels)
        return m->finder->found(m->finder->arg, rt_span_of(m->name, n + size), m->err);
    const int next =
        openat(dirfd(d), entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (next < 0) /* As in TensorFlow, directories that cannot be read are left out. */
        return RT_OK;
    memcpy(m->name + n + size, "/", 2);
    st = match_level(m, next, level + 1, n + size + 1);
    return st;
}

/* Searches directory `at`, which the call closes, and whose name has n bytes with its slash. */
static enum rt_status match_level(struct match *m, int at, int level, size_t n)
{
    DIR *d = fdopendir(at);
    enum rt_status st = RT_OK;

    if (!d) {
        close(at);
        return rt_fail_memory(m->err, "a directory", sizeof *m);
    }
    for (struct dirent *e; !st && (e = readdir(d));) {
        st = rt_check_call(m->check, m->err);
        if (!st)
            st = match_entry(m, d, e->d_name, level, n);
    }
    closedir(d);
    return st;
}

/* Splits the part of a pattern from its first component with a wildcard on. */
static enum rt_status split_levels(struct match *m, const char *pattern, size_t size,
                                   const char *whole, struct rt_error *err)
{
    for (size_t i = 0, k; i <= size; i += k + 1) {
        const char *slash = memchr(pattern + i, '/', size - i);
        k = slash ? (size_t)(slash - pattern) - i : size - i;
        if (m->n_levels && i == size) /* A slash at the end is ignored. */
            return RT_OK;
        if (k > NAME_MAX)
            return rt_fail_errno_as_tensorflow(err, whole, ENAMETOOLONG);
        if (m->n_levels == MAX_LEVELS)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s has more than %d components after its first wildcard", whole,
                           MAX_LEVELS);
        memcpy(m->level[m->n_levels], pattern + i, k);
        m->level[m->n_levels++][k] = '\0';
    }
    return RT_OK;
}

/* Opens the directory of a place itself for reading. */
static int open_dir(int parent, const char *last)
{
    return openat(parent, *last ? last : ".",
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Clears an error, except for a refusal, because a pattern may match nothing. */
static enum rt_status unless_missing(struct rt_error *err)
{
    if (err->code == RT_PERMISSION_DENIED)
        return err->code;
    *err = (struct rt_error){.arena = err->arena};
    return RT_OK;
}

/* Lists the files of a pattern whose first `fixed` bytes, which end in a slash if there are any,
 * have no wildcard. */
static enum rt_status match_pattern(const struct rt_file_access *a, struct match *m,
                                    const char *pattern, size_t size, size_t fixed)
{
    char copy[RT_FILE_NAME_BYTES];
    struct place p;
    const char *last;
    int parent = -1;
    const char *dir = fixed ? pattern : "./";
    const size_t n = fixed ? fixed : 2;
    enum rt_status st = skip_scheme(pattern, &p.skip, m->err);

    if (!st)
        st = split_levels(m, pattern + fixed, size - fixed, pattern, m->err);
    if (!st)
        st = find_place(a, false, rt_span_of(dir, n), copy, &p, m->err);
    /* Like TensorFlow, finds nothing if the name of the directory ends in two slashes. */
    if (st || (fixed > 1 && pattern[fixed - 2] == '/'))
        return st;
    if (open_parent(&p, false, &parent, &last, m->err))
        return unless_missing(m->err);
    const int at = open_dir(parent, last);
    close(parent);
    if (at < 0)
        return RT_OK;
    memcpy(m->name, dir, n);
    return match_level(m, at, 0, n);
}

enum rt_status rt_file_access_match(const struct rt_file_access *a, struct rt_span pattern,
                                    const struct rt_file_finder *finder,
                                    const struct rt_check *check, struct rt_error *err)
{
    struct match m = {.finder = finder, .check = check, .err = err};
    char copy[RT_FILE_NAME_BYTES], text[RT_FILE_NAME_BYTES];
    struct place p;
    struct stat s;
    const char *last;
    int parent = -1;

    if (pattern.n == 0)
        return RT_OK;
    if (memchr(pattern.p, 0, pattern.n) || pattern.n >= sizeof text)
        return find_place(a, false, pattern, copy, &p, err);
    memcpy(text, pattern.p, pattern.n);
    text[pattern.n] = '\0';
    size_t fixed = strcspn(text, "*?[\\");
    if (fixed < pattern.n) {
        while (fixed && text[fixed - 1] != '/')
            fixed--;
        return match_pattern(a, &m, text, pattern.n, fixed);
    }
    enum rt_status st = find_place(a, false, pattern, copy, &p, err);
    if (st)
        return st;
    /* A name without wildcards is found if there is a file or directory of this name. */
    if (open_parent(&p, false, &parent, &last, err))
        return unless_missing(err);
    const bool is_there = !*last || fstatat(parent, last, &s, AT_SYMLINK_NOFOLLOW) == 0;
    close(parent);
    return is_there ? finder->found(finder->arg, pattern, err) : RT_OK;
}

enum rt_status rt_file_access_check_list(const char *flag, const char *list, struct rt_error *err)
{
    char path[RT_FILE_NAME_BYTES];
    size_t length;

    if (!*list)
        return RT_OK;
    for (size_t n;; list += n + 1) {
        n = strcspn(list, ",");
        if (n == 0 || list[0] != '/')
            return rt_fail(err, RT_INVALID_ARGUMENT, "--%s: \"%.*s\" is not an absolute path", flag,
                           (int)(n < 200 ? n : 200), list);
        if (make_absolute(path, list, n, &length))
            return rt_fail(err, RT_INVALID_ARGUMENT, "--%s: a name of %zu bytes", flag, n);
        for (size_t i = 0; i + 2 < n; i++)
            if (memcmp(list + i, "/..", 3) == 0 && (i + 3 == n || list[i + 3] == '/'))
                return rt_fail(err, RT_INVALID_ARGUMENT, "--%s: \"%.*s\" contains \"..\"", flag,
                               (int)(n < 200 ? n : 200), list);
        if (!list[n])
            return RT_OK;
    }
}
