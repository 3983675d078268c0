#include "runtime/base/print.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int rt_printable_length(const unsigned char *s)
{
    const int n = *s < 0x20 || *s == 0x7f ? 0 : rt_utf8_length(s);
    const uint32_t last = n == 3 ? (uint32_t)s[1] << 8 | s[2] : n == 2 ? s[1] : 0;

    if (n == 2) /* U+0080 to U+009F and U+061C are not printable. */
        return (*s == 0xc2 && last < 0xa0) || (*s == 0xd8 && last == 0x9c) ? 0 : n;
    if (n == 3 && *s == 0xe2) /* U+200E, U+200F, U+2028 to U+202E and U+2066 to U+2069 are not
                               * printable. */
        return last == 0x808e || last == 0x808f || (last >= 0x80a8 && last <= 0x80ae) ||
                       (last >= 0x81a6 && last <= 0x81a9)
                   ? 0
                   : n;
    return n;
}

/* Escapes the first character of `text`, which has n > 0 bytes. Writes the result to `out` and its
 * length to *n_out. Returns the length of the character. */
static size_t escape(const char *text, size_t n, char out[8], size_t *n_out)
{
    unsigned char next[5] = {0};

    memcpy(next, text, n < 4 ? n : 4);
    const int length = rt_printable_length(next);
    if (length) {
        memcpy(out, next, (size_t)length);
        *n_out = (size_t)length;
        return (size_t)length;
    }
    if (*next == '\n' || *next == '\t')
        *n_out = (size_t)snprintf(out, 8, "\\%c", *next == '\n' ? 'n' : 't');
    else
        *n_out = (size_t)snprintf(out, 8, "\\x%02x", *next);
    return 1;
}

/* Escapes n bytes and prints them, unless `f` is NULL. Returns the number of bytes printed. */
static size_t put_escaped(FILE *f, const char *text, size_t n)
{
    size_t total = 0, some = 0;
    char out[8];

    for (size_t at = 0; at < n; total += some) {
        at += escape(text + at, n - at, out, &some);
        if (f)
            fwrite(out, 1, some, f);
    }
    return total;
}

void rt_bytes_add_escaped(struct rt_bytes *b, const char *text)
{
    const size_t n = strlen(text);
    size_t some = 0;
    char out[8];

    for (size_t at = 0; at < n;) {
        at += escape(text + at, n - at, out, &some);
        rt_bytes_add(b, out, some);
    }
}

/* a parsed conversion specification, such as "%-5d" */
struct conversion {
    char spec[64];        /* the specification for fprintf, with the value in place of each
                           * asterisk */
    int width, precision; /* -1 if not given */
    bool is_left;
    char length; /* 'l', 'q' for "ll", 'z', 'j', 't', or 0; "h" and "hh" are dropped */
    char type;
};

/* Parses a decimal number, or '*', which stands for the next argument. */
static int number(const char **p, va_list *ap)
{
    int n = 0;

    if (**p == '*') {
        ++*p;
        return va_arg(*ap, int);
    }
    for (; **p >= '0' && **p <= '9' && n < 100000; ++*p)
        n = n * 10 + (**p - '0');
    return n;
}

/* Parses the specification after a '%'. Returns the position after it. */
static const char *parse(const char *p, va_list *ap, struct conversion *c)
{
    char flags[8] = "";
    size_t n = 0;

    *c = (struct conversion){.width = -1, .precision = -1};
    for (; *p && strchr("-+ #0", *p); p++) {
        c->is_left |= *p == '-';
        if (n + 1 < sizeof flags)
            flags[n++] = *p;
    }
    if (*p == '*' || (*p >= '1' && *p <= '9'))
        c->width = number(&p, ap);
    if (c->width < -1) { /* A negative width means left alignment. */
        c->is_left = true;
        c->width = -c->width;
    }
    if (*p == '.') {
        p++;
        c->precision = number(&p, ap);
    }
    for (; *p && strchr("hlzjt", *p); p++)
        if (*p != 'h')
            c->length = c->length == 'l' ? 'q' : *p;
    c->type = *p;
    const char *length = c->length == 'q' ? "ll" : (char[]){c->length, 0};
    int k = snprintf(c->spec, sizeof c->spec, "%%%s%s", flags, c->is_left ? "-" : "");
    if (c->width >= 0)
        k += snprintf(c->spec + k, sizeof c->spec - (size_t)k, "%d", c->width);
    if (c->precision >= 0)
        k += snprintf(c->spec + k, sizeof c->spec - (size_t)k, ".%d", c->precision);
    snprintf(c->spec + k, sizeof c->spec - (size_t)k, "%s%c", length, c->type);
    return *p ? p + 1 : p;
}

static void pad(FILE *f, const struct conversion *c, size_t n)
{
    for (size_t i = n; c->width > 0 && i < (size_t)c->width; i++)
        putc(' ', f);
}

static void put_string(FILE *f, const struct conversion *c, const char *s)
{
    if (!s)
        s = "(null)";
    const size_t n = c->precision < 0 ? strlen(s) : strnlen(s, (size_t)c->precision);
    const size_t shown = c->width > 0 ? put_escaped(NULL, s, n) : 0;
    if (!c->is_left)
        pad(f, c, shown);
    put_escaped(f, s, n);
    if (c->is_left)
        pad(f, c, shown);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void put_integer(FILE *f, const struct conversion *c, va_list *ap)
{
    switch (c->length) {
    case 'l':
        fprintf(f, c->spec, va_arg(*ap, long));
        break;
    case 'q':
        fprintf(f, c->spec, va_arg(*ap, long long));
        break;
    case 'z':
        fprintf(f, c->spec, va_arg(*ap, size_t));
        break;
    case 'j':
        fprintf(f, c->spec, va_arg(*ap, intmax_t));
        break;
    case 't':
        fprintf(f, c->spec, va_arg(*ap, ptrdiff_t));
        break;
    default:
        fprintf(f, c->spec, va_arg(*ap, int));
        break;
    }
}

static void put_argument(FILE *f, const struct conversion *c, va_list *ap)
{
    if (c->type == 's')
        put_string(f, c, va_arg(*ap, const char *));
    else if (c->type == '%')
        putc('%', f);
    else if (c->type == 'p')
        fprintf(f, c->spec, va_arg(*ap, void *));
    else if (c->type && strchr("diouxXc", c->type))
        put_integer(f, c, ap);
    else if (c->type && strchr("aAeEfFgG", c->type))
        fprintf(f, c->spec, va_arg(*ap, double));
    else
        abort(); /* no format in Slipway's source has a conversion of another type */
}

#pragma GCC diagnostic pop

void rt_print(FILE *f, const char *fmt, ...)
{
    struct conversion c;
    va_list ap;

    va_start(ap, fmt);
    while (*fmt) {
        const size_t n = strcspn(fmt, "%");
        fwrite(fmt, 1, n, f);
        fmt += n;
        if (*fmt) {
            fmt = parse(fmt + 1, &ap, &c);
            put_argument(f, &c, &ap);
        }
    }
    va_end(ap);
}
