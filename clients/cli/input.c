#include "clients/cli/input.h"

#include <string.h>
#include <unistd.h>

#include "clients/cli/convert.h"
#include "clients/cli/npy.h"
#include "clients/cli/file.h"

enum { MAX_FILE = INT32_MAX, MAX_TENSORS = 4096 };

/* Returns whether an argument is JSON instead of a path. A number that is also the path of an
 * existing file is a path. */
static bool looks_like_json(const char *text)
{
    const char *at = text + strspn(text, " \t\r\n");
    struct rt_error ignored = {0};
    json_t *v;
    if (*at == '{' || *at == '[' || *at == '"')
        return true;
    if ((*at != '-' && (*at < '0' || *at > '9')) || access(text, F_OK) == 0 ||
        cl_json_load(rt_span_str(at), &v, &ignored))
        return false;
    json_decref(v);
    return true;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static enum rt_status add(struct cl_input *in, const struct slipway_tensor *t, struct rt_error *err)
{
    if (in->n == MAX_TENSORS)
        return rt_fail(err, RT_INVALID_ARGUMENT, "more than %d inputs", MAX_TENSORS);
    in->tensors[in->n++] = *t;
    return RT_OK;
}

/* Appends the contents of a file, as one string, to the string tensor called `name`. Creates the
 * tensor if necessary. */
static enum rt_status add_string(struct cl_input *in, const char *name, struct rt_span bytes,
                                 struct rt_arena *arena, struct rt_error *err)
{
    struct slipway_tensor *t = NULL;
    for (int i = 0; i < in->n; i++)
        if (in->tensors[i].dtype == SLIPWAY_STRING &&
            (name ? in->tensors[i].name && strcmp(in->tensors[i].name, name) == 0
                  : !in->tensors[i].name))
            t = &in->tensors[i];
    struct slipway_tensor empty = {.name = name, .dtype = SLIPWAY_STRING, .rank = 1};
    if (!t) {
        if (add(in, &empty, err))
            return err->code;
        t = &in->tensors[in->n - 1];
    }
    size_t n = (size_t)t->dim[0];
    struct slipway_string *all = rt_arena_array(arena, n + 1, sizeof *all);
    char *copy = rt_arena_strndup(arena, bytes.n ? (const char *)bytes.p : "", bytes.n);
    if (!all || !copy)
        return rt_fail_memory(err, "a file", bytes.n);
    if (n)
        memcpy(all, t->data, n * sizeof *all);
    all[n] = (struct slipway_string){copy, bytes.n};
    t->data = all;
    t->dim[0]++;
    return RT_OK;
}

static enum rt_status add_bytes(struct cl_input *in, const char *name, struct rt_span bytes,
                                bool is_raw, struct rt_arena *arena, struct rt_error *err)
{
    struct slipway_tensor t = {.name = name}, *all;
    enum rt_status st;
    int n;
    if (!is_raw && cl_is_npy(bytes)) {
        st = cl_npy_read(bytes, arena, &t, err);
        return st ? st : add(in, &t, err);
    }
    if (is_raw || !cl_is_npz(bytes))
        return add_string(in, name, bytes, arena, err);
    if (name)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "a .npz file names its arrays: give it without \"%s=\"", name);
    st = cl_npz_read(bytes, MAX_FILE, arena, &all, &n, err);
    for (int i = 0; i < n && !st; i++)
        st = add(in, &all[i], err);
    return st;
}

static enum rt_status add_file(struct cl_input *in, const char *name, const char *path, bool is_raw,
                               bool is_only, struct rt_arena *arena, struct rt_error *err)
{
    struct rt_bytes bytes;
    rt_bytes_init(&bytes, MAX_FILE);
    enum rt_status st = cl_read_file(path, &bytes, err);
    if (st == RT_NOT_FOUND && !name && access(path, F_OK) != 0)
        st = rt_fail(err, RT_NOT_FOUND,
                     "%s: neither a file nor JSON ([...], {...}, a number, a \"string\")", path);
    bool is_array = bytes.n && (cl_is_npy(rt_span_of(bytes.p, bytes.n)) ||
                                cl_is_npz(rt_span_of(bytes.p, bytes.n)));
    if (!st && !is_raw && !name && !is_array && (ends_in(path, ".json") || !strcmp(path, "-"))) {
        if (!is_only)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "%s: JSON is given alone", path);
        else if (!(in->json = rt_arena_strndup(arena, bytes.p ? bytes.p : "", bytes.n)))
            st = rt_fail_memory(err, path, bytes.n);
    } else if (!st) {
        st = add_bytes(in, name, rt_span_of(bytes.p, bytes.n), is_raw, arena, err);
        if (st)
            rt_fail_prefix(err, "%s: ", path);
    }
    rt_bytes_clear(&bytes);
    return st;
}

enum rt_status cl_input_read(const struct cl_list *words, const struct cl_list *named, bool is_raw,
                             struct rt_arena *arena, struct cl_input *out, struct rt_error *err)
{
    bool is_only = words->n == 1 && !named->n;
    enum rt_status st = RT_OK;
    *out = (struct cl_input){.tensors = rt_arena_array(arena, MAX_TENSORS, sizeof *out->tensors)};
    if (!out->tensors)
        return rt_fail_memory(err, "inputs", 0);
    for (int i = 0; i < words->n && !st; i++)
        if (!is_raw && looks_like_json(words->at[i])) {
            out->json = words->at[i];
            if (!is_only)
                st = rt_fail(err, RT_INVALID_ARGUMENT, "%.60s: JSON is given alone, in one INPUT",
                             words->at[i]);
        } else
            st = add_file(out, NULL, words->at[i], is_raw, is_only, arena, err);
    for (int i = 0; i < named->n && !st; i++) {
        const size_t n = strcspn(named->at[i], "=");
        const char *name = rt_arena_strndup(arena, named->at[i], n);
        st = name ? add_file(out, name, named->at[i] + n + 1, is_raw, false, arena, err)
                  : rt_fail_memory(err, "inputs", n);
    }
    return st;
}

