/*
 * fill_weights MODEL: writes the weights of a SavedModel that has an index of its checkpoint, but
 * no weights. The weights are random, and depend only on the names and shapes of the tensors. Tests
 * of large models therefore need not store hundreds of megabytes.
 *
 * Matrices and filters have a normal distribution whose standard deviation is sqrt(2 / n), where n
 * is the number of inputs of an output (He et al., "Delving deep into rectifiers", 2015), so that
 * activations neither vanish nor overflow. Vectors, which may be variances, are between 0.5 and
 * 1.5. Integers are 0, and strings are empty.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/pieces.h"
#include "runtime/files/checkpoint.h"

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

static void fill(const struct rt_checkpoint_entry *e, const struct rt_tensor *t)
{
    if (e->dtype != RT_F32)
        return;
    float *v = t->data;
    uint64_t state = hash(e->name);
    const int64_t n = rt_tensor_count(t);
    if (e->shape.rank < 2) {
        for (int64_t i = 0; i < n; i++)
            v[i] = (float)(0.5 + uniform(&state));
        return;
    }
    const int64_t last = e->shape.dim[e->shape.rank - 1];
    const double deviation = sqrt(2.0 * (double)last / (double)(n ? n : 1));
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(deviation * sqrt(-2 * log(uniform(&state))) *
                       cos(6.283185307179586 * uniform(&state)));
}

int main(int argc, char **argv)
{
    char prefix[4096];
    struct rt_error err = {0};
    struct rt_checkpoint *c = NULL;
    if (argc != 2) {
        fputs("usage: fill_weights MODEL\n", stderr);
        return 2;
    }
    snprintf(prefix, sizeof prefix, "%s/variables/variables", argv[1]);
    enum rt_status st = rt_checkpoint_open(&c, prefix, NULL, &err);
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
            fill(e, &tensors[i]);
    }
    if (!st)
        st = rt_checkpoint_write(prefix, n, names, tensors, NULL, NULL, &err);
    if (st)
        fprintf(stderr, "fill_weights: %s: %s\n", argv[1], rt_error_text(&err));
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&tensors[i]);
    free(names);
    free(tensors);
    rt_checkpoint_unref(c);
    return st ? 1 : 0;
}
