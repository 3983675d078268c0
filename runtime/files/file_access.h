/*
 * The files that a model's ops may read and write under names that the model or its requests
 * choose. An op may read files below the model's own directory and below the directories of a list,
 * and write files below the directories of another list. By default both lists are empty.
 *
 * A file is below a directory if its name begins with the directory's name, component by component,
 * after ".." has dropped the component before it. A symbolic link below a permitted directory is
 * not followed, so that nothing outside can be reached through it; the permitted directory itself
 * may be a link. A file must be regular. Whether a file outside exists is not told.
 *
 * Checkpoints (checkpoint.h), assets and vocabularies have their own rules.
 *
 * Threads: any. Nothing is kept open between two calls, except for the descriptors that are
 * returned.
 */
#ifndef RT_FILE_ACCESS_H
#define RT_FILE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "runtime/base/check.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

/* The strings must outlive every use. Relative names are relative to the working directory. */
struct rt_file_access {
    const char *own_dir;    /* directory whose files may be read, or NULL */
    const char *read_dirs;  /* comma-separated directories whose files may be read, or NULL */
    const char *write_dirs; /* comma-separated directories whose files may be written, or NULL */
};

/* Returns the files that the ops of a run's session may read and write
 * (rt_session_options.files). */
struct rt_run;
const struct rt_file_access *rt_run_file_access(struct rt_run *r);

enum { RT_FILE_NAME_BYTES = 4096 }; /* size of a file's name with its NUL */

/* Checks that a list of directories, as in struct rt_file_access, contains only absolute names
 * without ".." and no empty names. `flag` is the name of the flag that set the list. */
enum rt_status rt_file_access_check_list(const char *flag, const char *list, struct rt_error *err);

/*
 * Opens a regular file for reading without ever blocking, and sets *fd, which the caller must
 * close. If `info` is not NULL, sets *info to the result of fstat. Sets *fd to -1 on failure.
 * Returns RT_PERMISSION_DENIED if the name is not permitted, RT_FAILED_PRECONDITION if the file is
 * not regular, RT_UNIMPLEMENTED for names such as "gs://x", and otherwise the errors of the system,
 * with TensorFlow's codes and messages. A name may begin with "file://".
 */
enum rt_status rt_file_access_open(const struct rt_file_access *a, struct rt_span name, int *fd,
                                   struct stat *info, struct rt_error *err);

/*
 * Writes a file, which replaces a file of this name. Creates missing directories, 32 at most.
 * The file gets its name when it is complete. If the call fails, no part of the file stays. Fails
 * also if the file system would become too full (rt_file_check_space), or if `check` fails. `check`
 * may be NULL.
 */
enum rt_status rt_file_access_write(const struct rt_file_access *a, struct rt_span name,
                                    struct rt_span contents, const struct rt_check *check,
                                    struct rt_error *err);

/*
 * Creates a file in a directory and opens it for appending. Sets *fd, which the caller must close.
 * Sets *fd to -1 on failure. Creates missing directories, 32 at most. Refuses what
 * rt_file_access_write refuses, and a name that exists: with RT_ALREADY_EXISTS. Messages name the
 * directory.
 */
enum rt_status rt_file_access_create(const struct rt_file_access *a, struct rt_span directory,
                                     const char *file, int *fd, struct rt_error *err);

/* Creates a directory and missing parents, 32 at most. Refuses what rt_file_access_write refuses. A
 * directory that exists is left as it is. */
enum rt_status rt_file_access_make_dir(const struct rt_file_access *a, struct rt_span directory,
                                       struct rt_error *err);

/*
 * Calls found(arg, name) for each file and directory whose name matches a pattern, in any order,
 * and stops when a call fails. As in TensorFlow, '*', '?' and '[...]' match within a component,
 * also names that begin with '.', and '\' quotes a character. Names begin as the pattern does, and
 * with
 * "./" if the pattern has a wildcard in its first component. Symbolic links match, but directories
 * that are links are not searched. Calls `check` for each entry of a directory.
 */
struct rt_file_finder {
    enum rt_status (*found)(void *arg, struct rt_span name, struct rt_error *err);
    void *arg;
};
enum rt_status rt_file_access_match(const struct rt_file_access *a, struct rt_span pattern,
                                    const struct rt_file_finder *finder,
                                    const struct rt_check *check, struct rt_error *err);

#endif
