/* Implements srv_triton_gpus (triton.h). */
#include "server/triton/triton.h"

#include "inference/model_config.pb-c.h"
#include "runtime/core/device.h"

#define GROUP &inference__model_instance_group__descriptor

typedef Inference__ModelInstanceGroup group_message;

/* As Triton, a group of KIND_AUTO or KIND_MODEL uses GPUs if there are any. */
static bool is_on_cpu(const group_message *g)
{
    return g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU;
}

/* The number of instances of each GPU. */
struct instances {
    int64_t n[RT_MAX_ACCELERATORS];
    bool is_unlimited[RT_MAX_ACCELERATORS]; /* whether a group of the GPU has no count */
};

static void add(struct instances *in, const group_message *g, int gpu, struct srv_triton_gpus *out)
{
    out->allowed |= UINT32_C(1) << gpu;
    in->n[gpu] += g->count;
    in->is_unlimited[gpu] |= !g->count;
}

/* *n_before is the number of earlier groups with the field gpus. */
static enum rt_status add_group(const struct srv_triton *t, const group_message *g, int n_gpus,
                                size_t *n_before, struct instances *in, struct srv_triton_gpus *out,
                                struct rt_error *err)
{
    for (int k = 0; k < n_gpus && !g->n_gpus; k++)
        add(in, g, k, out);
    for (size_t i = 0; i < g->n_gpus && n_gpus; i++) {
        if (g->gpus[i] < 0 || g->gpus[i] >= n_gpus)
            return srv_triton_fail(t, GROUP, "gpus", *n_before, err,
                                   "the server uses no GPU %d; it uses %d GPU%s, numbered from 0",
                                   (int)g->gpus[i], n_gpus, n_gpus == 1 ? "" : "s");
        add(in, g, g->gpus[i], out);
    }
    *n_before += g->n_gpus != 0;
    return RT_OK;
}

enum rt_status srv_triton_gpus(const struct srv_triton *t, int n_gpus, struct srv_triton_gpus *out,
                               struct rt_error *err)
{
    const Inference__ModelConfig *m = t->message;
    struct instances in = {0};
    size_t n_before = 0;
    int64_t least = INT64_MAX;
    *out = (struct srv_triton_gpus){.is_set = t->on_cpu};
    for (size_t i = 0; i < m->n_instance_group; i++) {
        const group_message *g = m->instance_group[i];
        enum rt_status st = RT_OK;
        if (g->passive)
            n_before += g->n_gpus != 0;
        else if (is_on_cpu(g))
            out->has_cpu = true;
        else
            st = add_group(t, g, n_gpus, &n_before, &in, out, err);
        if (st)
            return st;
        out->is_set |= !g->passive && !is_on_cpu(g);
        out->needs_gpu |= !g->passive &&
                          (g->n_gpus || g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU);
    }
    for (int k = 0; k < n_gpus; k++) {
        const int64_t n = in.is_unlimited[k] ? INT64_MAX : in.n[k];
        if (!(out->allowed >> k & 1))
            continue;
        least = n < least ? n : least;
        out->instances = n > out->instances ? n : out->instances;
    }
    out->is_uneven = out->allowed && least != out->instances;
    if (out->instances == INT64_MAX)
        out->instances = 0;
    return RT_OK;
}
