/* StringToNumber parses numbers from strings, and AsString formats values as strings. */
#include "kernels/string/each.h"
#include "kernels/cpu/types.h"
#include "kernels/string/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- StringToNumber ---- */

static bool to_number(const char *p, size_t n, struct rt_tensor *o, int64_t i)
{
    int64_t v;

    switch (kn_dtype(o)) {
    case RT_F32:
        return kn_parse_float(p, n, (float *)o->data + i);
    case RT_F64:
        return kn_parse_double(p, n, (double *)o->data + i);
    case RT_U64:
        return kn_parse_u64(p, n, (uint64_t *)o->data + i);
    case RT_I64:
        return kn_parse_i64(p, n, (int64_t *)o->data + i);
    case RT_U32:
        if (!kn_parse_i64(p, n, &v) || v < 0 || v > UINT32_MAX)
            return false;
        ((uint32_t *)o->data)[i] = (uint32_t)v;
        return true;
    default:
        if (!kn_parse_i64(p, n, &v) || v != (int32_t)v)
            return false;
        ((int32_t *)o->data)[i] = (int32_t)v;
        return true;
    }
}

static enum rt_status number_run(struct rt_run *r)
{
    int64_t left = RT_WORK;

    if (!kn_out(r, 0, r->in[0].rank, r->in[0].dim))
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        const char *p = rt_str_data(s);
        size_t n = s->n;
        if (kn_spend_string(r, &left, 0) || kn_strip(r, &left, &p, &n))
            return r->err->code;
        if (!to_number(p, n, &r->out[0], i))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "StringToNumberOp could not correctly convert string: %.*s",
                           (int)(s->n < 300 ? s->n : 300), rt_str_data(s));
    }
    return RT_OK;
}

KN_EACH_STRING(string_to_number, "StringToNumber", number_run)

/* ---- AsString ---- */

struct as_string {
    char format[16]; /* a printf format such as "%-10.3f", without length modifiers */
    int precision, width;
};

static enum rt_status format_of(struct rt_run *r, struct as_string *f)
{
    const enum rt_dtype dt = kn_dtype(&r->in[0]);
    const int64_t precision = rt_attr_int(r->node, "precision");
    const int64_t width = rt_attr_int(r->node, "width");
    const bool sci = rt_attr_bool(r->node, "scientific");
    const bool shortest = rt_attr_bool(r->node, "shortest");
    const struct rt_span fill = rt_attr_str(r->node, "fill");
    /* For strings, the precision limits the number of bytes written, as in printf. */
    const bool has_precision =
        dt == RT_STRING || (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS) | KN_SET(KN_COMPLEX)) >> dt & 1;

    if (fill.n > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Fill string must be one or fewer characters");
    /* uses memchr, because strchr would also find the terminating NUL */
    if (fill.n && !memchr(" +-0#", fill.p[0], 5))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Fill argument not supported: \"%c\"",
                       fill.p[0]);
    if (sci && shortest)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot select both scientific and shortest notation");
    if (!has_precision && (sci || shortest))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "scientific and shortest format not supported for datatype %s",
                       rt_dtype_name(dt));
    if (!has_precision && precision > -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "precision not supported for datatype %s",
                       rt_dtype_name(dt));
    if (precision > 1000 || width > 10000)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "AsString: precision or width is too large");
    f->precision = (int)(precision > -1 ? precision : -1);
    f->width = (int)(width > -1 ? width : 0);
    snprintf(f->format, sizeof f->format, "%%%.*s*.*%c", (int)fill.n,
             fill.n ? (const char *)fill.p : "",
             sci        ? 'e'
             : shortest ? 'g'
                        : 'f');
    return RT_OK;
}

/* Writes an integer with the printf flag `flag` and the width f->width. Like snprintf, returns the
 * length of the complete text, even if it exceeds n. */
static int put_integer(char *buf, size_t n, const struct as_string *f, char flag, int64_t i,
                       uint64_t u, bool is_unsigned)
{
    switch (flag) {
    case '-':
        return is_unsigned ? snprintf(buf, n, "%-*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%-*" PRId64, f->width, i);
    case '+':
        return is_unsigned ? snprintf(buf, n, "%*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%+*" PRId64, f->width, i);
    case '0':
        return is_unsigned ? snprintf(buf, n, "%0*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%0*" PRId64, f->width, i);
    case ' ':
        return is_unsigned ? snprintf(buf, n, "%*" PRIu64, f->width, u)
                           : snprintf(buf, n, "% *" PRId64, f->width, i);
    default:
        return is_unsigned ? snprintf(buf, n, "%*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%*" PRId64, f->width, i);
    }
}

