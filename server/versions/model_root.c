#include "server/versions/model_root.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_dots(const char *name, size_t n)
{
    return (n == 1 || n == 2) && name[0] == '.' && name[n - 1] == '.';
}

/* Returns whether the path contains "." or "..". In a part of a path that does not exist yet, these
 * components could lead anywhere later. */
static bool has_dots(const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");
        if (is_dots(path, n))
            return true;
        path += n;
        path += strspn(path, "/");
    }
    return false;
}

static bool is_below(const char *root, const char *path)
{
    size_t n = strlen(root);
    while (n && root[n - 1] == '/')
        n--; /* the root "/" becomes "", which is a prefix of every path */
    return strncmp(root, path, n) == 0 && (!path[n] || path[n] == '/');
}

/* Resolves the longest existing part of the absolute `path`. Returns false if the path cannot be
 * resolved. */
static bool resolve_existing(const char *path, char *out)
{
    char part[PATH_MAX];
    size_t n = strlen(path);

    if (n >= sizeof part)
        return false;
    memcpy(part, path, n + 1);
    while (!realpath(part, out)) {
        struct stat s;
        char *slash = strrchr(part, '/');
        /* A dangling symlink cannot be resolved, because its target is unknown. */
        if (errno != ENOENT || lstat(part, &s) == 0 || !slash)
            return false;
        if (slash == part)
            part[1] = '\0';
        else
            *slash = '\0';
        if (has_dots(path + strlen(part)))
            return false;
    }
    return true;
}

enum rt_status srv_model_root_check(const char *root, const struct srv_config *config,
                                    struct rt_error *err)
{
    char real_root[PATH_MAX], real_path[PATH_MAX];

    if (!*root)
        return RT_OK;
    if (!realpath(root, real_root))
        return rt_fail(err, RT_PERMISSION_DENIED, "--model_root=%s: %s", root, strerror(errno));
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *m = &config->models[i];
        if (!resolve_existing(m->base_path, real_path) || !is_below(real_root, real_path))
            return rt_fail(err, RT_PERMISSION_DENIED,
                           "model %s: base path %s is not below %s (--model_root)", m->name,
                           m->base_path, root);
        const char *log = m->logging ? m->logging->filename_prefix : NULL;
        if (log && *log && (!resolve_existing(log, real_path) || !is_below(real_root, real_path)))
            return rt_fail(err, RT_PERMISSION_DENIED,
                           "model %s: the requests' log %s is not below %s (--model_root)", m->name,
                           log, root);
    }
    return RT_OK;
}

static bool has_log(const struct srv_config *c, const char *prefix)
{
    for (int i = 0; c && i < c->n_models; i++)
        if (c->models[i].logging && strcmp(c->models[i].logging->filename_prefix, prefix) == 0)
            return true;
    return false;
}

enum rt_status srv_model_root_check_logs(const char *root, const struct srv_config *old,
                                         const struct srv_config *file,
                                         const struct srv_config *config, struct rt_error *err)
{
    for (int i = 0; i < config->n_models && !*root; i++) {
        const struct srv_model_config *m = &config->models[i];
        const char *log = m->logging ? m->logging->filename_prefix : "";
        if (*log && !has_log(old, log) && !has_log(file, log))
            return rt_fail(err, RT_PERMISSION_DENIED,
                           "model %s: a reload may name a new log of requests (%s) only below "
                           "--model_root, which is not set",
                           m->name, log);
    }
    return RT_OK;
}

enum rt_status srv_model_root_exists(const char *root, struct rt_error *err)
{
    struct stat s;

    if (!*root)
        return RT_OK;
    if (stat(root, &s))
        return rt_fail(err, RT_INVALID_ARGUMENT, "--model_root=%s: %s", root, strerror(errno));
    if (!S_ISDIR(s.st_mode))
        return rt_fail(err, RT_INVALID_ARGUMENT, "--model_root=%s is not a directory", root);
    return RT_OK;
}
