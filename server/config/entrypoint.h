/*
 * Command line for process 1 of the image, which has no shell: the binary called as
 * tf_serving_entrypoint.sh makes its arguments from MODEL_NAME and MODEL_BASE_PATH, as TensorFlow
 * Serving's image does.
 */
#ifndef SRV_ENTRYPOINT_H
#define SRV_ENTRYPOINT_H

#include <stdbool.h>

#include "runtime/base/arena.h"

struct srv_entrypoint {
    bool as_tensorflow; /* false: no model was named, and every directory of /models is a model */
    int argc;
    const char *const *argv; /* arguments for srv_options_parse, allocated in the arena */
};

/*
 * Makes the command line. argv[1..] is appended, so that later occurrences of a flag win. `name`
 * and `base` are the variables, NULL or empty when not set. `is_dir` returns whether a directory
 * exists, here the default model's. False: out of memory.
 */
bool srv_entrypoint(struct srv_entrypoint *out, int argc, const char *const *argv, const char *name,
                    const char *base, bool (*is_dir)(const char *path), struct rt_arena *arena);

#endif
