/* Checks whether the files that a SavedModel names exist (saved_model.h). */
#include "runtime/files/saved_model.h"

#include <stdio.h>
#include <unistd.h>

#include "proto/wire.h"
#include "runtime/files/checkpoint.h"

enum { /* field numbers in TensorFlow's protobuf messages */
       GRAPH_DEF_NODE = 1,
       NODE_DEF_OP = 2,
};

/* number of fields of a GraphDef and its nodes between two calls of the check */
enum { CHECK_EVERY = 1 << 14 };

static bool is_variable(const struct pb_field *f)
{
    return f->number == NODE_DEF_OP && f->type == PB_BYTES &&
           (rt_span_is(f->bytes, "VarHandleOp") || rt_span_is(f->bytes, "VariableV2") ||
            rt_span_is(f->bytes, "Variable"));
}

/* Sets *out to whether a node of the main graph creates a variable. If the check fails, returns the
 * check's status. */
static enum rt_status has_variables(struct rt_span graph_def, const struct rt_check *check,
                                    bool *out, struct rt_error *err)
{
    struct pb_field f, g;
    size_t n_fields = 0;
    enum rt_status st = RT_OK;

    *out = false;
    while (!st && !*out && pb_field_next(&graph_def, &f) > 0) {
        const bool is_node = f.number == GRAPH_DEF_NODE && f.type == PB_BYTES;
        struct rt_span node = is_node ? f.bytes : rt_span_of(NULL, 0);
        st = ++n_fields % CHECK_EVERY ? RT_OK : rt_check_call(check, err);
        while (!st && !*out && pb_field_next(&node, &g) > 0) {
            *out = is_variable(&g);
            st = ++n_fields % CHECK_EVERY ? RT_OK : rt_check_call(check, err);
        }
    }
    return st;
}

static enum rt_status check_weights(const char *dir, const struct rt_meta_graph *g,
                                    const struct rt_check *check, int64_t *weight_bytes,
                                    struct rt_error *err)
{
    char prefix[4200], path[4300];
    bool has_any = true;
    enum rt_status st = RT_OK;

    snprintf(prefix, sizeof prefix, "%s/variables/variables", dir);
    snprintf(path, sizeof path, "%s.index", prefix);
    /* A model without variables may lack the checkpoint files. Like TensorFlow, Slipway then
     * restores nothing. */
    if (access(path, F_OK))
        st = has_variables(g->graph_def, check, &has_any, err);
    if (st || !has_any)
        return st;
    if (!check)
        return rt_checkpoint_measure(prefix, NULL, weight_bytes, err);
    const struct rt_checkpoint_run run = {.check = check->check, .arg = check->arg};
    return rt_checkpoint_measure(prefix, &run, weight_bytes, err);
}

enum rt_status rt_saved_model_is_complete(const char *dir, const char *const *tags, int n_tags,
                                          const struct rt_check *check, int64_t *weight_bytes,
                                          struct rt_error *err)
{
    struct rt_saved_model *m;
    const struct rt_meta_graph *g;
    int64_t bytes = 0;
    char path[4200];
    enum rt_status st = rt_saved_model_read(&m, dir, check, err);

    if (st)
        return st;
    st = rt_saved_model_choose(m, tags, n_tags, &g, err);
    if (!st && g->restore_op)
        st = check_weights(dir, g, check, &bytes, err);
    for (int i = 0; !st && i < g->n_assets; i++) {
        if (check && i % 256 == 0 && (st = check->check(check->arg, err)) != RT_OK)
            break;
        const char *name = g->assets[i].file_name;
        int n = snprintf(path, sizeof path, "%s/assets/%s", dir, name);
        if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK))
            st = rt_fail(err, RT_NOT_FOUND, "%s/assets/%s: no such asset", dir, name);
    }
    if (!st && weight_bytes)
        *weight_bytes = bytes;
    rt_saved_model_free(m);
    return st;
}
