#include "tests/support/test.h"

#include <sys/resource.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "runtime/base/bytes.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/saved_model.h"
#include "tests/support/folder.h"

#define FIRST  "tests/goldens/saved_model/first"
#define SECOND "tests/goldens/saved_model/second"

static struct rt_error err;

static const struct rt_signature *signature(const struct rt_meta_graph *g, const char *name)
{
    for (int k = 0; k < g->n_signatures; k++)
        if (strcmp(g->signatures[k].name, name) == 0)
            return &g->signatures[k];
    return NULL;
}

static void a_model_of_the_second_generation_is_read(void **state)
{
    (void)state;
    struct rt_saved_model *m;
    const struct rt_meta_graph *g;

    assert_ok(rt_saved_model_read(&m, SECOND, NULL, &err), &err);
    assert_int_equal(m->n_meta_graphs, 1);
    assert_ok(rt_saved_model_choose(m, NULL, 0, &g, &err), &err);
    assert_int_equal(g->n_signatures, 1);
    const struct rt_signature *s = signature(g, "serving_default");
    assert_non_null(s);
    assert_null(signature(g, "__saved_model_init_op"));
    assert_string_equal(s->method_name, "tensorflow/serving/predict");
    assert_int_equal(s->n_inputs, 1);
    assert_int_equal(s->n_outputs, 2);
    assert_string_equal(s->outputs[0].alias, "words");
    const struct rt_tensor_spec *x = rt_signature_input(s, "x");
    assert_string_equal(x->name, "serving_default_x:0");
    assert_int_equal(x->dtype, RT_F32);
    assert_true(x->shape.rank == 2 && x->shape.dim[0] == -1 && x->shape.dim[1] == 2);
    assert_null(x->default_value);
    assert_null(rt_signature_input(s, "y"));
    assert_string_equal(rt_signature_output(s, "y")->name, "StatefulPartitionedCall:1");
    assert_int_equal(rt_signature_output(s, "words")->dtype, RT_STRING);
    assert_string_equal(g->init_op, "NoOp");
    assert_string_equal(g->init_signature->name, "__saved_model_init_op");
    assert_string_equal(g->init_signature->outputs[0].name, "NoOp");
    assert_true(g->init_signature->outputs[0].shape.rank < 0);
    assert_string_equal(g->restore_op, "StatefulPartitionedCall_2");
    assert_string_equal(g->filename_tensor, "saver_filename:0");
    assert_int_equal(g->n_assets, 1);
    assert_string_equal(g->assets[0].file_name, "words.txt");
    assert_string_equal(g->assets[0].tensor_name, "asset_path_initializer:0");
    assert_string_equal(g->tensorflow_version, "2.21.0");
    assert_true(g->graph_def.n > 100 && g->graph_def.p > (const unsigned char *)m->bytes);
    rt_saved_model_free(m);
}

static void a_model_in_text_with_two_tag_sets_is_read(void **state)
{
    (void)state;
    struct rt_saved_model *m;
    const struct rt_meta_graph *g;
    static const char *const both[] = {"gpu", "serve"};

    assert_ok(rt_saved_model_read(&m, FIRST, NULL, &err), &err);
    assert_int_equal(m->n_meta_graphs, 2);
    assert_ok(rt_saved_model_choose(m, NULL, 0, &g, &err), &err);
    assert_ptr_equal(g, &m->meta_graphs[0]);
    assert_string_equal(g->init_op, "main");
    assert_string_equal(g->restore_op, "save/restore_all");
    assert_int_equal(g->n_signatures, 2);
    assert_string_equal(g->signatures[0].name, "again");
    const struct rt_tensor_spec *in = rt_signature_input(signature(g, "serving_default"), "in");
    assert_non_null(in->default_value);
    assert_memory_equal(in->default_value->data, ((float[]){1, 2, 3}), 12);
    assert_true(in->default_value->rank == 2);
    assert_null(rt_signature_input(&g->signatures[0], "in")->default_value);
    assert_ok(rt_saved_model_choose(m, both, 2, &g, &err), &err);
    assert_ptr_equal(g, &m->meta_graphs[1]);
    assert_string_equal(g->init_op, "main");
    rt_saved_model_free(m);
}

