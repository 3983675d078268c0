#include "runtime/core/attr.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/base/pieces.h"
#include "runtime/core/tensor_proto.h"

enum { MAX_FUNC_DEPTH = 64 };

/* maximum number of bytes to which repeated values in tensors may expand (see splat_left) */
static const size_t splat_max = (size_t)1 << 29;

const char *rt_attr_type_name(int type)
{
    static const char *const one[] = {"none", "string", "int",    "float", "bool",
                                      "type", "shape",  "tensor", "func"};
    static const char *const many[] = {"list(any)",   "list(string)", "list(int)",
                                       "list(float)", "list(bool)",   "list(type)",
                                       "list(shape)", "list(tensor)", "list(func)"};
    int base = type & (RT_ATTR_LIST - 1);
    return base > RT_ATTR_FUNC ? "none" : type & RT_ATTR_LIST ? many[base] : one[base];
}

static enum rt_status no_memory(struct rt_error *err)
{
    return rt_fail(err, RT_RESOURCE_EXHAUSTED, "out of memory for attributes");
}

/* ---- single values ---- */

static enum rt_status read_type(int wire, uint8_t *out, struct rt_error *err)
{
    bool is_ref;
    enum rt_dtype t = rt_dtype_from_wire(wire, &is_ref);
    if (wire == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "AttrValue has invalid DataType");
    if (t == RT_NO_DTYPE)
        return rt_fail(err, RT_INVALID_ARGUMENT, "AttrValue has invalid DataType enum: %d", wire);
    if (is_ref)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "AttrValue must not have reference type value of %s_ref", rt_dtype_name(t));
    *out = (uint8_t)t;
    return RT_OK;
}

static enum rt_status read_shape(const Tensorflow__TensorShapeProto *p, struct rt_shape *out,
                                 struct rt_error *err)
{
    enum rt_status st = rt_shape_from_proto(p, &out->rank, out->dim, err);
    if (st)
        return st;
    int64_t known[RT_MAX_RANK];
    int n_known = 0;
    for (int i = 0; i < out->rank; i++)
        if (out->dim[i] >= 0)
            known[n_known++] = out->dim[i];
    char text[160];
    if (rt_count(n_known, known) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shape %s is too large (more than 2**63 - 1 entries)",
                       rt_shape_text(text, sizeof text, out->rank, out->dim));
    return RT_OK;
}

/* Returns the size in bytes of the values that the message contains, where each value has `elem`
 * bytes. */
static size_t carried(const Tensorflow__TensorProto *p, size_t elem)
{
    size_t n = p->n_half_val + p->n_float_val + p->n_double_val + p->n_int_val + p->n_string_val +
               p->n_scomplex_val / 2 + p->n_int64_val + p->n_bool_val + p->n_dcomplex_val / 2 +
               p->n_uint32_val + p->n_uint64_val;
    return n * elem + p->tensor_content.len + p->float8_val.len;
}

static enum rt_status read_tensor(const struct rt_attr_reader *r, const Tensorflow__TensorProto *p,
                                  struct rt_tensor *out, struct rt_error *err)
{
    struct rt_held_tensor *held = rt_arena_alloc(r->arena, sizeof *held);
    if (!held)
        return no_memory(err);
    size_t limit = *r->splat_left < splat_max ? *r->splat_left : splat_max;
    enum rt_status st = rt_tensor_from_proto(p, limit, &held->tensor, NULL, r->check, err);
    if (st)
        return st;
    held->next = *r->held;
    *r->held = held;
    size_t bytes = rt_tensor_bytes(&held->tensor);
    size_t texts = held->tensor.dtype == RT_STRING ? rt_tensor_text_bytes(&held->tensor) : 0;
    atomic_fetch_add(r->bytes, bytes + texts);
    size_t given = carried(p, rt_dtype_size((enum rt_dtype)held->tensor.dtype));
    size_t filled = bytes > given ? bytes - given : 0;
    *r->splat_left -= filled < *r->splat_left ? filled : *r->splat_left;
    *out = held->tensor; /* `held` owns the tensor's buffer, to which *out refers. */
    return RT_OK;
}

