/* The ops that make, open, flush and close summary writers, and those that write events
 * (event_writer.h). */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/io/event_writer.h"
#include "kernels/queue/items.h"
#include "kernels/string/summary_bytes.h"
#include "kernels/string/text.h"
#include "runtime/core/copy.h"
#include "runtime/core/summary_proto.h"

/* Fields of Event, as tags of the wire format: number * 8 + wire type. */
enum { STEP = 0x10, GRAPH = 0x22, SUMMARY = 0x2a };

static struct kn_event_writer *writer_of(struct rt_run *r)
{
    return (struct kn_event_writer *)kn_resource_of(r, &kn_event_writer_type, "a summary writer");
}

static struct rt_span span_of(const struct rt_str *s)
{
    return rt_span_of(rt_str_data(s), s->n);
}

static struct rt_span text_of(struct rt_run *r, int k)
{
    return span_of(rt_strs(&r->in[k]));
}

/* Checks that inputs have one element each. TensorFlow ends the process if they have not. */
static enum rt_status check_single(struct rt_run *r, const char *const names[])
{
    for (int k = 1; k < r->n_in; k++)
        if (names[k] && rt_tensor_count(&r->in[k]) != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must have one element", names[k]);
    return RT_OK;
}

/* ---- the writer ---- */

static enum rt_status writer_make(const struct rt_make *make, struct rt_object **out)
{
    const struct rt_node *n = make->node;
    const struct rt_span shared = rt_attr_str(n, "shared_name");
    const struct rt_span name = shared.n ? shared : rt_span_of(n->name, strlen(n->name));
    const enum rt_status st = kn_check_container(n, make->err);

    if (st)
        return st;
    struct kn_event_writer *w = kn_event_writer_new(rt_attr_str(n, "container"), name);
    if (!w)
        return rt_fail_memory(make->err, "a summary writer", sizeof *w);
    *out = &w->o;
    return RT_OK;
}

static enum rt_status create_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "logdir", "max_queue", "flush_millis",
                                        "filename_suffix"};
    struct kn_event_writer *w = writer_of(r);

    if (!w)
        return r->err->code;
    for (int k = 1; k < r->n_in; k++)
        if (r->in[k].rank)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a scalar", names[k]);
    const struct kn_event_file file = {.directory = text_of(r, 1),
                                       .max_queue = (int)kn_int_at(&r->in[2], 0),
                                       .flush_millis = (int)kn_int_at(&r->in[3], 0),
                                       .suffix = text_of(r, 4)};
    return kn_event_writer_open(r, w, &file);
}

static enum rt_status flush_run(struct rt_run *r)
{
    struct kn_event_writer *w = writer_of(r);

    return w ? kn_event_writer_flush(r, w) : r->err->code;
}

static enum rt_status close_run(struct rt_run *r)
{
    struct kn_event_writer *w = writer_of(r);

    return w ? kn_event_writer_close(r, w) : r->err->code;
}

/* ---- events ---- */

/* Adds an event with the current time, the step in input 1, and a field with the bytes of `value`.
 * There is no such field if its tag is 0. */
static enum rt_status add_event(struct rt_run *r, struct kn_event_writer *w, char tag,
                                struct rt_span value)
{
    const uint64_t step = (uint64_t)kn_int_at(&r->in[1], 0);
    enum rt_status st = RT_OK;
    struct rt_bytes b;

    kn_text_begin(&b, r);
    kn_put_wall_time(&b);
    if (step) { /* the serializer leaves out the default value */
        rt_bytes_addc(&b, STEP);
        kn_put_varint(&b, step);
    }
    if (tag)
        st = kn_put_bytes(r, &b, tag, value.p, value.n);
    if (!st && b.failed)
        st = kn_text_failed(&b);
    if (!st && b.n > INT32_MAX) /* TensorFlow's serializer limits a message to 2 GiB. */
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "an event of more than 2 GiB");
    if (!st)
        st = kn_event_writer_add(r, w, rt_span_of(b.p, b.n));
    kn_text_end(&b);
    return st;
}

