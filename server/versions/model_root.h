/*
 * --model_root: the directory below which every path that a reload request names must lie: base
 * paths, and the prefixes of request logs. The files and flags that the operator gives are not held
 * to it: who writes those may do more than that anyhow.
 *
 * Symlinks are followed before the comparison, so that none leads out. What does not exist yet is
 * judged by the part that does; who may write below the root may later put a symlink there.
 * Threads: pure, but looks at the file system.
 */
#ifndef SRV_MODEL_ROOT_H
#define SRV_MODEL_ROOT_H

#include "server/config/config.h"

/* PERMISSION_DENIED names the model and the path. `root` "": everything is allowed. */
enum rt_status srv_model_root_check(const char *root, const struct srv_config *config,
                                    struct rt_error *err);
/* Without a root a reload may name the logs of requests that `old` or the operator's `file` (NULL:
 * nothing) has, and no other ones: whoever may reload could have files written anywhere. */
enum rt_status srv_model_root_check_logs(const char *root, const struct srv_config *old,
                                         const struct srv_config *file,
                                         const struct srv_config *config, struct rt_error *err);
/* At start: the root must be a directory. */
enum rt_status srv_model_root_exists(const char *root, struct rt_error *err);

#endif
