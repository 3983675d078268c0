#include "server/reflection/reflection.h"

enum { MAX_FILES = 1000 };

/* ---- descriptors: the fields' numbers are those of descriptor.proto ---- */

enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    FILE_EXTENSION = 7,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_EXTENSION = 6,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2,
    NAME = 1, /* field number of `name` in every kind of declaration */
};

struct fields {
    struct rt_span piece;
    struct srv_cursor at;
};

static void start(struct fields *f, struct rt_span message)
{
    f->piece = message;
    f->at = srv_cursor_of(&f->piece, message.n);
}

/* Finds the next length-delimited field. Returns false if the message has ended or is malformed. */
static bool next(struct fields *f, uint32_t *number, struct rt_span *body)
{
    struct srv_field field;

    while (srv_field_next(&f->at, &field) > 0) {
        if (field.type != SRV_BYTES)
            continue;
        *number = field.number;
        *body = rt_span_of(f->piece.p + field.body.off, field.body.left);
        return true;
    }
    return false;
}

static struct rt_span field_of(struct rt_span message, uint32_t wanted)
{
    struct fields f;
    struct rt_span body;
    uint32_t number;

    start(&f, message);
    while (next(&f, &number, &body))
        if (number == wanted)
            return body;
    return rt_span_of(NULL, 0);
}

struct rt_span srv_reflection_file(struct rt_span set, struct rt_span name)
{
    struct fields f;
    struct rt_span file;
    uint32_t number;

    start(&f, set);
    while (next(&f, &number, &file))
        if (number == SET_FILE && rt_span_eq(field_of(file, FILE_NAME), name))
            return file;
    return rt_span_of(NULL, 0);
}

/* Removes `name`, and a dot after it, from the beginning of *symbol. */
static bool take_name(struct rt_span *symbol, struct rt_span name)
{
    if (!name.n || symbol->n < name.n || memcmp(symbol->p, name.p, name.n) != 0)
        return false;
    if (symbol->n > name.n && symbol->p[name.n] != '.')
        return false;
    size_t n = name.n + (symbol->n > name.n);
    /* a symbol must not end with a dot */
    if (symbol->n == n && n > name.n)
        return false;
    *symbol = rt_span_of(symbol->p + n, symbol->n - n);
    return true;
}

/* The kinds of declarations. The kind determines which declarations a declaration may contain. */
enum kind { FILE_KIND, MESSAGE_KIND, ENUM_KIND, SERVICE_KIND, LEAF_KIND };

static enum kind kind_of(enum kind holder, uint32_t number)
{
    switch (holder) {
    case FILE_KIND:
        return number == FILE_MESSAGE     ? MESSAGE_KIND
               : number == FILE_ENUM      ? ENUM_KIND
               : number == FILE_SERVICE   ? SERVICE_KIND
               : number == FILE_EXTENSION ? LEAF_KIND
                                          : FILE_KIND;
    case MESSAGE_KIND:
        return number == MESSAGE_NESTED ? MESSAGE_KIND
               : number == MESSAGE_ENUM ? ENUM_KIND
               : number == MESSAGE_FIELD || number == MESSAGE_EXTENSION || number == MESSAGE_ONEOF
                   ? LEAF_KIND
                   : FILE_KIND;
    case SERVICE_KIND:
        return number == SERVICE_METHOD ? LEAF_KIND : FILE_KIND;
    case ENUM_KIND:
    case LEAF_KIND:
        break;
    }
    return FILE_KIND; /* the field does not contain a declaration */
}

/* Returns whether the enum has a value called `name`. The full name of an enum value begins with
 * the scope of the enum, not with its name. */
static bool has_value(struct rt_span enumeration, struct rt_span name)
{
    struct fields f;
    struct rt_span value;
    uint32_t number;

    start(&f, enumeration);
    while (next(&f, &number, &value))
        if (number == ENUM_VALUE && rt_span_eq(field_of(value, NAME), name))
            return true;
    return false;
}

/* Returns whether `holder` declares `symbol`, a name relative to `holder`. The recursion depth is
 * at most the number of dots in `symbol`. */
static bool declares(struct rt_span holder, enum kind kind, struct rt_span symbol)
{
    struct fields f;
    struct rt_span body;
    uint32_t number;

    start(&f, holder);
    while (next(&f, &number, &body)) {
        enum kind inner = kind_of(kind, number);
        struct rt_span rest = symbol;
        if (inner == FILE_KIND)
            continue;
        if (inner == ENUM_KIND && has_value(body, symbol))
            return true;
        if (take_name(&rest, field_of(body, NAME)) && (!rest.n || declares(body, inner, rest)))
            return true;
    }
    return false;
}

struct rt_span srv_reflection_symbol(struct rt_span set, struct rt_span symbol)
{
    struct fields f;
    struct rt_span file;
    uint32_t number;

    start(&f, set);
    while (symbol.n && next(&f, &number, &file)) {
        struct rt_span rest = symbol, package = field_of(file, FILE_PACKAGE);
        if (number != SET_FILE || (package.n && !take_name(&rest, package)))
            continue;
        if (rest.n && declares(file, FILE_KIND, rest))
            return file;
    }
    return rt_span_of(NULL, 0);
}

/* ---- responses: fields of ServerReflectionRequest and ServerReflectionResponse ---- */

enum {
    REQUEST_HOST = 1,
    BY_FILENAME = 3,
    BY_SYMBOL = 4,
    BY_EXTENSION = 5,
    EXTENSIONS_OF = 6,
    LIST_SERVICES = 7,

