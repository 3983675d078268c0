/*
 * Process 1 of the image, without a shell: the binary called as tf_serving_entrypoint.sh makes its
 * own command line from MODEL_NAME and MODEL_BASE_PATH, as the image that it replaces.
 */
#ifndef SRV_ENTRYPOINT_H
#define SRV_ENTRYPOINT_H

#include <stdbool.h>

#include "runtime/base/arena.h"

struct srv_entrypoint {
    bool as_tensorflow; /* false: no model was named, every directory of /models is one */
    int argc;
    const char *const *argv; /* for srv_options_parse; in the arena */
};

/*
 * argv[1..] is appended, so that later occurrences of a flag win. name, base: the variables, NULL
 * or empty when not set. is_dir tells whether the default model's directory is there. False: out of
 * memory.
 */
bool srv_entrypoint(struct srv_entrypoint *out, int argc, const char *const *argv, const char *name,
                    const char *base, bool (*is_dir)(const char *path), struct rt_arena *arena);

#endif
