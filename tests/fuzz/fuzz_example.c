/* Examples of any bytes are parsed or refused, alone and in a batch, by every op that parses them.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "proto/text.h"
#include "proto/unpack.h"
#include "runtime/session.h"
#include "tensorflow/core/framework/graph.pb-c.h"

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

static const char *const graph = NODE("x", "Placeholder", TYPE("DT_STRING")) KEYS("none", "0", "")
    KEYS("sparse", "3", "string_val: 'f' string_val: 'i' string_val: 's'")
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

static struct rt_callable *make_callable(void)
{
    static const char *const feed = "x";
    static const char *const fetches[] = {"op:0", "op:3", "op:4",  "op:5",  "op:6",
                                          "op:9", "op:8", "op:10", "op:11", "op:12"};
    struct rt_registry *ops = rt_registry_new();
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *c = NULL;
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
        .feeds = &feed, .fetches = fetches, .n_feeds = 1, .n_fetches = 10};
    if (rt_session_new(&s, l, &options, &err) || rt_session_prepare(s, &spec, &c, &err))
        abort();
    return c;
}

static void parse(struct rt_callable *c, int rank, int64_t n, struct rt_str *examples)
{
    struct rt_tensor in = {.dtype = RT_STRING, .rank = (int8_t)rank, .dim = {n}, .data = examples};
    struct rt_tensor out[10] = {0};
    struct rt_error err = {0};

    if (rt_callable_run(c, &in, out, NULL, &err) == RT_OK)
        for (int k = 0; k < 10; k++)
            rt_tensor_clear(&out[k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rt_callable *c;
    struct rt_str examples[3] = {0};
    const size_t cut = size / 2;

    if (!c)
        c = make_callable();
    if (rt_str_set(&examples[0], data, size) && rt_str_set(&examples[1], data, cut) &&
        rt_str_set(&examples[2], data + cut, size - cut)) {
        parse(c, 0, 0, examples);
        parse(c, 1, 1, examples);
        parse(c, 1, 3, examples);
        parse(c, 1, 2, examples + 1);
    }
    for (int k = 0; k < 3; k++)
        rt_str_clear(&examples[k]);
    return 0;
}
