/*
 * Imports GraphDef and FunctionDef messages into rt_graph (the rt_library_ functions of graph.h).
 *
 * A graph is built in three passes. The first pass creates the nodes one by one (schema,
 * attributes, types), and frees each node's message immediately, so that there are never more than
 * two copies of a frozen model's weights in memory. The second pass creates the edges, which
 * requires the names of all nodes. The third pass searches for cycles.
 */
#include "runtime/files/import.h"

#include <stdlib.h>
#include <string.h>

#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/growth.h"
#include "runtime/core/op.h"

#include "tensorflow/core/framework/graph.pb-c.h"

/* Graph version of TensorFlow 2.21. A graph's min_consumer must not exceed it. */
enum { GRAPH_VERSION = 2474 };

/*
 * Limits on the size of a GraphDef in memory, without its tensors (FREE_BYTES, GROWTH), and on the
 * keys of instantiated functions (FREE_KEY_BYTES, KEY_GROWTH). Each limit is a fixed number of
 * bytes plus a multiple of the size of the GraphDef message. Without limits, a GraphDef of 300 KB
 * whose "Unpack" nodes had 65,000 outputs each occupied gigabytes of memory. Moreover, a chain of
 * functions that each call the next one with two different attributes was instantiated 2^30 times.
 */
enum { FREE_BYTES = 64 << 20, GROWTH = 64, FREE_KEY_BYTES = 16 << 20, KEY_GROWTH = 4 };
enum { MAX_KEY_BYTES = 1 << 20 };
/* Limit on the memory of tensors that repeat one value (rt_library.splat_left): a fixed number of
 * bytes plus a multiple of the size of the GraphDef message. */
enum { FREE_SPLAT_BYTES = 256 << 20, SPLAT_GROWTH = 8 };

/* ---- shared by all files of import ---- */

enum rt_status im_no_memory(struct rt_error *err)
{
    return rt_fail(err, RT_RESOURCE_EXHAUSTED, "out of memory for the graph");
}

enum rt_status im_unpack(const struct rt_library *l, void *out,
                         const ProtobufCMessageDescriptor *type, struct rt_span bytes,
                         const char *what, struct rt_error *err)
{
    void *message = pb_unpack_checked(type, bytes, what, l->check, err);
    memcpy(out, &message, sizeof message);
    return message ? RT_OK : pb_unpack_failed(err, RT_INVALID_ARGUMENT);
}

enum rt_status im_name_node(struct im_build *b, const char *name, const struct rt_schema *s,
                            struct rt_error *err)
{
    if (!err)
        return RT_INVALID_ARGUMENT;
    struct rt_bytes t;
    rt_bytes_init(&t, 64 << 10);
    rt_bytes_adds(&t, rt_error_text(err));
    rt_bytes_addf(&t, "; NodeDef: ");
    if (b->function)
        rt_bytes_addf(&t, "{{function_node %s}} ", b->function);
    rt_bytes_addf(&t, "{{node %s}}", name);
    if (s)
        rt_bytes_addf(&t, "; Op<name=%s>", s->name);
    enum rt_status code = err->code;
    rt_fail(err, code, "%s", t.p ? t.p : "out of memory");
    rt_bytes_clear(&t);
    return code;
}

enum rt_status im_fail_node(struct im_build *b, const char *node, struct rt_error *err,
                            const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum rt_status st = rt_vfail(err, RT_INVALID_ARGUMENT, fmt, ap);
    va_end(ap);
    if (b->function)
        rt_fail_prefix(err, "Function '%s', node '%s': ", b->function, node);
    else
        rt_fail_prefix(err, "Node '%s': ", node);
    return st;
}

enum rt_status im_next_field(const struct rt_library *l, struct rt_span *rest, size_t *n_fields,
                             struct pb_field *f, bool *more, const char *what, struct rt_error *err)
{
    const enum rt_status st = rt_check_tick(l->check, ++*n_fields, err);
    const int n = st ? 0 : pb_field_next(rest, f);

    *more = n > 0;
    if (n < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s is damaged: its bytes are no such message",
                       what);
    return st;
}

/* ---- a graph ---- */

