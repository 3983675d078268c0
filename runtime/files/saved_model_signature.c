/* Finds the inputs and outputs of signatures (saved_model.h). */
#include "runtime/files/saved_model.h"

#include <stdlib.h>

/* Compares an alias (a struct rt_span) with the alias of a spec, in the order of by_alias. */
static int compare_alias(const void *alias, const void *spec)
{
    const struct rt_span a = *(const struct rt_span *)alias;
    const struct rt_span b = rt_span_str(((const struct rt_tensor_spec *)spec)->alias);
    const size_t n = a.n < b.n ? a.n : b.n;
    const int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

const struct rt_tensor_spec *rt_tensor_spec_find(const struct rt_tensor_spec *specs, int n,
                                                 struct rt_span alias)
{
    return n ? bsearch(&alias, specs, (size_t)n, sizeof *specs, compare_alias) : NULL;
}

const struct rt_tensor_spec *rt_signature_input(const struct rt_signature *s, const char *alias)
{
    return rt_tensor_spec_find(s->inputs, s->n_inputs, rt_span_str(alias));
}

const struct rt_tensor_spec *rt_signature_output(const struct rt_signature *s, const char *alias)
{
    return rt_tensor_spec_find(s->outputs, s->n_outputs, rt_span_str(alias));
}
