/* Implements `slipway run --compare`: measures how much the given flags change a model's
 * outputs. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "runtime/base/print.h"
#include "server/commands/command_run.h"
#include "server/inference/difference.h"
#include "server/inference/inference.h"

static void print_row(const char *name, const struct rt_tensor *t, const struct srv_difference *d)
{
    char shape[160];
    rt_shape_text(shape, sizeof shape, t->rank, t->dim);
    rt_print(stdout, "%-24s %-9s %-16s %12.4g %12.4g %12.4g %12.4g %9.4f%%", name,
             rt_dtype_name((enum rt_dtype)t->dtype), shape, d->largest, d->most,
             d->largest > 0 ? d->most / d->largest : d->most, d->mean,
             d->n ? 100.0 * (double)d->n_differ / (double)d->n : 0);
    if (d->rows)
        rt_print(stdout, " %lld of %lld", (long long)d->rows_agree, (long long)d->rows);
    putchar('\n');
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *json_row(const char *name, const struct rt_tensor *t, const struct srv_difference *d)
{
    json_t *shape = json_array();
    for (int a = 0; a < t->rank; a++)
        json_array_append_new(shape, json_integer((json_int_t)t->dim[a]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "output", name,
                     "type", rt_dtype_name((enum rt_dtype)t->dtype), "shape", shape, "largest",
                     number(d->largest), "max_abs", number(d->most), "max_rel",
                     number(d->largest > 0 ? d->most / d->largest : d->most), "mean_abs",
                     number(d->mean), "elements", (json_int_t)d->n, "elements_differing",
                     (json_int_t)d->n_differ, "rows", (json_int_t)d->rows, "rows_same_argmax",
                     (json_int_t)d->rows_agree);
}

enum rt_status srv_run_compare(const struct srv_run *r, const char *dir,
                               const struct rt_registry *registry, struct rt_error *err)
{
    const struct rt_signature *def = r->s->def;
    const struct rt_model_options plain = {
        .session = {.registry = registry,
                    .tuning = {.no_fusion = true,
                               .no_winograd = true,
                               .no_autotune = true,
                               .no_specialise = true}},
        .allow_unsupported_signatures = true,
    };
    struct rt_model *model = NULL;
    json_t *rows = NULL;
    struct rt_tensor *want = calloc(2 * (size_t)def->n_outputs + 2, sizeof *want);
    if (!want)
        return rt_fail_memory(err, "answers", 0);
    struct rt_tensor *got = want + def->n_outputs + 1;
    enum rt_status st = rt_model_load(&model, dir, &plain, err);
    if (!st && r->json && !(rows = json_array()))
        st = rt_fail_memory(err, "the comparison", 0);
    if (!st)
        st = srv_run_call(r, rt_model_signature(model, def->name)->call, want, NULL, rt_now_ns(),
                          err);
    if (!st)
        st = srv_run_call(r, r->s->call, got, NULL, rt_now_ns(), err);
    if (!st && !r->json)
        rt_print(stdout, "precision: %s\n",
                 !r->tuning.bf16         ? "float32"
                 : rt_machine_has_bf16() ? "bf16"
                                         : "bf16 in matrices of over 8 M weights, "
                                           "float32 elsewhere");
    if (!st && !r->json)
        rt_print(stdout, "%-24s %-9s %-16s %12s %12s %12s %12s %10s %s\n", "output", "type",
                 "shape", "largest", "max abs", "max rel", "mean abs", "differing", "same argmax");
    for (int k = 0; k < def->n_outputs && !st; k++) {
        struct srv_difference d;
        st = srv_difference(&want[k], &got[k], &d, err);
        if (st)
            rt_fail_prefix(err, "output \"%s\": ", def->outputs[k].alias);
        else if (r->json)
            json_array_append_new(rows, json_row(def->outputs[k].alias, &got[k], &d));
        else
            print_row(def->outputs[k].alias, &got[k], &d);
    }
    if (!st && r->json) {
        json_dumpf(rows, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
        putchar('\n');
    }
    json_decref(rows);
    for (int k = 0; k < def->n_outputs; k++) {
        rt_tensor_clear(&want[k]);
        rt_tensor_clear(&got[k]);
    }
    free(want);
    rt_model_free(model);
    return st;
}