    VALID_HOST = 1,
    ORIGINAL_REQUEST = 2,
    FILES = 4,
    EXTENSION_NUMBERS = 5,
    SERVICES = 6,
    ERROR = 7,
};

static void put_error(struct rt_bytes *out, enum rt_status code, const char *what,
                      struct rt_span name)
{
    struct rt_bytes e, text;

    rt_bytes_init(&e, 4096);
    rt_bytes_init(&text, 2048);
    rt_bytes_adds(&text, what);
    if (name.p) {
        rt_bytes_adds(&text, ": ");
        rt_bytes_add(&text, name.p, name.n < 1000 ? name.n : 1000);
    }
    srv_put_int(&e, 1, code);
    srv_put_message(&e, 2, &text);
    srv_put_message(out, ERROR, &e);
    rt_bytes_clear(&e);
    rt_bytes_clear(&text);
}

/* Writes the file `first` and all files that it imports directly or indirectly. Writes each file
 * once. */
static enum rt_status put_files(struct rt_span set, struct rt_span first, struct rt_bytes *out,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct rt_span *files = rt_arena_array(arena, MAX_FILES, sizeof *files);
    struct rt_bytes body;
    int n = 0;

    if (!files)
        return rt_fail_memory(err, "a list of files", 0);
    files[n++] = first;
    rt_bytes_init(&body, out->limit);
    for (int i = 0; i < n; i++) {
        struct fields f;
        struct rt_span name;
        uint32_t number;
        srv_put_bytes(&body, 1, files[i].p, files[i].n);
        start(&f, files[i]);
        while (next(&f, &number, &name)) {
            if (number != FILE_DEPENDENCY)
                continue;
            struct rt_span file = srv_reflection_file(set, name);
            int k = 0;
            while (k < n && files[k].p != file.p)
                k++;
            if (file.p && k == n && n < MAX_FILES)
                files[n++] = file;
        }
    }
    srv_put_message(out, FILES, &body);
    rt_bytes_clear(&body);
    return RT_OK;
}

static enum rt_status put_file(struct rt_span set, struct rt_span file, const char *what,
                               struct rt_span name, struct rt_bytes *out, struct rt_arena *arena,
                               struct rt_error *err)
{
    if (file.p)
        return put_files(set, file, out, arena, err);
    put_error(out, RT_NOT_FOUND, what, name);
    return RT_OK;
}

static void put_services(const struct rt_span *services, int n, struct rt_bytes *out)
{
    struct rt_bytes list, one;

    rt_bytes_init(&list, out->limit);
    rt_bytes_init(&one, out->limit);
    for (int i = 0; i < n; i++) {
        srv_put_bytes(&one, 1, services[i].p, services[i].n);
        srv_put_message(&list, 1, &one);
    }
    srv_put_message(out, SERVICES, &list);
    rt_bytes_clear(&list);
    rt_bytes_clear(&one);
}

/* Writes an empty list of extension numbers, because no message type in the server's .proto files
 * has extensions. */
static void put_extensions(struct rt_span set, struct rt_span type, struct rt_bytes *out)
{
    struct rt_bytes body;

    if (!srv_reflection_symbol(set, type).p) {
        put_error(out, RT_NOT_FOUND, "there is no such type", type);
        return;
    }
    rt_bytes_init(&body, out->limit);
    srv_put_bytes(&body, 1, type.p, type.n);
    srv_put_message(out, EXTENSION_NUMBERS, &body);
    rt_bytes_clear(&body);
}

enum rt_status srv_reflection_respond(struct rt_span set, const struct rt_span *services,
                                      int n_services, struct srv_cursor request,
                                      struct rt_bytes *out, struct rt_arena *arena,
                                      struct rt_error *err)
{
    struct rt_span whole, host = rt_span_of(NULL, 0), requested = host;
    struct srv_field f;
    uint32_t what = 0;
    int got;

    if (request.left > SRV_REFLECTION_MAX_REQUEST)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "a ServerReflectionRequest of %zu bytes, at most %d", request.left,
                       SRV_REFLECTION_MAX_REQUEST);
    enum rt_status st = srv_cursor_span(request, &whole, arena, err);
    while (!st && (got = srv_field_next(&request, &f)) != 0) {
        if (got < 0)
            return srv_wire_malformed(err, "ServerReflectionRequest");
        if (f.type != SRV_BYTES)
            continue;
        if (f.number == REQUEST_HOST)
            st = srv_field_span(&f, &host, arena, err);
        if (f.number < BY_FILENAME || f.number > LIST_SERVICES)
            continue;
        what = f.number; /* if several fields of the oneof are present, the last one wins */
        st = srv_field_span(&f, &requested, arena, err);
    }
    if (st)
        return st;
    if (host.n)
        srv_put_bytes(out, VALID_HOST, host.p, host.n);
    srv_put_bytes(out, ORIGINAL_REQUEST, whole.p, whole.n);
    switch (what) {
    case BY_FILENAME:
        return put_file(set, srv_reflection_file(set, requested), "there is no such file",
                        requested, out, arena, err);
    case BY_SYMBOL:
        return put_file(set, srv_reflection_symbol(set, requested), "there is no such symbol",
                        requested, out, arena, err);
    case BY_EXTENSION:
        put_error(out, RT_NOT_FOUND, "there is no such extension", rt_span_of(NULL, 0));
        break;
    case EXTENSIONS_OF:
        put_extensions(set, requested, out);
        break;
    case LIST_SERVICES:
        put_services(services, n_services, out);
        break;
    default:
        put_error(out, RT_INVALID_ARGUMENT, "the request asks for nothing", rt_span_of(NULL, 0));
    }
    return RT_OK;
}
