/* Implements the registry of ops and kernels (registry.h). */
#include "runtime/core/op.h"
#include "runtime/core/control.h"
#include "runtime/core/device.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/base/map.h"

struct row {
    struct row *next;
    const struct rt_op *op;
    const struct rt_kernel **kernel;
    int n_kernels, capacity;
};

struct rt_registry {
    struct rt_map rows;
    struct row *all;
    rt_accelerators_open *open_accelerators;
};

struct rt_registry *rt_registry_new(void)
{
    struct rt_registry *r = calloc(1, sizeof *r);
    if (r && !rt_register_control(r)) {
        rt_registry_free(r);
        r = NULL;
    }
    return r;
}

void rt_registry_free(struct rt_registry *r)
{
    if (!r)
        return;
    for (struct row *row = r->all, *next; row; row = next) {
        next = row->next;
        free(row->kernel);
        free(row);
    }
    rt_map_clear(&r->rows);
    free(r);
}

/* Returns the row for `op`, adding one if there is none. Returns NULL if memory runs out. */
static struct row *row_of(struct rt_registry *r, const char *op)
{
    struct row *row = rt_map_get(&r->rows, op);
    if (row)
        return row;
    row = calloc(1, sizeof *row);
    if (!row || !rt_map_put(&r->rows, op, row)) {
        free(row);
        return NULL;
    }
    row->next = r->all;
    r->all = row;
    return row;
}

void rt_registry_set_accelerators(struct rt_registry *r, rt_accelerators_open *open)
{
    r->open_accelerators = open;
}

enum rt_status rt_registry_open_accelerators(const struct rt_registry *r,
                                             struct rt_accelerators *out,
                                             const struct rt_accelerator_options *options,
                                             struct rt_error *err)
{
    const char *which = options->which;
    *out = (struct rt_accelerators){0};
    if (r->open_accelerators)
        return r->open_accelerators(out, options, err);
    return strcmp(which, "none") == 0 || strcmp(which, "auto") == 0
               ? RT_OK
               : rt_fail(err, RT_UNIMPLEMENTED, "there are no kernels for GPUs");
}

bool rt_registry_add_op(struct rt_registry *r, const struct rt_op *op)
{
    if (op->internal_schema &&
        (op->name[0] != '_' || strcmp(op->internal_schema->name, op->name) != 0))
        return false;
    struct row *row = row_of(r, op->name);
    if (!row || row->op)
        return false;
    row->op = op;
    return true;
}

bool rt_registry_add_kernel(struct rt_registry *r, const struct rt_kernel *k)
{
    struct row *row = row_of(r, k->op);
    const bool on_host = strcmp(k->device, RT_CPU) == 0;
    if (!row || (!on_host && (!row->op || (row->op->shape_in & ~k->host_in))))
        return false;
    if (row->n_kernels == row->capacity) {
        int capacity = row->capacity ? row->capacity * 2 : 4;
        const struct rt_kernel **kernel = realloc(row->kernel, (size_t)capacity * sizeof *kernel);
        if (!kernel)
            return false;
        row->kernel = kernel;
        row->capacity = capacity;
    }
    row->kernel[row->n_kernels++] = k;
    return true;
}

const struct rt_op *rt_registry_op(const struct rt_registry *r, const char *name)
{
    const struct row *row = rt_map_get(&r->rows, name);
    return row ? row->op : NULL;
}

const struct rt_kernel *const *rt_registry_kernels(const struct rt_registry *r, const char *op,
                                                   int *n)
{
    const struct row *row = rt_map_get(&r->rows, op);
    *n = row ? row->n_kernels : 0;
    return row ? row->kernel : NULL;
}

/* Returns the set of types in attribute `type_attr` of a node, or 0 if the node lacks the
 * attribute. NULL stands for "T". */
static uint64_t types_of(const struct rt_node *n, const char *type_attr)
{
    const struct rt_attr *a = rt_attr(n, type_attr ? type_attr : "T");
    uint64_t types = 0;
    if (!a)
        return 0;
    if (a->type == RT_ATTR_TYPE)
        return RT_T(a->v.t);
    if (a->type == RT_ATTR_LIST + RT_ATTR_TYPE)
        for (size_t i = 0; i < a->n; i++)
            types |= RT_T(a->v.types[i]);
    return types;
}