static void a_model_in_text_may_hold_what_is_not_read(void **state)
{
    (void)state;
    struct rt_saved_model *m;
    static const char text[] =
        "meta_graphs { meta_info_def { tags: 'serve' } graph_def { node { name: 'x' op: 'NoOp' "
        "experimental_type { type_id: TFT_PRODUCT } } }\n"
        "object_graph_def { nodes { children { node_id: 1 local_name: 'v' } user_object { "
        "identifier: 'm' version { producer: 1 } } } nodes { variable { dtype: DT_FLOAT shape { "
        "dim "
        "{ size: 2 } } synchronization: VARIABLE_SYNCHRONIZATION_AUTO } saveable_objects { key: "
        "'k' "
        "value { save_function: 3 } } } concrete_functions { key: 'f' value { bound_inputs: [1, 2] "
        "canonicalized_input_signature { tuple_value { values { float64_value: nan } values { "
        "dict_value { fields { key: 'x' value { tensor_spec_value { dtype: DT_INT8 } } } } } "
        "values "
        "{ none_value { } } } } } } }\n"
        "signature_def { key: 's' value { inputs { key: 'r' value { composite_tensor { type_spec { "
        "type_spec_class: RAGGED_TENSOR_SPEC num_flat_components: 2 } components { name: 'x:0' } } "
        "} } } } }";

    assert_ok(rt_saved_model_parse(&m, rt_span_str(text), true, &err), &err);
    assert_int_equal(m->meta_graphs[0].n_signatures, 1);
    assert_int_equal(m->meta_graphs[0].graph_def.n, 11); /* only the node, its name and its op */
    rt_saved_model_free(m);
}

static void assets_of_the_first_generation_stand_in_a_collection(void **state)
{
    (void)state;
    struct rt_saved_model *m;
    static const char text[] =
        "saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: 'serve' } graph_def { } "
        "collection_def { key: 'saved_model_assets' value { any_list { value { "
        "type_url: 'type.googleapis.com/tensorflow.AssetFileDef' "
        "value: '\\n\\010\\n\\006path:0\\022\\twords.txt' } } } } }";

    static const char expanded[] =
        "meta_graphs { collection_def { key: 'saved_model_assets' value { any_list { value { "
        "[type.googleapis.com/tensorflow.AssetFileDef] { tensor_info { name: 'path:0' } "
        "filename: 'words.txt' } } } } } }";

    for (int i = 0; i < 2; i++) {
        assert_ok(rt_saved_model_parse(&m, rt_span_str(i ? expanded : text), true, &err), &err);
        assert_int_equal(m->meta_graphs[0].n_assets, 1);
        assert_string_equal(m->meta_graphs[0].assets[0].tensor_name, "path:0");
        assert_string_equal(m->meta_graphs[0].assets[0].file_name, "words.txt");
        rt_saved_model_free(m);
    }
}

static void what_is_not_there_is_said_in_tensorflows_words(void **state)
{
    (void)state;
    struct rt_saved_model *m;
    const struct rt_meta_graph *g;
    static const char *const tags[] = {"serve", "tpu"};

    assert_fails(rt_saved_model_read(&m, "/nonexistent", NULL, &err), RT_NOT_FOUND, &err,
                 "Could not find SavedModel .pb or .pbtxt at supplied export directory path: "
                 "/nonexistent");
    assert_ok(rt_saved_model_read(&m, SECOND, NULL, &err), &err);
    assert_fails(rt_saved_model_choose(m, tags, 2, &g, &err), RT_NOT_FOUND, &err,
                 "Could not find meta graph def matching supplied tags: { serve tpu }. To inspect "
                 "available tag-sets in the SavedModel, please use the SavedModel CLI: "
                 "`saved_model_cli`");
    assert_int_equal(rt_saved_model_choose(m, tags, 0, &g, &err), RT_NOT_FOUND);
    rt_saved_model_free(m);
    assert_fails(rt_saved_model_parse(&m, rt_span_str("name: 1"), true, &err), RT_INVALID_ARGUMENT,
                 &err, "1:5: ");
}

static char dir[64];

#define run(...)                                                                                   \
    do {                                                                                           \
        char command_[512];                                                                        \
        snprintf(command_, sizeof command_, __VA_ARGS__);                                          \
        assert_int_equal(system(command_), 0);                                                     \
    } while (0)

