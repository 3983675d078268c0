/* The ops that make, read and inspect readers (reader.h). */
#include "kernels/io/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/parsing/wire_example.h"
#include "kernels/queue/queue.h"
#include "kernels/string/text.h"
#include "runtime/files/file_access.h"

/* TensorFlow's names of the kinds. */
static const char *const type_names[KN_N_READER_KINDS] = {[KN_TEXT_LINES] = "TextLineReader",
                                                          [KN_WHOLE_FILES] = "WholeFileReader",
                                                          [KN_NAMES] = "IdentityReader",
                                                          [KN_FIXED_LENGTH] =
                                                              "FixedLengthRecordReader",
                                                          [KN_TF_RECORDS] = "TFRecordReader"};

static void reader_free(struct rt_object *o)
{
    struct kn_file_reader *rd = (struct kn_file_reader *)o;

    kn_source_close(&rd->source);
    rt_str_clear(&rd->work);
    rt_cond_clear(&rd->released);
    rt_mutex_clear(&rd->mu);
    free(rd->name);
    free(rd);
}

static const struct rt_object_type reader_type = {"reader", reader_free};

/* ---- making a reader ---- */

static enum kn_reader_kind kind_of(const struct rt_node *n)
{
    for (int k = 0; k < KN_N_READER_KINDS; k++)
        if (strncmp(n->schema->name, type_names[k], strlen(type_names[k])) == 0)
            return (enum kn_reader_kind)k;
    return KN_NAMES;
}

static enum kn_compression compression_of(const struct rt_node *n, const char *attr)
{
    const struct rt_span s = rt_attr(n, attr) ? rt_attr_str(n, attr) : rt_span_of("", 0);

    /* TensorFlow ignores other words. */
    return rt_span_is(s, "ZLIB") ? KN_ZLIB : rt_span_is(s, "GZIP") ? KN_GZIP : KN_PLAIN;
}

static enum rt_status size_attr(const struct rt_node *n, const char *attr, int64_t *out,
                                struct rt_error *err)
{
    *out = rt_attr(n, attr) ? rt_attr_int(n, attr) : 0;
    if (*out >= 0)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s must be >= 0 not %lld", attr, (long long)*out);
}

static enum rt_status read_attrs(struct kn_file_reader *rd, const struct rt_node *n,
                                 struct rt_error *err)
{
    const struct {
        enum kn_reader_kind kind;
        const char *name;
        int64_t *value;
    } sizes[] = {{KN_TEXT_LINES, "skip_header_lines", &rd->header_lines},
                 {KN_FIXED_LENGTH, "header_bytes", &rd->header_bytes},
                 {KN_FIXED_LENGTH, "record_bytes", &rd->record_bytes},
                 {KN_FIXED_LENGTH, "footer_bytes", &rd->footer_bytes},
                 {KN_FIXED_LENGTH, "hop_bytes", &rd->hop_bytes}};
    enum rt_status st = kn_check_container(n, err);

    rd->kind = kind_of(n);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes && !st; k++)
        if (sizes[k].kind == rd->kind)
            st = size_attr(n, sizes[k].name, sizes[k].value, err);
    if (rd->kind == KN_FIXED_LENGTH)
        rd->compression = compression_of(n, "encoding");
    if (rd->kind == KN_TF_RECORDS)
        rd->compression = compression_of(n, "compression_type");
    return st;
}

static enum rt_status reader_make(const struct rt_make *make, struct rt_object **out)
{
    struct kn_file_reader *rd = calloc(1, sizeof *rd);

    if (!rd)
        return rt_fail_memory(make->err, "a reader", sizeof *rd);
    rt_object_init(&rd->o, &reader_type);
    rt_mutex_init(&rd->mu);
    rt_cond_init(&rd->released);
    rd->name = strdup(make->node->name);
    const enum rt_status st = rd->name ? read_attrs(rd, make->node, make->err)
                                       : rt_fail_memory(make->err, "a reader", sizeof *rd);
    if (st)
        rt_object_unref(&rd->o);
    else
        *out = &rd->o;
    return st;
}

/* ---- holding a reader ---- */

/* Waits until no other run holds the reader in input 0. Returns NULL, with the reason in r->err, if
 * there is none or the run ends. */
static struct kn_file_reader *hold(struct rt_run *r)
{
    struct kn_file_reader *rd =
        (struct kn_file_reader *)kn_resource_of(r, &reader_type, "a reader");
    enum rt_status st = RT_OK;

    if (!rd)
        return NULL;
    rt_mutex_lock(&rd->mu);
    while (rd->is_held && !st)
        st = rt_run_wait(r, &rd->released, &rd->mu);
    if (!st)
        rd->is_held = true;
    rt_mutex_unlock(&rd->mu);
    return st ? NULL : rd;
}

