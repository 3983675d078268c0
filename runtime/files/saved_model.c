#include "runtime/files/saved_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/pack.h"
#include "proto/text.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/growth.h"
#include "runtime/base/map.h"
#include "runtime/base/pieces.h"
#include "runtime/base/sort.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/file.h"
#include "runtime/core/tensor_proto.h"
#include "tensorflow/core/protobuf/saved_model.pb-c.h"

#define MAX_FILE ((size_t)1 << 31)
/* The values of all SignatureDef.defaults in a file may take 64 MiB plus 8 bytes for each byte of
 * the file. Without this limit, the defaults in a file of 3.9 KB could expand to 5.3 GB. */
enum { DEFAULTS_FREE_BYTES = 64 << 20, DEFAULTS_GROWTH = 8 };
/* Limits on the number of meta graphs in a file, and on the number of assets in a meta graph.
 * TensorFlow writes one meta graph for each set of tags. A meta graph of two bytes in the file
 * takes about 200 bytes of memory. A version's directory may contain at most MAX_ASSETS files
 * (server/versions/source.h). */
enum { MAX_META_GRAPHS = 1024, MAX_ASSETS = 50000 };
/* The unpacked meta graphs, without their GraphDefs, may take 64 MiB plus 2 bytes for each byte of
 * the file. Without this limit, 98 MB of empty fields took 9 s of processor time and 3.4 GB of
 * memory. */
enum { META_FREE_BYTES = 64 << 20, META_GROWTH = 2 };
/* The unpacked message of saved_model.pbtxt may take 64 MiB plus 8 bytes for each byte of the file.
 * Messages of Keras models with files of 0.1 to 14 MB take 2 bytes for each byte of an indented
 * file, and 5 bytes for each byte of a file with a single line. Without this limit, 200 MB of empty
 * tags took 5.9 GB of memory. */
enum { TEXT_FREE_BYTES = 64 << 20, TEXT_GROWTH = 8 };

enum { /* field numbers in TensorFlow's protobuf messages */
       SAVED_MODEL_META_GRAPHS = 2,
       META_GRAPH_GRAPH_DEF = 2,
       META_GRAPH_OBJECT_GRAPH_DEF = 7,
};

static const char init_key[] = "__saved_model_init_op";

/* A struct rt_saved_model, and members that only this file uses. `defaults` lists the default
 * tensors so that rt_saved_model_free can free them; their buffers are not in the arena. */
struct model {
    struct rt_saved_model pub;
    struct rt_tensor **defaults;
    size_t n_defaults, defaults_capacity;
    /* numbers of bytes that are left for defaults and for unpacked meta graphs */
    size_t defaults_left, meta_left;
    const char *empty; /* path of the file if the file is empty; otherwise NULL */
};

/* ---- one meta graph ---- */

struct reading {
    struct model *m;
    struct rt_arena *arena;
    const struct rt_check *check; /* may be NULL */
    struct rt_error *err;
    enum rt_status stopped; /* status of the failed check, or RT_OK if none has failed */
    size_t n_fields;
};

static enum rt_status no_memory(struct reading *r)
{
    return r->stopped ? r->stopped
                      : rt_fail_memory(r->err, "a SavedModel", rt_arena_used(r->arena));
}

/* Calls the check at every RT_TICK_STEPS-th index. Sets and returns r->stopped. */
static enum rt_status tick(struct reading *r, size_t i)
{
    if (!r->stopped)
        r->stopped = rt_check_tick(r->check, i, r->err);
    return r->stopped;
}

/* Reads the next field as pb_field_next does. Calls the check regularly, because a file may have a
 * billion fields. Also returns -1 if the check fails; r->stopped is then the check's status. */
static int next_field(struct reading *r, struct rt_span *rest, struct pb_field *f)
{
    return tick(r, ++r->n_fields) ? -1 : pb_field_next(rest, f);
}

/* Returns the status of the error for which next_field has returned -1. */
static enum rt_status no_field(const struct reading *r)
{
    return r->stopped ? r->stopped
                      : rt_fail(r->err, RT_DATA_LOSS, "Can't parse saved_model.pb as binary proto");
}

