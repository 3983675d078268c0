#include "kernels/io/reader.h"

#include <stdio.h>
#include <string.h>

#include "kernels/string/text.h"
#include "runtime/base/checked.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/tfrecord.h"

/* Sets the key of a record: the file's name, a colon, and a number. */
static enum rt_status set_key(struct rt_run *r, const struct kn_file_reader *rd, int64_t number,
                              struct rt_str *key)
{
    char digits[24];
    const int n = snprintf(digits, sizeof digits, ":%lld", (long long)number);
    char *p = rt_str_resize(key, rt_run_pool(r), rd->work.n + (size_t)n, r->err);

    if (!p)
        return r->err->code;
    memcpy(p, rt_str_data(&rd->work), rd->work.n);
    memcpy(p + rd->work.n, digits, (size_t)n);
    return RT_OK;
}

/* ---- lines of text ---- */

/* Finds the next line. *line has its bytes, with the newline if there is one. */
static enum rt_status peek_line(struct rt_run *r, struct kn_source *s, struct rt_span *line)
{
    enum rt_status st = RT_OK;
    const unsigned char *newline = NULL;

    for (size_t searched = 0; !newline; searched = line->n) {
        st = kn_source_peek(r, s, searched + 1, line);
        if (st || line->n == searched)
            return st; /* The last line may lack its newline. */
        /* All bytes that are buffered are searched at once. */
        line->n = s->bytes.end - s->bytes.first;
        st = rt_run_spend(r, &r->left, (int64_t)(line->n - searched) / 8);
        if (st)
            return st;
        newline = memchr(line->p + searched, '\n', line->n - searched);
    }
    line->n = (size_t)(newline - line->p) + 1;
    return RT_OK;
}

static enum rt_status skip_lines(struct rt_run *r, struct kn_file_reader *rd)
{
    struct rt_span line = {NULL, 1};
    enum rt_status st = RT_OK;

    while (!st && rd->n_read < rd->header_lines && line.n) {
        st = peek_line(r, &rd->source, &line);
        if (st || !line.n)
            break;
        kn_source_consume(&rd->source, line.n);
        rd->n_read++;
        st = rt_run_spend(r, &r->left, 16);
    }
    return st;
}

/* Like TensorFlow, drops all carriage returns. */
static enum rt_status next_line(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                struct rt_str *value, bool *has_record, bool *is_end)
{
    struct rt_span line;
    size_t n = 0;
    enum rt_status st = peek_line(r, &rd->source, &line);

    if (st)
        return st;
    const size_t size = line.n;
    const bool has_newline = size && line.p[size - 1] == '\n';
    line.n -= has_newline;
    for (size_t i = 0; i < line.n; i++)
        n += line.p[i] != '\r';
    *is_end = !has_newline && n == 0;
    if (*is_end)
        return RT_OK;
    char *p = rt_str_resize(value, rt_run_pool(r), n, r->err);
    st = p ? set_key(r, rd, rd->n_read + 1, key) : r->err->code;
    for (size_t i = 0, k = 0; i < line.n && !st; i++) {
        if (line.p[i] != '\r')
            p[k++] = (char)line.p[i];
        st = rt_run_tick(r, (int64_t)i);
    }
    if (st)
        return st;
    kn_source_consume(&rd->source, size);
    rd->n_read++;
    *has_record = true;
    return rt_run_spend(r, &r->left, (int64_t)size + 64);
}

/* ---- records of a fixed length ---- */

static enum rt_status skip_header(struct rt_run *r, struct kn_file_reader *rd)
{
    int64_t skipped;
    const enum rt_status st = kn_source_skip(r, &rd->source, rd->header_bytes, &skipped);

    if (st || skipped == rd->header_bytes)
        return st;
    return rt_fail(r->err, RT_OUT_OF_RANGE,
                   rd->compression == KN_PLAIN ? "reached end of file" : "EOF reached");
}

static enum rt_status next_fixed(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                 struct rt_str *value, bool *has_record, bool *is_end)
{
    const int64_t wanted = rt_add_saturated(rd->record_bytes, rd->footer_bytes);
    struct rt_span have = {NULL, 0};
    int64_t skipped;
    enum rt_status st = RT_OK;

    /* A file that is too short is not read. */
    if (wanted <= kn_source_most_left(&rd->source))
        st = kn_source_peek(r, &rd->source, (size_t)wanted, &have);
    *is_end = !st && (wanted > kn_source_most_left(&rd->source) || have.n < (size_t)wanted);
    if (st || *is_end)
        return st;
    char *p = rt_str_resize(value, rt_run_pool(r), (size_t)rd->record_bytes, r->err);
    st = p ? set_key(r, rd, rd->n_read, key) : r->err->code;
    if (!st && rd->record_bytes)
        st = kn_copy_text(r, &r->left, p, (const char *)have.p, (size_t)rd->record_bytes);
    if (!st)
        st = kn_source_skip(r, &rd->source, rd->hop_bytes ? rd->hop_bytes : rd->record_bytes,
                            &skipped);
    if (st)
        return st;
    rd->n_read++;
    *has_record = true;
    return rt_run_spend(r, &r->left, 64);
}

