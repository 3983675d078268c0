/*
 * --model_root is the directory that must contain every path in a reload request: base paths and
 * the prefixes of request logs. The rule does not apply to the operator's own files and flags,
 * because a user who may write these files and flags already has more rights.
 *
 * Symlinks are resolved before the comparison, so that they cannot lead out of the root. If a path
 * does not exist, its existing part is compared. A user who may write below the root can later put
 * a symlink there.
 *
 * Threads: the functions read only their arguments and the file system, so any thread may call
 * them.
 */
#ifndef SRV_MODEL_ROOT_H
#define SRV_MODEL_ROOT_H

#include "server/config/config.h"

/* Checks that all paths in `config` are below `root`. An empty `root` allows every path. If the
 * check fails with PERMISSION_DENIED, the error message names the model and the path. */
enum rt_status srv_model_root_check(const char *root, const struct srv_config *config,
                                    struct rt_error *err);
/* Checks the request logs in `config` if `root` is empty. A reload may name only request logs that
 * `old` or the operator's `file` already names. Otherwise a client that may reload could make the
 * server write files anywhere. `file` may be NULL. */
enum rt_status srv_model_root_check_logs(const char *root, const struct srv_config *old,
                                         const struct srv_config *file,
                                         const struct srv_config *config, struct rt_error *err);
/* Fails if the root is set but is not a directory. Must be called at startup. */
enum rt_status srv_model_root_exists(const char *root, struct rt_error *err);

#endif
