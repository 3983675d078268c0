#include "server/protocol/tfs/classify.h"

#include <string.h>

#include "server/protocol/tfs/signature_text.h"

const char *srv_scoring_method(enum srv_api api)
{
    return api == SRV_CLASSIFY ? "tensorflow/serving/classify" : "tensorflow/serving/regress";
}

/* ---- the signature ---- */

static enum rt_status wrong_method(const struct srv_scoring *s, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %s signature method_name to be %s. Was: %s",
                   s->api == SRV_CLASSIFY ? "classification" : "regression",
                   srv_scoring_method(s->api), s->sig->method_name ? s->sig->method_name : "");
}

/* Fails with the message `text`, followed by the signature in protobuf's text format. */
static enum rt_status wrong_signature(const struct srv_scoring *s, const char *text,
                                      struct rt_error *err)
{
    struct rt_bytes quoted;

    rt_bytes_init(&quoted, 64 << 10);
    srv_signature_text(&quoted, s->sig);
    rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", text, quoted.p ? quoted.p : "");
    rt_bytes_clear(&quoted);
    return RT_INVALID_ARGUMENT;
}

static int output_of(const struct rt_signature *sig, const char *alias)
{
    const struct rt_tensor_spec *spec = rt_signature_output(sig, alias);
    return spec ? (int)(spec - sig->outputs) : -1;
}

static enum rt_status check_classify(struct srv_scoring *s, struct rt_error *err)
{
    const struct rt_signature *sig = s->sig;

    if (sig->n_outputs != 1 && sig->n_outputs != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected one or two output Tensors, found %d",
                       sig->n_outputs);
    if (!rt_signature_input(sig, "inputs"))
        return wrong_signature(s, "No classification inputs found in SignatureDef: ", err);
    s->classes = output_of(sig, "classes");
    s->scores = output_of(sig, "scores");
    if (s->classes < 0 && s->scores < 0)
        return wrong_signature(s,
                               "Expected classification signature outputs to contain at least one "
                               "of \"classes\" or \"scores\". Signature was: ",
                               err);
    /* If `classes` and `scores` are the same tensor, that tensor contains the labels. */
    if (s->classes >= 0 && s->scores >= 0 &&
        strcmp(sig->outputs[s->classes].name, sig->outputs[s->scores].name) == 0)
        s->scores = -1;
    return RT_OK;
}

static enum rt_status check_regress(struct srv_scoring *s, struct rt_error *err)
{
    const struct rt_signature *sig = s->sig;

    if (sig->n_outputs != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected one output Tensor.");
    if (!rt_signature_input(sig, "inputs"))
        return wrong_signature(s, "No regression inputs found in SignatureDef: ", err);
    s->classes = -1;
    s->scores = output_of(sig, "outputs");
    if (s->scores < 0)
        return wrong_signature(s, "No regression outputs found in SignatureDef: ", err);
    return RT_OK;
}

enum rt_status srv_scoring_check(struct srv_scoring *s, bool check_method_name,
                                 struct rt_error *err)
{
    const char *method = s->sig->method_name ? s->sig->method_name : "";

    if (check_method_name && strcmp(method, srv_scoring_method(s->api)) != 0)
        return wrong_method(s, err);
    if (s->sig->n_inputs != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected one input Tensor.");
    return s->api == SRV_CLASSIFY ? check_classify(s, err) : check_regress(s, err);
}

/* ---- outputs ---- */

static enum rt_status check_matrix(const struct rt_tensor *t, const char *what, enum rt_dtype want,
                                   int64_t n, struct rt_error *err)
{
    char buffer[160];

    if (t->rank != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected Tensor shape: [batch_size num_classes] but got %s",
                       rt_shape_text(buffer, sizeof buffer, t->rank, t->dim));
    if (t->dtype != want)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %s Tensor of %s. Got: %s", what,
                       rt_dtype_proto_name(want), rt_dtype_proto_name((enum rt_dtype)t->dtype));
    if (t->dim[0] != n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %s output batch size of %lld. Got: %lld",
                       what, (long long)n, (long long)t->dim[0]);
    return RT_OK;
}

static enum rt_status check_values(const struct rt_tensor *t, int64_t n, struct rt_error *err)
{
    char buffer[160];

    if (t->rank != 1 && !(t->rank == 2 && t->dim[1] == 1))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] "
                       "but got %s",
                       rt_shape_text(buffer, sizeof buffer, t->rank, t->dim));
    if (t->dim[0] != n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Input batch size did not match output batch size: %lld vs. %lld",
                       (long long)n, (long long)t->dim[0]);
    if (t->dtype != RT_F32)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected output Tensor of DT_FLOAT.  Got: %s",
                       rt_dtype_proto_name((enum rt_dtype)t->dtype));
    return RT_OK;
}

enum rt_status srv_scoring_check_outputs(const struct srv_scoring *s,
                                         const struct rt_tensor *fetches, int64_t n,
                                         struct rt_error *err)
{
    const struct rt_tensor *classes = s->classes < 0 ? NULL : &fetches[s->classes];
    const struct rt_tensor *scores = s->scores < 0 ? NULL : &fetches[s->scores];
    enum rt_status st = RT_OK;

    if (s->api == SRV_REGRESS)
        return check_values(scores, n, err);
    if (classes)
        st = check_matrix(classes, "classes", RT_STRING, n, err);
    if (!st && scores)
        st = check_matrix(scores, "scores", RT_F32, n, err);
    if (!st && classes && scores && classes->dim[1] != scores->dim[1])
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "Tensors class and score should match in dim_size(1). Got %lld vs. %lld",
                     (long long)classes->dim[1], (long long)scores->dim[1]);
    return st;
}

/* ---- single values ---- */

int64_t srv_scoring_width(const struct srv_scoring *s, const struct rt_tensor *fetches)
{
    if (s->api == SRV_REGRESS)
        return 1;
    return fetches[s->classes >= 0 ? s->classes : s->scores].dim[1];
}

struct rt_span srv_scoring_label(const struct srv_scoring *s, const struct rt_tensor *fetches,
                                 int64_t i, int64_t k)
{
    if (s->classes < 0)
        return rt_span_of("", 0);
    const struct rt_tensor *t = &fetches[s->classes];
    const struct rt_str *label = &rt_strs(t)[i * t->dim[1] + k];
    return rt_span_of(rt_str_data(label), label->n);
}

float srv_scoring_score(const struct srv_scoring *s, const struct rt_tensor *fetches, int64_t i,
                        int64_t k)
{
    if (s->scores < 0)
        return 0;
    const struct rt_tensor *t = &fetches[s->scores];
    return ((const float *)t->data)[i * srv_scoring_width(s, fetches) + k];
}
