#include "kernels/parsing/message_type.h"

#include "kernels/parsing/wire_example.h"

#include <math.h>
#include <stdlib.h>

/* ---- descriptors: the numbers are those of the fields in descriptor.proto ---- */

enum {
    SET_FILE = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SYNTAX = 12,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    FIELD_NUMBER = 3,
    FIELD_LABEL = 4,
    FIELD_TYPE = 5,
    FIELD_TYPE_NAME = 6,
    FIELD_DEFAULT = 7,
    FIELD_OPTIONS = 8,
    OPTION_PACKED = 2,
    ENUM_VALUE = 2,
    VALUE_NUMBER = 2,
    NAME = 1, /* in every kind of declaration */
};
enum { LABEL_REPEATED = 3 };

/* Finds the next field with this number. The last one wins where a field is singular. */
static bool next_of(struct rt_span *rest, uint32_t number, struct kn_field *f)
{
    while (kn_field_next(rest, f) > 0)
        if (f->number == number)
            return true;
    return false;
}

static struct rt_span text_of(struct rt_span message, uint32_t number)
{
    struct rt_span found = rt_span_of(NULL, 0);
    struct kn_field f;

    while (next_of(&message, number, &f))
        if (f.type == KN_BYTES)
            found = f.bytes;
    return found;
}

static uint64_t number_of(struct rt_span message, uint32_t number, uint64_t otherwise)
{
    struct kn_field f;

    while (next_of(&message, number, &f))
        if (f.type == KN_VARINT)
            otherwise = f.value;
    return otherwise;
}

/* Returns the declaration of kind `number` in `scope` whose name is the beginning of *name, and
 * removes this beginning. The declaration's name ends where *name ends or has a dot. */
static struct rt_span declaration(struct rt_span scope, uint32_t number, struct rt_span *name)
{
    struct kn_field f;

    while (next_of(&scope, number, &f)) {
        const struct rt_span own = f.type == KN_BYTES ? text_of(f.bytes, NAME) : rt_span_of("", 0);
        if (!own.n || own.n > name->n || memcmp(own.p, name->p, own.n) != 0)
            continue;
        if (own.n < name->n && name->p[own.n] != '.')
            continue;
        const size_t used = own.n + (own.n < name->n);
        *name = rt_span_of(name->p + used, name->n - used);
        return f.bytes;
    }
    return rt_span_of(NULL, 0);
}

/* Finds a message or enum type in a file. `name` is the name within the package. */
static struct rt_span type_in_file(struct rt_span file, struct rt_span name, bool is_enum)
{
    struct rt_span scope = file;
    uint32_t messages = FILE_MESSAGE, enums = FILE_ENUM;

    while (name.n) {
        struct rt_span rest = name;
        struct rt_span found = is_enum ? declaration(scope, enums, &rest) : rt_span_of(NULL, 0);
        if (found.p && !rest.n)
            return found;
        found = declaration(scope, messages, &name);
        if (!found.p || (!name.n && !is_enum))
            return found;
        scope = found;
        messages = MESSAGE_NESTED;
        enums = MESSAGE_ENUM;
    }
    return rt_span_of(NULL, 0);
}

/* Finds a type by its full name. If `in` is not NULL, it receives the file. */
static struct rt_span type_of(struct rt_span set, struct rt_span name, bool is_enum,
                              struct rt_span *in)
{
    struct kn_field f;

    while (next_of(&set, SET_FILE, &f)) {
        const struct rt_span package = f.type == KN_BYTES ? text_of(f.bytes, FILE_PACKAGE) : name;
        struct rt_span local = name;
        if (package.n) {
            if (package.n >= name.n || memcmp(package.p, name.p, package.n) != 0 ||
                name.p[package.n] != '.')
                continue;
            local = rt_span_of(name.p + package.n + 1, name.n - package.n - 1);
        }
        const struct rt_span found = type_in_file(f.bytes, local, is_enum);
        if (found.p) {
            if (in)
                *in = f.bytes;
            return found;
        }
    }
    return rt_span_of(NULL, 0);
}

bool kn_message_find(struct rt_span set, struct rt_span name, struct kn_message *out)
{
    *out = (struct kn_message){.set = set};
    /* A name that ends with a dot names no type. */
    if (name.n && name.p[name.n - 1] == '.')
        return false;
    struct rt_span file = rt_span_of(NULL, 0);
    out->body = type_of(set, name, false, &file);
    const struct rt_span syntax = text_of(file, FILE_SYNTAX);
    out->is_proto3 = rt_span_is(syntax, "proto3");
    out->is_packed = out->is_proto3 || rt_span_is(syntax, "editions");
    return out->body.p != NULL;
}

/* ---- defaults ---- */

/* Returns the number of an enum's value, or of its first value if `name` is empty. */
static uint64_t enum_default(struct rt_span set, struct rt_span type, struct rt_span name)
{
    struct kn_field f;

    if (type.n && type.p[0] == '.')
        type = rt_span_of(type.p + 1, type.n - 1);
    struct rt_span rest = type_of(set, type, true, NULL);
    while (next_of(&rest, ENUM_VALUE, &f))
        if (f.type == KN_BYTES && (!name.n || rt_span_eq(text_of(f.bytes, NAME), name)))
            return number_of(f.bytes, VALUE_NUMBER, 0);
    return 0;
}