/* Asserts that the loaded size of a version includes its empty strings. An empty string takes much
 * more space in memory than in the file. `dir` must contain a model. */
static void assert_strings_count_as_they_are_loaded(void)
{
    const char *name = "empty";
    char prefix[128];
    int64_t bytes = -1;
    struct rt_tensor t;

    run("cp -r %s/variables %s/kept", dir, dir);
    snprintf(prefix, sizeof prefix, "%s/variables/variables", dir);
    assert_ok(rt_tensor_new(&t, NULL, RT_STRING, 1, (int64_t[]){1000}, &err), &err);
    assert_ok(rt_checkpoint_write(prefix, 1, &name, &t, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
    assert_ok(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), &err);
    assert_int_equal(bytes, 1004 + 1000 * sizeof(struct rt_str));
    run("rm -r %s/variables && mv %s/kept %s/variables", dir, dir, dir);
}

static void a_directory_is_complete_only_with_all_its_files(void **state)
{
    (void)state;
    int64_t bytes = -1;
    memcpy(dir, "/tmp/slipway-model-XXXXXX", sizeof "/tmp/slipway-model-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_ok(rt_saved_model_is_complete(SECOND, NULL, 0, NULL, &bytes, &err), &err);
    assert_int_equal(bytes, 8 + 206 + sizeof(struct rt_str));
    assert_ok(rt_saved_model_is_complete(FIRST, NULL, 0, NULL, &bytes, &err), &err);
    assert_int_equal(bytes, 12);
    run("cp -r " SECOND "/* %s", dir);
    assert_ok(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), &err);
    assert_strings_count_as_they_are_loaded();

    run("cp %s/saved_model.pb %s/kept && truncate -s 0 %s/saved_model.pb", dir, dir, dir);
    assert_fails(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_NOT_FOUND, &err,
                 "Could not find meta graph def matching supplied tags: { serve }. To inspect "
                 "available tag-sets in the SavedModel, please use the SavedModel CLI: "
                 "`saved_model_cli`: /tmp/slipway-model-");
    assert_non_null(strstr(rt_error_text(&err), "/saved_model.pb is an empty file"));
    run("mv %s/kept %s/saved_model.pb", dir, dir);
    run("mv %s/assets/words.txt %s", dir, dir);
    assert_fails(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_NOT_FOUND, &err,
                 "assets/words.txt");
    run("mv %s/words.txt %s/assets", dir, dir);
    run("truncate -s 100 %s/variables/variables.data-00000-of-00001", dir);
    assert_fails(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_DATA_LOSS, &err,
                 "variables.data-00000-of-00001 has 100 bytes");
    run("rm %s/variables/variables.data-00000-of-00001", dir);
    assert_fails(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_NOT_FOUND, &err,
                 "variables.data-00000-of-00001");
    run("truncate -s 100 %s/variables/variables.index", dir);
    assert_fails(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_DATA_LOSS, &err,
                 "variables.index");
    run("rm -r %s/variables", dir);
    assert_fails(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_NOT_FOUND, &err,
                 "variables/variables");
    run("truncate -s 500 %s/saved_model.pb", dir);
    assert_int_equal(rt_saved_model_is_complete(dir, NULL, 0, NULL, &bytes, &err), RT_DATA_LOSS);
    run("rm -r %s", dir);
}

/* Each default value is a tensor of 40 MB that takes a few bytes in the file. One tensor is below
 * the limit, and two together exceed it. */
static void defaults_share_one_limit(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        struct rt_saved_model *m = NULL;
        struct rt_bytes text;
        rt_bytes_init(&text, 1 << 20);
        rt_bytes_adds(&text, "meta_graphs {");
        for (int i = 0; i < n; i++)
            rt_bytes_addf(
                &text,
                " signature_def { key: 's%d' value { inputs { key: 'x' value { name: 'x:0'"
                " dtype: DT_FLOAT } } defaults { key: 'x' value { dtype: DT_FLOAT"
                " tensor_shape { dim { size: 10000000 } } float_val: 1 } } } }",
                i);
        rt_bytes_adds(&text, "}");
        enum rt_status st = rt_saved_model_parse(&m, rt_span_of(text.p, text.n), true, &err);
        if (n == 1)
            assert_ok(st, &err);
        else
            assert_fails(st, RT_RESOURCE_EXHAUSTED, &err,
                         "signature \"s1\": default of input \"x\": ");
        rt_saved_model_free(m);
        rt_bytes_clear(&text);
    }
}

