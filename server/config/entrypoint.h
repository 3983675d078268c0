/*
 * Builds the command line for process 1 of the container image, because the image has no shell.
 * When called as tf_serving_entrypoint.sh, the binary derives its arguments from MODEL_NAME and
 * MODEL_BASE_PATH, as TensorFlow Serving's image does.
 */
#ifndef SRV_ENTRYPOINT_H
#define SRV_ENTRYPOINT_H

#include <stdbool.h>

#include "runtime/base/arena.h"

struct srv_entrypoint {
    /* false if no model was named; every sub-directory of /models is then a model */
    bool as_tensorflow;
    int argc;
    const char *const *argv; /* arguments for srv_options_parse; argv is allocated in the arena */
};

/*
 * Builds the command line. argv[1..] is appended to it, so that its flags take precedence. `name`
 * and `base` are the values of MODEL_NAME and MODEL_BASE_PATH, or NULL if they are not set.
 * `is_dir` returns whether a directory exists; it is called for the default model. Returns false if
 * memory runs out.
 */
bool srv_entrypoint(struct srv_entrypoint *out, int argc, const char *const *argv, const char *name,
                    const char *base, bool (*is_dir)(const char *path), struct rt_arena *arena);

#endif
