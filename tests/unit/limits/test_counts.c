/*
 * Tests that import refuses a node whose attributes disagree about the number of tensors in an
 * argument. Some ops give this number in several attributes, but the schema relates an argument to
 * only one of them. A kernel that took an output's size from one attribute and an index from
 * another would write past the end of the output.
 */
#include "tests/support/test.h"

#include "runtime/core/graph.h"
#include "tests/support/graph_def.h"
#include "tests/support/registry.h"

/* A valid node of each op, in which every count is 2 and every list has two elements. `free` names
 * the attributes whose length need not match another attribute. */
static const struct {
    const char *op, *inputs, *attrs, *free;
} ops[] = {
    {"ParseExample", "s s s s s s f f",
     "Nsparse=2 Ndense=2 sparse_types=[float,int64] Tdense=[float,float] "
     "dense_shapes=[<1>,<2>]",
     ""},
    {"ParseExampleV2", "s s s s s f f",
     "num_sparse=2 Tdense=[float,float] sparse_types=[float,int64] "
     "ragged_value_types=[float,int64] ragged_split_types=[int32,int64] dense_shapes=[<1>,<2>]",
     ""},
    {"ParseSingleExample", "s f f",
     "num_sparse=2 sparse_keys=['a','b'] dense_keys=['c','d'] sparse_types=[float,int64] "
     "Tdense=[float,float] dense_shapes=[<1>,<2>]",
     ""},
    {"ParseSequenceExample", "s s f f",
     "feature_list_dense_missing_assumed_empty=['g'] context_sparse_keys=['a','b'] "
     "context_dense_keys=['c','d'] feature_list_sparse_keys=['e','f'] "
     "feature_list_dense_keys=['g','h'] Ncontext_sparse=2 Ncontext_dense=2 "
     "Nfeature_list_sparse=2 Nfeature_list_dense=2 context_sparse_types=[float,int64] "
     "Tcontext_dense=[float,float] feature_list_dense_types=[float,int64] "
     "context_dense_shapes=[<1>,<2>] feature_list_sparse_types=[float,int64] "
     "feature_list_dense_shapes=[<1>,<2>]",
     "feature_list_dense_missing_assumed_empty"},
    {"ParseSequenceExampleV2", "s s s s s s s s b f f",
     "Ncontext_sparse=2 Tcontext_dense=[float,float] context_sparse_types=[float,int64] "
     "context_ragged_value_types=[float,int64] context_ragged_split_types=[int32,int64] "
     "context_dense_shapes=[<1>,<2>] Nfeature_list_sparse=2 Nfeature_list_dense=2 "
     "feature_list_dense_types=[float,int64] feature_list_sparse_types=[float,int64] "
     "feature_list_ragged_value_types=[float,int64] "
     "feature_list_ragged_split_types=[int32,int64] feature_list_dense_shapes=[<1>,<2>]",
     ""},
    {"ParseSingleSequenceExample", "s s s s s s s s s s f f s",
     "Ncontext_sparse=2 Ncontext_dense=2 Nfeature_list_sparse=2 Nfeature_list_dense=2 "
     "context_sparse_types=[float,int64] Tcontext_dense=[float,float] "
     "feature_list_dense_types=[float,int64] context_dense_shapes=[<1>,<2>] "
     "feature_list_sparse_types=[float,int64] feature_list_dense_shapes=[<1>,<2>]",
     ""},
    {"SparseCross", "i i i i i i i i",
     "N=2 hashed_output=true num_buckets=5 hash_key=1 sparse_types=[int64,int64] "
     "dense_types=[int64,int64] out_type=int64 internal_type=int64",
     "dense_types num_buckets hash_key"},
    {"SparseCrossV2", "i i i i i i i i s",
     "N=2 sparse_types=[int64,int64] dense_types=[int64,int64]", "dense_types"},
    {"SparseCrossHashed", "i i i i i i i i i b i",
     "N=2 sparse_types=[int64,int64] dense_types=[int64,int64]", "dense_types"},
    {"RaggedCross", "i i i i i i i i i i i i",
     "Nsparse=2 input_order='SSRRDD' hashed_output=true num_buckets=5 hash_key=1 "
     "ragged_values_types=[int64,int64] dense_types=[int64,int64] "
     "sparse_values_types=[int64,int64] ragged_splits_types=[int64,int64] "
     "out_values_type=int64 out_row_splits_type=int64",
     "dense_types num_buckets hash_key"},
    {"RaggedTensorToTensor", "i f f i i",
     "T=float Tindex=int64 Tshape=int64 num_row_partition_tensors=2 "
     "row_partition_types=['FIRST_DIM_SIZE','ROW_SPLITS']",
     ""},
    {"RaggedGather", "i i f i",
     "Tvalues=float Tindices=int64 Tsplits=int64 PARAMS_RAGGED_RANK=2 OUTPUT_RAGGED_RANK=2",
     "OUTPUT_RAGGED_RANK"},
    {"OptionalGetValue", "v", "output_types=[float,int64] output_shapes=[<1>,<2>]", ""},
};
enum { N_OPS = (int)(sizeof ops / sizeof *ops) };

