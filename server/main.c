/*
 * The one binary. Here alone server and kernels meet: everything else gets the registry of ops as
 * a parameter.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "server/command.h"
#include "server/server.h"

enum { EXIT_USAGE = 255 }; /* TensorFlow Serving's -1 */

static int serve(bool as_tensorflow, int argc, const char *const *argv,
                 const struct rt_registry *registry)
{
    struct srv_options options;
    switch (srv_options_parse(&options, as_tensorflow, argc, argv, stdout)) {
    case SRV_PARSE_RUN:
        return srv_server_main(&options, registry);
    case SRV_PARSE_EXIT_0:
        return 0;
    case SRV_PARSE_EXIT_USAGE:
        break;
    }
    return EXIT_USAGE;
}

static int serve_own(int argc, const char *const *argv, const struct rt_registry *registry)
{
    return serve(false, argc, argv, registry);
}

static int serve_theirs(int argc, const char *const *argv, const struct rt_registry *registry)
{
    return serve(true, argc, argv, registry);
}

static const struct command {
    const char *name, *help;
    int (*run)(int argc, const char *const *argv, const struct rt_registry *registry);
} commands[] = {
    {"serve", "serve models over REST and gRPC", serve_own},
    {"tensorflow_model_server", "the same, with the ways of the server of that name", serve_theirs},
    {"inspect", "what a SavedModel holds, and what of it could not run", srv_command_inspect},
    {"run", "run a signature without a server, or measure it", srv_command_run},
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
    /* Freed models must go back to the system: what is large enough is mapped by itself. */
    mallopt(M_MMAP_THRESHOLD, 65536);
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc ? argv[0] : "";
    const char *const *args = (const char *const *)argv;
    const struct command *c = NULL;
    if (strcmp(name, "tensorflow_model_server") == 0) {
        c = find_command(name);
    } else if (argc > 1) {
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
            usage(stdout);
            return 0;
        }
        if (strcmp(argv[1], "--version") == 0) {
            printf("slipway %s\n", SLIPWAY_VERSION);
            return 0;
        }
        c = find_command(argv[1]);
        args++;
        argc--;
    }
    if (!c) {
        usage(stderr);
        return EXIT_USAGE;
    }
    struct rt_registry *registry = rt_registry_new();
    if (!registry || !kn_register(registry)) {
        fprintf(stderr, "slipway: the ops could not be registered\n");
        return 1;
    }
    int code = c->run(argc, args, registry);
    rt_registry_free(registry);
    return code;
}
