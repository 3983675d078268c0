/* Checks the inputs and outputs of a Triton configuration against the model's signature. */
#include <stdio.h>
#include <string.h>

#include "inference/model_config.pb-c.h"
#include "runtime/files/saved_model.h"
#include "server/triton/triton.h"

static const struct {
    enum rt_dtype dtype;
    const char *name;
} types[] = {
    [INFERENCE__DATA_TYPE__TYPE_BOOL] = {RT_BOOL, "BOOL"},
    [INFERENCE__DATA_TYPE__TYPE_UINT8] = {RT_U8, "UINT8"},
    [INFERENCE__DATA_TYPE__TYPE_UINT16] = {RT_U16, "UINT16"},
    [INFERENCE__DATA_TYPE__TYPE_UINT32] = {RT_U32, "UINT32"},
    [INFERENCE__DATA_TYPE__TYPE_UINT64] = {RT_U64, "UINT64"},
    [INFERENCE__DATA_TYPE__TYPE_INT8] = {RT_I8, "INT8"},
    [INFERENCE__DATA_TYPE__TYPE_INT16] = {RT_I16, "INT16"},
    [INFERENCE__DATA_TYPE__TYPE_INT32] = {RT_I32, "INT32"},
    [INFERENCE__DATA_TYPE__TYPE_INT64] = {RT_I64, "INT64"},
    [INFERENCE__DATA_TYPE__TYPE_FP16] = {RT_F16, "FP16"},
    [INFERENCE__DATA_TYPE__TYPE_FP32] = {RT_F32, "FP32"},
    [INFERENCE__DATA_TYPE__TYPE_FP64] = {RT_F64, "FP64"},
    [INFERENCE__DATA_TYPE__TYPE_STRING] = {RT_STRING, "STRING"},
    [INFERENCE__DATA_TYPE__TYPE_BF16] = {RT_BF16, "BF16"},
};

enum { N_TYPES = sizeof types / sizeof *types };

int srv_triton_type(enum rt_dtype dtype, const char **name)
{
    for (int i = 1; i < N_TYPES; i++)
        if (types[i].dtype == dtype) {
            *name = types[i].name;
            return i;
        }
    *name = NULL;
    return 0;
}

enum rt_dtype srv_triton_dtype(int number, const char **name)
{
    const bool is = number > 0 && number < N_TYPES;

    *name = is ? types[number].name : NULL;
    return is ? types[number].dtype : RT_NO_DTYPE;
}

/* A ModelInput or ModelOutput of the configuration. */
struct listed {
    const void *type; /* the message's descriptor */
    const char *what;
    size_t index; /* among the messages of its type */
    const char *name;
    Inference__DataType data_type;
    size_t n_dims;
    const int64_t *dims;
};

static enum rt_status check_type(const struct srv_triton *t, const struct listed *l,
                                 const struct rt_tensor_spec *spec, struct rt_error *err)
{
    const char *name;
    const int number = srv_triton_type(spec->dtype, &name);

    if (number && number == (int)l->data_type)
        return RT_OK;
    return srv_triton_fail(t, l->type, "data_type", l->index, err,
                           "%s \"%.100s\" is of type %s in the SavedModel", l->what, l->name,
                           rt_dtype_name(spec->dtype));
}

/* Checks the dimensions. With max_batch_size, the configuration leaves out the first dimension. */
static enum rt_status check_dims(const struct srv_triton *t, const struct listed *l,
                                 const struct rt_tensor_spec *spec, struct rt_error *err)
{
    const int batch = t->message->max_batch_size > 0;
    const struct rt_shape *s = &spec->shape;

    if (s->rank < 0)
        return RT_OK;
    /* Triton writes a scalar as one dimension of 1. */
    if (!batch && s->rank == 0 && l->n_dims == 1 && l->dims[0] == 1)
        return RT_OK;
    bool same = (size_t)s->rank == l->n_dims + (size_t)batch;
    if (same && batch)
        same = s->dim[0] < 0;
    for (size_t i = 0; same && i < l->n_dims; i++) {
        const int64_t dim = s->dim[i + (size_t)batch];
        same = dim == l->dims[i] || dim < 0 || l->dims[i] < 0;
    }
    if (same)
        return RT_OK;
    char shape[192];
    return srv_triton_fail(t, l->type, "dims", l->index, err,
                           "%s \"%.100s\" has another shape in the SavedModel, %s%s", l->what,
                           l->name, rt_shape_text(shape, sizeof shape, s->rank, s->dim),
                           batch ? ", whose first dimension is that of max_batch_size" : "");
}

