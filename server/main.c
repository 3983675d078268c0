/*
 * The main program. Only this file depends on the server, the kernels and the clients together. The
 * server does not depend on the kernels, because its functions take the op registry as a parameter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/cli/cli.h"
#include "kernels/kernels.h"
#include "runtime/base/heap.h"
#include "server/commands/command.h"
#include "server/config/entrypoint.h"
#include "server/config/otel_environment.h"
#include "server/server.h"

/* Exit status if the server does not start. Scripts for TensorFlow Serving expect this status, the
 * low 8 bits of -1. */
enum { EXIT_NOT_STARTED = 255 };

static int serve(bool as_tensorflow, int argc, const char *const *argv,
                 const struct rt_registry *registry)
{
    struct srv_options options;
    const enum srv_parse parsed = srv_options_parse(&options, as_tensorflow, argc, argv, stdout);
    /* Usage and help are flushed to standard output here, because the log may go to the same
     * file. */
    fflush(stdout);
    switch (parsed) {
    case SRV_PARSE_RUN:
        srv_otel_environment(&options, getenv);
        return srv_server_main(&options, registry);
    case SRV_PARSE_EXIT_0:
        return 0;
    case SRV_PARSE_EXIT_USAGE:
        break;
    }
    return EXIT_NOT_STARTED;
}

static int serve_own(int argc, const char *const *argv, const struct rt_registry *registry)
{
    return serve(false, argc, argv, registry);
}

static int serve_theirs(int argc, const char *const *argv, const struct rt_registry *registry)
{
    return serve(true, argc, argv, registry);
}

static bool is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Runs the server in the container, as process 1. */
static int serve_image(int argc, const char *const *argv, const struct rt_registry *registry)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_entrypoint e;
    int code = 1;
    if (arena && srv_entrypoint(&e, argc, argv, getenv("MODEL_NAME"), getenv("MODEL_BASE_PATH"),
                                is_dir, arena))
        code = serve(e.as_tensorflow, e.argc, e.argv, registry);
    rt_arena_free(arena);
    return code;
}

static const struct command {
    const char *name, *help;
    int (*run)(int argc, const char *const *argv, const struct rt_registry *registry);
    /* replaces `run` for a command that queries a server and needs no op registry */
    int (*run_query)(int argc, const char *const *argv);
} commands[] = {
    {"serve", "serve models over REST and gRPC", serve_own, NULL},
    {"tensorflow_model_server", "the same, with TensorFlow Serving's defaults and exit codes",
     serve_theirs, NULL},
    {"tf_serving_entrypoint.sh", "the same in a container: reads MODEL_NAME and MODEL_BASE_PATH",
     serve_image, NULL},
    {"health", "tell whether the server on this machine is ready (a container's health check)",
     srv_command_health, NULL},
    {"inspect", "print what a SavedModel holds, and what of it could not run", srv_command_inspect,
     NULL},
    {"run", "run a signature without a server, or measure it", srv_command_run, NULL},
    {"check-config", "read a configuration without serving it", srv_command_check_config, NULL},
    {"predict", "send a request to a model, and print the answer", NULL, cl_command_predict},
    {"status", "print the versions of a model, or of all, and their states", NULL,
     cl_command_status},
    {"metadata", "print a model's signatures", NULL, cl_command_metadata},
    {"reload", "give a server a new model config", NULL, cl_command_reload},
    {"snapshot", "write a model's present variables as a new version", NULL, cl_command_snapshot},
    {"bench", "put load on a server, and check its answers", NULL, cl_command_bench},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void usage(FILE *out)
{
    fprintf(out, "usage: slipway COMMAND [arguments], slipway COMMAND --help\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-24s %s\n", commands[i].name, commands[i].help);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    rt_heap_set_policy();
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc ? argv[0] : "";
    const char *const *args = (const char *const *)argv;
    const struct command *c = NULL;
    const char *wanted = argc > 1 ? argv[1] : NULL;
    const char *help_args[] = {NULL, "--help", NULL};
    if (strcmp(name, "tensorflow_model_server") == 0 ||
        strcmp(name, "tf_serving_entrypoint.sh") == 0) {
        c = find_command(name);
    } else if (wanted) {
        const bool help = strcmp(wanted, "help") == 0;
        if ((help && argc == 2) || strcmp(wanted, "--help") == 0 || strcmp(wanted, "-h") == 0) {
            usage(stdout);
            return 0;
        }
        if (strcmp(wanted, "--version") == 0) {
            printf("slipway %s\n", SLIPWAY_VERSION);
            return 0;
        }
        if (help) { /* `slipway help COMMAND` is `slipway COMMAND --help`. */
            help_args[0] = wanted = argv[2];
            args = help_args;
            argc = 2;
        } else {
            args++;
            argc--;
        }
        c = find_command(wanted);
    }
    if (!c) {
        if (wanted)
            fprintf(stderr, "slipway: there is no command %s, only those below\n", wanted);
        else
            fprintf(stderr, "slipway: a command is wanted\n");
        usage(stderr);
        return SRV_EXIT_USAGE;
    }
    if (c->run_query)
        return c->run_query(argc, args);
    struct rt_registry *registry = rt_registry_new();
    int code = 1;
    if (registry && kn_register(registry))
        code = c->run(argc, args, registry);
    else
        fprintf(stderr, "slipway: the ops could not be registered\n");
    rt_registry_free(registry);
    return code;
}
