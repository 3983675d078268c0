/*
 * The commands besides the server itself: inspect, run and check-config, which need none, and
 * health, which asks this machine's. Each reads its own arguments (argv[0] is the command's name),
 * prints, and returns the process's exit status.
 */
#ifndef SRV_COMMAND_H
#define SRV_COMMAND_H

#include <stdio.h>

#include "runtime/core/op.h"
#include "runtime/files/saved_model.h"

int srv_command_inspect(int argc, const char *const *argv, const struct rt_registry *registry);
int srv_command_run(int argc, const char *const *argv, const struct rt_registry *registry);
int srv_command_check_config(int argc, const char *const *argv, const struct rt_registry *registry);
/* Exit status 0 when this machine's server is ready. */
int srv_command_health(int argc, const char *const *argv, const struct rt_registry *registry);

/* ---- health's, for its test ---- */

/* The ports that a command line (strings one behind the other, as in /proc/PID/cmdline) asks for,
 * with the image's defaults where it names none. */
struct srv_health_ports {
    int64_t rest, grpc; /* 0: not served */
    bool tls;           /* REST is */
};
struct srv_health_ports srv_health_ports(const char *cmdline, size_t n);

/* ---- what they share ---- */

enum { SRV_EXIT_OK = 0, SRV_EXIT_FAILED = 1, SRV_EXIT_USAGE = 2 };

struct srv_args {
    int argc, i; /* i: of the argument looked at */
    const char *const *argv;
    const char *missing; /* the flag that lacks its value */
};
/* The argument is `name`. */
bool srv_args_is(const struct srv_args *a, const char *name);
/* The value of `name` when the argument is "name=value" or "name" "value" (then i moves on). */
const char *srv_args_value(struct srv_args *a, const char *name);

/* The version directory meant by `dir`: itself when it holds a saved_model.pb, else its highest
 * numeric sub-directory. INVALID_ARGUMENT: its saved_model.pb is empty. */
enum rt_status srv_find_version(const char *dir, struct rt_arena *arena, const char **out,
                                struct rt_error *err);
/* Prints "slipway COMMAND: CODE: text" to standard error. */
int srv_command_failed(const char *command, const struct rt_error *err);

#endif