/* Copies a string to the arena. Returns NULL for an empty string. Sets *ok to false if out of
 * memory. */
static const char *copy_or_null(struct reading *r, const char *s, bool *ok)
{
    if (!s || !s[0])
        return NULL;
    char *copy = rt_arena_strdup(r->arena, s);
    if (!copy)
        *ok = false;
    return copy;
}

static const char *copy(struct reading *r, const char *s, bool *ok)
{
    const char *c = copy_or_null(r, s, ok);
    return c ? c : "";
}

/* Extracts the node's name from a string like "name:0" or "^name". */
static const char *node_name(struct reading *r, const char *s, bool *ok)
{
    if (s && s[0] == '^')
        s++;
    const char *c = copy_or_null(r, s, ok), *colon = c ? strchr(c, ':') : NULL;
    return colon ? rt_arena_strndup(r->arena, c, (size_t)(colon - c)) : c;
}

static enum rt_status read_spec(struct reading *r, const char *alias,
                                const Tensorflow__TensorInfo *info, struct rt_tensor_spec *out)
{
    bool ok = true, is_ref;
    const Tensorflow__TensorShapeProto *shape = info ? info->tensor_shape : NULL;

    *out = (struct rt_tensor_spec){.alias = copy(r, alias, &ok), .name = ""};
    if (info) {
        out->dtype = rt_dtype_from_wire((int)info->dtype, &is_ref);
        if (info->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME)
            out->name = copy(r, info->name, &ok);
    }
    if (shape && (shape->unknown_rank || shape->n_dim > RT_MAX_RANK)) {
        out->shape.rank = -1;
        out->too_many_dims = !shape->unknown_rank;
    } else if (shape) {
        out->shape.rank = (int)shape->n_dim;
        for (size_t i = 0; i < shape->n_dim; i++)
            out->shape.dim[i] = shape->dim[i]->size < 0 ? -1 : shape->dim[i]->size;
    }
    return ok ? RT_OK : no_memory(r);
}

static int by_alias(const void *a, const void *b)
{
    return strcmp(((const struct rt_tensor_spec *)a)->alias,
                  ((const struct rt_tensor_spec *)b)->alias);
}

/* The first members of each struct that the protobuf compiler generates for an entry of a map with
 * string keys. */
struct map_entry {
    ProtobufCMessage base;
    char *key;
    void *value;
};
_Static_assert(sizeof(struct map_entry) == sizeof(Tensorflow__SignatureDef__InputsEntry) &&
                   sizeof(struct map_entry) == sizeof(Tensorflow__SignatureDef__OutputsEntry) &&
                   sizeof(struct map_entry) == sizeof(Tensorflow__SignatureDef__DefaultsEntry) &&
                   sizeof(struct map_entry) == sizeof(Tensorflow__MetaGraphDef__SignatureDefEntry),
               "entries of a map");

/* Collects the entries of a protobuf map. If a key occurs more than once, its last entry is used.
 * Returns NULL if memory runs out or the check fails. After a failed check, r->stopped is the
 * check's status. */
static void **last_of_each_key(struct reading *r, void *entries, size_t n, size_t *n_out)
{
    struct map_entry **e = entries;
    void **kept = rt_arena_array(r->arena, n + 1, sizeof *kept);
    struct rt_map last;
    bool ok = kept;

    rt_map_init(&last);
    *n_out = 0;
    for (size_t i = 0; i < n && ok; i++) {
        ok = !tick(r, i) && rt_map_put(&last, e[i]->key, e[i]);
    }
    for (size_t i = 0; i < n && ok; i++) {
        if (rt_map_get(&last, e[i]->key) == e[i])
            kept[(*n_out)++] = e[i];
        ok = !tick(r, i);
    }
    rt_map_clear(&last);
    return ok ? kept : NULL;
}

