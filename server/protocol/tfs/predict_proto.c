#include "server/protocol/tfs/predict_proto.h"

#include <stdlib.h>

#include "runtime/base/arena.h"

/* ---- reading ---- */

static int compare_spans(struct rt_span a, struct rt_span b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

struct numbered {
    struct srv_predict_input input;
    /* Index of the entry in the message. It orders entries that have the same alias. */
    int order;
};

static int compare_inputs(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    int order = compare_spans(x->input.alias, y->input.alias);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

static enum rt_status read_entry(struct srv_cursor entry, struct srv_predict_input *out,
                                 struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    out->alias = rt_span_of("", 0);
    out->tensor = entry;
    out->tensor.left = 0; /* if the entry has no value, the TensorProto is empty */
    while (!st && (got = srv_field_next(&entry, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_cursor_span(f.body, &out->alias, arena, err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            out->tensor = f.body;
    }
    return !st && got < 0 ? srv_wire_malformed(err, "inputs") : st;
}

enum rt_status srv_predict_read(struct srv_cursor message, struct srv_predict_request *out,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct srv_cursor c = message;
    struct numbered *inputs;
    struct srv_field f;
    int got, n_inputs = 0, n_filters = 0, n = 0;
    enum rt_status st = RT_OK;

    *out = (struct srv_predict_request){0};
    /* Counts the entries before allocating memory. Each entry takes at least two bytes of the
     * message. */
    while ((got = srv_field_next(&c, &f)) > 0) {
        n_inputs += srv_field_is(&f, 2, SRV_BYTES);
        n_filters += srv_field_is(&f, 3, SRV_BYTES);
    }
    if (got < 0)
        return srv_wire_malformed(err, "PredictRequest");
    /* Maximum number of inputs. The number of output filters has the same limit. Real signatures
     * have far fewer inputs and outputs. */
    enum { MANY = 10000 };
    if (n_inputs > MANY || n_filters > MANY)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the request has %d inputs and %d output filters, at most %d of each",
                       n_inputs, n_filters, MANY);
    inputs = rt_arena_array(arena, (size_t)n_inputs + 1, sizeof *inputs);
    out->inputs = rt_arena_array(arena, (size_t)n_inputs + 1, sizeof *out->inputs);
    out->filters = rt_arena_array(arena, (size_t)n_filters + 1, sizeof *out->filters);
    if (!inputs || !out->inputs || !out->filters)
        return rt_fail_memory(err, "the parts of a request", 0);
    while (!st && srv_field_next(&message, &f) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES)) {
            out->has_spec = true;
            st = srv_model_spec_read(f.body, &out->spec, arena, err);
        } else if (srv_field_is(&f, 2, SRV_BYTES)) {
            inputs[n].order = n;
            st = read_entry(f.body, &inputs[n].input, arena, err);
            n++;
        } else if (srv_field_is(&f, 3, SRV_BYTES)) {
            st = srv_cursor_span(f.body, &out->filters[out->n_filters++], arena, err);
        }
    }
    if (st)
        return st;
    qsort(inputs, (size_t)n, sizeof *inputs, compare_inputs);
    /* if an alias occurs more than once, the last entry is used, as in every protobuf map */
    for (int i = 0; i < n; i++)
        if (i + 1 == n || !rt_span_eq(inputs[i].input.alias, inputs[i + 1].input.alias))
            out->inputs[out->n_inputs++] = inputs[i].input;
    return RT_OK;
}
/* ---- binding ---- */

static int compare_alias(const void *alias, const void *input)
{
    return compare_spans(*(const struct rt_span *)alias,
                         ((const struct srv_predict_input *)input)->alias);
}

static const struct srv_predict_input *find_input(const struct srv_predict_request *r,
                                                  const char *alias)
{
    const struct rt_span key = rt_span_str(alias);
    return r->n_inputs
               ? bsearch(&key, r->inputs, (size_t)r->n_inputs, sizeof *r->inputs, compare_alias)
               : NULL;
}

static void list_spec(struct rt_bytes *b, const struct rt_tensor_spec *specs, int n,
                      const struct srv_predict_request *without)
{
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (without && find_input(without, specs[i].alias))
            continue;
        rt_bytes_addf(b, "%s%s", first ? "" : ",", specs[i].alias);
        first = false;
    }
}

static void list_inputs(struct rt_bytes *b, const struct srv_predict_request *r,
                        const struct rt_signature *sig, bool known, bool unknown)
{
    bool first = true;
    for (int i = 0; i < r->n_inputs; i++) {
        struct rt_span alias = r->inputs[i].alias;
        if (rt_tensor_spec_find(sig->inputs, sig->n_inputs, alias) ? !known : !unknown)
            continue;
        if (!first)
            rt_bytes_addc(b, ',');
        rt_bytes_add(b, alias.p, alias.n);
        first = false;
    }
}

static enum rt_status fail_bytes(struct rt_bytes *b, struct rt_error *err)
{
    const struct rt_span text = rt_error_name(err, rt_span_of(b->p, b->n));
    rt_fail(err, RT_INVALID_ARGUMENT, "%.*s", (int)text.n, text.p ? (const char *)text.p : "");
    rt_bytes_clear(b);
    return RT_INVALID_ARGUMENT;
}

static enum rt_status wrong_count(const struct srv_predict_request *r,
                                  const struct rt_signature *sig, struct rt_error *err)
{
    struct rt_bytes b;

    rt_bytes_init(&b, 64 << 10);
    rt_bytes_addf(&b, "input size does not match signature: %d!=%d len({", r->n_inputs,
                  sig->n_inputs);
    list_inputs(&b, r, sig, true, true);
    rt_bytes_adds(&b, "}) != len({");
    list_spec(&b, sig->inputs, sig->n_inputs, NULL);
    rt_bytes_adds(&b, "}). Sent extra: {");
    list_inputs(&b, r, sig, false, true);
    rt_bytes_adds(&b, "}. Missing but required: {");
    list_spec(&b, sig->inputs, sig->n_inputs, r);
    rt_bytes_adds(&b, "}.");
    return fail_bytes(&b, err);
}

static enum rt_status bind_inputs(const struct srv_predict_request *r,
                                  const struct rt_signature *sig, const struct rt_callable *call,
                                  struct srv_allowance *allowance, struct rt_tensor *feeds,
                                  struct rt_error *err)
{
    bool has_default = false;
    int n_used = 0;

    for (int i = 0; i < sig->n_inputs; i++)
        has_default |= sig->inputs[i].default_value != NULL;
    if (!has_default && r->n_inputs != sig->n_inputs)
        return wrong_count(r, sig, err);
    for (int i = 0; i < sig->n_inputs; i++) {
        const struct rt_tensor_spec *spec = &sig->inputs[i];
        const struct srv_predict_input *in = find_input(r, spec->alias);
        if (in) {
            enum rt_dtype dtype = call ? rt_callable_feed_dtype(call, i) : RT_NO_DTYPE;
            enum rt_status st = srv_tensor_read(in->tensor, dtype, &feeds[i], allowance, err);
            if (st == RT_INVALID_ARGUMENT)
                rt_fail_prefix(err, "tensor parsing error: %s: ", spec->alias);
            if (st)
                return st;
            n_used++;
        } else if (spec->default_value) {
            rt_tensor_ref(&feeds[i], spec->default_value);
        } else {
            struct rt_bytes b;
            rt_bytes_init(&b, 64 << 10);
            rt_bytes_addf(&b,
                          "Signature input alias: %s(feed name: %s) not found in request and no "
                          "default value provided. Inputs expected to be in the set {",
                          spec->alias, spec->name);
            list_spec(&b, sig->inputs, sig->n_inputs, NULL);
            rt_bytes_adds(&b, "}.");
            return fail_bytes(&b, err);
        }
    }
    if (n_used == r->n_inputs)
        return RT_OK;
    struct rt_bytes b;
    rt_bytes_init(&b, 64 << 10);
    rt_bytes_adds(&b, "Inputs contains invalid name. Used request inputs: ");
    list_inputs(&b, r, sig, true, false);
    rt_bytes_adds(&b, ", request input: ");
    list_inputs(&b, r, sig, true, true);
    return fail_bytes(&b, err);
}

enum rt_status srv_predict_bind(const struct srv_predict_request *request,
                                const struct rt_signature *sig, const struct rt_callable *call,
                                struct srv_allowance *allowance, struct rt_tensor *feeds,
                                bool *wanted, struct rt_error *err)
{
    enum rt_status st = bind_inputs(request, sig, call, allowance, feeds, err);

    if (st)
        return st;
    for (int i = 0; i < sig->n_outputs; i++)
        wanted[i] = request->n_filters == 0;
    for (int i = 0; i < request->n_filters; i++) {
        struct rt_span alias = request->filters[i];
        const struct rt_tensor_spec *spec =
            rt_tensor_spec_find(sig->outputs, sig->n_outputs, alias);
        if (!spec) {
            struct rt_bytes b;
            rt_bytes_init(&b, 64 << 10);
            rt_bytes_adds(&b, "output tensor alias not found in signature: ");
            rt_bytes_add(&b, alias.p, alias.n);
            rt_bytes_adds(&b, " Outputs expected to be in the set {");
            list_spec(&b, sig->outputs, sig->n_outputs, NULL);
            rt_bytes_adds(&b, "}.");
            return fail_bytes(&b, err);
        }
        if (wanted[spec - sig->outputs])
            return rt_fail(err, RT_INVALID_ARGUMENT, "duplicate output tensor alias: %s",
                           spec->alias);
        wanted[spec - sig->outputs] = true;
    }
    return call ? rt_callable_check_feeds(call, feeds, err) : RT_OK;
}
/* ---- writing ---- */

struct entry { /* sizes of an output's TensorProto and map entry */
    struct srv_tensor_layout tensor;
    size_t size;
};

enum rt_status srv_predict_write(const struct srv_predict_response *r, unsigned char **out,
                                 size_t *n, struct rt_error *err)
{
    enum { FEW = 16 };
    struct entry few[FEW], *e = few;
    const struct rt_signature *sig = r->sig;
    size_t total = srv_model_echo_size(&r->echo, 2);
    unsigned char *p;

    for (int i = 0; i < sig->n_outputs; i++)
        if (r->wanted[i] && !srv_tensor_has_wire((enum rt_dtype)r->fetches[i].dtype))
            return rt_fail(err, RT_UNIMPLEMENTED, "output %s is of type %s, which is no value",
                           sig->outputs[i].alias,
                           rt_dtype_name((enum rt_dtype)r->fetches[i].dtype));
    if (sig->n_outputs > FEW)
        e = calloc((size_t)sig->n_outputs, sizeof *e);
    if (!e)
        return rt_fail_memory(err, "a response", 0);
    struct srv_cancellation *cancellation = srv_growth_cancellation(r->growth);
    for (int i = 0; i < sig->n_outputs && total <= SRV_MESSAGE_MOST; i++) {
        if (!r->wanted[i])
            continue;
        e[i].tensor = srv_tensor_lay_out(&r->fetches[i], r->as_content, cancellation);
        e[i].size = srv_bytes_size(1, strlen(sig->outputs[i].alias)) +
                    srv_bytes_size(2, e[i].tensor.tensor);
        total += srv_bytes_size(1, e[i].size);
    }
    enum rt_status st = srv_growth_take(r->growth, total, err);
    *out = p = st ? NULL : malloc(total + 1);
    *n = total;
    for (int i = 0; p && i < sig->n_outputs && !(cancellation && cancellation->over); i++) {
        const char *alias = sig->outputs[i].alias;
        if (!r->wanted[i])
            continue;
        p = srv_write_head(p, 1, e[i].size);
        p = srv_write_bytes(p, 1, alias, strlen(alias));
        p = srv_write_head(p, 2, e[i].tensor.tensor);
        p = srv_tensor_emit(p, &r->fetches[i], r->as_content, &e[i].tensor, cancellation);
    }
    if (e != few)
        free(e);
    if (!st && (!p || (cancellation && cancellation->over))) {
        free(*out);
        *out = NULL;
        return srv_growth_failed(r->growth, total, err);
    }
    if (p)
        srv_model_echo_write(p, &r->echo, 2);
    return st;
}

void srv_predict_write_request(const struct srv_predict_request_parts *parts, struct rt_bytes *out)
{
    const struct rt_signature *sig = parts->sig;
    bool all = true;

    srv_model_echo_put(out, &parts->echo, 1);
    for (int i = 0; i < sig->n_inputs; i++) {
        const char *alias = sig->inputs[i].alias;
        if (!srv_tensor_has_wire((enum rt_dtype)parts->feeds[i].dtype)) {
            out->failed = true;
            return;
        }
        const struct srv_tensor_layout l = srv_tensor_lay_out(&parts->feeds[i], false, NULL);
        const size_t n = l.tensor;
        srv_put_head(out, 2, srv_bytes_size(1, strlen(alias)) + srv_bytes_size(2, n));
        srv_put_bytes(out, 1, alias, strlen(alias));
        srv_put_head(out, 2, n);
        srv_tensor_write(out, &parts->feeds[i], &l, NULL);
    }
    for (int i = 0; i < sig->n_outputs; i++)
        all = all && parts->wanted[i];
    for (int i = 0; i < sig->n_outputs && !all; i++)
        if (parts->wanted[i])
            srv_put_bytes(out, 3, sig->outputs[i].alias, strlen(sig->outputs[i].alias));
}