/* The compiler cannot check put_double's format, which format_of builds from a fixed set of
 * letters. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int put_double(char *buf, size_t n, const struct as_string *f, double d)
{
    return snprintf(buf, n, f->format, f->width, f->precision, d);
}
#pragma GCC diagnostic pop

static int put_element(char *buf, size_t n, const struct as_string *f, char flag,
                       const struct rt_tensor *t, int64_t i)
{
    switch (kn_dtype(t)) {
    case RT_BOOL:
        return snprintf(buf, n, "%s", ((const uint8_t *)t->data)[i] ? "true" : "false");
    case RT_F32:
        return put_double(buf, n, f, (double)((const float *)t->data)[i]);
    case RT_F64:
        return put_double(buf, n, f, ((const double *)t->data)[i]);
    case RT_F16:
        return put_double(buf, n, f, (double)kn_from_f16(((const struct kn_half *)t->data)[i]));
    case RT_BF16:
        return put_double(buf, n, f, (double)kn_from_bf16(((const struct kn_bfloat *)t->data)[i]));
    case RT_U64:
        return put_integer(buf, n, f, flag, 0, ((const uint64_t *)t->data)[i], true);
    case RT_U8:
    case RT_U16:
    case RT_U32:
        return put_integer(buf, n, f, flag, 0, (uint64_t)kn_int_at(t, i), true);
    default:
        return put_integer(buf, n, f, flag, kn_int_at(t, i), 0, false);
    }
}

/* maximum length of a formatted value in bytes, including padding */
enum { AS_STRING_CAPACITY = 12000 };

static enum rt_status as_string_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const enum rt_dtype dt = kn_dtype(t);
    const struct rt_span fill = rt_attr_str(r->node, "fill");
    struct as_string f;
    enum rt_status st = format_of(r, &f);
    struct rt_str *o = st ? NULL : kn_out_strs(r);
    char *buf = o ? rt_scratch(r, 2 * AS_STRING_CAPACITY) : NULL;

    if (!buf)
        return r->err->code;
    const char flag = fill.n ? (char)fill.p[0] : '\0';
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        int n;
        /* Formatting a number takes a few hundred nanoseconds, plus time for each character of its
         * width. */
        if (kn_spend_string(r, &left,
                            256 + 4 * (size_t)(f.width + (f.precision > 0 ? f.precision : 0))))
            return r->err->code;
        if (dt == RT_STRING) {
            const struct rt_str *s = &rt_strs(t)[i];
            const bool is_cut = f.width > 0 && f.precision >= 0 && (size_t)f.precision < s->n;
            const size_t shown = is_cut ? (size_t)f.precision : s->n;
            const size_t pad = (size_t)f.width > shown ? (size_t)f.width - shown : 0;
            char *p = rt_str_resize(&o[i], rt_run_pool(r), shown + pad, r->err);
            if (!p)
                return r->err->code;
            memset(p + (flag == '-' ? shown : 0), ' ', pad);
            if (kn_copy_text(r, &left, p + (flag == '-' ? 0 : pad), rt_str_data(s), shown))
                return r->err->code;
            continue;
        }
        if (dt == RT_C64 || dt == RT_C128) {
            const double a = dt == RT_C64 ? (double)((const float *)t->data)[2 * i]
                                          : ((const double *)t->data)[2 * i];
            const double b = dt == RT_C64 ? (double)((const float *)t->data)[2 * i + 1]
                                          : ((const double *)t->data)[2 * i + 1];
            char *p = buf;
            *p++ = '(';
            p += put_double(p, AS_STRING_CAPACITY - 3, &f, a);
            *p++ = ',';
            p += put_double(p, AS_STRING_CAPACITY - 3, &f, b);
            *p++ = ')';
            n = (int)(p - buf);
        } else {
            n = put_element(buf, AS_STRING_CAPACITY, &f, flag, t, i);
        }
        if (!rt_str_set(&o[i], rt_run_pool(r), buf, (size_t)n, r->err))
            return r->err->code;
    }
    return RT_OK;
}

KN_EACH_STRING(as_string, "AsString", as_string_run)