static enum rt_status read_str(const struct rt_attr_reader *r, ProtobufCBinaryData s,
                               struct rt_span *out, struct rt_error *err)
{
    char *copy = s.len < SIZE_MAX ? rt_arena_aligned(r->arena, s.len + 1, 16) : NULL;
    if (!copy)
        return no_memory(err);
    copy[s.len] = '\0';
    *out = rt_span_of(copy, s.len);
    return rt_copy_pieces(copy, s.data, s.len, r->check, err);
}

/* Returns the nesting depth of the functions in an attribute value, or 0 if the value contains no
 * function. */
static int depth_of(const struct rt_attr *a)
{
    int depth = 0;
    if (a->type == RT_ATTR_FUNC)
        return a->v.func->depth;
    for (size_t i = 0; a->type == RT_ATTR_LIST + RT_ATTR_FUNC && i < a->n; i++)
        depth = a->v.funcs[i].depth > depth ? a->v.funcs[i].depth : depth;
    return depth;
}

struct keyed { /* an attribute's name, and its index in the message */
    const char *key;
    size_t at;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    const int c = strcmp(x->key, y->key);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* Lists the message's attributes by name. If several attributes have the same name, only the last
 * is used, as in a protobuf map. Skips names that begin with '_', because only TensorFlow's own
 * passes use them. */
static size_t sort_attrs(const Tensorflow__NameAttrList *v, struct keyed *k)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < v->n_attr; i++)
        if (v->attr[i]->key[0] != '_' && v->attr[i]->value)
            k[n++] = (struct keyed){v->attr[i]->key, i};
    if (n)
        qsort(k, n, sizeof *k, by_key);
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || strcmp(k[i].key, k[i + 1].key) != 0)
            k[kept++] = k[i];
    return kept;
}

enum rt_status rt_func_ref_read(const struct rt_attr_reader *r, const Tensorflow__NameAttrList *v,
                                struct rt_func_ref *out, struct rt_error *err)
{
    if (v->n_attr > RT_MAX_FUNC_ATTRS)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "function '%s' is given %zu attributes, more "
                       "than %d",
                       v->name, v->n_attr, RT_MAX_FUNC_ATTRS);
    struct keyed *key = rt_arena_array(r->arena, v->n_attr, sizeof *key);
    if (!key)
        return no_memory(err);
    const size_t n = sort_attrs(v, key);
    struct rt_named_attr *attr = rt_arena_array(r->arena, n, sizeof *attr);
    *out = (struct rt_func_ref){.name = rt_arena_strdup(r->arena, v->name), .attr = attr};
    if (!attr || !out->name)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        struct rt_named_attr *a = &attr[out->n_attr++];
        a->name = rt_arena_strdup(r->arena, key[i].key);
        if (!a->name)
            return no_memory(err);
        enum rt_status st =
            rt_attr_read(r, v->attr[key[i].at]->value, RT_ATTR_NONE, &a->value, err);
        if (st)
            return st;
        const int depth = depth_of(&a->value);
        out->depth = depth > out->depth ? depth : out->depth;
    }
    if (++out->depth > MAX_FUNC_DEPTH)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "function '%s' is given an attribute that is more than %d functions deep",
                       v->name, MAX_FUNC_DEPTH);
    return RT_OK;
}

/* ---- lists ---- */

/* Returns the element type of a list: the type of the member that has elements. Sets *n to the
 * number of elements. If several members have elements, returns the last type that differs from
 * `want`, so that the caller refuses the list. */
static int list_type(const Tensorflow__AttrValue__ListValue *l, int want, size_t *n)
{
    const size_t count[] = {0,         l->n_s,     l->n_i,      l->n_f,   l->n_b,
                            l->n_type, l->n_shape, l->n_tensor, l->n_func};
    int found = RT_ATTR_NONE;
    *n = 0;
    for (int t = RT_ATTR_STRING; t <= RT_ATTR_FUNC; t++)
        if (count[t] && (found == RT_ATTR_NONE || t != want)) {
            found = t;
            *n = count[t];
        }
    return found;
}