static enum rt_status release(struct kn_file_reader *rd, enum rt_status st)
{
    kn_source_pause(&rd->source);
    rt_mutex_lock(&rd->mu);
    rd->is_held = false;
    rt_cond_signal(&rd->released);
    rt_mutex_unlock(&rd->mu);
    return st;
}

/* ---- reading ---- */

static struct kn_queue *queue_of(struct rt_run *r)
{
    struct rt_object *o = rt_tensor_count(&r->in[1]) == 1 ? rt_tensor_handle(&r->in[1]) : NULL;

    if (o && o->type == &kn_queue_type)
        return (struct kn_queue *)o;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the handle is not one of a queue",
            r->node->schema->name);
    return NULL;
}

static enum rt_status take_name(struct rt_run *r, struct kn_file_reader *rd,
                                const struct kn_item *i)
{
    if (i->n != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected single component queue");
    if (kn_dtype(&i->part[0]) != RT_STRING)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected queue with single string component");
    if (rt_tensor_count(&i->part[0]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected to dequeue a one-element string tensor");
    const struct rt_str *s = rt_strs(&i->part[0]);
    if (!rt_str_set(&rd->work, rt_run_state(r)->pool, rt_str_data(s), s->n, r->err))
        return r->err->code;
    return RT_OK;
}

/* Takes the next name from the queue, for which the run may wait, and begins its file. */
static enum rt_status next_work(struct rt_run *r, struct kn_file_reader *rd, struct kn_queue *q)
{
    struct kn_items items = {0};

    rt_str_clear(&rd->work);
    enum rt_status st = kn_dequeue(r, q, 1, false, true, &items);

    if (!st)
        st = take_name(r, rd, items.first);
    kn_items_clear(&items);
    if (!st)
        st = kn_file_reader_begin(r, rd);
    rd->n_started += !st;
    return st;
}

/* Where the records of a run go. */
struct records {
    struct rt_run *r;
    int64_t n, most;
    struct rt_bytes keys, values; /* elements of type struct rt_str */
};

static enum rt_status add_record(struct records *l, struct rt_str *key, struct rt_str *value)
{
    if (rt_bytes_reserve(&l->keys, sizeof *key) && rt_bytes_reserve(&l->values, sizeof *value)) {
        rt_bytes_add(&l->keys, key, sizeof *key);
        rt_bytes_add(&l->values, value, sizeof *value);
        l->n++;
        return RT_OK;
    }
    return kn_text_failed(l->keys.failed ? &l->keys : &l->values);
}

/* Reads records of the current file, until there are as many as wanted, or the file ends. */
static enum rt_status read_file(struct rt_run *r, struct kn_file_reader *rd, struct records *l)
{
    bool is_end = false;
    enum rt_status st = RT_OK;

    while (!st && l->n < l->most && !is_end) {
        struct rt_str key = {0}, value = {0};
        bool has_record;
        st = kn_file_reader_next(r, rd, &key, &value, &has_record, &is_end);
        if (!st && has_record) {
            rd->n_produced++;
            st = add_record(l, &key, &value);
            has_record = !st;
        } else {
            has_record = false;
        }
        if (!has_record) {
            rt_str_clear(&key);
            rt_str_clear(&value);
        }
    }
    if (is_end) {
        kn_source_close(&rd->source);
        rd->n_finished = rd->n_started;
    }
    return st;
}

/* Reads at least one record, if any is wanted, and records of one file only. */
static enum rt_status read_records(struct rt_run *r, struct records *l)
{
    struct kn_queue *q = queue_of(r);
    struct kn_file_reader *rd = q ? hold(r) : NULL;
    enum rt_status st = RT_OK;

    if (!rd)
        return r->err->code;
    while (!st && l->n == 0 && l->most > 0) {
        st = rt_run_check(r);
        if (!st && rd->n_finished >= rd->n_started)
            st = next_work(r, rd, q);
        if (!st)
            st = read_file(r, rd, l);
    }
    return release(rd, st);
}

static void records_begin(struct records *l, struct rt_run *r, int64_t most)
{
    *l = (struct records){.r = r, .most = most};
    kn_text_begin(&l->keys, r);
    kn_text_begin(&l->values, r);
}

/* Frees the records whose strings have not been moved to outputs. */
static void records_end(struct records *l, bool moved)
{
    for (int64_t i = 0; i < l->n && !moved; i++) {
        rt_str_clear((struct rt_str *)(void *)l->keys.p + i);
        rt_str_clear((struct rt_str *)(void *)l->values.p + i);
    }
    kn_text_end(&l->keys);
    kn_text_end(&l->values);
}

static enum rt_status put_records(struct rt_run *r, struct records *l, int rank)
{
    struct rt_str *keys = rt_out(r, 0, rank, &l->n);
    struct rt_str *values = keys ? rt_out(r, 1, rank, &l->n) : NULL;

    if (!values)
        return r->err->code;
    if (l->n) {
        memcpy(keys, l->keys.p, (size_t)l->n * sizeof *keys);
        memcpy(values, l->values.p, (size_t)l->n * sizeof *values);
    }
    return RT_OK;
}

static enum rt_status read_up_to(struct rt_run *r, int64_t most, int rank)
{
    struct records l;

    records_begin(&l, r, most);
    enum rt_status st = read_records(r, &l);
    if (!st)
        st = put_records(r, &l, rank);
    records_end(&l, !st);
    return st;
}

static enum rt_status read_run(struct rt_run *r)
{
    return read_up_to(r, 1, 0);
}

static enum rt_status read_up_to_run(struct rt_run *r)
{
    const struct rt_tensor *n = &r->in[2];

    if (n->rank || kn_int_at(n, 0) < 0) /* TensorFlow ends the process. */
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num_records must be a scalar and not negative");
    return read_up_to(r, kn_int_at(n, 0), 1);
}

/* ---- the state of a reader ---- */

static void reset(struct kn_file_reader *rd)
{
    kn_source_close(&rd->source);
    rt_str_clear(&rd->work);
    rd->n_started = rd->n_finished = rd->n_produced = 0;
    rd->n_read = rd->offset = 0;
}

static enum rt_status reset_run(struct rt_run *r)
{
    struct kn_file_reader *rd = hold(r);

    if (!rd)
        return r->err->code;
    reset(rd);
    return release(rd, RT_OK);
}

static enum rt_status put_count(struct rt_run *r, int64_t (*count)(const struct kn_file_reader *rd))
{
    struct kn_file_reader *rd = hold(r);

    if (!rd)
        return r->err->code;
    int64_t *out = kn_out(r, 0, 0, NULL);
    if (out)
        *out = count(rd);
    return release(rd, out ? RT_OK : r->err->code);
}

static int64_t produced(const struct kn_file_reader *rd)
{
    return rd->n_produced;
}

static int64_t finished(const struct kn_file_reader *rd)
{
    return rd->n_finished;
}

static enum rt_status produced_run(struct rt_run *r)
{
    return put_count(r, produced);
}

static enum rt_status finished_run(struct rt_run *r)
{
    return put_count(r, finished);
}

static bool has_state(const struct kn_file_reader *rd)
{
    return rd->kind == KN_NAMES || rd->kind == KN_WHOLE_FILES;
}

/* The state is a ReaderBaseState message: three numbers and a name. */
enum field { STARTED = 1, FINISHED, PRODUCED, WORK };
enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static enum rt_status serialize(struct rt_run *r, const struct kn_file_reader *rd,
                                struct rt_str *out)
{
    const int64_t numbers[] = {rd->n_started, rd->n_finished, rd->n_produced};
    struct rt_bytes b;

    if (!has_state(rd))
        return rt_fail(r->err, RT_UNIMPLEMENTED, "Reader SerializeState");
    kn_text_begin(&b, r);
    for (int k = 0; k < 3; k++)
        if (numbers[k]) {
            rt_bytes_addc(&b, (char)((STARTED + k) << 3 | VARINT));
            rt_bytes_add_varint(&b, (uint64_t)numbers[k]);
        }
    if (rd->work.n) {
        rt_bytes_addc(&b, (char)(WORK << 3 | BYTES));
        rt_bytes_add_varint(&b, rd->work.n);
        rt_bytes_add(&b, rt_str_data(&rd->work), rd->work.n);
    }
    const enum rt_status st =
        b.failed ? kn_text_failed(&b) : kn_set_text(r, &r->left, out, b.p, b.n);
    kn_text_end(&b);
    return st;
}

static enum rt_status serialize_run(struct rt_run *r)
{
    struct kn_file_reader *rd = hold(r);

    if (!rd)
        return r->err->code;
    struct rt_str *out = kn_out(r, 0, 0, NULL);
    return release(rd, out ? serialize(r, rd, out) : r->err->code);
}

/* Reads the fields of a state, and skips others. Returns false if the message is malformed, or if
 * the run has ended, in which case r->err has a code. */
static bool parse_state(struct rt_run *r, struct rt_span state, int64_t numbers[PRODUCED + 1],
                        struct rt_span *work)
{
    struct kn_wire w = kn_wire_of(state);
    int64_t left = RT_WORK;
    uint64_t tag, v;

    while (kn_wire_left(&w)) {
        if (rt_run_spend(r, &left, 16) || !kn_wire_varint(&w, &tag) || tag > UINT32_MAX ||
            tag >> 3 == 0)
            return false;
        const unsigned type = tag & 7;
        if (type == VARINT || type == BYTES) {
            if (!kn_wire_varint(&w, &v))
                return false;
        } else if (type == FIXED32 || type == FIXED64) {
            v = type == FIXED32 ? 4 : 8;
        } else {
            return false;
        }
        if (type == VARINT && tag >> 3 <= PRODUCED)
            numbers[tag >> 3] = (int64_t)v;
        if (type == VARINT)
            continue;
        if (v > kn_wire_left(&w))
            return false;
        if (type == BYTES && tag >> 3 == WORK)
            *work = rt_span_of(w.p, (size_t)v);
        w.p += v;
    }
    return true;
}

static enum rt_status restore(struct rt_run *r, struct kn_file_reader *rd, struct rt_span state)
{
    int64_t numbers[PRODUCED + 1] = {0};
    struct rt_span work = {NULL, 0};

    if (!has_state(rd))
        return rt_fail(r->err, RT_UNIMPLEMENTED, "Reader RestoreState");
    if (!parse_state(r, state, numbers, &work))
        return r->err->code
                   ? r->err->code
                   : rt_fail(r->err, RT_INVALID_ARGUMENT, "Could not parse state for %s '%s'",
                             type_names[rd->kind], rd->name);
    if (numbers[STARTED] < 0 || numbers[FINISHED] < 0 || numbers[PRODUCED] < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Unexpected negative value when restoring in %s '%s'", type_names[rd->kind],
                       rd->name);
    if (numbers[STARTED] > numbers[FINISHED])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Inconsistent work started vs. finished when restoring in %s '%s'",
                       type_names[rd->kind], rd->name);
    if (!rt_str_set(&rd->work, rt_run_state(r)->pool, work.p, work.n, r->err))
        return r->err->code;
    rd->n_started = numbers[STARTED];
    rd->n_finished = numbers[FINISHED];
    rd->n_produced = numbers[PRODUCED];
    return RT_OK;
}

static enum rt_status restore_run(struct rt_run *r)
{
    if (r->in[1].rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Reader state must be scalar, but had shape: %s", KN_TEXT(&r->in[1]));
    struct kn_file_reader *rd = hold(r);
    if (!rd)
        return r->err->code;
    const struct rt_str *s = rt_strs(&r->in[1]);
    const enum rt_status st = restore(r, rd, rt_span_of(rt_str_data(s), s->n));
    if (st)
        reset(rd); /* as in TensorFlow */
    return release(rd, st);
}

/* ---- the ops ---- */

#define READER(symbol, op_)                                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .infer = kn_infer_scalars,                                                          \
               .slot_kind = "reader",                                                              \
               .make = reader_make},                                                               \
    };
READER(fixed_length_record_reader, "FixedLengthRecordReader")
READER(fixed_length_record_reader_v2, "FixedLengthRecordReaderV2")
READER(identity_reader, "IdentityReader")
READER(identity_reader_v2, "IdentityReaderV2")
READER(text_line_reader, "TextLineReader")
READER(text_line_reader_v2, "TextLineReaderV2")
READER(tf_record_reader, "TFRecordReader")
READER(tf_record_reader_v2, "TFRecordReaderV2")
READER(whole_file_reader, "WholeFileReader")
READER(whole_file_reader_v2, "WholeFileReaderV2")

#define READER_OP(symbol, op_, infer_, run_)                                                       \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS, .infer = (infer_)},                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
READER_OP(reader_num_records_produced, "ReaderNumRecordsProduced", kn_infer_scalars, produced_run)
READER_OP(reader_num_records_produced_v2, "ReaderNumRecordsProducedV2", kn_infer_scalars,
          produced_run)
READER_OP(reader_num_work_units_completed, "ReaderNumWorkUnitsCompleted", kn_infer_scalars,
          finished_run)
READER_OP(reader_num_work_units_completed_v2, "ReaderNumWorkUnitsCompletedV2", kn_infer_scalars,
          finished_run)
READER_OP(reader_read, "ReaderRead", kn_infer_scalars, read_run)
READER_OP(reader_read_v2, "ReaderReadV2", kn_infer_scalars, read_run)
READER_OP(reader_read_up_to, "ReaderReadUpTo", NULL, read_up_to_run)
READER_OP(reader_read_up_to_v2, "ReaderReadUpToV2", NULL, read_up_to_run)
READER_OP(reader_reset, "ReaderReset", NULL, reset_run)
READER_OP(reader_reset_v2, "ReaderResetV2", NULL, reset_run)
READER_OP(reader_restore_state, "ReaderRestoreState", NULL, restore_run)
READER_OP(reader_restore_state_v2, "ReaderRestoreStateV2", NULL, restore_run)
READER_OP(reader_serialize_state, "ReaderSerializeState", kn_infer_scalars, serialize_run)
READER_OP(reader_serialize_state_v2, "ReaderSerializeStateV2", kn_infer_scalars, serialize_run)
