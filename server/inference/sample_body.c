#include "server/inference/sample_body.h"

#include <ctype.h>
#include <string.h>

bool srv_sample_is_plain_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-.:/", *p))
            return false;
    return true;
}

static bool is_plain_input(const struct rt_tensor_spec *t)
{
    return !t->too_many_dims && rt_dtype_is_plain(t->dtype) && t->dtype != RT_C64 &&
           t->dtype != RT_C128 && t->dtype != RT_F16 && t->dtype != RT_BF16 && t->dtype <= RT_U64 &&
           srv_sample_is_plain_name(t->alias);
}

static bool can_be_tried(const struct rt_model_signature *s)
{
    bool ok =
        s->call && !s->writes && s->def->n_inputs > 0 && srv_sample_is_plain_name(s->def->name);
    for (int i = 0; ok && i < s->def->n_inputs; i++)
        ok = is_plain_input(&s->def->inputs[i]);
    return ok;
}

const struct rt_model_signature *srv_sample_signature(const struct rt_model *m)
{
    const struct rt_model_signature *s = rt_model_signature(m, "serving_default");
    if (s && can_be_tried(s))
        return s;
    for (int i = 0; i < m->n_signatures; i++)
        if (can_be_tried(&m->signatures[i]))
            return &m->signatures[i];
    return NULL;
}

static void value(const struct rt_tensor_spec *t, int dim, int number, struct rt_bytes *out)
{
    if (dim >= t->shape.rank) {
        bool is_real = t->dtype == RT_F32 || t->dtype == RT_F64;
        if (t->dtype == RT_BOOL)
            rt_bytes_adds(out, "true");
        else
            rt_bytes_addf(out, is_real ? "%d.0" : "%d", number);
        return;
    }
    rt_bytes_addc(out, '[');
    int64_t n = t->shape.dim[dim] < 0 ? 1 : t->shape.dim[dim];
    for (int64_t i = 0; i < n && !out->failed; i++) {
        if (i)
            rt_bytes_adds(out, ", ");
        value(t, dim + 1, number, out);
    }
    rt_bytes_addc(out, ']');
}

/* Appends the values of all inputs, without their first `first` dimensions. The value of a single
 * input has no name. */
static void values(const struct rt_signature *s, int first, int number, struct rt_bytes *out)
{
    if (s->n_inputs == 1) {
        value(&s->inputs[0], first, number, out);
        return;
    }
    rt_bytes_addc(out, '{');
    for (int i = 0; i < s->n_inputs && !out->failed; i++) {
        rt_bytes_addf(out, "%s\"%s\": ", i ? ", " : "", s->inputs[i].alias);
        value(&s->inputs[i], first, number, out);
    }
    rt_bytes_addc(out, '}');
}

void srv_sample_body(const struct rt_signature *s, struct rt_bytes *out)
{
    bool rows = true;
    for (int i = 0; i < s->n_inputs; i++)
        rows = rows && s->inputs[i].shape.rank > 0 && s->inputs[i].shape.dim[0] < 0;
    rt_bytes_addc(out, '{');
    if (strcmp(s->name, "serving_default") != 0)
        rt_bytes_addf(out, "\"signature_name\": \"%s\", ", s->name);
    if (rows) {
        rt_bytes_adds(out, "\"instances\": [");
        values(s, 1, 1, out);
        rt_bytes_adds(out, ", ");
        values(s, 1, 2, out);
        rt_bytes_addc(out, ']');
    } else {
        rt_bytes_adds(out, "\"inputs\": ");
        values(s, 0, 1, out);
    }
    rt_bytes_addc(out, '}');
}