static enum rt_status read_specs(struct reading *r, size_t n, void *entries,
                                 struct rt_tensor_spec **out, int *n_out)
{
    struct rt_tensor_spec *s = rt_arena_array(r->arena, n + 1, sizeof *s);
    void **e = last_of_each_key(r, entries, n, &n);

    if (!s || !e || n > INT32_MAX)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const struct map_entry *one = e[i];
        enum rt_status st = read_spec(r, one->key, one->value, &s[i]);
        if (!st)
            st = tick(r, i);
        if (st)
            return st;
    }
    *out = s;
    *n_out = (int)n;
    return rt_sort_alloc(s, n, sizeof *s, by_alias, "a signature", r->check, r->err);
}

/* Returns a zeroed tensor, or NULL if out of memory. Freeing the model clears the tensor. */
static struct rt_tensor *new_default(struct reading *r)
{
    struct model *m = r->m;
    struct rt_tensor *t = rt_arena_alloc(r->arena, sizeof *t);
    if (t && m->n_defaults == m->defaults_capacity) {
        const size_t capacity = m->defaults_capacity ? 2 * m->defaults_capacity : 16;
        struct rt_tensor **more = realloc(m->defaults, capacity * sizeof *more);
        if (!more)
            return NULL;
        m->defaults = more;
        m->defaults_capacity = capacity;
    }
    return t ? m->defaults[m->n_defaults++] = t : NULL;
}

/* Sets *out to the serialized message, which is stored in the arena. */
static enum rt_status keep_packed(struct reading *r, const ProtobufCMessage *m, struct rt_span *out)
{
    char *bytes;
    size_t n;
    enum rt_status st = pb_pack(m, MAX_FILE, r->check, &bytes, &n, r->err);

    if (st)
        return st;
    void *copy = rt_arena_aligned(r->arena, n + 1, 16);
    st = copy ? rt_copy_pieces(copy, bytes, n + 1, r->check, r->err) : no_memory(r);
    *out = rt_span_of(copy, n);
    free(bytes);
    return st;
}

static enum rt_status read_defaults(struct reading *r, const Tensorflow__SignatureDef *d,
                                    const char *signature, struct rt_tensor_spec *inputs, int n)
{
    size_t n_defaults;
    void **entry = last_of_each_key(r, d->defaults, d->n_defaults, &n_defaults);

    if (!entry)
        return no_memory(r);
    for (size_t i = 0; i < n_defaults; i++) {
        if (tick(r, i))
            return r->stopped;
        const Tensorflow__SignatureDef__DefaultsEntry *e = entry[i];
        struct rt_tensor_spec key = {.alias = e->key};
        struct rt_tensor_spec *in =
            n ? bsearch(&key, inputs, (size_t)n, sizeof *inputs, by_alias) : NULL;
        if (!in || !e->value)
            continue;
        struct rt_tensor *t = new_default(r);
        if (!t)
            return no_memory(r);
        enum rt_status st =

            rt_tensor_from_proto(e->value, r->m->defaults_left, t, NULL, r->check, r->err);
        if (st) {
            rt_fail_prefix(r->err, "signature \"%s\": default of input \"%s\": ", signature,
                           e->key);
            return st;
        }
        const size_t bytes = rt_tensor_bytes(t);
        r->m->defaults_left -= bytes < r->m->defaults_left ? bytes : r->m->defaults_left;
        in->default_value = t;
        st = keep_packed(r, &e->value->base, &in->default_proto);
        if (st)
            return st;
    }
    return RT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rt_signature *)a)->name, ((const struct rt_signature *)b)->name);
}

static enum rt_status read_signature(struct reading *r,
                                     const Tensorflow__MetaGraphDef__SignatureDefEntry *e,
                                     struct rt_signature *out)
{
    bool ok = true;
    struct rt_tensor_spec *in, *o;