bool rt_kernel_takes(const struct rt_kernel *k, const struct rt_node *n)
{
    return (k->types == 0 || (types_of(n, k->type_attr) & ~k->types) == 0) &&
           (!k->and_type_attr || (types_of(n, k->and_type_attr) & ~k->and_types) == 0) &&
           (!k->takes || k->takes(n));
}

static void add_types(struct rt_bytes *b, uint64_t types)
{
    const char *glue = "";
    for (int d = 1; d < RT_N_DTYPES; d++)
        if (types & RT_T(d)) {
            rt_bytes_addf(b, "%s%s", glue, rt_dtype_name((enum rt_dtype)d));
            glue = ", ";
        }
}

enum rt_status rt_registry_can_run(const struct rt_registry *r, const struct rt_node *n,
                                   const char *device, struct rt_error *err)
{
    const char *op = n->schema->name;
    const struct row *row = rt_map_get(&r->rows, op);
    if (!row || !row->op) {
        if (!rt_schema_find(op))
            return rt_fail(err, RT_UNIMPLEMENTED,
                           "Op type not registered '%s' in binary running on this server (node "
                           "'%s'). Make sure the Op and Kernel are registered in the binary "
                           "running in this process.",
                           op, n->name);
        return rt_fail(err, RT_UNIMPLEMENTED, "op %s is not implemented", op);
    }
    if (row->op->slot_kind)
        return RT_OK;

    /* for the error message: types and devices of all kernels of the op */
    const char *type_attr = NULL;
    uint64_t here = 0, wanted = 0;
    struct rt_bytes devices;
    rt_bytes_init(&devices, 256);
    const struct rt_kernel *pair = NULL; /* a kernel that accepts type_attr but not and_type_attr */
    bool is_here = false, is_mixed = false;
    for (int i = 0; i < row->n_kernels; i++) {
        const struct rt_kernel *k = row->kernel[i];
        if (strcmp(k->device, device) != 0) {
            if (!devices.p || !strstr(devices.p, k->device))
                rt_bytes_addf(&devices, "%s%s", devices.n ? ", " : "", k->device);
            continue;
        }
        if (rt_kernel_takes(k, n)) {
            rt_bytes_clear(&devices);
            return RT_OK;
        }
        const uint64_t types = types_of(n, k->type_attr);
        is_here = true;
        type_attr = k->type_attr ? k->type_attr : "T";
        here |= k->types;
        wanted = types;
        if (k->and_type_attr && (k->types == 0 || (types & ~k->types) == 0))
            pair = k;
        is_mixed = is_mixed || k->takes;
    }

    struct rt_bytes text;
    rt_bytes_init(&text, 2048);
    if (is_here && is_mixed) {
        rt_bytes_addf(&text, "op %s has no kernel for", op);
        const char *glue = " ";
        for (int i = 0; i < n->schema->n_attr; i++)
            if (n->schema->attr[i].type == RT_ATTR_TYPE) {
                rt_bytes_addf(&text, "%s%s=", glue, n->schema->attr[i].name);
                add_types(&text, types_of(n, n->schema->attr[i].name));
                glue = ", ";
            }
        rt_bytes_addf(&text, " on %s", device);
    } else if (is_here) {
        rt_bytes_addf(&text, "op %s has no kernel for %s=", op, type_attr);
        add_types(&text, wanted);
        if (pair) {
            rt_bytes_addf(&text, ", %s=", pair->and_type_attr);
            add_types(&text, types_of(n, pair->and_type_attr));
            type_attr = pair->and_type_attr;
            here = pair->and_types;
        }
        rt_bytes_addf(&text, " on %s (it has: ", device);
        add_types(&text, here);
        rt_bytes_addc(&text, ')');
    } else if (devices.n) {
        rt_bytes_addf(&text, "op %s has no kernel on %s (it has some on: %s)", op, device,
                      devices.p);
    } else {
        rt_bytes_addf(&text, "op %s has no kernel", op);
    }
    rt_fail(err, RT_UNIMPLEMENTED, "%s", text.p ? text.p : op);
    rt_bytes_clear(&text);
    rt_bytes_clear(&devices);
    return RT_UNIMPLEMENTED;
}
