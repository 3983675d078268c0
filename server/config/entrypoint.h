/*
 * Builds the command line of the server in the container, where the server is process 1. The image
 * has no shell. Therefore the binary itself, if invoked as tf_serving_entrypoint.sh, derives the
 * arguments from MODEL_NAME and MODEL_BASE_PATH, as the script in TensorFlow Serving's image does.
 */
#ifndef SRV_ENTRYPOINT_H
#define SRV_ENTRYPOINT_H

#include <stdbool.h>

#include "runtime/base/arena.h"

struct srv_entrypoint {
    /* Whether the environment or the arguments name a model, or the default model exists. Otherwise
     * every sub-directory of /models is a model. */
    bool as_tensorflow;
    int argc;
    const char *const *argv; /* arguments for srv_options_parse; argv is allocated in the arena */
};

/*
 * Builds the command line. It ends with argv[1..], so that these flags take precedence. `name` and
 * `base` are the values of MODEL_NAME and MODEL_BASE_PATH, or NULL. `is_dir` returns whether a
 * directory exists, and is used to find the default model. Returns false if memory runs out.
 */
bool srv_entrypoint(struct srv_entrypoint *out, int argc, const char *const *argv, const char *name,
                    const char *base, bool (*is_dir)(const char *path), struct rt_arena *arena);

#endif