    *out = (struct rt_signature){.name = copy(r, e->key, &ok),
                                 .method_name = copy(r, e->value->method_name, &ok)};
    enum rt_status st =
        ok ? read_specs(r, e->value->n_inputs, e->value->inputs, &in, &out->n_inputs)
           : no_memory(r);
    if (!st)
        st = read_specs(r, e->value->n_outputs, e->value->outputs, &o, &out->n_outputs);
    if (!st)
        st = read_defaults(r, e->value, out->name, in, out->n_inputs);
    if (st)
        return st;
    out->inputs = in;
    out->outputs = o;
    return RT_OK;
}

static enum rt_status read_signatures(struct reading *r, const Tensorflow__MetaGraphDef *g,
                                      struct rt_meta_graph *out)
{
    struct rt_signature *s = rt_arena_array(r->arena, g->n_signature_def + 1, sizeof *s);
    size_t n_entries, bytes;
    void **entry = last_of_each_key(r, g->signature_def, g->n_signature_def, &n_entries);
    int n = 0;
    bool ok = true;

    if (!s || !entry || n_entries > INT32_MAX)
        return no_memory(r);
    for (size_t i = 0; i < n_entries; i++) {
        const Tensorflow__MetaGraphDef__SignatureDefEntry *e = entry[i];
        struct rt_signature one;
        if (tick(r, i))
            return r->stopped;
        if (!e->value)
            continue;
        enum rt_status st = pb_packed_bytes(&e->base, r->check, &bytes, r->err);
        out->signature_bytes += bytes;
        if (!st)
            st = read_signature(r, e, &one);
        if (st)
            return st;
        if (strcmp(e->key, init_key) != 0) {
            s[n++] = one;
            continue;
        }
        const struct rt_tensor_spec *init = rt_signature_output(&one, init_key);
        out->init_op = init && init->name[0] ? node_name(r, init->name, &ok) : NULL;
        struct rt_signature *kept = rt_arena_alloc(r->arena, sizeof *kept);
        if (!kept)
            return no_memory(r);
        *kept = one;
        out->init_signature = kept;
    }
    out->signatures = s;
    out->n_signatures = n;
    return ok ? rt_sort_alloc(s, (size_t)n, sizeof *s, by_name, "signatures", r->check, r->err)
              : no_memory(r);
}

/* Reads the init op from a collection, where older models store it. */
static enum rt_status read_main_op(struct reading *r, const Tensorflow__MetaGraphDef *g,
                                   const char *key, struct rt_meta_graph *out)
{
    bool ok = true;
    for (size_t i = 0; i < g->n_collection_def && !out->init_op; i++) {
        const Tensorflow__MetaGraphDef__CollectionDefEntry *e = g->collection_def[i];
        if (tick(r, i))
            return r->stopped;
        if (strcmp(e->key, key) != 0 || !e->value ||
            e->value->kind_case != TENSORFLOW__COLLECTION_DEF__KIND_NODE_LIST ||
            !e->value->node_list)
            continue;
        if (e->value->node_list->n_value != 1)
            return rt_fail(r->err, RT_FAILED_PRECONDITION,
                           "Expected exactly one main op in : collection \"%s\" has %zu", key,
                           e->value->node_list->n_value);
        out->init_op = node_name(r, e->value->node_list->value[0], &ok);
    }
    return ok ? RT_OK : no_memory(r);
}

static void read_asset(struct reading *r, const Tensorflow__AssetFileDef *a, struct rt_asset *to,
                       bool *ok)
{
    const Tensorflow__TensorInfo *t = a->tensor_info;
    bool named = t && t->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME;

    to->tensor_name = copy(r, named ? t->name : NULL, ok);
    to->file_name = copy(r, a->filename, ok);
}

/* Returns the assets that a TensorFlow 1 model stores in a collection of Any messages. Returns NULL
 * if there are none. */
static const Tensorflow__CollectionDef__AnyList *packed_assets(const Tensorflow__MetaGraphDef *g)
{
    for (size_t i = 0; i < g->n_collection_def; i++) {
        const Tensorflow__MetaGraphDef__CollectionDefEntry *e = g->collection_def[i];
        if (strcmp(e->key, "saved_model_assets") == 0 && e->value &&
            e->value->kind_case == TENSORFLOW__COLLECTION_DEF__KIND_ANY_LIST)
            return e->value->any_list;
    }
    return NULL;
}

