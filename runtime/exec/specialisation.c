/* Operations that a run performs on specialisations. rt_segment_fits compares the shapes of a
 * specialisation with the values of a context; rt_specialisation_unref drops a reference. */
#include "runtime/plan/specialisation.h"
#include "runtime/exec/context.h"
#include "runtime/select/prepared.h"
#include "runtime/select/upload.h"

#include <stdlib.h>

bool rt_segment_fits(const struct rt_specialisation *l, const struct rt_context *c)
{
    if (l->n_regions && l->accelerator != c->shared->accelerator)
        return false;
    for (int k = 0; k < l->n_live; k++) {
        const struct rt_live *x = &l->live[k];
        const struct rt_tensor *t = &c->value[x->value];
        if (t->dtype != x->dtype || t->rank != x->shape.rank)
            return false;
        for (int d = 0; d < t->rank; d++)
            if (t->dim[d] != x->shape.dim[d])
                return false;
    }
    return true;
}

void rt_region_clear(struct rt_region *r, struct rt_session *s, struct rt_device *d)
{
    for (int k = 0; k < RT_MAX_STREAMS; k++) {
        if (r->bound[k].steps.recorded)
            d->forget(d, &r->bound[k].steps);
        free(r->bound[k].steps.step);
        free(r->bound[k].arg);
    }
    for (int k = 0; k < r->n_kernels; k++)
        rt_prepared_free(r->kernel[k].prepared);
    for (int k = 0; k < r->n_uploads; k++)
        rt_constant_free(s, d, &r->upload[k]);
    for (int k = 0; k < r->n_shared; k++)
        rt_upload_unref(s, r->shared[k]);
    free(r->kernel);
    free(r->arg);
    free(r->arg_kind);
    free(r->in);
    free(r->out);
    free(r->upload);
    free(r->shared);
}

void rt_specialisation_unref(struct rt_specialisation *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < l->n_steps; i++)
        rt_prepared_free(l->step[i].prepared);
    for (int i = 0; i < l->n_evaluated; i++)
        rt_tensor_clear(&l->evaluated[i]);
    for (int i = 0; i < l->n_regions; i++)
        rt_region_clear(&l->region[i], l->session, l->device);
    free(l->region);
    free(l->live);
    free(l->step);
    free(l->arg);
    free(l->arg_kind);
    free(l->patch);
    free(l->clear);
    free(l->extent);
    free(l->evaluated);
    free(l);
}
