#include "server/triton/triton_labels.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference/model_config.pb-c.h"
#include "runtime/base/arena.h"
#include "runtime/files/file.h"

enum {
    MAX_BYTES = 16 << 20, /* maximum size of the files of a model together */
    MAX_LABELS = 1 << 20, /* maximum number of lines of a file */
    MAX_LABEL_BYTES = 1024,
};

static size_t count_lines(struct rt_span text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n + (text.n && text.p[text.n - 1] != '\n');
}

enum rt_status srv_triton_parse_labels(struct rt_span text, struct rt_arena *arena,
                                       struct srv_triton_labels *out, struct rt_error *err)
{
    const size_t n = count_lines(text);

    if (n > MAX_LABELS)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the file has more than %d lines",
                       (int)MAX_LABELS);
    const char *copy = rt_arena_strndup(arena, (const char *)text.p, text.n);
    struct rt_span *label = rt_arena_array(arena, n + 1, sizeof *label);
    if (!copy || !label)
        return rt_fail_memory(err, "labels", text.n);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *end = memchr(copy + at, '\n', text.n - at);
        const size_t n_line = end ? (size_t)(end - copy) - at : text.n - at;
        const bool has_cr = n_line && copy[at + n_line - 1] == '\r';
        if (n_line > MAX_LABEL_BYTES)
            return rt_fail(err, RT_INVALID_ARGUMENT, "line %zu has more than %d bytes", i + 1,
                           (int)MAX_LABEL_BYTES);
        label[i] = rt_span_of(copy + at, n_line - has_cr);
        at += n_line + 1;
    }
    out->n = (int)n;
    out->label = label;
    return RT_OK;
}

/* Sets *out to the path of a file with all symbolic links resolved, allocated by malloc. Fails if
 * the file is not in the directory. */
static enum rt_status resolve(const char *directory, const char *path, const char *name, char **out,
                              struct rt_error *err)
{
    char *file = realpath(path, NULL), *dir = file ? realpath(directory, NULL) : NULL;
    const size_t n = dir ? strlen(dir) : 0;
    enum rt_status st = RT_OK;

    if (!dir)
        st = rt_fail(err, RT_UNAVAILABLE, "%.300s: %s", name, strerror(errno));
    else if (strncmp(file, dir, n) != 0 || (file[n] != '/' && n != 1))
        st = rt_fail(err, RT_INVALID_ARGUMENT, "%.300s is outside of the model's directory", name);
    free(dir);
    if (st)
        free(file);
    else
        *out = file;
    return st;
}

/* Reads the file of output i, before which n_before outputs have labels. Subtracts the file's size
 * from *left. */
static enum rt_status read_file(struct srv_triton *t, size_t i, size_t n_before,
                                const char *base_path, size_t *left, struct srv_triton_labels *out,
                                struct rt_error *err)
{
    const void *type = &inference__model_output__descriptor;
    const char *name = t->message->output[i]->label_filename;
    char path[PATH_MAX], base[PATH_MAX], *file = NULL, *text = NULL;
    size_t n = 0;
    struct rt_error why = {0};

    if ((size_t)snprintf(base, sizeof base, "%s", base_path) >= sizeof base ||
        (size_t)snprintf(path, sizeof path, "%s/%s", base, name) >= sizeof path)
        return srv_triton_fail(t, type, "label_filename", n_before, err, "the path is too long");
    enum rt_status st = resolve(base, path, name, &file, &why);
    if (!st)
        st = rt_file_read(file, *left, &text, &n, &why);
    if (!st)
        st = srv_triton_parse_labels(rt_span_of(text, n), t->arena, out, &why);
    free(text);
    free(file);
    *left -= n;
    out->output = t->message->output[i]->name;
    out->filename = name;
    return st ? srv_triton_fail(t, type, "label_filename", n_before, err, "%s", rt_error_text(&why))
              : RT_OK;
}

enum rt_status srv_triton_read_labels(struct srv_triton *t, const char *base_path, size_t n_base,
                                      struct rt_error *err)
{
    const size_t n = t->message->n_output;
    const char *base = rt_arena_strndup(t->arena, base_path, n_base);
    struct srv_triton_labels *to = rt_arena_array(t->arena, n + 1, sizeof *to);
    size_t left = MAX_BYTES, n_read = 0;
    enum rt_status st = RT_OK;

    if (!base || !to)
        return rt_fail_memory(err, "labels", n);
    t->labels = to;
    for (size_t i = 0; i < n && !st; i++)
        if (*t->message->output[i]->label_filename) {
            st = read_file(t, i, n_read, base, &left, &to[n_read], err);
            n_read++;
        }
    return st;
}

const struct srv_triton_labels *srv_triton_labels(const struct srv_triton *t, const char *signature,
                                                  const char *output)
{
    if (!t || !t->labels || strcmp(signature, srv_triton_signature(t)) != 0)
        return NULL;
    for (const struct srv_triton_labels *l = t->labels; l->output; l++)
        if (strcmp(l->output, output) == 0)
            return l;
    return NULL;
}

size_t srv_triton_label_file_bytes(const struct srv_triton *t)
{
    size_t n = 0;

    for (const struct srv_triton_labels *l = t ? t->labels : NULL; l && l->output; l++)
        n += strlen(l->filename);
    return n;
}