static enum rt_status read_assets(struct reading *r, const Tensorflow__MetaGraphDef *g,
                                  struct rt_meta_graph *out)
{
    const Tensorflow__CollectionDef__AnyList *packed =
        g->n_asset_file_def ? NULL : packed_assets(g);
    const size_t n = packed ? packed->n_value : g->n_asset_file_def;
    bool ok = true;

    if (n > MAX_ASSETS)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "more than %d assets", MAX_ASSETS);
    struct rt_asset *assets = rt_arena_array(r->arena, n + 1, sizeof *assets);
    if (!assets)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        if (!packed) {
            read_asset(r, g->asset_file_def[i], &assets[i], &ok);
            continue;
        }
        const Google__Protobuf__Any *any = packed->value[i];
        Tensorflow__AssetFileDef *a = pb_unpack_checked(&tensorflow__asset_file_def__descriptor,
                                                        rt_span_of(any->value.data, any->value.len),
                                                        "an asset of the model", r->check, r->err);
        if (!a)
            return pb_unpack_failed(r->err, RT_INVALID_ARGUMENT);
        read_asset(r, a, &assets[i], &ok);
        pb_free(a);
    }
    out->assets = assets;
    out->n_assets = (int)n;
    return ok ? RT_OK : no_memory(r);
}

static enum rt_status read_rest(struct reading *r, const Tensorflow__MetaGraphDef *g,
                                struct rt_meta_graph *out)
{
    const Tensorflow__MetaGraphDef__MetaInfoDef *info = g->meta_info_def;
    const Tensorflow__SaverDef *saver = g->saver_def;
    bool ok = true;

    size_t n_tags = info ? info->n_tags : 0;
    const char **tags = rt_arena_array(r->arena, n_tags + 1, sizeof *tags);
    if (!tags || n_tags > INT32_MAX)
        return no_memory(r);
    for (size_t i = 0; i < n_tags && !tick(r, i); i++)
        tags[i] = copy(r, info->tags[i], &ok);
    out->tags = tags;
    out->n_tags = (int)n_tags;
    out->tensorflow_version = copy(r, info ? info->tensorflow_version : NULL, &ok);
    if (saver) {
        out->restore_op = node_name(r, saver->restore_op_name, &ok);
        out->save_op = node_name(r, saver->save_tensor_name, &ok);
        out->filename_tensor = copy_or_null(r, saver->filename_tensor_name, &ok);
    }
    return ok && !r->stopped ? read_assets(r, g, out) : no_memory(r);
}

/* Appends the bytes in pieces. Returns the check's status. */
static enum rt_status add_pieces(struct reading *r, struct rt_bytes *to, struct rt_span from)
{
    enum rt_status st = RT_OK;

    for (size_t at = 0; at < from.n && !st; at += RT_PIECE_BYTES) {
        const bool is_last = from.n - at <= RT_PIECE_BYTES;
        rt_bytes_add(to, from.p + at, is_last ? from.n - at : RT_PIECE_BYTES);
        st = is_last ? RT_OK : rt_check_call(r->check, r->err);
    }
    return st;
}

/*
 * Splits a serialized MetaGraphDef into the GraphDef and the other fields. The GraphDef may be
 * huge, so it is unpacked only when it is imported. The object graph is left out, because only
 * Python needs it. Several occurrences of a message field are concatenated, because protobuf merges
 * them in this way.
 */
static enum rt_status split(struct reading *r, struct rt_span bytes, struct rt_span *graph,
                            struct rt_bytes *rest)
{
    struct pb_field f;
    struct rt_span left = bytes;
    size_t pieces = 0, total = 0;
    int more;