static uint64_t number_default(enum kn_field_type type, struct rt_span text)
{
    char s[400] = "";
    uint64_t bits = 0;
    double d;
    float f;

    if (text.n < sizeof s && text.n)
        memcpy(s, text.p, text.n);
    switch (type) {
    case KN_F_DOUBLE:
        d = strtod(s, NULL);
        memcpy(&bits, &d, sizeof d);
        return bits;
    case KN_F_FLOAT:
        f = strtof(s, NULL);
        memcpy(&bits, &f, sizeof f);
        return bits;
    case KN_F_BOOL:
        return strcmp(s, "true") == 0;
    case KN_F_UINT64:
    case KN_F_FIXED64:
        return strtoull(s, NULL, 10);
    case KN_F_SINT32:
    case KN_F_SINT64: {
        const int64_t v = strtoll(s, NULL, 10);
        return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    }
    default:
        return (uint64_t)strtoll(s, NULL, 10);
    }
}

/* Returns the number of the default of a field of an enum type. In proto3 it is 0. */
static uint64_t enum_field_default(const struct kn_message *m, struct rt_span field,
                                   struct rt_span text)
{
    if (m->is_proto3 && !text.n)
        return 0;
    return enum_default(m->set, text_of(field, FIELD_TYPE_NAME), text);
}

size_t kn_message_field_cost(const struct kn_message *m, const struct kn_message_field *f)
{
    const bool reads_enum = f->type == KN_F_ENUM && (!m->is_proto3 || f->text_default.n);

    return m->body.n + (reads_enum ? m->set.n : 0);
}

bool kn_message_field(const struct kn_message *m, struct rt_span name, struct kn_message_field *out)
{
    struct rt_span rest = m->body;
    struct kn_field f;

    while (next_of(&rest, MESSAGE_FIELD, &f)) {
        if (f.type != KN_BYTES || !rt_span_eq(text_of(f.bytes, NAME), name))
            continue;
        const uint64_t number = number_of(f.bytes, FIELD_NUMBER, 0);
        const uint64_t type = number_of(f.bytes, FIELD_TYPE, 0);
        if (number == 0 || number >> 29 || type < KN_F_DOUBLE || type > KN_F_SINT64)
            return false;
        const struct rt_span text = text_of(f.bytes, FIELD_DEFAULT);
        *out = (struct kn_message_field){.number = (uint32_t)number,
                                         .type = (enum kn_field_type)type,
                                         .is_repeated =
                                             number_of(f.bytes, FIELD_LABEL, 0) == LABEL_REPEATED,
                                         .text_default = text};
        out->is_packed =
            out->is_repeated && kn_field_wire_type(out->type) != KN_BYTES &&
            out->type != KN_F_GROUP &&
            number_of(text_of(f.bytes, FIELD_OPTIONS), OPTION_PACKED, m->is_packed) != 0;
        out->number_default = out->type == KN_F_ENUM ? enum_field_default(m, f.bytes, text)
                                                     : number_default(out->type, text);
        return true;
    }
    return false;
}

static int digit_of(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return 16;
}

size_t kn_unescape(struct rt_span text, char *to)
{
    static const char letters[] = "abfnrtv", meant[] = "\a\b\f\n\r\t\v";
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = text.p[i];
        if (c == '\\' && i + 1 < text.n) {
            c = text.p[++i];
            const char *letter = c ? strchr(letters, c) : NULL;
            const bool hex = c == 'x' || c == 'X';
            if (letter) {
                c = (unsigned char)meant[letter - letters];
            } else if (hex || digit_of(c) < 8) {
                unsigned v = hex ? 0 : (unsigned)digit_of(c);
                for (int k = 0; k < 2 && i + 1 < text.n; k++, i++) {
                    const int digit = digit_of(text.p[i + 1]);
                    if (digit >= (hex ? 16 : 8))
                        break;
                    v = v * (hex ? 16 : 8) + (unsigned)digit;
                }
                c = (unsigned char)v;
            }
        }
        to[n++] = (char)c;
    }
    return n;
}

/* ---- types of fields ---- */

size_t kn_field_bytes(enum kn_field_type type)
{
    switch (type) {
    case KN_F_DOUBLE:
    case KN_F_FIXED64:
    case KN_F_SFIXED64:
        return 8;
    case KN_F_FLOAT:
    case KN_F_FIXED32:
    case KN_F_SFIXED32:
        return 4;
    default:
        return 0;
    }
}

int kn_field_wire_type(enum kn_field_type type)
{
    enum { START_GROUP = 3 };

    switch (type) {
    case KN_F_STRING:
    case KN_F_BYTES:
    case KN_F_MESSAGE:
        return KN_BYTES;
    case KN_F_GROUP:
        return START_GROUP;
    default:
        return kn_field_bytes(type) == 8   ? KN_FIXED64
               : kn_field_bytes(type) == 4 ? KN_FIXED32
                                           : KN_VARINT;
    }
}