/* Returns whether the node is given a list of messages that is empty. Its event has no Summary. */
static bool is_missing(const struct rt_run *r)
{
    return r->n_in == 3 && !rt_tensor_count(&r->in[2]);
}

/* Adds an event with the values that put(r, b) appends to a Summary. `names` has the names of those
 * inputs that must have a single element. */
static enum rt_status add_summary(struct rt_run *r, const char *const names[],
                                  enum rt_status (*put)(struct rt_run *r, struct rt_bytes *b))
{
    struct kn_event_writer *w = writer_of(r);
    enum rt_status st = w ? kn_event_writer_check(r, w) : r->err->code;
    struct rt_bytes b;

    if (!st)
        st = check_single(r, names);
    if (st)
        return st;
    kn_text_begin(&b, r);
    st = put(r, &b);
    if (!st && b.failed)
        st = kn_text_failed(&b);
    if (!st)
        st = add_event(r, w, is_missing(r) ? 0 : SUMMARY, rt_span_of(b.p, b.n));
    kn_text_end(&b);
    return st;
}

/* As in TensorFlow, a tensor of bfloat16 is refused if it has elements. */
static enum rt_status check_number_type(struct rt_run *r)
{
    if (kn_dtype(&r->in[3]) != RT_BF16 || !rt_tensor_count(&r->in[3]))
        return RT_OK;
    return rt_fail(r->err, RT_UNIMPLEMENTED, "SummaryFileWriter bfloat16 not supported.");
}

static enum rt_status put_scalar(struct rt_run *r, struct rt_bytes *b)
{
    const enum rt_status st = check_number_type(r);

    if (st)
        return st;
    /* As in TensorFlow, further elements are ignored. */
    if (rt_tensor_count(&r->in[3]) < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "value must have an element");
    kn_put_scalar_value(b, text_of(r, 2), &r->in[3], 0);
    return RT_OK;
}

static enum rt_status scalar_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", "tag", NULL};

    return add_summary(r, names, put_scalar);
}

static enum rt_status put_histogram(struct rt_run *r, struct rt_bytes *b)
{
    const enum rt_status st = check_number_type(r);

    return st ? st
              : kn_put_histogram_value(r, b, text_of(r, 2), &r->in[3], "summary histogram",
                                       text_of(r, 2));
}

static enum rt_status histogram_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", "tag", NULL};

    return add_summary(r, names, put_histogram);
}

static enum rt_status put_tensor(struct rt_run *r, struct rt_bytes *b)
{
    const struct rt_span metadata = text_of(r, 4);

    return kn_put_tensor_value(r, b, text_of(r, 3), &r->in[2], metadata.n ? &metadata : NULL);
}

static enum rt_status tensor_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", NULL, "tag", "summary_metadata"};

    return add_summary(r, names, put_tensor);
}

static enum rt_status put_image(struct rt_run *r, struct rt_bytes *b)
{
    const enum rt_status st = kn_check_bad_color(&r->in[4], r->err);

    return st ? st
              : kn_put_image_values(r, b, text_of(r, 2), &r->in[3], &r->in[4],
                                    rt_attr_int(r->node, "max_images"));
}

static enum rt_status image_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", "tag", NULL, NULL};

    return add_summary(r, names, put_image);
}

static enum rt_status put_audio(struct rt_run *r, struct rt_bytes *b)
{
    const struct rt_tensor *x = &r->in[3];
    const float rate = *(const float *)r->in[4].data;

    if (rate <= 0) /* NaN is refused when the file is written. */
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "sample_rate must be > 0");
    if (x->rank != 2 && x->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor must be 3-D or 2-D, got: %s",
                       KN_TEXT(x));
    return kn_put_audio_values(r, b, text_of(r, 2), x, rate, rt_attr_int(r->node, "max_outputs"));
}

static enum rt_status audio_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", "tag", NULL, "sample_rate"};

    return add_summary(r, names, put_audio);
}

/* ---- messages that are given ---- */