    *graph = rt_span_of(NULL, 0);
    while ((more = next_field(r, &left, &f)) > 0) {
        if (f.number == META_GRAPH_GRAPH_DEF && f.type == PB_BYTES) {
            *graph = f.bytes;
            pieces++;
            total += f.bytes.n;
        } else if (f.number != META_GRAPH_OBJECT_GRAPH_DEF) {
            r->stopped = add_pieces(r, rest, f.whole);
        }
    }
    if (more < 0)
        return no_field(r);
    if (rest->failed)
        return no_memory(r);
    if (pieces < 2)
        return RT_OK;
    unsigned char *joined = rt_arena_alloc(r->arena, total + 1);
    if (!joined)
        return no_memory(r);
    *graph = rt_span_of(joined, total);
    for (left = bytes; next_field(r, &left, &f) > 0;)
        if (f.number == META_GRAPH_GRAPH_DEF && f.type == PB_BYTES && f.bytes.n) {
            r->stopped = rt_copy_pieces(joined, f.bytes.p, f.bytes.n, r->check, r->err);
            joined += f.bytes.n;
        }
    return r->stopped;
}

/* Unpacks the fields of a MetaGraphDef from `rest`, which split() has filled. */
static enum rt_status unpack_rest(struct reading *r, struct rt_span rest,
                                  Tensorflow__MetaGraphDef **out)
{
    size_t unpacked;
    const enum rt_status st = pb_unpacked_bytes_checked(&tensorflow__meta_graph_def__descriptor,
                                                        rest, r->check, &unpacked, r->err);

    if (st)
        return st;
    if (unpacked > r->m->meta_left)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "the meta graphs without their nodes take more than %zu bytes of memory",
                       rt_growth_limit(META_FREE_BYTES, r->m->pub.n_bytes, META_GROWTH));
    r->m->meta_left -= unpacked;
    *out = pb_unpack_checked(&tensorflow__meta_graph_def__descriptor, rest, "saved_model.pb",
                             r->check, r->err);
    return *out ? RT_OK : pb_unpack_failed(r->err, RT_INVALID_ARGUMENT);
}

static enum rt_status read_meta_graph(struct reading *r, struct rt_span bytes,
                                      struct rt_meta_graph *out)
{
    struct rt_bytes rest;
    Tensorflow__MetaGraphDef *g = NULL;
    enum rt_status st;

    rt_bytes_init(&rest, MAX_FILE);
    st = split(r, bytes, &out->graph_def, &rest);
    if (!st)
        st = unpack_rest(r, rt_span_of(rest.p, rest.n), &g);
    if (!st)
        st = read_signatures(r, g, out);
    if (!st)
        st = read_main_op(r, g, "saved_model_main_op", out);
    if (!st)
        st = read_main_op(r, g, "legacy_init_op", out);
    if (!st)
        st = read_rest(r, g, out);
    pb_free(g);
    rt_bytes_clear(&rest);
    return st;
}

/* ---- the file ---- */

/* Parses a binary SavedModel. Takes ownership of `bytes`, even on failure. */
static enum rt_status parse_binary(struct rt_saved_model **out, const char *dir, char *bytes,
                                   size_t n, const struct rt_check *check, struct rt_error *err)
{
    struct model *m = calloc(1, sizeof *m);
    struct rt_span left = rt_span_of(bytes, n);
    struct rt_meta_graph *graphs;
    struct pb_field f;
    size_t count = 0;
    int more;
    enum rt_status st = RT_OK;

    if (m)
        m->pub.arena = rt_arena_new(SIZE_MAX);
    if (!m || !m->pub.arena) {
        free(bytes);
        free(m);
        return rt_fail_memory(err, "a SavedModel", n);
    }
    m->pub.bytes = bytes;
    m->pub.n_bytes = n;
    m->defaults_left = rt_growth_limit(DEFAULTS_FREE_BYTES, n, DEFAULTS_GROWTH);
    m->meta_left = rt_growth_limit(META_FREE_BYTES, n, META_GROWTH);
    m->pub.dir = rt_arena_strdup(m->pub.arena, dir);
    struct reading r = {.m = m, .arena = m->pub.arena, .check = check, .err = err};
    while ((more = next_field(&r, &left, &f)) > 0)
        count += f.number == SAVED_MODEL_META_GRAPHS && f.type == PB_BYTES;
    if (more < 0) {
        st = no_field(&r);
        goto fail;
    }
    if (count > MAX_META_GRAPHS) {
        st = rt_fail(err, RT_INVALID_ARGUMENT, "more than %d meta graphs", MAX_META_GRAPHS);
        goto fail;
    }
    graphs = rt_arena_array(r.arena, count + 1, sizeof *graphs);
    if (!graphs || !m->pub.dir) {
        st = no_memory(&r);
        goto fail;
    }
    m->pub.meta_graphs = graphs;
    for (left = rt_span_of(bytes, n); !st && next_field(&r, &left, &f) > 0;)
        if (f.number == SAVED_MODEL_META_GRAPHS && f.type == PB_BYTES)
            st = read_meta_graph(&r, f.bytes, &graphs[m->pub.n_meta_graphs++]);
    if (!st)
        st = r.stopped;
    if (st)
        goto fail;
    *out = &m->pub;
    return RT_OK;

fail:
    rt_saved_model_free(&m->pub);
    return st;
}