enum rt_status cl_check_pairs(const char *flag, const char *form, const struct cl_list *texts,
                              struct rt_error *err)
{
    for (int i = 0; i < texts->n; i++)
        if (!strchr(texts->at[i], '='))
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s %s: %s is wanted", flag, texts->at[i],
                           form);
    return RT_OK;
}

/* ---- JSON ---- */

/* Returns whether a JSON value is a complete request body: an object with the key "instances" or
 * "inputs". */
static bool is_whole(const json_t *v)
{
    return json_object_get(v, "instances") || json_object_get(v, "inputs");
}

static bool text_is_whole(const char *text)
{
    struct rt_error ignored = {0};
    json_t *v;
    if (cl_json_load(rt_span_str(text), &v, &ignored))
        return true; /* the server will report the malformed JSON */
    bool whole = is_whole(v);
    json_decref(v);
    return whole;
}

const char *cl_input_body(const struct cl_input *in, bool is_known_whole, const char *signature,
                          struct rt_arena *arena)
{
    const char *text = in->json + strspn(in->json, " \t\r\n");
    bool whole = is_known_whole || (*text == '{' && text_is_whole(text));
    struct rt_bytes out;
    if (whole && !signature)
        return in->json;
    rt_bytes_init(&out, SIZE_MAX);
    rt_bytes_addc(&out, '{');
    if (signature) {
        rt_bytes_adds(&out, "\"signature_name\": ");
        cl_json_text(&out, signature, strlen(signature));
        rt_bytes_adds(&out, ", ");
    }
    if (whole) /* the server uses the first "signature_name" */
        rt_bytes_adds(&out, text + 1);
    else {
        rt_bytes_addf(&out, "\"%s\": ", *text == '[' ? "instances" : "inputs");
        rt_bytes_adds(&out, text);
        rt_bytes_addc(&out, '}');
    }
    const char *body = out.failed ? NULL : rt_arena_strndup(arena, out.p, out.n);
    rt_bytes_clear(&out);
    return body;
}

static enum rt_status bind_json(struct cl_input *in, const struct slipway_signature *s,
                                struct rt_arena *arena, bool *is_row, struct rt_error *err)
{
    json_t *v, *whole;
    enum rt_status st = cl_json_load(rt_span_str(in->json), &v, err);
    if (st)
        return st;
    if (is_whole(v))
        whole = json_incref(v);
    else
        whole = json_pack("{s:O}", json_is_array(v) ? "instances" : "inputs", v);
    st = whole ? cl_json_tensors(whole, "instances", "inputs", s->inputs, s->n_inputs, arena,
                                 &in->tensors, &in->n, is_row, err)
               : rt_fail_memory(err, "JSON", 0);
    if (st && json_is_array(json_object_get(v, "examples")))
        rt_fail(
            err, st,
            "{\"examples\": ...} needs a signature that classifies or regresses, and \"%s\" does "
            "neither; else give serialized Examples, as [{\"b64\": \"...\"}]",
            s->name);
    json_decref(whole);
    json_decref(v);
    return st;
}

/* ---- tensors ---- */

static const struct slipway_input *input_called(const struct slipway_signature *s, const char *name)
{
    for (int i = 0; i < s->n_inputs; i++)
        if (strcmp(s->inputs[i].name, name) == 0)
            return &s->inputs[i];
    return NULL;
}

/* Changes the rank of a string tensor to that in the signature, if only dimensions of length 1 are
 * added or removed. */
static void fit_rank(struct slipway_tensor *t, const struct slipway_input *spec)
{
    if (t->dtype != SLIPWAY_STRING || t->rank != 1 || spec->rank < 0)
        return;
    if (spec->rank == 0 && t->dim[0] == 1)
        t->rank = 0;
    for (; spec->rank > t->rank && t->rank && t->rank < SLIPWAY_MAX_RANK; t->rank++)
        t->dim[t->rank] = 1;
}

enum rt_status cl_input_bind(struct cl_input *in, const struct slipway_signature *s,
                             struct rt_arena *arena, bool *is_row, struct rt_error *err)
{
    *is_row = false;
    if (in->json)
        return bind_json(in, s, arena, is_row, err);
    for (int i = 0; i < in->n; i++) {
        struct slipway_tensor *t = &in->tensors[i];
        if (!t->name && s->n_inputs != 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "signature \"%s\" has %d inputs: say which one, as --input ALIAS=FILE",
                           s->name, s->n_inputs);
        const struct slipway_input *spec = t->name ? input_called(s, t->name) : &s->inputs[0];
        if (!spec)
            return cl_check_name(t->name, s->inputs, s->n_inputs, err);
        t->name = spec->name;
        fit_rank(t, spec);
        enum rt_status st = cl_convert(t, spec->dtype, arena, err);
        if (st)
            return st;
    }
    return RT_OK;
}
