/*
 * Process 1 of the image, without a shell: the binary called as tf_serving_entrypoint.sh makes its
 * own command line from MODEL_NAME and MODEL_BASE_PATH, as the image that it replaces; and the
 * image's health check.
 */
#ifndef SRV_ENTRYPOINT_H
#define SRV_ENTRYPOINT_H

#include <stdbool.h>
#include <stdint.h>

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

/* The ports that a command line (strings one behind the other, as in /proc/PID/cmdline) asks for,
 * with the image's defaults where it names none. */
struct srv_health_ports {
    int64_t rest, grpc; /* 0: not served */
};
struct srv_health_ports srv_health_ports(const char *cmdline, size_t n);

struct rt_registry;
/* slipway health [--rest_api_port=N] [--port=N]: exit status 0 when this machine's server is ready.
 */
int srv_command_health(int argc, const char *const *argv, const struct rt_registry *registry);

#endif
