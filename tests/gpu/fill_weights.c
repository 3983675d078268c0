/*
 * fill_weights MODEL: writes the weights of a SavedModel that has an index of its checkpoint, but
 * no weights. The weights are random, and depend only on the names and shapes of the tensors. Tests
 * of large models therefore need not store hundreds of megabytes.
 *
 * The weights depend on the name of the variable, which is in the SavedModel's object graph, so
 * that activations neither vanish nor grow, and the outputs neither are all equal nor saturate:
 * - The elements of matrices and filters have the standard deviation sqrt(2 / n), where n is the
 *   number of inputs of an output (He et al., "Delving deep into rectifiers", 2015); those of
 *   embeddings have 1, and those of recurrent layers sqrt(1 / n). All are distributed uniformly.
 * - Scales and variances of normalisations are between 0.7 and 1.3, biases and means between -0.3
 *   and 0.3.
 * - ResNet50 adds the outputs of 16 blocks. The scales of their last normalisations, *_3_bn, are
 *   between 0.1 and 0.4, because the sum would grow by a factor of 256 otherwise.
 * Integers are 0, and strings are empty.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "runtime/base/pieces.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/file.h"

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64, by S. Vigna */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double uniform(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) * 0x1p-53;
}

/* Returns the 64-bit FNV-1a hash of a name. */
static uint64_t hash(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

/* ---- names of variables: the object graph of the SavedModel ---- */

/* Numbers of fields. The messages are in TensorFlow's saved_model.proto, meta_graph.proto and
 * saved_object_graph.proto. */
enum {
    SAVED_MODEL_META_GRAPHS = 2,
    META_GRAPH_OBJECT_GRAPH = 7,
    OBJECT_GRAPH_NODES = 1,
    NODE_CHILDREN = 1,
    NODE_VARIABLE = 7,
    CHILD_ID = 1,
    CHILD_NAME = 2,
    VARIABLE_NAME = 6,
    MAX_NODES = 1 << 16,
};

struct objects {
    int n;
    struct rt_span node[MAX_NODES];
};

/* Returns the first field `number` of a message, or an empty span. */
static struct rt_span field(struct rt_span message, uint32_t number)
{
    struct pb_field f;
    while (pb_field_next(&message, &f) > 0)
        if (f.number == number && f.type == PB_BYTES)
            return f.bytes;
    return rt_span_of(NULL, 0);
}

static void read_objects(struct rt_span saved_model, struct objects *o)
{
    struct rt_span graph =
        field(field(saved_model, SAVED_MODEL_META_GRAPHS), META_GRAPH_OBJECT_GRAPH);
    struct pb_field f;
    while (o->n < MAX_NODES && pb_field_next(&graph, &f) > 0)
        if (f.number == OBJECT_GRAPH_NODES && f.type == PB_BYTES)
            o->node[o->n++] = f.bytes;
}

/* Returns the index of the node's child with this name, or -1. */
static int child(const struct objects *o, int node, struct rt_span name)
{
    struct rt_span left = o->node[node];
    struct pb_field f, g;
    while (pb_field_next(&left, &f) > 0) {
        if (f.number != NODE_CHILDREN || f.type != PB_BYTES ||
            !rt_span_eq(field(f.bytes, CHILD_NAME), name))
            continue;
        uint64_t id = 0;
        while (pb_field_next(&f.bytes, &g) > 0)
            if (g.number == CHILD_ID && g.type == PB_VARINT)
                id = g.value;
        return id < (uint64_t)o->n ? (int)id : -1;
    }
    return -1;
}

/* Returns the name of the variable with this key in the checkpoint, for example "conv1_bn/gamma".
 * Returns an empty span if the key is no path to a variable. */
static struct rt_span name_of(const struct objects *o, const char *key)
{
    int node = o->n ? 0 : -1;
    while (node >= 0 && strncmp(key, ".ATTRIBUTES", 11) != 0 && strchr(key, '/')) {
        const size_t n = strcspn(key, "/");
        node = child(o, node, rt_span_of(key, n));
        key += n + 1;
    }
    if (node < 0)
        return rt_span_of(NULL, 0);
    return field(field(o->node[node], NODE_VARIABLE), VARIABLE_NAME);
}

/* ---- weights ---- */

static bool ends_with(struct rt_span name, const char *end)
{
    const size_t n = strlen(end);
    return name.n >= n && memcmp(name.p + name.n - n, end, n) == 0;
}

/* Returns the standard deviation of the elements of a matrix or filter. */
static double deviation_of(struct rt_span name, int rank, const int64_t *dim)
{
    double n_in = 1;
    for (int i = 0; i < rank - 1; i++)
        n_in *= (double)dim[i];
    if (ends_with(name, "/embeddings"))
        return 1;
    if (rank == 4 && dim[3] == 1) /* a depthwise filter */
        n_in = (double)(dim[0] * dim[1]);
    if (rank == 3 && dim[0] > dim[1] * dim[2] / 2) /* inputs, heads and size of a head */
        n_in = (double)dim[0];
    return sqrt((ends_with(name, "/recurrent_kernel") ? 1 : 2) / n_in);
}

/* Sets the range of the elements of a vector. */
static void range_of(struct rt_span name, double *low, double *high)
{
    const bool is_scale = ends_with(name, "/gamma") || ends_with(name, "/moving_variance");
    *low = is_scale ? 0.7 : -0.3;
    *high = is_scale ? 1.3 : 0.3;
    if (ends_with(name, "_3_bn/gamma")) {
        *low = 0.1;
        *high = 0.4;
    }
}

static void fill(const struct objects *o, const struct rt_checkpoint_entry *e,
                 const struct rt_tensor *t)
{
    if (e->dtype != RT_F32)
        return;
    const struct rt_span name = name_of(o, e->name);
    float *v = t->data;
    uint64_t state = hash(e->name);
    const int64_t n = rt_tensor_count(t);
    double low, high;
    if (e->shape.rank < 2 || ends_with(name, "/bias")) {
        range_of(name, &low, &high);
    } else {
        high = sqrt(3) * deviation_of(name, e->shape.rank, e->shape.dim);
        low = -high;
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(low + (high - low) * uniform(&state));
}

int main(int argc, char **argv)
{
    static struct objects objects;
    char prefix[4096], graph[4096], *text = NULL;
    size_t n_text = 0;
    struct rt_error err = {0};
    struct rt_checkpoint *c = NULL;
    if (argc != 2) {
        fputs("usage: fill_weights MODEL\n", stderr);
        return 2;
    }
    snprintf(prefix, sizeof prefix, "%s/variables/variables", argv[1]);
    snprintf(graph, sizeof graph, "%s/saved_model.pb", argv[1]);
    enum rt_status st = rt_file_read(graph, SIZE_MAX / 2, &text, &n_text, &err);
    if (!st)
        st = rt_checkpoint_open(&c, prefix, NULL, &err);
    read_objects(rt_span_of(text, n_text), &objects);
    const int n = st ? 0 : rt_checkpoint_count(c);
    const char **names = calloc((size_t)n + 1, sizeof *names);
    struct rt_tensor *tensors = calloc((size_t)n + 1, sizeof *tensors);
    if (!names || !tensors)
        abort();
    for (int i = 0; i < n && !st; i++) {
        const struct rt_checkpoint_entry *e = rt_checkpoint_at(c, i);
        names[i] = e->name;
        st = rt_tensor_new(&tensors[i], NULL, e->dtype, e->shape.rank, e->shape.dim, &err);
        if (!st && e->dtype != RT_STRING)
            st = rt_zero_pieces(tensors[i].data, rt_tensor_bytes(&tensors[i]), NULL, &err);
        if (!st)
            fill(&objects, e, &tensors[i]);
    }
    if (!st)
        st = rt_checkpoint_write(prefix, n, names, tensors, NULL, NULL, &err);
    if (st)
        fprintf(stderr, "fill_weights: %s: %s\n", argv[1], rt_error_text(&err));
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&tensors[i]);
    free(names);
    free(tensors);
    free(text);
    rt_checkpoint_unref(c);
    return st ? 1 : 0;
}