static enum rt_status parse(struct rt_saved_model **out, const char *dir, struct rt_span bytes,
                            bool is_text, const struct rt_check *check, struct rt_error *err)
{
    ProtobufCMessage *text = NULL;
    size_t n = bytes.n;
    char *own = NULL;
    enum rt_status st;

    if (is_text) {
        st = pb_text_parse_limited(&text, &tensorflow__saved_model__descriptor, bytes,
                                   rt_growth_limit(TEXT_FREE_BYTES, n, TEXT_GROWTH), check, err);
        if (!st)
            st = pb_pack(text, MAX_FILE - 1, check, &own, &n, err);
        pb_free(text);
    } else {
        own = n < MAX_FILE ? malloc(n + 1) : NULL;
        st = own ? rt_copy_pieces(own, bytes.p, n, check, err)
                 : rt_fail_memory(err, "a SavedModel", n);
        if (own)
            own[n] = '\0';
    }
    if (st) {
        free(own);
        return st;
    }
    return parse_binary(out, dir, own, n, check, err);
}

enum rt_status rt_saved_model_parse(struct rt_saved_model **out, struct rt_span bytes, bool is_text,
                                    struct rt_error *err)
{
    return parse(out, "", bytes, is_text, NULL, err);
}

/* Reads the header of the field at offset *at, and sets *at to the offset of the next field.
 * Returns false if the header is invalid or the field extends beyond the `size` bytes of the file.
 */
static bool skip_field(int fd, int64_t *at, int64_t size)
{
    unsigned char head[20]; /* a tag and a value, each encoded in at most 10 bytes */
    const ssize_t n = rt_file_read_at(fd, head, sizeof head, *at);
    struct rt_span rest = rt_span_of(head, n > 0 ? (size_t)n : 0);
    uint64_t tag, value = 0;

    if (!pb_varint(&rest, &tag) || !(tag >> 3))
        return false;
    const int type = tag & 7;
    if ((type == PB_VARINT || type == PB_BYTES) && !pb_varint(&rest, &value))
        return false;
    if (type != PB_VARINT && type != PB_BYTES && type != PB_FIXED32 && type != PB_FIXED64)
        return false;
    if (type != PB_BYTES)
        value = type == PB_FIXED32 ? 4 : type == PB_FIXED64 ? 8 : 0;
    *at += rest.p - head;
    if (*at > size || value > (uint64_t)(size - *at))
        return false;
    *at += (int64_t)value;
    return true;
}

/* Refuses a binary file whose first fields have invalid headers. Only the headers are read, so a
 * large file that is not a SavedModel is refused immediately. */
static enum rt_status check_headers(const char *path, struct rt_error *err)
{
    struct stat s;
    int64_t at = 0;
    int fd;
    enum rt_status st = rt_open_regular(path, &fd, &s, err);