static enum rt_status check_message(struct rt_run *r, enum rt_event_message kind,
                                    struct rt_span bytes, const char *words)
{
    const struct rt_check check = rt_run_as_check(r);

    return rt_event_message_check(kind, bytes, words, &check, r->err);
}

/* Joins the Summary messages of a tensor. The bytes of messages that follow each other are the
 * message with the values of all. */
static enum rt_status put_messages(struct rt_run *r, struct rt_bytes *b)
{
    const struct rt_tensor *t = &r->in[2];
    enum rt_status st = RT_OK;
    char words[100];

    for (int64_t i = 0; i < rt_tensor_count(t) && !st; i++) {
        const struct rt_str *s = &rt_strs(t)[i];
        snprintf(words, sizeof words,
                 "Bad tf.compat.v1.Summary binary proto tensor string at index %lld", (long long)i);
        st = check_message(r, RT_SUMMARY_MESSAGE, span_of(s), words);
        if (!st && !rt_bytes_reserve(b, s->n))
            st = kn_text_failed(b);
        if (!st) {
            st = kn_copy_text(r, &r->left, b->p + b->n, rt_str_data(s), s->n);
            b->n += s->n;
        }
        if (!st)
            st = rt_run_spend(r, &r->left, KN_STRING_WORK);
    }
    return st;
}

static enum rt_status raw_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", NULL};

    return add_summary(r, names, put_messages);
}

static enum rt_status graph_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "step", "tensor"};
    struct kn_event_writer *w = writer_of(r);
    enum rt_status st = w ? kn_event_writer_check(r, w) : r->err->code;

    if (!st)
        st = check_single(r, names);
    if (!st)
        st = check_message(r, RT_GRAPH_MESSAGE, text_of(r, 2),
                           "Bad tf.GraphDef binary proto tensor string");
    return st ? st : add_event(r, w, GRAPH, text_of(r, 2));
}

static enum rt_status import_run(struct rt_run *r)
{
    static const char *const names[] = {NULL, "event"};
    struct kn_event_writer *w = writer_of(r);
    enum rt_status st = w ? kn_event_writer_check(r, w) : r->err->code;

    if (!st)
        st = check_single(r, names);
    if (!st)
        st = check_message(r, RT_EVENT_MESSAGE, text_of(r, 1),
                           "Bad tf.Event binary proto tensor string");
    return st ? st : kn_event_writer_add(r, w, text_of(r, 1));
}

/* ---- the ops ---- */

const struct kn_entry kn_summary_writer = {
    .op = {.name = "SummaryWriter",
           .infer = kn_infer_scalars,
           .slot_kind = "summary writer",
           .make = writer_make},
};

/* every type but those of objects, whose elements are pointers */
#define DATA (~(RT_T(RT_RESOURCE) | RT_T(RT_VARIANT)))

#define WRITES(symbol, op_, types_, run_)                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_WRITES},                                                \
        .kernels = KN_CPU(op_, #symbol, types_, NULL, run_),                                       \
    };
WRITES(close_summary_writer, "CloseSummaryWriter", 0, close_run)
WRITES(create_summary_file_writer, "CreateSummaryFileWriter", 0, create_run)
WRITES(flush_summary_writer, "FlushSummaryWriter", 0, flush_run)
WRITES(import_event, "ImportEvent", 0, import_run)
WRITES(write_audio_summary, "WriteAudioSummary", 0, audio_run)
WRITES(write_graph_summary, "WriteGraphSummary", 0, graph_run)
WRITES(write_histogram_summary, "WriteHistogramSummary", KN_SET(KN_REALS) | RT_T(RT_BOOL),
       histogram_run)
WRITES(write_image_summary, "WriteImageSummary",
       RT_T(RT_U8) | RT_T(RT_F16) | RT_T(RT_F32) | RT_T(RT_F64), image_run)
WRITES(write_raw_proto_summary, "WriteRawProtoSummary", 0, raw_run)
WRITES(write_scalar_summary, "WriteScalarSummary", KN_SET(KN_REALS), scalar_run)
WRITES(write_summary, "WriteSummary", DATA, tensor_run)