static void inputs(struct rt_bytes *g)
{
    gd_node(g, "s", "Placeholder", "", "dtype=string");
    gd_node(g, "f", "Placeholder", "", "dtype=float");
    gd_node(g, "i", "Placeholder", "", "dtype=int64");
    gd_node(g, "b", "Placeholder", "", "dtype=bool");
    gd_node(g, "v", "Placeholder", "", "dtype=variant");
}

static enum rt_status import(int op, const char *attrs, struct rt_error *err)
{
    struct rt_bytes g;
    struct rt_library *l = NULL;

    rt_bytes_init(&g, 1 << 20);
    inputs(&g);
    gd_node(&g, "n", ops[op].op, ops[op].inputs, attrs);
    *err = (struct rt_error){0};
    enum rt_status st = rt_library_import(&l, gd_span(&g), test_registry, err);
    rt_library_free(l);
    rt_bytes_clear(&g);
    return st;
}

static bool has_word(const char *words, const char *word, size_t n)
{
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

/* Copies `attrs` to `out` with attribute number `which` changed. A count of 2 becomes `digit`, and
 * a list loses its last element. Empties `out` if the attribute is listed in `is_free` or is
 * neither a count nor a list. Returns false if there is no attribute with this number. */
static bool change(const char *attrs, const char *is_free, int which, char digit, char *out)
{
    const char *p = attrs;
    for (; which && *p; p++)
        which -= *p == ' ';
    const char *value = strchr(p, '=');
    char key[80];
    if (!*p || !value)
        return false;
    snprintf(key, sizeof key, "%.*s", (int)(value - p), p);
    size_t at = (size_t)(value + 1 - attrs);
    memcpy(out, attrs, strlen(attrs) + 1);
    if (has_word(is_free, key, strlen(key)))
        out[0] = '\0';
    else if (strncmp(value, "=2", 2) == 0)
        out[at] = digit;
    else if (value[1] == '[') {
        char *close = strchr(out + at, ']');
        /* Finds the last comma that is outside of <...>. */
        for (int depth = 0; close > out + at; close--) {
            depth += *close == '>';
            depth -= *close == '<';
            if (*close == ',' && depth == 0)
                break;
        }
        const char *end = strchr(attrs + at, ']');
        memcpy(close, end, strlen(end) + 1);
    } else {
        out[0] = '\0';
    }
    return true;
}

static void counts_and_lists_that_disagree_are_refused_at_import(void **state)
{
    (void)state;
    char attrs[2000];
    int n_refused = 0;
    for (int op = 0; op < N_OPS; op++) {
        struct rt_error err;
        assert_ok(import(op, ops[op].attrs, &err), &err);
        for (const char *digit = "130"; *digit; digit++)
            for (int k = 0; change(ops[op].attrs, ops[op].free, k, *digit, attrs); k++) {
                if (!attrs[0])
                    continue;
                if (import(op, attrs, &err) != RT_INVALID_ARGUMENT)
                    fail_msg("%s accepts %s", ops[op].op, attrs);
                n_refused++;
            }
    }
    assert_true(n_refused > 100);
}

/* When a function body is instantiated, a count that the caller passes is compared with the length
 * of its list. If they differ, the body is refused with TensorFlow's message. */
static void a_count_from_the_caller_of_a_function_is_compared_too(void **state)
{
    (void)state;
    struct rt_bytes g, body;
    struct rt_error err = {0};
    struct rt_library *l = NULL;
    const struct rt_graph *out;

    rt_bytes_init(&g, 1 << 20);
    rt_bytes_init(&body, 1 << 20);
    gd_node(&body, "n", "ParseSequenceExampleV2", "s s s s s s s s b",
            "Ncontext_sparse=$N Tcontext_dense=[] context_sparse_types=[float,int64] "
            "context_ragged_value_types=[] context_ragged_split_types=[] context_dense_shapes=[] "
            "Nfeature_list_sparse=0 Nfeature_list_dense=0 feature_list_dense_types=[] "
            "feature_list_sparse_types=[] feature_list_ragged_value_types=[] "
            "feature_list_ragged_split_types=[] feature_list_dense_shapes=[]");
    gd_function(&g, "f", "s:string b:bool", "", &body, "", "");
    inputs(&g);
    for (int n = 1; n <= 3; n++) {
        char attrs[80], name[8];
        snprintf(attrs, sizeof attrs, "Tin=[string,bool] Tout=[] f=@f(N=%d)", n);
        snprintf(name, sizeof name, "call%d", n);
        gd_node(&g, name, "PartitionedCall", "s b", attrs);
    }
    assert_ok(rt_library_import(&l, gd_span(&g), test_registry, &err), &err);
    for (int n = 1; n <= 3; n++) {
        char name[8];
        snprintf(name, sizeof name, "call%d", n);
        const struct rt_node *call = rt_graph_find(rt_library_main(l), name);
        enum rt_status st = rt_library_instantiate(l, rt_attr_func(call, "f"), &out, &err);
        if (n == 2)
            assert_ok(st, &err);
        else
            assert_fails(st, RT_INVALID_ARGUMENT, &err,
                         n == 1 ? "num_context_sparse (1) must match the size of "
                                  "context_sparse_types (2)"
                                : "num_context_sparse (3) must match");
    }
    rt_library_free(l);
    rt_bytes_clear(&g);
    rt_bytes_clear(&body);
}

/* Returns the number of attributes that are lists of strings or determine how many tensors an
 * argument has. The length of a list of strings may have to match the number of tensors. */
static int sizing_attrs(const struct rt_schema *s)
{
    int n = 0;
    for (int k = 0; k < s->n_attr; k++) {
        bool sizes = false;
        for (int i = 0; i < s->n_in + s->n_out; i++) {
            const struct rt_arg_schema *a = i < s->n_in ? &s->in[i] : &s->out[i - s->n_in];
            sizes |= a->number_attr == k || a->list_attr == k;
        }
        n += sizes || s->attr[k].type == RT_ATTR_LIST + RT_ATTR_STRING;
    }
    return n;
}

static void every_op_that_two_attributes_size_is_in_the_table(void **state)
{
    /* The attributes of calls and branches are checked against the signatures of their functions
     * (inline.c, sub_plans.c). As in TensorFlow, those of DecodeProtoV2 and EncodeProto are checked
     * when a node is used. */
    static const char *const others[] = {"PartitionedCall",
                                         "StatefulPartitionedCall",
                                         "If",
                                         "StatelessIf",
                                         "Case",
                                         "StatelessCase",
                                         "MapDefun",
                                         "BatchFunction",
                                         "DecodeProtoV2",
                                         "EncodeProto"};
    (void)state;
    int n = 0;
    for (int i = 0; i < rt_schema_count(); i++) {
        const struct rt_schema *s = rt_schema_at(i);
        bool known = false;
        if (s->name[0] == '_' || !rt_registry_op(test_registry, s->name) || sizing_attrs(s) < 2)
            continue;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            known |= strcmp(others[k], s->name) == 0;
        for (int k = 0; k < N_OPS; k++)
            known |= strcmp(ops[k].op, s->name) == 0;
        if (!known)
            fail_msg("%s is sized by more than one attribute and stands in no table", s->name);
        n++;
    }
    assert_true(n >= N_OPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_lists_that_disagree_are_refused_at_import),
        cmocka_unit_test(a_count_from_the_caller_of_a_function_is_compared_too),
        cmocka_unit_test(every_op_that_two_attributes_size_is_in_the_table),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