static enum rt_status read_element(const struct rt_attr_reader *r,
                                   const Tensorflow__AttrValue__ListValue *l, int type, size_t i,
                                   void *to, struct rt_error *err)
{
    switch (type) {
    case RT_ATTR_STRING:
        return read_str(r, l->s[i], (struct rt_span *)to + i, err);
    case RT_ATTR_INT:
        ((int64_t *)to)[i] = l->i[i];
        return RT_OK;
    case RT_ATTR_FLOAT:
        ((float *)to)[i] = l->f[i];
        return RT_OK;
    case RT_ATTR_BOOL:
        ((bool *)to)[i] = l->b[i] != 0;
        return RT_OK;
    case RT_ATTR_TYPE:
        return read_type((int)l->type[i], (uint8_t *)to + i, err);
    case RT_ATTR_SHAPE:
        memset((struct rt_shape *)to + i, 0, sizeof(struct rt_shape));
        return read_shape(l->shape[i], (struct rt_shape *)to + i, err);
    case RT_ATTR_TENSOR:
        return read_tensor(r, l->tensor[i], (struct rt_tensor *)to + i, err);
    default:
        return rt_func_ref_read(r, l->func[i], (struct rt_func_ref *)to + i, err);
    }
}

static enum rt_status read_list(const struct rt_attr_reader *r,
                                const Tensorflow__AttrValue__ListValue *l, int type, size_t n,
                                struct rt_attr *out, struct rt_error *err)
{
    static const size_t size[] = {[RT_ATTR_STRING] = sizeof(struct rt_span),
                                  [RT_ATTR_INT] = sizeof(int64_t),
                                  [RT_ATTR_FLOAT] = sizeof(float),
                                  [RT_ATTR_BOOL] = sizeof(bool),
                                  [RT_ATTR_TYPE] = sizeof(uint8_t),
                                  [RT_ATTR_SHAPE] = sizeof(struct rt_shape),
                                  [RT_ATTR_TENSOR] = sizeof(struct rt_tensor),
                                  [RT_ATTR_FUNC] = sizeof(struct rt_func_ref)};
    /* The array is not zeroed, because every element is set and zeroing a gigabyte takes a
     * second. */
    void *p = n <= SIZE_MAX / size[type] ? rt_arena_aligned(r->arena, n * size[type], 16) : NULL;
    if (!p)
        return no_memory(err);
    out->type = (uint8_t)(RT_ATTR_LIST + type);
    out->n = n;
    out->v.ints = p;
    enum rt_status st = RT_OK;
    for (size_t i = 0; i < n && !st; i++) {
        st = read_element(r, l, type, i, p, err);
        st = st ? st : rt_check_tick(r->check, i, err);
    }
    return st;
}

/* ---- any value ---- */

static int value_type(const Tensorflow__AttrValue *v)
{
    switch (v->value_case) {
    case TENSORFLOW__ATTR_VALUE__VALUE_S:
        return RT_ATTR_STRING;
    case TENSORFLOW__ATTR_VALUE__VALUE_I:
        return RT_ATTR_INT;
    case TENSORFLOW__ATTR_VALUE__VALUE_F:
        return RT_ATTR_FLOAT;
    case TENSORFLOW__ATTR_VALUE__VALUE_B:
        return RT_ATTR_BOOL;
    case TENSORFLOW__ATTR_VALUE__VALUE_TYPE:
        return RT_ATTR_TYPE;
    case TENSORFLOW__ATTR_VALUE__VALUE_SHAPE:
        return RT_ATTR_SHAPE;
    case TENSORFLOW__ATTR_VALUE__VALUE_TENSOR:
        return RT_ATTR_TENSOR;
    case TENSORFLOW__ATTR_VALUE__VALUE_FUNC:
        return RT_ATTR_FUNC;
    default:
        return RT_ATTR_NONE;
    }
}

static enum rt_status wrong_type(int got, int want, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "AttrValue had value with type '%s' when '%s' expected", rt_attr_type_name(got),
                   rt_attr_type_name(want));
}

