/*
 * Parses arbitrary bytes as Examples, alone and in a batch, with every op that parses Examples. The
 * ops may refuse the bytes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "proto/text.h"
#include "proto/unpack.h"
#include "runtime/session/session.h"
#include "tensorflow/core/framework/graph.pb-c.h"
#include "tests/fuzz/cost.h"

#define NODE(name, op, rest) "node { name: '" name "' op: '" op "' " rest " } "
#define TYPE(t)              "attr { key: 'dtype' value { type: " t " } } "
#define KEYS(name, n, values)                                                                      \
    NODE(name, "Const",                                                                            \
         TYPE("DT_STRING") "attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape "   \
                           "{ dim { size: " n " } } " values " } } } ")
#define FLOAT(name, shape)                                                                         \
    NODE(name, "Const",                                                                            \
         TYPE("DT_FLOAT") "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape "     \
                          "{ " shape " } float_val: 1 } } } ")
#define LIST(key, what) "attr { key: '" key "' value { list { " what " } } } "
#define SHAPES                                                                                     \
    LIST("dense_shapes", "shape { dim { size: 2 } } shape { dim { size: -1 } dim { size: 2 } }")

static const char *const examples = NODE("x", "Placeholder", TYPE("DT_STRING"))
    KEYS("none", "0", "") KEYS("sparse", "3", "string_val: 'f' string_val: 'i' string_val: 's'")
        KEYS("dense", "2", "string_val: 'd' string_val: 'p'") KEYS("ragged", "1", "string_val: 'r'")
            FLOAT("two", "dim { size: 2 }") FLOAT("pad", "")
                NODE("op", "ParseExampleV2",
                     "input: 'x' input: 'none' input: 'sparse' input: 'dense' "
                     "input: 'ragged' input: 'two' input: 'pad' "
                     "attr { key: 'num_sparse' value { i: 3 } } " SHAPES LIST(
                         "Tdense", "type: DT_FLOAT type: DT_FLOAT")
                         LIST("sparse_types", "type: DT_FLOAT type: DT_INT64 "
                                              "type: DT_STRING")
                             LIST("ragged_value_types", "type: DT_INT64")
                                 LIST("ragged_split_types", "type: DT_INT32"));

/*
 * The graph of ParseSequenceExampleV2, and macros for its parts. The context and the feature lists
 * use the same key for each kind of feature. The context's dense feature has a default value, and
 * the dense feature list may be missing.
 */
#define TYPES(key, what) LIST(key, "type: " what)
#define COUNT(key)       "attr { key: '" key "' value { i: 1 } } "
#define IN(name)         "input: '" name "' "
static const char *const sequences = NODE("x", "Placeholder", TYPE("DT_STRING")) KEYS(
    "none", "0", "") KEYS("a", "1", "string_val: 'a'") KEYS("b", "1", "string_val: 'b'")
    KEYS("c", "1", "string_val: 'c'") FLOAT("two", "dim { size: 2 }") NODE(
        "yes", "Const",
        TYPE("DT_BOOL") "attr { key: 'value' value { tensor { dtype: DT_BOOL tensor_shape "
                        "{ dim { size: 1 } } bool_val: true } } } ")
        NODE("op", "ParseSequenceExampleV2",
             IN("x") IN("none") IN("a") IN("b") IN("c") IN("a") IN("b") IN("c") IN("yes") IN("two")
                 COUNT("Ncontext_sparse") COUNT("Nfeature_list_sparse") COUNT("Nfeature_list_dense")
                     TYPES("Tcontext_dense", "DT_FLOAT") TYPES("context_sparse_types", "DT_INT64")
                         TYPES("context_ragged_value_types",
                               "DT_STRING") TYPES("context_ragged_split_types", "DT_INT32")
                             LIST("context_dense_shapes", "shape { dim { size: 2 } }")
                                 TYPES("feature_list_dense_types", "DT_INT64")
                                     TYPES("feature_list_sparse_types", "DT_STRING")
                                         TYPES("feature_list_ragged_value_types", "DT_FLOAT")
                                             TYPES("feature_list_ragged_split_types", "DT_INT64")
                                                 LIST("feature_list_dense_shapes", "shape { }"));