static enum rt_status start(struct im_build *b, struct rt_library *l, const char *function,
                            size_t n_nodes, struct rt_error *err)
{
    *b = (struct im_build){.l = l, .function = function};
    if (n_nodes > INT32_MAX / 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a graph of %zu nodes", n_nodes);
    b->temp = rt_arena_new(l->limit);
    if (!b->temp)
        return im_no_memory(err);
    struct im_name_map *names = rt_arena_alloc(l->arena, sizeof *names);
    b->g = rt_arena_alloc(l->arena, sizeof *b->g);
    b->node = rt_arena_array(l->arena, n_nodes, sizeof *b->node);
    b->pending = rt_arena_array(b->temp, n_nodes, sizeof *b->pending);
    if (!names || !b->g || !b->node || !b->pending)
        return im_no_memory(err);
    names->next = l->names;
    l->names = names;
    b->names = &names->map;
    b->g->name = function ? function : "";
    b->g->by_name = b->names;
    b->reader = (struct rt_attr_reader){.arena = l->arena,
                                        .held = &l->held,
                                        .bytes = &l->bytes,
                                        .splat_left = &l->splat_left,
                                        .check = l->check};
    return RT_OK;
}

enum rt_status im_finish(struct im_build *b, struct rt_error *err)
{
    for (int i = 0; i < b->n; i++)
        if (b->pending[i].is_stranger) {
            uint8_t *types = rt_arena_alloc(b->l->arena, (size_t)b->node[i].n_out);
            if (!types)
                return im_no_memory(err);
            b->node[i].out_dtype = types; /* The arena zeroes the array, so each type is
                                           * RT_NO_DTYPE. */
        }
    enum rt_status st = im_check_cycles(b, err);
    for (int i = 0; i < b->n && !st; i++) {
        const struct rt_node *n = &b->node[i];
        st = im_step(b, err);
        if (!st && n->op && n->op->check) {
            st = n->op->check(n, err);
            if (st)
                im_name_node(b, n->name, NULL, err);
        }
    }
    b->g->node = b->node;
    b->g->n_nodes = b->n;
    return st;
}

/* Ends the construction of a graph. If memory ran out because of a limit, err names the limit. */
static enum rt_status end(struct im_build *b, enum rt_status st, struct rt_error *err)
{
    const bool was_full = rt_arena_was_full(b->l->arena);
    if (st == RT_RESOURCE_EXHAUSTED && (was_full || (b->temp && rt_arena_was_full(b->temp)))) {
        rt_fail(err, st,
                "the graph takes more than %zu bytes of memory: %d MB and %d for each of its bytes "
                "are allowed",
                b->l->limit, FREE_BYTES >> 20, GROWTH);
        if (b->function)
            rt_fail_prefix(err, "Function '%s': ", b->function);
    }
    rt_arena_free(b->temp);
    rt_map_clear(&b->args);
    for (size_t i = 0; i < b->signatures.n; i++)
        pb_free(b->signatures.entry[i].value);
    rt_map_clear(&b->signatures);
    return st;
}

/* ---- the main graph ---- */

/* Adds a function to the library. Reads its name, signature and is_stateful, but not its body. */
static enum rt_status add_function(struct rt_library *l, struct rt_span def, size_t *n_fields,
                                   struct rt_error *err)
{
    struct im_function *f = rt_arena_alloc(l->arena, sizeof *f);
    unsigned char *copy = rt_arena_aligned(l->arena, def.n, 16);
    if (!f || !copy)
        return im_no_memory(err);
    enum rt_status st = rt_copy_pieces(copy, def.p, def.n, l->check, err);
    f->def = rt_span_of(copy, def.n);
    f->name = "";
    struct pb_field x;
    bool more = true;
    for (struct rt_span rest = f->def; !st && more;) {
        st = im_next_field(l, &rest, n_fields, &x, &more, "a function of the library", err);
        if (!st && more && x.number == 1 && x.type == PB_BYTES)
            f->signature = x.bytes;
    }
    more = true;
    for (struct rt_span rest = f->signature; !st && more;) {
        st = im_next_field(l, &rest, n_fields, &x, &more,
                           "the signature of a function of the library", err);
        if (st || !more)
            break;
        if (x.number == 1 && x.type == PB_BYTES && x.bytes.n > PB_MAX_STRING)
            return rt_fail(err, RT_INVALID_ARGUMENT, "a function's name has more than %d bytes",
                           PB_MAX_STRING);
        if (x.number == 1 && x.type == PB_BYTES) {
            f->name = rt_arena_strndup(l->arena, (const char *)x.bytes.p, x.bytes.n);
            if (!f->name)
                return im_no_memory(err);
        }
        if (x.number == 17 && x.type == PB_VARINT)
            f->is_stateful = x.value != 0;
    }
    if (st)
        return st;
    if (rt_schema_find(f->name))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Cannot add function '%s' because an op with the same name already exists.",
                       f->name);
    const struct im_function *other = rt_map_get(&l->functions, f->name);
    if (other && !rt_span_eq(other->def, f->def))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Cannot add function '%s' because a different function with the same name "
                       "already exists.",
                       f->name);
    return other || rt_map_put(&l->functions, f->name, f) ? RT_OK : im_no_memory(err);
}