/* Writes the names of inputs or outputs, as many as fit. */
static const char *list_names(char *buffer, size_t capacity, const struct rt_tensor_spec *specs,
                              int n)
{
    size_t used = 0;

    snprintf(buffer, capacity, "%s", n ? "" : "none");
    for (int i = 0; i < n; i++) {
        const size_t more = strlen(specs[i].alias) + 4; /* the comma, the blank and the quotes */
        if (used + more + sizeof " and more" > capacity) {
            snprintf(buffer + used, capacity - used, " and more");
            break;
        }
        used += (size_t)snprintf(buffer + used, capacity - used, "%s\"%s\"", i ? ", " : "",
                                 specs[i].alias);
    }
    return buffer;
}

static enum rt_status check_listed(const struct srv_triton *t, const struct listed *l,
                                   const struct rt_tensor_spec *specs, int n_specs,
                                   const char *signature, struct rt_error *err)
{
    const struct rt_tensor_spec *spec = rt_tensor_spec_find(specs, n_specs, rt_span_str(l->name));

    if (!spec) {
        char names[256];
        return srv_triton_fail(t, l->type, "name", l->index, err,
                               "the signature \"%.100s\" has no %s \"%.100s\", only %s", signature,
                               l->what, l->name, list_names(names, sizeof names, specs, n_specs));
    }
    const enum rt_status st = check_type(t, l, spec, err);
    return st ? st : check_dims(t, l, spec, err);
}

/* Checks that the list of inputs or outputs is complete if it is not empty. */
static enum rt_status check_complete(const struct srv_triton *t, const char *what, size_t n_listed,
                                     int n_specs, const char *signature, struct rt_error *err)
{
    return !n_listed || n_listed == (size_t)n_specs
               ? RT_OK
               : srv_triton_fail(t, &inference__model_config__descriptor, what, 0, err,
                                 "%zu are listed, but the signature \"%.100s\" has %d", n_listed,
                                 signature, n_specs);
}

enum rt_status srv_triton_check_model(const struct srv_triton *t, const struct rt_model *model,
                                      struct rt_error *err)
{
    const Inference__ModelConfig *m = t->message;
    const char *name = srv_triton_signature(t);
    const struct rt_model_signature *sig = rt_model_signature(model, name);
    enum rt_status st = RT_OK;

    if (!sig && (t->signature || m->n_input || m->n_output))
        return srv_triton_fail(t, &inference__model_config__descriptor,
                               t->signature ? "parameters"
                               : m->n_input ? "input"
                                            : "output",
                               0, err, "the SavedModel has no signature \"%.100s\"", name);
    if (!sig)
        return RT_OK;
    const struct rt_signature *def = sig->def;
    for (size_t i = 0; !st && i < m->n_input; i++) {
        const Inference__ModelInput *in = m->input[i];
        const struct listed l = {&inference__model_input__descriptor,
                                 "input",
                                 i,
                                 in->name,
                                 in->data_type,
                                 in->n_dims,
                                 in->dims};
        st = check_listed(t, &l, def->inputs, def->n_inputs, name, err);
    }
    for (size_t i = 0; !st && i < m->n_output; i++) {
        const Inference__ModelOutput *o = m->output[i];
        const struct listed l = {&inference__model_output__descriptor,
                                 "output",
                                 i,
                                 o->name,
                                 o->data_type,
                                 o->n_dims,
                                 o->dims};
        st = check_listed(t, &l, def->outputs, def->n_outputs, name, err);
    }
    if (!st)
        st = check_complete(t, "input", m->n_input, def->n_inputs, name, err);
    return st ? st : check_complete(t, "output", m->n_output, def->n_outputs, name, err);
}