static void of_a_key_that_a_map_has_twice_the_last_counts(void **state)
{
    (void)state;
    struct rt_saved_model *m = NULL;
    static const char text[] =
        "meta_graphs {"
        " signature_def { key: 's' value { method_name: 'first' inputs { key: 'a' } } }"
        " signature_def { key: 'r' value { method_name: 'only' } }"
        " signature_def { key: 's' value { method_name: 'last'"
        "   inputs { key: 'x' value { name: 'first:0' dtype: DT_FLOAT } }"
        "   inputs { key: 'x' value { name: 'last:0' dtype: DT_FLOAT } }"
        "   outputs { key: 'y' value { name: 'first:1' } }"
        "   outputs { key: 'z' value { name: 'only:1' } }"
        "   outputs { key: 'y' value { name: 'last:1' } }"
        "   defaults { key: 'x' value { dtype: DT_FLOAT tensor_shape { } float_val: 1 } }"
        "   defaults { key: 'x' value { dtype: DT_FLOAT tensor_shape { } float_val: 2 } } } } }";
    assert_ok(rt_saved_model_parse(&m, rt_span_str(text), true, &err), &err);
    const struct rt_meta_graph *g = &m->meta_graphs[0];
    assert_int_equal(g->n_signatures, 2);
    const struct rt_signature *s = signature(g, "s");
    assert_string_equal(s->method_name, "last");
    assert_int_equal(s->n_inputs, 1);
    assert_string_equal(s->inputs[0].name, "last:0");
    assert_true(*(const float *)s->inputs[0].default_value->data == 2);
    assert_int_equal(s->n_outputs, 2);
    assert_string_equal(rt_signature_output(s, "y")->name, "last:1");
    assert_string_equal(rt_signature_output(s, "z")->name, "only:1");
    rt_saved_model_free(m);
}

static void a_file_of_very_many_meta_graphs_is_refused(void **state)
{
    (void)state;
    enum { MOST = 1024 };
    unsigned char bytes[2 * (MOST + 1)];
    struct rt_saved_model *m = NULL;
    for (size_t i = 0; i < sizeof bytes; i += 2)
        memcpy(bytes + i, "\x12", 2); /* an empty meta graph */
    assert_ok(rt_saved_model_parse(&m, rt_span_of(bytes, 2 * MOST), false, &err), &err);
    assert_int_equal(m->n_meta_graphs, MOST);
    rt_saved_model_free(m);
    assert_fails(rt_saved_model_parse(&m, rt_span_of(bytes, sizeof bytes), false, &err),
                 RT_INVALID_ARGUMENT, &err, "more than 1024 meta graphs");
}

/* Returns the status of parsing a SavedModel. Its only meta graph consists of `n` copies of the
 * 7-byte field `field`. */
static enum rt_status parse_repeated(const char *field, size_t n)
{
    enum { FIELD_BYTES = 7 };
    struct rt_saved_model *m = NULL;
    struct rt_bytes file;
    rt_bytes_init(&file, SIZE_MAX);
    rt_bytes_add(&file, "\x12", 1);
    for (size_t left = n * FIELD_BYTES; left || file.n == 1; left >>= 7) {
        const unsigned char byte = (left & 127) | (left > 127 ? 128 : 0);
        rt_bytes_add(&file, &byte, 1);
    }
    for (size_t i = 0; i < n; i++)
        rt_bytes_add(&file, field, FIELD_BYTES);
    const enum rt_status st = rt_saved_model_parse(&m, rt_span_of(file.p, file.n), false, &err);
    rt_saved_model_free(m);
    rt_bytes_clear(&file);
    return st;
}

static void a_file_of_very_many_assets_or_collections_is_refused(void **state)
{
    (void)state;
    enum { MOST_ASSETS = 50000, N_COLLECTIONS = 100000 };
    const char *asset = "\x32\x05\x12\x03xyz", *collection = "\x22\x05\x0a\x01x\x12\0";
    assert_ok(parse_repeated(asset, MOST_ASSETS), &err);
    assert_fails(parse_repeated(asset, MOST_ASSETS + 1), RT_INVALID_ARGUMENT, &err,
                 "more than 50000 assets");
    assert_ok(parse_repeated(collection, N_COLLECTIONS), &err);
    assert_fails(parse_repeated(collection, 10 * N_COLLECTIONS), RT_INVALID_ARGUMENT, &err,
                 "the meta graphs without their nodes take more than 81");
}

