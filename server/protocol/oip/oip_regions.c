/* Registers, lists and forgets regions of shared memory. */
#include "server/protocol/oip/oip.h"

#include "server/base/shared_memory.h"

static enum rt_status check_on(const struct srv_server *server, struct rt_error *err)
{
    return server->shared_memory ? RT_OK
                                 : rt_fail(err, RT_UNIMPLEMENTED,
                                           "this server does not have shared memory: "
                                           "--system_shared_memory_bytes is 0");
}

/* The region that a request describes: its name, the key of the shared memory object, and the part
 * of the object. */
struct region {
    struct rt_span name, key;
    uint64_t offset, bytes;
};

/* ---- JSON ---- */

static enum rt_status read_number(const struct srv_action *a, struct srv_json v, const char *what,
                                  uint64_t *out)
{
    int64_t n = 0;
    const enum rt_status st = srv_oip_json_size(v, what, &n, a->err);

    *out = (uint64_t)n;
    return st;
}

static enum rt_status read_member(const struct srv_action *a, struct rt_span key, struct srv_json v,
                                  struct region *r)
{
    if (srv_json_token_is(key, "offset", 6))
        return read_number(a, v, "\"offset\"", &r->offset);
    if (srv_json_token_is(key, "byte_size", 9))
        return read_number(a, v, "\"byte_size\"", &r->bytes);
    if (srv_json_token_is(key, "key", 3))
        return srv_oip_json_text(v, "\"key\"", a->arena, &r->key, a->err);
    return RT_OK;
}

/* Reads a JSON body with the members "key", "offset" and "byte_size". */
static enum rt_status read_json(const struct srv_action *a, struct region *r)
{
    struct srv_json_doc doc;
    struct rt_span body, key;
    struct srv_json v;
    enum rt_status st = srv_cursor_span(a->message, &body, a->arena, a->err);

    if (!st)
        st = srv_json_check(&doc, body, NULL, a->err);
    if (st)
        return st;
    const unsigned char *at = srv_json_first(doc.top);
    while (!st && srv_json_member(&at, doc.top, &key, &v))
        st = read_member(a, key, v, r);
    return st;
}

/* ---- messages ---- */

/* Reads a message about shared memory. Fields 1 to 4 are the name, the key, the offset and the
 * byte_size. A request to unregister a region or to list regions contains only the name. */
static enum rt_status read_message(struct srv_cursor at, struct rt_arena *arena, struct region *r,
                                   struct rt_error *err)
{
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_field_span(&f, &r->name, arena, err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = srv_field_span(&f, &r->key, arena, err);
        else if (srv_field_is(&f, 3, SRV_VARINT))
            r->offset = f.value;
        else if (srv_field_is(&f, 4, SRV_VARINT))
            r->bytes = f.value;
    }
    return got < 0 ? srv_wire_malformed(err, "a request about shared memory") : st;
}

/* ---- the actions ---- */

static void change(struct srv_action *a, bool registers, bool is_json)
{
    struct region r = {.name = a->spec.name};
    enum rt_status st = check_on(a->server, a->err);

    if (!st)
        st = a->check(a, false);
    if (!st && is_json && registers)
        st = read_json(a, &r);
    else if (!st && !is_json)
        st = read_message(a->message, a->arena, &r, a->err);
    if (!st && registers && !srv_oip_is_utf8(r.name)) {
        const struct rt_span shown = rt_error_name(a->err, r.name);
        st = rt_fail(a->err, RT_INVALID_ARGUMENT,
                     "the name of the region of shared memory \"%.*s\" is not UTF-8",
                     (int)(shown.n < 255 ? shown.n : 255), (const char *)shown.p);
    }
    if (!st && registers)
        st =
            srv_region_register(a->server->shared_memory, r.name, r.key, r.offset, r.bytes, a->err);
    else if (!st)
        srv_region_unregister(a->server->shared_memory, r.name);
    if (!st && is_json)
        rt_bytes_adds(a->out, "{}");
    a->done(a, st);
}

static void register_json(struct srv_action *a)
{
    change(a, true, true);
}

static void unregister_json(struct srv_action *a)
{
    change(a, false, true);
}

static void register_message(struct srv_action *a)
{
    change(a, true, false);
}

static void unregister_message(struct srv_action *a)
{
    change(a, false, false);
}

/* ---- the list ---- */

struct list {
    int n;
    struct srv_region_info *region;
};

static enum rt_status find(struct srv_description *d)
{
    enum { ROW_BYTES = 600 };
    struct list *list = rt_arena_alloc(d->arena, sizeof *list);
    enum rt_status st = check_on(d->server, d->err);

    if (!st && !list)
        st = rt_fail_memory(d->err, "the list of regions", sizeof *list);
    if (!st)
        st = srv_region_list(d->server->shared_memory, d->spec.name, d->arena, &list->region,
                             &list->n, d->err);
    if (!st && d->spec.name.n && !list->n) {
        const struct rt_span shown = rt_error_name(d->err, d->spec.name);
        st = rt_fail(d->err, RT_NOT_FOUND, "no region of shared memory \"%.*s\" is registered",
                     (int)shown.n, (const char *)shown.p);
    }
    if (st)
        return st;
    d->state = list;
    d->bytes = (size_t)list->n * ROW_BYTES;
    return RT_OK;
}

static enum rt_status find_message(struct srv_description *d)
{
    struct region r = {0};
    enum rt_status st = read_message(d->message, d->arena, &r, d->err);

    d->spec.name = r.name;
    st = st ? st : find(d);
    d->spec.name = rt_span_of(NULL, 0); /* the name is that of a region, not of a model */
    return st;
}

static void write_json(const struct srv_description *d, struct rt_bytes *out)
{
    const struct list *list = d->state;

    rt_bytes_addc(out, '[');
    for (int i = 0; i < list->n; i++) {
        const struct srv_region_info *r = &list->region[i];
        srv_oip_json_begin(out, i, r->name, strlen(r->name));
        rt_bytes_adds(out, ",\"key\":");
        srv_json_quote(out, r->key, strlen(r->key));
        rt_bytes_addf(out, ",\"offset\":%llu,\"byte_size\":%llu}", (unsigned long long)r->offset,
                      (unsigned long long)r->bytes);
    }
    rt_bytes_addc(out, ']');
}

/* Appends the regions as entries of a map from names to RegionStatus messages. */
static void write_message(const struct srv_description *d, struct rt_bytes *out)
{
    const struct list *list = d->state;
    struct rt_bytes entry, item;

    rt_bytes_init(&entry, out->limit);
    rt_bytes_init(&item, out->limit);
    for (int i = 0; i < list->n; i++) {
        const struct srv_region_info *r = &list->region[i];
        srv_put_text(&item, 1, r->name);
        srv_put_text(&item, 2, r->key);
        srv_put_int(&item, 3, r->offset);
        srv_put_int(&item, 4, r->bytes);
        srv_put_text(&entry, 1, r->name);
        srv_put_message(&entry, 2, &item);
        srv_put_message(out, 1, &entry);
    }
    rt_bytes_clear(&entry);
    rt_bytes_clear(&item);
}

const struct srv_description_steps srv_oip_regions_json = {find, write_json, NULL};
const struct srv_description_steps srv_oip_regions = {find_message, write_message, NULL};
const struct srv_action_steps srv_oip_region_register_json = {.perform = register_json};
const struct srv_action_steps srv_oip_region_register = {.perform = register_message};
const struct srv_action_steps srv_oip_region_unregister_json = {.perform = unregister_json};
const struct srv_action_steps srv_oip_region_unregister = {.perform = unregister_message};
