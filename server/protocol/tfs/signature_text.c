#include "server/protocol/tfs/signature_text.h"

/* Quotes a string as protobuf's text format does. Escapes all bytes except printable ASCII. */
static void quote(struct rt_bytes *out, const char *s)
{
    rt_bytes_addc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\' || c == '\'')
            rt_bytes_addf(out, "\\%c", c);
        else if (c == '\n')
            rt_bytes_adds(out, "\\n");
        else if (c == '\r')
            rt_bytes_adds(out, "\\r");
        else if (c == '\t')
            rt_bytes_adds(out, "\\t");
        else if (c < 0x20 || c >= 0x7f)
            rt_bytes_addf(out, "\\%03o", c);
        else
            rt_bytes_addc(out, (char)c);
    }
    rt_bytes_addc(out, '"');
}

static void specs(struct rt_bytes *out, const char *field, const struct rt_tensor_spec *spec, int n)
{
    for (int i = 0; i < n; i++) {
        const struct rt_shape *shape = &spec[i].shape;
        rt_bytes_addf(out, "%s {\n  key: ", field);
        quote(out, spec[i].alias);
        rt_bytes_adds(out, "\n  value {\n    name: ");
        quote(out, spec[i].name);
        rt_bytes_addf(out, "\n    dtype: %s\n    tensor_shape {\n",
                      rt_dtype_proto_name(spec[i].dtype));
        for (int d = 0; d < shape->rank; d++)
            if (shape->dim[d])
                rt_bytes_addf(out, "      dim {\n        size: %lld\n      }\n",
                              (long long)shape->dim[d]);
            else
                rt_bytes_adds(out, "      dim {\n      }\n");
        if (shape->rank < 0)
            rt_bytes_adds(out, "      unknown_rank: true\n");
        rt_bytes_adds(out, "    }\n  }\n}\n");
    }
}

void srv_signature_text(struct rt_bytes *out, const struct rt_signature *sig)
{
    specs(out, "inputs", sig->inputs, sig->n_inputs);
    specs(out, "outputs", sig->outputs, sig->n_outputs);
    if (sig->method_name && *sig->method_name) {
        rt_bytes_adds(out, "method_name: ");
        quote(out, sig->method_name);
        rt_bytes_addc(out, '\n');
    }
}