/* A check that fails in call number *arg, counted from 1. */
static enum rt_status fail_at(void *arg, struct rt_error *why)
{
    return --*(int *)arg ? RT_OK : rt_fail(why, RT_CANCELLED, "the load was cancelled");
}

static void a_file_is_read_in_pieces_until_the_load_ends(void **state)
{
    (void)state;
    enum { MEGABYTES = 8 };
    struct rt_saved_model *m = NULL;
    int left = INT32_MAX;
    const struct rt_check check = {fail_at, &left};
    folder_new();
    /* The file has one field of bytes, with a field number that TensorFlow does not define. */
    folder_write("saved_model.pb", "\x3a\xfb\xff\xff\x03");
    assert_int_equal(truncate(folder_path("saved_model.pb"), MEGABYTES << 20), 0);
    assert_ok(rt_saved_model_read(&m, folder_path("."), &check, &err), &err);
    rt_saved_model_free(m);
    assert_true(INT32_MAX - left >= MEGABYTES);
    for (int at = 1; at <= MEGABYTES; at++) {
        left = at;
        assert_fails(rt_saved_model_read(&m, folder_path("."), &check, &err), RT_CANCELLED, &err,
                     "the load was cancelled");
        assert_int_equal(left, 0);
    }
    folder_remove();
}

/* Parsing a text file with a million empty tags would exceed the memory limit for a file of this
 * length. The load's cancellation check can also end the parsing. */
