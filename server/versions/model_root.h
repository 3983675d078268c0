/*
 * --model_root is the directory below which every path that a reload request names must lie: base
 * paths, and the prefixes of request logs. The rule does not apply to the operator's own files and
 * flags, because a user who may write those has more rights anyway.
 *
 * Symlinks are resolved before the comparison, so that none leads out. For a path that does not
 * exist yet the existing part is compared; a user who may write below the root can later put a
 * symlink there.
 * Threads: no state; the functions read the file system.
 */
#ifndef SRV_MODEL_ROOT_H
#define SRV_MODEL_ROOT_H

#include "server/config/config.h"

/* PERMISSION_DENIED: the text names the model and the path. An empty `root` allows everything. */
enum rt_status srv_model_root_check(const char *root, const struct srv_config *config,
                                    struct rt_error *err);
/* Without a root, a reload may name only request logs that `old` or the operator's `file` (NULL:
 * none) already has: otherwise anyone who may reload could have files written anywhere. */
enum rt_status srv_model_root_check_logs(const char *root, const struct srv_config *old,
                                         const struct srv_config *file,
                                         const struct srv_config *config, struct rt_error *err);
/* Call at start: fails when the root is set and is not a directory. */
enum rt_status srv_model_root_exists(const char *root, struct rt_error *err);

#endif