static enum rt_status add_functions(struct rt_library *l, struct rt_span library, size_t *n_fields,
                                    struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct pb_field f;
    bool more = true;

    while (!st && more) {
        st = im_next_field(l, &library, n_fields, &f, &more, "the library of functions", err);
        if (st || !more || f.number != 1 || f.type != PB_BYTES)
            continue;
        st = rt_check_call(l->check, err);
        if (!st)
            st = add_function(l, f.bytes, n_fields, err);
    }
    return st;
}

static enum rt_status check_versions(const struct rt_library *l, struct rt_span bytes,
                                     struct rt_error *err)
{
    Tensorflow__VersionDef *v;
    enum rt_status st = im_unpack(l, &v, &tensorflow__version_def__descriptor, bytes,
                                  "the GraphDef's version", err);
    if (st)
        return st;
    if (v->min_consumer > GRAPH_VERSION)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "GraphDef min consumer version %d above current version %d.",
                     (int)v->min_consumer, GRAPH_VERSION);
    for (size_t i = 0; i < v->n_bad_consumers && !st; i++)
        if (v->bad_consumers[i] == GRAPH_VERSION)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "GraphDef disallows consumer version %d.",
                         GRAPH_VERSION);
    pb_free(v);
    return st;
}

static enum rt_status add_main_node(struct im_build *b, struct rt_span bytes, struct rt_error *err)
{
    Tensorflow__NodeDef *def = NULL;
    enum rt_status st = rt_check_call(b->l->check, err);

    if (!st)
        st = im_unpack(b->l, &def, &tensorflow__node_def__descriptor, bytes,
                       "a node of the GraphDef", err);
    if (!st)
        st = im_add_node(b, def, err);
    pb_free(def);
    return st;
}

static enum rt_status import_main(struct rt_library *l, struct rt_span graph_def,
                                  struct rt_error *err)
{
    const char *what = "the GraphDef";
    size_t n_nodes = 0, n_fields = 0;
    enum rt_status st = RT_OK;
    struct pb_field f;
    bool more = true;

    for (struct rt_span rest = graph_def; !st && more;) {
        st = im_next_field(l, &rest, &n_fields, &f, &more, what, err);
        n_nodes += !st && more && f.number == 1 && f.type == PB_BYTES;
    }
    if (st)
        return st;
    struct im_build b;
    st = start(&b, l, NULL, n_nodes, err);
    /* Functions are added before nodes, because a node's op may be a function. */
    more = true;
    for (struct rt_span rest = graph_def; !st && more;) {
        st = im_next_field(l, &rest, &n_fields, &f, &more, what, err);
        if (st || !more || f.type != PB_BYTES)
            continue;
        if (f.number == 2)
            st = add_functions(l, f.bytes, &n_fields, err);
        else if (f.number == 4)
            st = check_versions(l, f.bytes, err);
    }
    more = true;
    for (struct rt_span rest = graph_def; !st && more;) {
        st = im_next_field(l, &rest, &n_fields, &f, &more, what, err);
        if (!st && more && f.number == 1 && f.type == PB_BYTES)
            st = add_main_node(&b, f.bytes, err);
    }
    if (!st)
        st = im_connect(&b, err);
    if (!st)
        st = im_finish(&b, err);
    if (!st)
        l->main = b.g;
    return end(&b, st, err);
}