static void a_text_may_not_take_much_memory(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct rt_saved_model *m = NULL;
    int left = 8; /* the read makes fewer than 8 checks, so the failing check is the parser's */
    const struct rt_check check = {fail_at, &left};
    struct rt_bytes text;
    rt_bytes_init(&text, SIZE_MAX);
    rt_bytes_adds(&text, "meta_graphs{meta_info_def{tags:[");
    for (int i = 0; i < N; i++)
        rt_bytes_adds(&text, "'',");
    rt_bytes_adds(&text, "'']}}");
    assert_false(text.failed);
    assert_fails(rt_saved_model_parse(&m, rt_span_of(text.p, text.n), true, &err),
                 RT_INVALID_ARGUMENT, &err,
                 "The message takes more than 92274984 bytes of memory, the limit for a text of "
                 "3145765 bytes.");
    folder_new();
    folder_write("saved_model.pbtxt", text.p);
    assert_fails(rt_saved_model_read(&m, folder_path("."), &check, &err), RT_CANCELLED, &err,
                 "saved_model.pbtxt: the load was cancelled");
    folder_remove();
    rt_bytes_clear(&text);
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* A file that is not a SavedModel is refused before its bytes are read. After a valid field, the
 * file has 1 GiB of zeros that take no space on the disk. */
static void a_large_file_of_zeros_is_refused_before_it_is_read(void **state)
{
    (void)state;
    struct rt_saved_model *m = NULL;
    folder_new();
    folder_write("saved_model.pb", "\x08\x01");
    assert_int_equal(truncate(folder_path("saved_model.pb"), 1 << 30), 0);
    const long before = peak_kilobytes();
    assert_fails(rt_saved_model_read(&m, folder_path("."), NULL, &err), RT_DATA_LOSS, &err,
                 "saved_model.pb: Can't parse saved_model.pb as binary proto");
    assert_in_range(peak_kilobytes() - before, 0, 100 << 10);
    folder_remove();
}

/* Wraps the contents of `b` in field `number`. Adds n fields of two bytes each that TensorFlow does
 * not define or does not use. */
static void wrap_fields(struct rt_bytes *b, int number, size_t n)
{
    struct rt_bytes out;
    rt_bytes_init(&out, SIZE_MAX / 2);
    rt_bytes_addc(&out, (char)(number << 3 | 2));
    for (size_t left = b->n + 2 * n; left; left >>= 7)
        rt_bytes_addc(&out, (char)((left & 127) | (left > 127 ? 128 : 0)));
    rt_bytes_add(&out, b->p, b->n);
    for (size_t i = 0; i < n; i++)
        rt_bytes_adds(&out, "\x38\x01");
    rt_bytes_clear(b);
    *b = out;
}

/*
 * The file has N unknown or unused fields next to the meta graph, in the meta graph, in the
 * GraphDef, and in a node. The reader makes a second pass over the file and the meta graph, because
 * the field graph_def occurs twice. The restore op without a checkpoint causes a search for
 * variables in the GraphDef and the node.
 */
static void a_load_is_checked_while_very_many_fields_are_read(void **state)
{
    (void)state;
    enum { N = 1 << 18, READ = 6 * N, EVERY = 1 << 14 };
    struct rt_bytes b;
    int left = INT32_MAX;
    const struct rt_check check = {fail_at, &left};
    folder_new();
    rt_bytes_init(&b, SIZE_MAX / 2);
    wrap_fields(&b, 1, N); /* GraphDef.node */
    wrap_fields(&b, 2, N); /* MetaGraphDef.graph_def */
    /* a second graph_def field, the tag "serve", and a SaverDef with a restore op */
    rt_bytes_adds(&b, "\x12\x02\x38\x01\x0a\x07\x22\x05serve\x1a\x03\x1a\x01r");
    wrap_fields(&b, 2, N); /* SavedModel.meta_graphs */
    for (int i = 0; i < N; i++)
        rt_bytes_adds(&b, "\x38\x01");
    rt_bytes_addc(&b, '\0');
    folder_write("saved_model.pb", b.p);
    rt_bytes_clear(&b);
    const char *path = folder_path(".");
    assert_ok(rt_saved_model_is_complete(path, NULL, 0, &check, NULL, &err), &err);
    const int n_checks = INT32_MAX - left;
    assert_in_range(n_checks, READ / EVERY, 2 * READ / EVERY);
    for (int at = 1; at <= n_checks; at += 5) {
        left = at;
        assert_int_equal(rt_saved_model_is_complete(path, NULL, 0, &check, NULL, &err),
                         RT_CANCELLED);
        assert_int_equal(left, 0);
    }
    folder_remove();
}

static void flipped_and_missing_bytes_never_crash(void **state)
{
    (void)state;
    static const char *const files[] = {SECOND "/saved_model.pb", FIRST "/saved_model.pbtxt"};
    for (int k = 0; k < 2; k++) {
        char *p;
        size_t n;
        assert_ok(rt_file_read(files[k], 1 << 20, &p, &n, &err), &err);
        for (size_t i = 0; i < n; i += k ? 13 : 1) {
            struct rt_saved_model *m = NULL;
            for (int bit = 0; bit < 8; bit += k ? 5 : 1) {
                p[i] ^= (char)(1 << bit);
                if (rt_saved_model_parse(&m, rt_span_of(p, n), k, &err) == RT_OK)
                    rt_saved_model_free(m);
                p[i] ^= (char)(1 << bit);
            }
            if (rt_saved_model_parse(&m, rt_span_of(p, i), k, &err) == RT_OK)
                rt_saved_model_free(m);
        }
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_the_second_generation_is_read),
        cmocka_unit_test(a_model_in_text_with_two_tag_sets_is_read),
        cmocka_unit_test(a_model_in_text_may_hold_what_is_not_read),
        cmocka_unit_test(assets_of_the_first_generation_stand_in_a_collection),
        cmocka_unit_test(what_is_not_there_is_said_in_tensorflows_words),
        cmocka_unit_test(a_directory_is_complete_only_with_all_its_files),
        cmocka_unit_test(defaults_share_one_limit),
        cmocka_unit_test(of_a_key_that_a_map_has_twice_the_last_counts),
        cmocka_unit_test(a_file_of_very_many_meta_graphs_is_refused),
        cmocka_unit_test(a_file_of_very_many_assets_or_collections_is_refused),
        cmocka_unit_test(a_text_may_not_take_much_memory),
        cmocka_unit_test(a_large_file_of_zeros_is_refused_before_it_is_read),
        cmocka_unit_test(a_load_is_checked_while_very_many_fields_are_read),
        cmocka_unit_test(a_file_is_read_in_pieces_until_the_load_ends),
        cmocka_unit_test(flipped_and_missing_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
