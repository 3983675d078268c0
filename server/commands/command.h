/*
 * The program's commands other than `serve`. The commands `inspect`, `run` and `check-config` work
 * without a server, and `health` queries the server on this machine. Each command reads its own
 * arguments (argv[0] is the command's name), prints, and returns the process's exit status.
 */
#ifndef SRV_COMMAND_H
#define SRV_COMMAND_H

#include <stdatomic.h>
#include <stdio.h>

#include "runtime/core/registry.h"
#include "runtime/files/saved_model.h"

int srv_command_inspect(int argc, const char *const *argv, const struct rt_registry *registry);
int srv_command_run(int argc, const char *const *argv, const struct rt_registry *registry);
int srv_command_check_config(int argc, const char *const *argv, const struct rt_registry *registry);
/* Runs `slipway health`. Returns 0 if the server on this machine is ready. */
int srv_command_health(int argc, const char *const *argv, const struct rt_registry *registry);

/* ---- for the test of health ---- */

/* The ports on which a server listens, according to its command line. The command line consists of
 * NUL-separated strings, as in /proc/PID/cmdline. The default ports are those of the container
 * image. */
struct srv_health_ports {
    int64_t rest, grpc; /* port numbers; 0 means that the port is not open */
    bool tls, grpc_tls; /* whether the REST port and the gRPC port use TLS */
};
struct srv_health_ports srv_health_ports(const char *cmdline, size_t n);

/* ---- shared by the commands ---- */

enum { SRV_EXIT_OK = 0, SRV_EXIT_FAILED = 1, SRV_EXIT_USAGE = 2 };

struct srv_args {
    int argc, i; /* argc is the number of arguments, and i is the index of the current one */
    const char *const *argv;
    const char *missing; /* name of a flag that was given without a value, or NULL */
};
bool srv_args_is(const struct srv_args *a, const char *name);
/* Returns the value if the current argument is "name=value". If it is "name" and another argument
 * follows, advances i and returns that argument. Otherwise returns NULL. */
const char *srv_args_value(struct srv_args *a, const char *name);

/* Finds the directory of a model's SavedModel. This is `dir` or `dir`/model.savedmodel if the
 * directory contains a SavedModel, and otherwise the directory of the version with the highest
 * number in `dir` (srv_source_model_dir). Fails with INVALID_ARGUMENT if saved_model.pb is
 * empty. */
enum rt_status srv_find_version(const char *dir, struct rt_arena *arena, const char **out,
                                struct rt_error *err);
/* Parses the value of --timeout, a number of seconds from 0 to 86400, into milliseconds. */
bool srv_parse_timeout(const char *text, int64_t *out_ms);
/* Starts a timer for the time limit of this process. The timer sends SIGALRM. Returns a flag that
 * becomes true after `ms` milliseconds, or never if `ms` is 0. The flag is for the functions that
 * load or run a model. May be called at most once. */
const _Atomic bool *srv_limit_time(int64_t ms);
/* Prints "slipway COMMAND: CODE: text" to standard error and returns SRV_EXIT_FAILED. */
int srv_command_failed(const char *command, const struct rt_error *err);

#endif