enum rt_status rt_library_import(struct rt_library **out, struct rt_span graph_def,
                                 const struct rt_registry *ops, struct rt_error *err)
{
    return rt_library_import_checked(out, graph_def, ops, NULL, err);
}

enum rt_status rt_library_import_checked(struct rt_library **out, struct rt_span graph_def,
                                         const struct rt_registry *ops,
                                         const struct rt_check *check, struct rt_error *err)
{
    struct rt_library *l = calloc(1, sizeof *l);
    if (!l)
        return im_no_memory(err);
    rt_mutex_init(&l->mu);
    l->ops = ops;
    l->check = check;
    l->splat_left = rt_growth_limit(FREE_SPLAT_BYTES, graph_def.n, SPLAT_GROWTH);
    l->limit = rt_growth_limit(FREE_BYTES, graph_def.n, GROWTH);
    l->key_limit = rt_growth_limit(FREE_KEY_BYTES, graph_def.n, KEY_GROWTH);
    l->arena = rt_arena_new(l->limit);
    if (l->arena)
        rt_arena_count(l->arena, &l->bytes);
    enum rt_status st = l->arena ? import_main(l, graph_def, err) : im_no_memory(err);
    if (st) {
        rt_library_free(l);
        return st;
    }
    l->check = NULL;
    *out = l;
    return RT_OK;
}

void rt_library_set_check(struct rt_library *l, struct rt_check check)
{
    l->later = check;
    l->check = &l->later;
}

void rt_library_free(struct rt_library *l)
{
    if (!l)
        return;
    rt_attr_drop(l->held);
    for (struct im_name_map *m = l->names; m; m = m->next)
        rt_map_clear(&m->map);
    rt_map_clear(&l->functions);
    rt_map_clear(&l->bodies);
    rt_mutex_clear(&l->mu);
    rt_arena_free(l->arena);
    free(l);
}

const struct rt_graph *rt_library_main(const struct rt_library *l)
{
    return l->main;
}

size_t rt_library_bytes(const struct rt_library *l)
{
    return atomic_load(&l->bytes);
}

/* ---- functions ---- */

static void key_of(struct rt_bytes *key, const struct rt_func_ref *f);

static void key_attr(struct rt_bytes *key, const struct rt_attr *a)
{
    rt_bytes_addc(key, (char)a->type);
    rt_bytes_add(key, &a->n, sizeof a->n);
    switch (a->type) {
    case RT_ATTR_STRING:
        rt_bytes_add(key, a->v.s, a->n);
        break;
    case RT_ATTR_INT:
        rt_bytes_add(key, &a->v.i, sizeof a->v.i);
        break;
    case RT_ATTR_FLOAT:
        rt_bytes_add(key, &a->v.f, sizeof a->v.f);
        break;
    case RT_ATTR_BOOL:
        rt_bytes_add(key, &a->v.b, sizeof a->v.b);
        break;
    case RT_ATTR_TYPE:
        rt_bytes_add(key, &a->v.t, sizeof a->v.t);
        break;
    case RT_ATTR_SHAPE:
        rt_bytes_add(key, a->v.shape, sizeof *a->v.shape);
        break;
    case RT_ATTR_FUNC:
        key_of(key, a->v.func);
        break;
    case RT_ATTR_LIST + RT_ATTR_STRING:
        for (size_t i = 0; i < a->n; i++) {
            rt_bytes_add(key, &a->v.strs[i].n, sizeof a->v.strs[i].n);
            rt_bytes_add(key, a->v.strs[i].p, a->v.strs[i].n);
        }
        break;
    case RT_ATTR_LIST + RT_ATTR_INT:
        rt_bytes_add(key, a->v.ints, a->n * sizeof *a->v.ints);
        break;
    case RT_ATTR_LIST + RT_ATTR_FLOAT:
        rt_bytes_add(key, a->v.floats, a->n * sizeof *a->v.floats);
        break;
    case RT_ATTR_LIST + RT_ATTR_BOOL:
        rt_bytes_add(key, a->v.bools, a->n * sizeof *a->v.bools);
        break;
    case RT_ATTR_LIST + RT_ATTR_TYPE:
        rt_bytes_add(key, a->v.types, a->n);
        break;
    case RT_ATTR_LIST + RT_ATTR_SHAPE:
        rt_bytes_add(key, a->v.shapes, a->n * sizeof *a->v.shapes);
        break;
    case RT_ATTR_LIST + RT_ATTR_FUNC:
        for (size_t i = 0; i < a->n && !key->failed; i++)
            key_of(key, &a->v.funcs[i]);
        break;
    case RT_ATTR_LIST:
    case RT_ATTR_NONE:
        break;
    default: /* The key contains the tensor's address, so different tensors have different keys. */
        rt_bytes_add(key, &a->v.tensor, sizeof a->v.tensor);
        break;
    }
}