/* The types of tensors, and the names, of the types of fields. */
static const struct {
    const char *name;
    uint64_t dtypes;
} types[] = {
    [KN_F_DOUBLE] = {"double", RT_T(RT_F64)},
    [KN_F_FLOAT] = {"float", RT_T(RT_F32) | RT_T(RT_F64)},
    [KN_F_INT64] = {"int64", RT_T(RT_I64)},
    [KN_F_UINT64] = {"uint64", RT_T(RT_U64)},
    [KN_F_INT32] = {"int32", RT_T(RT_I32) | RT_T(RT_I64)},
    [KN_F_FIXED64] = {"fixed64", RT_T(RT_U64)},
    [KN_F_FIXED32] = {"fixed32", RT_T(RT_U32) | RT_T(RT_U64)},
    [KN_F_BOOL] = {"bool", RT_T(RT_BOOL)},
    [KN_F_STRING] = {"string", RT_T(RT_STRING)},
    [KN_F_GROUP] = {"group", RT_T(RT_STRING)},
    [KN_F_MESSAGE] = {"message", RT_T(RT_STRING)},
    [KN_F_BYTES] = {"bytes", RT_T(RT_STRING)},
    [KN_F_UINT32] = {"uint32", RT_T(RT_U32) | RT_T(RT_U64)},
    [KN_F_ENUM] = {"enum", RT_T(RT_I32)},
    [KN_F_SFIXED32] = {"sfixed32", RT_T(RT_I32) | RT_T(RT_I64)},
    [KN_F_SFIXED64] = {"sfixed64", RT_T(RT_I64)},
    [KN_F_SINT32] = {"sint32", RT_T(RT_I32) | RT_T(RT_I64)},
    [KN_F_SINT64] = {"sint64", RT_T(RT_I64)},
};

bool kn_field_accepts(enum kn_field_type type, enum rt_dtype dtype)
{
    return (types[type].dtypes & RT_T(dtype)) != 0;
}

const char *kn_field_type_name(enum kn_field_type type)
{
    return types[type].name;
}

const char *kn_field_number_name(enum kn_field_type type)
{
    if (types[type].dtypes == RT_T(RT_STRING))
        return type == KN_F_MESSAGE || type == KN_F_GROUP ? "message" : "string";
    if (types[type].dtypes & RT_T(RT_I64))
        return types[type].dtypes & RT_T(RT_I32) ? "int32" : "int64";
    if (types[type].dtypes & RT_T(RT_U64))
        return types[type].dtypes & RT_T(RT_U32) ? "uint32" : "uint64";
    return types[type].name;
}

void kn_field_put(enum kn_field_type type, uint64_t bits, enum rt_dtype dtype, void *to)
{
    float f;
    int64_t v;

    switch (type) {
    case KN_F_FLOAT:
        memcpy(&f, &bits, sizeof f);
        if (dtype == RT_F64)
            *(double *)to = f;
        else
            *(float *)to = f;
        return;
    case KN_F_BOOL:
        *(bool *)to = bits != 0;
        return;
    case KN_F_SINT32:
        bits &= UINT32_MAX;
        v = (int32_t)((uint32_t)(bits >> 1) ^ (0 - (uint32_t)(bits & 1)));
        break;
    case KN_F_SINT64:
        v = (int64_t)((bits >> 1) ^ (0 - (bits & 1)));
        break;
    case KN_F_INT32:
    case KN_F_SFIXED32:
    case KN_F_ENUM:
        v = (int32_t)bits;
        break;
    case KN_F_UINT32:
    case KN_F_FIXED32:
        v = (uint32_t)bits;
        break;
    default:
        v = (int64_t)bits;
        break;
    }
    if (rt_dtype_size(dtype) == sizeof(int32_t))
        *(int32_t *)to = (int32_t)v;
    else
        memcpy(to, &v, sizeof v);
}

uint64_t kn_field_take(enum kn_field_type type, enum rt_dtype dtype, const void *from)
{
    uint64_t bits = 0;
    int64_t v;
    float f;

    switch (type) {
    case KN_F_DOUBLE:
        memcpy(&bits, from, sizeof bits);
        return bits;
    case KN_F_FLOAT:
        f = dtype == RT_F64 ? (float)*(const double *)from : *(const float *)from;
        memcpy(&bits, &f, sizeof f);
        return bits;
    case KN_F_BOOL:
        return *(const bool *)from;
    default:
        break;
    }
    v = dtype == RT_I32   ? *(const int32_t *)from
        : dtype == RT_U32 ? (int64_t) * (const uint32_t *)from
                          : *(const int64_t *)from;
    switch (type) {
    case KN_F_SINT32:
        return (uint32_t)((uint32_t)v << 1) ^ (uint32_t)((int32_t)v >> 31);
    case KN_F_SINT64:
        return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    case KN_F_INT32:
    case KN_F_ENUM:
        return (uint64_t)(int64_t)(int32_t)v;
    case KN_F_UINT32:
    case KN_F_FIXED32:
    case KN_F_SFIXED32:
        return (uint32_t)v;
    default:
        return (uint64_t)v;
    }
}
