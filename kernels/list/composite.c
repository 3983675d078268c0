/*
 * Composite tensors in variants: the components of a sparse tensor, a ragged tensor or another
 * value of several tensors, together with the class of the value. A function passes such a value
 * through one edge. The components are references to tensors, so their elements are not copied.
 */
#include "kernels/list/list_internal.h"
#include "kernels/parsing/wire_example.h"
#include "runtime/base/bytes.h"

struct composite {
    struct rt_object o;
    uint64_t spec_class;
    int n;
    struct rt_tensor component[];
};

static void composite_free(struct rt_object *o)
{
    struct composite *c = (struct composite *)o;

    for (int k = 0; k < c->n; k++)
        rt_tensor_clear(&c->component[k]);
    rt_pool_free(c);
}

static const struct rt_object_type composite_type = {"CompositeTensorVariant", composite_free};

/* ---- metadata ---- */

/* Returns the name of a value of TypeSpecProto.TypeSpecClass, or "" if there is none. */
static const char *class_name(uint64_t spec_class)
{
    static const char *const names[] = {"UNKNOWN",
                                        "SPARSE_TENSOR_SPEC",
                                        "INDEXED_SLICES_SPEC",
                                        "RAGGED_TENSOR_SPEC",
                                        "TENSOR_ARRAY_SPEC",
                                        "DATA_DATASET_SPEC",
                                        "DATA_ITERATOR_SPEC",
                                        "OPTIONAL_SPEC",
                                        "PER_REPLICA_SPEC",
                                        "VARIABLE_SPEC",
                                        "ROW_PARTITION_SPEC",
                                        "",
                                        "REGISTERED_TYPE_SPEC",
                                        "EXTENSION_TYPE_SPEC"};

    return spec_class < sizeof names / sizeof *names ? names[spec_class] : "";
}

/* Reads the class of a TypeSpecProto. Returns false if the message is malformed. The state of the
 * type is not read, because no check uses it. */
static bool read_spec(struct rt_span spec, uint64_t *spec_class)
{
    enum { SPEC_CLASS = 1 };
    struct kn_field f;
    int more;

    while ((more = kn_field_next(&spec, &f)) > 0)
        if (f.number == SPEC_CLASS && f.type == KN_VARINT)
            *spec_class = (uint32_t)f.value;
    return more == 0;
}

/* Reads the class from the attribute `metadata`, a CompositeTensorVariantMetadata. `name` is the
 * attribute's name in TensorFlow's message. */
static enum rt_status read_metadata(const struct rt_node *n, const char *name, uint64_t *spec_class,
                                    struct rt_error *err)
{
    enum { TYPE_SPEC = 1 };
    struct rt_span rest = rt_attr_str(n, "metadata");
    struct kn_field f;
    int more;

    *spec_class = 0;
    while ((more = kn_field_next(&rest, &f)) > 0)
        if (f.number == TYPE_SPEC && f.type == KN_BYTES && !read_spec(f.bytes, spec_class))
            break;
    return more == 0 ? RT_OK : rt_fail(err, RT_INVALID_ARGUMENT, "Error parsing %s", name);
}

/* ---- making ---- */

static enum rt_status from_components_check(const struct rt_node *n, struct rt_error *err)
{
    for (int k = 0; k < n->n_in; k++)
        if (!kn_items_check((enum rt_dtype)n->in_dtype[k], "a composite tensor", err))
            return err->code;
    return RT_OK;
}

static enum rt_status from_components_run(struct rt_run *r)
{
    uint64_t spec_class;
    enum rt_status st = read_metadata(r->node, "metadata", &spec_class, r->err);
    struct composite *c = NULL;

    if (!st) {
        c = rt_run_alloc(r, sizeof *c + (size_t)r->n_in * sizeof c->component[0]);
        st = c ? RT_OK : r->err->code;
    }
    if (!c)
        return st;
    rt_object_init(&c->o, &composite_type);
    c->spec_class = spec_class;
    c->n = r->n_in;
    for (int k = 0; k < r->n_in && !st; k++)
        st = kn_keep(r, &c->component[k], &r->in[k]);
    if (!st)
        return rt_out_object(r, 0, &c->o);
    rt_object_unref(&c->o);
    return st;
}

const struct kn_entry kn_composite_tensor_variant_from_components = {
    .op = {.name = "CompositeTensorVariantFromComponents",
           .check = from_components_check,
           .infer = kn_infer_scalars,
           .rows = kn_rows_sizes},
    .kernels = KN_KERNELS({.op = "CompositeTensorVariantFromComponents",
                           .device = "CPU",
                           .name = "composite_tensor_variant_from_components",
                           .flags = RT_K_VIEWS,
                           .run = from_components_run}),
};

bool kn_is_composite(const struct rt_tensor *t)
{
    const struct rt_object *o = t->rank == 0 ? rt_tensor_handle(t) : NULL;

    return o && o->type == &composite_type;
}

/* ---- reading ---- */

/* Returns TensorFlow's description of the first element of a variant tensor that is not a composite
 * tensor. */
static const char *value_text(const struct rt_tensor *t)
{
    if (kn_is_empty_optional(t))
        return "OptionalVariant<None>";
    return rt_tensor_handle(t) ? rt_tensor_handle(t)->type->name : "UNINITIALIZED Variant";
}

/* Returns the composite tensor in input 0, or NULL on failure. As in TensorFlow, input 0 may have
 * any shape, and only its first element is read. */
static const struct composite *composite_input(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const struct rt_object *o = rt_tensor_count(t) ? rt_tensor_handle(t) : NULL;

    if (o && o->type == &composite_type)
        return (const struct composite *)o;
    if (!rt_tensor_count(t))
        rt_fail(r->err, RT_INVALID_ARGUMENT,
                "Input `encoded` must not be an empty variant tensor, but got Tensor<type: variant "
                "shape: %s values: >",
                KN_TEXT(t));
    else
        rt_fail(r->err, RT_INVALID_ARGUMENT,
                "The input `encoded` is not a valid CompositeTensorVariant tensor, got "
                "Tensor<type: variant shape: %s values: <%s>>",
                KN_TEXT(t), value_text(t));
    return NULL;
}

static enum rt_status to_components_run(struct rt_run *r)
{
    uint64_t want;
    const struct composite *c =
        read_metadata(r->node, "`metadata`", &want, r->err) ? NULL : composite_input(r);

    if (!c)
        return r->err->code;
    if (c->spec_class != want)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected a %s (based on `type_spec`), but `encoded` contains a %s",
                       class_name(want), class_name(c->spec_class));
    if (c->n != r->n_out)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Encoded value has %d tensor components; expected %d components based on "
                       "type_spec",
                       c->n, r->n_out);
    for (int k = 0; k < c->n; k++) {
        if (c->component[k].dtype != r->node->out_dtype[k])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Tensor component %d had dtype %s; expected dtype %s", k,
                           rt_dtype_proto_name(kn_dtype(&c->component[k])),
                           rt_dtype_proto_name((enum rt_dtype)r->node->out_dtype[k]));
        rt_out_tensor(r, k, &c->component[k]);
    }
    return RT_OK;
}

KN_LIST_OP(composite_tensor_variant_to_components, "CompositeTensorVariantToComponents", NULL,
           to_components_run)
