/*
 * Runs a SavedModel in this process, without a server: run_model VERSION_DIR NUMBER...
 *
 * Feeds the numbers as a vector to the first input of `serving_default` and prints every output.
 *
 *     cc run_model.c $(pkg-config --cflags --libs slipway) -o run_model
 *     ./run_model models/half_plus_two/1 1 2 5
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runtime/files/saved_model.h"

static void print(const char *alias, const struct rt_tensor *t)
{
    printf("%s (%s):", alias, rt_dtype_name((enum rt_dtype)t->dtype));
    for (int64_t i = 0; i < rt_tensor_count(t) && t->dtype == RT_F32; i++)
        printf(" %g", (double)((const float *)t->data)[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct rt_error err = {0};
    struct rt_model *model = NULL;
    struct rt_tensor in = {0}, out[16] = {{0}};
    enum rt_status st = RT_OK;

    if (argc < 3) {
        fprintf(stderr, "usage: run_model VERSION_DIR NUMBER...\n");
        return 2;
    }
    struct rt_registry *registry = rt_registry_new();
    if (!registry || !kn_register(registry))
        st = rt_fail_memory(&err, "the kernels", 0);
    struct rt_model_options options = {.session = {.registry = registry}, .warm_up = true};
    if (!st)
        st = rt_model_load(&model, argv[1], &options, &err);
    const struct rt_model_signature *s = st ? NULL : rt_model_signature(model, "serving_default");
    if (!st && (!s || s->def->n_inputs != 1 || s->def->n_outputs > 16))
        st = rt_fail(&err, RT_NOT_FOUND, "no signature serving_default of one input");
    if (!st)
        st = rt_tensor_new(&in, NULL, RT_F32, 1, (int64_t[]){argc - 2}, &err);
    if (!st) {
        for (int i = 2; i < argc; i++)
            ((float *)in.data)[i - 2] = strtof(argv[i], NULL);
        st = rt_callable_run(s->call, &in, out, NULL, &err);
    }
    for (int k = 0; !st && k < s->def->n_outputs; k++) {
        print(s->def->outputs[k].alias, &out[k]);
        rt_tensor_clear(&out[k]);
    }
    if (st)
        fprintf(stderr, "%s: %s\n", rt_status_name(st), rt_error_text(&err));
    rt_tensor_clear(&in);
    rt_model_free(model);
    rt_registry_free(registry);
    return st ? 1 : 0;
}