/* Appends the key of a function and its attributes. Equal attributes give equal keys. Names and
 * lengths in the key make it unambiguous. Stops at the key's maximum length, because nested
 * functions in attributes can make a key exponentially long. */
static void key_of(struct rt_bytes *key, const struct rt_func_ref *f)
{
    rt_bytes_add(key, f->name, strlen(f->name) + 1);
    for (int i = 0; i < f->n_attr && !key->failed; i++) {
        rt_bytes_add(key, f->attr[i].name, strlen(f->attr[i].name) + 1);
        key_attr(key, &f->attr[i].value);
    }
    rt_bytes_addc(key, '\n');
}

static enum rt_status make_body(struct rt_library *l, const struct im_function *f,
                                const struct rt_func_ref *ref, struct im_body *out,
                                struct rt_error *err)
{
    struct im_build b;
    Tensorflow__FunctionDef *def = NULL;
    enum rt_status st = start(&b, l, f->name, 0, err);
    if (!st)
        st = im_unpack(l, &def, &tensorflow__function_def__descriptor, f->def, f->name, err);
    if (!st && !def->signature)
        st = rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s' has no signature", f->name);
    if (!st)
        st = im_build_body(&b, def, ref, err);
    if (!st)
        out->graph = b.g;
    pb_free(def);
    return end(&b, st, err);
}

enum rt_status rt_library_instantiate(struct rt_library *l, const struct rt_func_ref *ref,
                                      const struct rt_graph **out, struct rt_error *err)
{
    const struct im_function *f = rt_map_get(&l->functions, ref->name);
    if (!f)
        return rt_fail(err, RT_NOT_FOUND, "Function %s is not defined.", ref->name);
    struct rt_bytes key;
    rt_bytes_init(&key, MAX_KEY_BYTES);
    key_of(&key, ref);
    if (key.failed) {
        const enum rt_status st = rt_bytes_fail(
            &key, "the attributes of a function", err, RT_RESOURCE_EXHAUSTED,
            "Function '%s' is given more than %d bytes of attributes", f->name, MAX_KEY_BYTES);
        rt_bytes_clear(&key);
        return st;
    }

    struct rt_error why = {.arena = err ? err->arena : NULL};
    rt_mutex_lock(&l->mu);
    struct im_body *body = rt_map_getn(&l->bodies, key.p, key.n);
    const bool is_one_more = !body && key.n > l->key_limit - l->key_bytes;
    if (!body && !is_one_more) {
        body = rt_arena_alloc(l->arena, sizeof *body);
        if (body && rt_map_putn(&l->bodies, key.p, key.n, body)) {
            l->key_bytes += key.n;
            body->status = make_body(l, f, ref, body, &why);
            if (body->status)
                body->text = rt_arena_strdup(l->arena, rt_error_text(&why));
        } else {
            body = NULL;
        }
    }
    const bool was_full = rt_arena_was_full(l->arena);
    rt_mutex_unlock(&l->mu);
    rt_bytes_clear(&key);
    if (is_one_more)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "Function '%s': the attributes that bodies of functions are made for take "
                       "more than %zu bytes: %d MB and %d for each byte of the graph are allowed",
                       f->name, l->key_limit, FREE_KEY_BYTES >> 20, KEY_GROWTH);
    if (!body && was_full)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "Function '%s': bodies of functions for different attributes take more "
                       "than %zu bytes of memory",
                       f->name, l->limit);
    if (!body)
        return im_no_memory(err);
    if (body->status)
        return rt_fail(err, body->status, "%s", body->text ? body->text : "out of memory");
    *out = body->graph;
    return RT_OK;
}