static enum rt_status replace_placeholder(const struct rt_attr_reader *r, const char *name,
                                          int want, struct rt_attr *out, struct rt_error *err)
{
    for (int i = 0; r->with && i < r->with->n_attr; i++) {
        const struct rt_named_attr *a = &r->with->attr[i];
        if (strcmp(a->name, name) != 0)
            continue;
        *out = a->value;
        /* An empty list has the element type that the schema declares. */
        if (want != RT_ATTR_NONE && out->n == 0 && out->type >= RT_ATTR_LIST &&
            want >= RT_ATTR_LIST)
            out->type = (uint8_t)want;
        if (want != RT_ATTR_NONE && out->type != want)
            return wrong_type(out->type, want, err);
        return RT_OK;
    }
    return rt_fail(err, RT_INVALID_ARGUMENT, "placeholder '%s' has no value here", name);
}

enum rt_status rt_attr_read(const struct rt_attr_reader *r, const Tensorflow__AttrValue *v,
                            int want, struct rt_attr *out, struct rt_error *err)
{
    *out = (struct rt_attr){0};
    if (v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER)
        return replace_placeholder(r, v->placeholder, want, out, err);
    if (v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_LIST) {
        size_t n;
        int type = list_type(v->list, want & (RT_ATTR_LIST - 1), &n);
        if (want != RT_ATTR_NONE && (want < RT_ATTR_LIST || (n && type + RT_ATTR_LIST != want)))
            return wrong_type(type + RT_ATTR_LIST, want, err);
        if (!n && want != RT_ATTR_NONE)
            type = want - RT_ATTR_LIST;
        if (!n && type == RT_ATTR_NONE) {
            out->type = RT_ATTR_LIST;
            return RT_OK;
        }
        return read_list(r, v->list, type, n, out, err);
    }
    int type = value_type(v);
    if (type == RT_ATTR_NONE)
        return rt_fail(err, RT_INVALID_ARGUMENT, "AttrValue missing value with expected type '%s'",
                       want == RT_ATTR_NONE ? "any" : rt_attr_type_name(want));
    if (want != RT_ATTR_NONE && type != want)
        return wrong_type(type, want, err);
    out->type = (uint8_t)type;
    out->n = 1;
    enum rt_status st = RT_OK;
    uint8_t t = RT_NO_DTYPE;
    struct rt_span s = {0};
    switch (type) {
    case RT_ATTR_STRING:
        st = read_str(r, v->s, &s, err);
        if (!st) {
            out->v.s = (const char *)s.p;
            out->n = s.n;
        }
        return st;
    case RT_ATTR_INT:
        out->v.i = v->i;
        return RT_OK;
    case RT_ATTR_FLOAT:
        out->v.f = v->f;
        return RT_OK;
    case RT_ATTR_BOOL:
        out->v.b = v->b != 0;
        return RT_OK;
    case RT_ATTR_TYPE:
        st = read_type((int)v->type, &t, err);
        out->v.t = (enum rt_dtype)t;
        return st;
    case RT_ATTR_SHAPE:
        out->v.shape = rt_arena_alloc(r->arena, sizeof *out->v.shape);
        return out->v.shape ? read_shape(v->shape, out->v.shape, err) : no_memory(err);
    case RT_ATTR_TENSOR:
        out->v.tensor = rt_arena_alloc(r->arena, sizeof *out->v.tensor);
        return out->v.tensor ? read_tensor(r, v->tensor, out->v.tensor, err) : no_memory(err);
    default:
        out->v.func = rt_arena_alloc(r->arena, sizeof *out->v.func);
        return out->v.func ? rt_func_ref_read(r, v->func, out->v.func, err) : no_memory(err);
    }
}

/* ---- defaults: text that schema/generate.py wrote; it is trusted and not checked ---- */

static int64_t text_int(const char **s)
{
    bool minus = **s == '-';
    uint64_t v = 0;
    for (*s += minus; **s >= '0' && **s <= '9'; ++*s)
        v = v * 10 + (uint64_t)(**s - '0');
    return (int64_t)(minus ? -v : v);
}