    if (st)
        return st;
    for (int i = 0; i < MAX_META_GRAPHS && at < s.st_size && !st; i++)
        if (!skip_field(fd, &at, s.st_size))
            st = rt_fail(err, RT_DATA_LOSS, "%s: Can't parse saved_model.pb as binary proto", path);
    close(fd);
    return st;
}

enum rt_status rt_saved_model_read(struct rt_saved_model **out, const char *dir,
                                   const struct rt_check *check, struct rt_error *err)
{
    static const char *const names[] = {"saved_model.pb", "saved_model.pbtxt"};
    char path[4200], *bytes = NULL;
    size_t n = 0;
    enum rt_status st = RT_NOT_FOUND;
    int k = 0;

    if (strlen(dir) > 4000)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a directory's name of %zu bytes", strlen(dir));
    for (; k < 2 && st == RT_NOT_FOUND; k++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[k]);
        st = k == 0 ? check_headers(path, err) : RT_OK;
        if (!st)
            st = rt_file_read_checked(path, MAX_FILE - 1, check, &bytes, &n, err);
    }
    if (st == RT_NOT_FOUND) {
        snprintf(path, sizeof path, "%s/saved_model.cpb", dir);
        if (access(path, F_OK) == 0)
            return rt_fail(err, RT_UNIMPLEMENTED, "%s: SavedModels in chunks are not read", path);
        return rt_fail(err, RT_NOT_FOUND,
                       "Could not find SavedModel .pb or .pbtxt at supplied export directory path: "
                       "%s. Check that the directory exists and that you have the right "
                       "permissions for accessing it.",
                       dir);
    }
    if (st)
        return st;
    if (k == 1) {
        st = parse_binary(out, dir, bytes, n, check, err);
    } else {
        st = parse(out, dir, rt_span_of(bytes, n), true, check, err);
        free(bytes);
    }
    if (st)
        return rt_fail_prefix(err, "%s: ", path);
    if (n == 0) {
        struct model *m = (struct model *)*out;
        m->empty = rt_arena_strdup(m->pub.arena, path);
    }
    return RT_OK;
}

void rt_saved_model_free(struct rt_saved_model *s)
{
    struct model *m = (struct model *)s;
    if (!m)
        return;
    for (size_t i = 0; i < m->n_defaults; i++)
        rt_tensor_clear(m->defaults[i]);
    free(m->defaults);
    free(m->pub.bytes);
    rt_arena_free(m->pub.arena);
    free(m);
}

/* ---- looking things up ---- */

static bool has_tag(const char *const *tags, int n, const char *tag)
{
    for (int i = 0; i < n; i++)
        if (strcmp(tags[i], tag) == 0)
            return true;
    return false;
}

static bool same_tags(const struct rt_meta_graph *g, const char *const *tags, int n)
{
    for (int i = 0; i < n; i++)
        if (!has_tag(g->tags, g->n_tags, tags[i]))
            return false;
    for (int i = 0; i < g->n_tags; i++)
        if (!has_tag(tags, n, g->tags[i]))
            return false;
    return true;
}

enum rt_status rt_saved_model_choose(const struct rt_saved_model *m, const char *const *tags,
                                     int n_tags, const struct rt_meta_graph **out,
                                     struct rt_error *err)
{
    static const char *const serve[] = {"serve"};
    const char *empty = ((const struct model *)m)->empty;
    char list[300] = "";
    size_t at = 0;

    if (!tags) {
        tags = serve;
        n_tags = 1;
    }
    for (int i = 0; i < m->n_meta_graphs; i++)
        if (same_tags(&m->meta_graphs[i], tags, n_tags)) {
            *out = &m->meta_graphs[i];
            return RT_OK;
        }
    for (int i = 0; i < n_tags && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s ", tags[i]);
    return rt_fail(err, RT_NOT_FOUND,
                   "Could not find meta graph def matching supplied tags: { %s}. To inspect "
                   "available tag-sets in the SavedModel, please use the SavedModel CLI: "
                   "`saved_model_cli`%s%s%s",
                   list, empty ? ": " : "", empty ? empty : "",
                   empty ? " is an empty file (was it copied whole?)" : "");
}
