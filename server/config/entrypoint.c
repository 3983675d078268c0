#include "server/config/entrypoint.h"

#include <string.h>

static bool names_models(const char *arg)
{
    return strncmp(arg, "--model_", 8) == 0 || strcmp(arg, "--models") == 0 ||
           strncmp(arg, "--models=", 9) == 0;
}

bool srv_entrypoint(struct srv_entrypoint *out, int argc, const char *const *argv, const char *name,
                    const char *base, bool (*is_dir)(const char *path), struct rt_arena *arena)
{
    const char **args = rt_arena_array(arena, (size_t)argc + 6, sizeof *args);
    bool named = (name && *name) || (base && *base);
    int n = 0;

    if (!args)
        return false;
    name = name && *name ? name : "model";
    base = base && *base ? base : "/models";
    char *path = rt_arena_printf(arena, "%s/%s", base, name);
    if (!path)
        return false;
    for (int i = 1; i < argc; i++)
        named = named || names_models(argv[i]);
    out->as_tensorflow = named || is_dir(path);
    args[n++] = argc ? argv[0] : "";
    args[n++] = "--port=8500";
    args[n++] = "--rest_api_port=8501";
    if (out->as_tensorflow) {
        args[n++] = rt_arena_printf(arena, "--model_name=%s", name);
        args[n++] = rt_arena_printf(arena, "--model_base_path=%s", path);
        if (!args[n - 2] || !args[n - 1])
            return false;
    } else {
        args[n++] = "--bind_address=0.0.0.0";
        args[n++] = "--models=/models";
    }
    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];
    out->argc = n;
    out->argv = args;
    return true;
}