static float text_float(const char **s)
{
    uint32_t bits = 0;
    for (int i = 0; i < 8; i++, ++*s)
        bits = bits << 4 | (uint32_t)(**s <= '9' ? **s - '0' : **s - 'a' + 10);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void text_shape(const char **s, struct rt_shape *out)
{
    *out = (struct rt_shape){0};
    if (**s == '?') {
        out->rank = -1;
        ++*s;
        return;
    }
    while (**s == '-' || (**s >= '0' && **s <= '9')) {
        out->dim[out->rank++] = text_int(s);
        *s += **s == ',';
    }
}

static enum rt_status text_tensor(const struct rt_attr_reader *r, const char **s,
                                  struct rt_tensor *out, struct rt_error *err)
{
    struct rt_shape shape;
    enum rt_dtype dtype = (enum rt_dtype)text_int(s);
    ++*s;
    text_shape(s, &shape);
    ++*s;
    struct rt_held_tensor *held = rt_arena_alloc(r->arena, sizeof *held);
    if (!held)
        return no_memory(err);
    enum rt_status st = rt_tensor_new(&held->tensor, NULL, dtype, shape.rank, shape.dim, err);
    if (st)
        return st;
    held->next = *r->held;
    *r->held = held;
    for (int64_t i = 0, n = rt_tensor_count(&held->tensor); i < n; i++, *s += **s == ',') {
        int64_t v = text_int(s);
        if (dtype == RT_U8)
            ((uint8_t *)held->tensor.data)[i] = (uint8_t)v;
        else
            ((int32_t *)held->tensor.data)[i] = (int32_t)v;
    }
    *out = held->tensor;
    return RT_OK;
}

static enum rt_status text_one(const struct rt_attr_reader *r, int type, const char **s, void *to,
                               struct rt_error *err)
{
    switch (type) {
    case RT_ATTR_STRING: { /* In a list, the string ends at ';'. */
        size_t n = strcspn(*s, ";");
        struct rt_span *out = to;
        char *copy = rt_arena_strndup(r->arena, *s, n);
        *out = rt_span_of(copy, n);
        *s += n;
        return copy ? RT_OK : no_memory(err);
    }
    case RT_ATTR_INT:
        *(int64_t *)to = text_int(s);
        return RT_OK;
    case RT_ATTR_FLOAT:
        *(float *)to = text_float(s);
        return RT_OK;
    case RT_ATTR_BOOL:
        *(bool *)to = *(*s)++ == '1';
        return RT_OK;
    case RT_ATTR_TYPE:
        *(uint8_t *)to = (uint8_t)text_int(s);
        return RT_OK;
    case RT_ATTR_SHAPE:
        text_shape(s, to);
        return RT_OK;
    default:
        return text_tensor(r, s, to, err);
    }
}

enum rt_status rt_attr_default(const struct rt_attr_reader *r, const struct rt_attr_schema *a,
                               struct rt_attr *out, struct rt_error *err)
{
    const char *s = a->value;
    int type = a->type & (RT_ATTR_LIST - 1);
    *out = (struct rt_attr){.type = a->type, .n = 1};
    if (a->type < RT_ATTR_LIST) {
        uint8_t t = 0;
        switch (type) {
        case RT_ATTR_STRING:
            out->v.s = s;
            out->n = strlen(s);
            return RT_OK;
        case RT_ATTR_SHAPE:
            out->v.shape = rt_arena_alloc(r->arena, sizeof *out->v.shape);
            return out->v.shape ? text_one(r, type, &s, out->v.shape, err) : no_memory(err);
        case RT_ATTR_TENSOR:
            out->v.tensor = rt_arena_alloc(r->arena, sizeof *out->v.tensor);
            return out->v.tensor ? text_one(r, type, &s, out->v.tensor, err) : no_memory(err);
        case RT_ATTR_TYPE:
            text_one(r, type, &s, &t, err);
            out->v.t = (enum rt_dtype)t;
            return RT_OK;
        default:
            return text_one(r, type, &s, &out->v, err);
        }
    }
    static const size_t size[] = {[RT_ATTR_STRING] = sizeof(struct rt_span),
                                  [RT_ATTR_INT] = sizeof(int64_t),
                                  [RT_ATTR_FLOAT] = sizeof(float),
                                  [RT_ATTR_BOOL] = sizeof(bool),
                                  [RT_ATTR_TYPE] = sizeof(uint8_t),
                                  [RT_ATTR_SHAPE] = sizeof(struct rt_shape),
                                  [RT_ATTR_TENSOR] = sizeof(struct rt_tensor),
                                  [RT_ATTR_FUNC] = sizeof(struct rt_func_ref)};
    size_t n = 0;
    for (const char *p = s; *p; p++)
        n += *p == ';';
    char *p = rt_arena_array(r->arena, n, size[type]);
    if (!p)
        return no_memory(err);
    out->n = n;
    out->v.ints = (const void *)p;
    for (size_t i = 0; i < n; i++, s++) {
        enum rt_status st = text_one(r, type, &s, p + i * size[type], err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* ---- checks against the schema ---- */

static enum rt_status check_type(const struct rt_attr_schema *s, enum rt_dtype t,
                                 struct rt_error *err)
{
    if (!s->types || (s->types & RT_T(t)))
        return RT_OK;
    struct rt_bytes b;
    rt_bytes_init(&b, 4096);
    for (int d = 1; d < RT_N_DTYPES; d++)
        if (s->types & RT_T(d))
            rt_bytes_addf(&b, "%s%s", b.n ? ", " : "", rt_dtype_name((enum rt_dtype)d));
    rt_fail(err, RT_INVALID_ARGUMENT,
            "Value for attr '%s' of %s is not in the list of allowed values: %s", s->name,
            rt_dtype_name(t), b.p ? b.p : "");
    rt_bytes_clear(&b);
    return RT_INVALID_ARGUMENT;
}

static enum rt_status check_string(const struct rt_attr_schema *s, struct rt_span v,
                                   struct rt_error *err)
{
    const char *p = s->strings;
    for (int i = 0; i < s->n_strings; i++, p += strlen(p) + 1)
        if (rt_span_is(v, p))
            return RT_OK;
    if (!s->n_strings)
        return RT_OK;
    struct rt_bytes b;
    rt_bytes_init(&b, 4096);
    p = s->strings;
    for (int i = 0; i < s->n_strings; i++, p += strlen(p) + 1)
        rt_bytes_addf(&b, "%s\"%s\"", i ? ", " : "", p);
    rt_fail(err, RT_INVALID_ARGUMENT,
            "Value for attr '%s' of \"%.*s\" is not in the list of allowed values: %s", s->name,
            (int)(v.n < 200 ? v.n : 200), (const char *)v.p, b.p ? b.p : "");
    rt_bytes_clear(&b);
    return RT_INVALID_ARGUMENT;
}

enum rt_status rt_attr_check(const struct rt_attr_reader *r, const struct rt_attr_schema *s,
                             const struct rt_attr *a, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    if (s->has_minimum && a->type == RT_ATTR_INT && a->v.i < s->minimum)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Value for attr '%s' of %lld must be at least minimum %lld", s->name,
                       (long long)a->v.i, (long long)s->minimum);
    if (s->has_minimum && a->type >= RT_ATTR_LIST && (int64_t)a->n < s->minimum)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Length for attr '%s' of %zu must be at least minimum %lld", s->name, a->n,
                       (long long)s->minimum);
    switch (a->type) {
    case RT_ATTR_TYPE:
        return check_type(s, a->v.t, err);
    case RT_ATTR_LIST + RT_ATTR_TYPE:
        for (size_t i = 0; i < a->n && !st; i++) {
            st = check_type(s, (enum rt_dtype)a->v.types[i], err);
            st = st ? st : rt_check_tick(r->check, i, err);
        }
        return st;
    case RT_ATTR_STRING:
        return check_string(s, rt_span_of(a->v.s, a->n), err);
    case RT_ATTR_LIST + RT_ATTR_STRING:
        for (size_t i = 0; i < a->n && !st; i++) {
            st = check_string(s, a->v.strs[i], err);
            st = st ? st : rt_check_tick(r->check, i, err);
        }
        return st;
    default:
        return RT_OK;
    }
}

void rt_attr_drop(struct rt_held_tensor *held)
{
    for (; held; held = held->next)
        rt_tensor_clear(&held->tensor);
}