#define NAME(name)                                                                                 \
    NODE("one_" name, "Const",                                                                     \
         TYPE("DT_STRING") "attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape "   \
                           "{ } string_val: '" name "' } } } ")
static const char *const single = NODE("x", "Placeholder", TYPE("DT_STRING"))
    KEYS("b", "1", "string_val: 'b'") NAME("a") NAME("b") FLOAT("two", "dim { size: 2 }")
        NODE("op", "ParseSingleSequenceExample",
             IN("x") IN("b") IN("one_a") IN("one_b") IN("one_a") IN("one_b") IN("two") IN("one_a")
                 COUNT("Ncontext_sparse") COUNT("Ncontext_dense") COUNT("Nfeature_list_sparse")
                     COUNT("Nfeature_list_dense") TYPES("context_sparse_types", "DT_INT64")
                         TYPES("Tcontext_dense", "DT_FLOAT")
                             TYPES("feature_list_dense_types", "DT_INT64")
                                 TYPES("feature_list_sparse_types", "DT_STRING")
                                     LIST("context_dense_shapes", "shape { dim { size: 2 } }")
                                         LIST("feature_list_dense_shapes", "shape { }"));

enum { MAX_OUT = 14 };
struct subject {
    struct rt_callable *c;
    int n_out;
};

static struct subject open_graph(const char *graph, int n_out)
{
    static const char *const feed = "x";
    static const char *const fetches[MAX_OUT] = {"op:0",  "op:1",  "op:2",  "op:3", "op:4",
                                                 "op:5",  "op:6",  "op:7",  "op:8", "op:9",
                                                 "op:10", "op:11", "op:12", "op:13"};
    struct rt_registry *ops = rt_registry_new();
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct subject made = {.n_out = n_out};
    struct rt_error err = {0};
    ProtobufCMessage *m;

    if (!ops || !kn_register(ops) ||
        pb_text_parse(&m, &tensorflow__graph_def__descriptor, rt_span_str(graph), &err))
        abort();
    const size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *p = malloc(n);
    if (!p || protobuf_c_message_pack(m, p) != n ||
        rt_library_import(&l, rt_span_of(p, n), ops, &err))
        abort();
    free(p);
    pb_free(m);
    const struct rt_session_options options = {.registry = ops, .run_memory_limit = 64 << 20};
    const struct rt_call_spec spec = {
        .feeds = &feed, .fetches = fetches, .n_feeds = 1, .n_fetches = n_out};
    if (rt_session_new(&s, l, &options, &err) || rt_session_prepare(s, &spec, &made.c, &err))
        abort();
    return made;
}

static void parse(const struct subject *s, int rank, int64_t n, struct rt_str *strs)
{
    struct rt_tensor in = {.dtype = RT_STRING, .rank = (int8_t)rank, .dim = {n}, .data = strs};
    struct rt_tensor out[MAX_OUT] = {0};
    struct rt_error err = {0};

    if (rt_callable_run(s->c, &in, out, NULL, &err) == RT_OK)
        for (int k = 0; k < s->n_out; k++)
            rt_tensor_clear(&out[k]);
}

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct subject subject[3];
    struct rt_str strs[3] = {0};
    const size_t cut = size / 2;

    if (!subject[0].c) {
        subject[0] = open_graph(examples, 13);
        subject[1] = open_graph(sequences, 14);
        subject[2] = open_graph(single, 8);
    }
    if (rt_str_set(&strs[0], NULL, data, size, NULL) &&
        rt_str_set(&strs[1], NULL, data, cut, NULL) &&
        rt_str_set(&strs[2], NULL, data + cut, size - cut, NULL))
        for (int k = 0; k < 3; k++) {
            parse(&subject[k], 0, 0, strs);
            parse(&subject[k], 1, 1, strs);
            parse(&subject[k], 1, 3, strs);
            parse(&subject[k], 1, 2, strs + 1);
        }
    for (int k = 0; k < 3; k++)
        rt_str_clear(&strs[k]);
}