/* ---- TFRecords ---- */

static enum rt_status check_data(struct rt_run *r, struct rt_span data, int64_t offset)
{
    enum { PIECE = 1 << 20 };
    uint32_t crc = 0;
    const size_t n = data.n - RT_TFRECORD_FOOTER;

    for (size_t done = 0, now; done < n; done += now) {
        const enum rt_status st = rt_run_spend(r, &r->left, PIECE / 8);
        if (st)
            return st;
        now = n - done < PIECE ? n - done : PIECE;
        crc = rt_crc32c(crc, data.p + done, now);
    }
    if (rt_tfrecord_checksum(data.p + n) == rt_crc32c_mask(crc))
        return RT_OK;
    return rt_fail(r->err, RT_DATA_LOSS, "corrupted record at %lld", (long long)offset);
}

static enum rt_status next_tfrecord(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                    struct rt_str *value, bool *has_record, bool *is_end)
{
    enum { HEADER = RT_TFRECORD_HEADER, FOOTER = RT_TFRECORD_FOOTER };
    struct rt_span have;
    uint64_t n;
    enum rt_status st = kn_source_peek(r, &rd->source, HEADER, &have);

    *is_end = !st && have.n < HEADER; /* TensorFlow ignores a header that is cut off. */
    if (st || *is_end)
        return st;
    if (!rt_tfrecord_length(have.p, &n))
        return rt_fail(r->err, RT_DATA_LOSS,
                       "corrupted record at %lld (Is this even a TFRecord file?)",
                       (long long)rd->offset);
    const size_t whole = n < SIZE_MAX / 2 ? (size_t)n + HEADER + FOOTER : SIZE_MAX;
    st = kn_source_peek(r, &rd->source, whole, &have);
    if (st)
        return st;
    if (have.n < whole)
        return rt_fail(r->err, RT_DATA_LOSS,
                       "truncated record at %lld' failed with Read less bytes than requested",
                       (long long)rd->offset);
    st = check_data(r, rt_span_of(have.p + HEADER, have.n - HEADER), rd->offset + HEADER);
    char *p = st ? NULL : rt_str_resize(value, rt_run_pool(r), (size_t)n, r->err);
    if (!p)
        return st ? st : r->err->code;
    st = set_key(r, rd, rd->offset, key);
    if (!st)
        st = kn_copy_text(r, &r->left, p, (const char *)have.p + HEADER, (size_t)n);
    if (st)
        return st;
    kn_source_consume(&rd->source, whole);
    rd->offset += (int64_t)whole;
    *has_record = true;
    return rt_run_spend(r, &r->left, 64);
}

/* ---- names, and files as a whole ---- */

static enum rt_status next_name(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                struct rt_str *value, bool *has_record, bool *is_end)
{
    if (!rt_str_set(key, rt_run_pool(r), rt_str_data(&rd->work), rd->work.n, r->err))
        return r->err->code;
    rt_str_copy(value, key);
    *has_record = *is_end = true;
    return RT_OK;
}

static enum rt_status next_whole(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                 struct rt_str *value, bool *has_record, bool *is_end)
{
    const struct rt_span name = rt_span_of(rt_str_data(&rd->work), rd->work.n);
    const enum rt_status st = kn_read_whole(r, name, value);

    if (st)
        return st;
    if (!rt_str_set(key, rt_run_pool(r), name.p, name.n, r->err))
        return r->err->code;
    *has_record = *is_end = true;
    return RT_OK;
}

enum rt_status kn_file_reader_begin(struct rt_run *r, struct kn_file_reader *rd)
{
    enum rt_status st;

    rd->n_read = rd->offset = 0;
    if (rd->kind == KN_NAMES || rd->kind == KN_WHOLE_FILES)
        return RT_OK;
    st = kn_source_open(r, &rd->source, rt_span_of(rt_str_data(&rd->work), rd->work.n),
                        rd->compression);
    if (!st && rd->kind == KN_TEXT_LINES)
        st = skip_lines(r, rd);
    if (!st && rd->kind == KN_FIXED_LENGTH)
        st = skip_header(r, rd);
    if (st)
        kn_source_close(&rd->source);
    return st;
}

enum rt_status kn_file_reader_next(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                   struct rt_str *value, bool *has_record, bool *is_end)
{
    static enum rt_status (*const next[KN_N_READER_KINDS])(
        struct rt_run *, struct kn_file_reader *, struct rt_str *, struct rt_str *, bool *,
        bool *) = {[KN_TEXT_LINES] = next_line,
                   [KN_WHOLE_FILES] = next_whole,
                   [KN_NAMES] = next_name,
                   [KN_FIXED_LENGTH] = next_fixed,
                   [KN_TF_RECORDS] = next_tfrecord};

    *has_record = *is_end = false;
    return next[rd->kind](r, rd, key, value, has_record, is_end);
}
