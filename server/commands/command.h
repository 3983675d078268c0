/*
 * The commands besides the server itself: inspect, run and check-config, which need no server, and
 * health, which queries the server on this machine. Each command reads its own arguments (argv[0]
 * is the command's name), prints, and returns the process's exit status.
 */
#ifndef SRV_COMMAND_H
#define SRV_COMMAND_H

#include <stdio.h>

#include "runtime/core/registry.h"
#include "runtime/files/saved_model.h"

int srv_command_inspect(int argc, const char *const *argv, const struct rt_registry *registry);
int srv_command_run(int argc, const char *const *argv, const struct rt_registry *registry);
int srv_command_check_config(int argc, const char *const *argv, const struct rt_registry *registry);
/* Returns 0 when the server on this machine is ready. */
int srv_command_health(int argc, const char *const *argv, const struct rt_registry *registry);

/* ---- for the test of health ---- */

/* The ports in a command line (strings separated by NUL, as in /proc/PID/cmdline), with the image's
 * defaults for those that it does not name. */
struct srv_health_ports {
    int64_t rest, grpc; /* 0: not served */
    bool tls, grpc_tls; /* whether REST and gRPC use TLS */
};
struct srv_health_ports srv_health_ports(const char *cmdline, size_t n);

/* ---- shared by the commands ---- */

enum { SRV_EXIT_OK = 0, SRV_EXIT_FAILED = 1, SRV_EXIT_USAGE = 2 };

struct srv_args {
    int argc, i; /* i: index of the current argument */
    const char *const *argv;
    const char *missing; /* a flag that lacks its value */
};
/* Returns whether the current argument is `name`. */
bool srv_args_is(const struct srv_args *a, const char *name);
/* Returns the value of `name` when the argument is "name=value", or "name" followed by "value"
 * (then i advances). NULL: another argument, or the value is missing. */
const char *srv_args_value(struct srv_args *a, const char *name);

/* Finds the version directory for `dir`: `dir` itself when it holds a SavedModel file, else its
 * highest numeric sub-directory. INVALID_ARGUMENT: the saved_model.pb is empty. */
enum rt_status srv_find_version(const char *dir, struct rt_arena *arena, const char **out,
                                struct rt_error *err);
/* Prints "slipway COMMAND: CODE: text" to standard error. Returns SRV_EXIT_FAILED. */
int srv_command_failed(const char *command, const struct rt_error *err);

#endif
