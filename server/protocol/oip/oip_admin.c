/* Loads and unloads models. These calls are Triton's extension `model_repository` of the protocol.
 */
#include "server/protocol/oip/oip.h"

#include "server/versions/manager.h"

/* Checks a parameter of a load or an unload. unload_dependents has no effect, because no model
 * depends on another. */
static enum rt_status check_parameter(bool is_on, struct rt_span name, struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, name);

    if (!is_on && rt_span_is(name, "unload_dependents"))
        return RT_OK;
    return rt_fail(err, RT_UNIMPLEMENTED,
                   "the parameter \"%.*s\" of %s is not supported: models are loaded as they lie "
                   "in their base paths",
                   (int)shown.n, (const char *)shown.p, is_on ? "a load" : "an unload");
}

static enum rt_status read_parameters(const struct srv_action *a, bool is_on, struct srv_json v)
{
    const unsigned char *at;
    struct rt_span key;
    struct srv_json value;
    enum rt_status st = RT_OK;

    if (srv_json_type(v) != SRV_JSON_OBJECT)
        return rt_fail(a->err, RT_INVALID_ARGUMENT, "\"parameters\" is no object");
    at = srv_json_first(v);
    while (!st && srv_json_member(&at, v, &key, &value))
        st = check_parameter(is_on, rt_span_of(key.p + 1, key.n - 2), a->err);
    return st;
}

/* Reads the body {"parameters": {...}}, which may be empty. */
static enum rt_status read_json(struct srv_action *a, bool is_on)
{
    struct srv_json_doc doc;
    struct rt_span body, key;
    struct srv_json value;
    enum rt_status st = srv_cursor_span(a->message, &body, a->arena, a->err);

    if (!st && body.n)
        st = srv_json_check(&doc, body, NULL, a->err);
    if (st || !body.n)
        return st;
    const unsigned char *at = srv_json_first(doc.top);
    while (!st && srv_json_member(&at, doc.top, &key, &value))
        if (srv_json_token_is(key, "parameters", 10))
            st = read_parameters(a, is_on, value);
    return st;
}

/* Reads an entry of the map of parameters. Field 1 of the entry is the key. */
static enum rt_status read_entry(struct srv_action *a, bool is_on, struct srv_cursor entry)
{
    struct rt_span name = {0};
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&entry, &f)) > 0)
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_field_span(&f, &name, a->arena, a->err);
    if (!st && got < 0)
        return srv_wire_malformed(a->err, "a parameter");
    return st ? st : check_parameter(is_on, name, a->err);
}

/* Reads a RepositoryModelLoadRequest or RepositoryModelUnloadRequest. Field 1 is repository_name in
 * Triton's messages, and the name of the model in KServe's messages. */
static enum rt_status read_message(struct srv_action *a, bool is_on)
{
    struct srv_cursor at = a->message;
    struct rt_span repository = {0}, name = {0};
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_field_span(&f, &repository, a->arena, a->err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = srv_field_span(&f, &name, a->arena, a->err);
        else if (srv_field_is(&f, 3, SRV_BYTES))
            st = read_entry(a, is_on, f.body);
    }
    if (!st && got < 0)
        return srv_wire_malformed(a->err, "a request about a model");
    if (!st && repository.n && name.n)
        return rt_fail(a->err, RT_UNIMPLEMENTED, "the field repository_name is not supported");
    return st ? st
              : srv_oip_read_spec(name.n ? name : repository, rt_span_of(NULL, 0), &a->spec,
                                  a->err);
}

/* Runs on the manager's thread. */
static void switched(void *arg, enum rt_status st, const struct rt_error *err)
{
    struct srv_action *a = arg;

    if (st)
        rt_error_copy(a->err, err);
    a->done(a, st);
}

enum rt_status srv_oip_read_switch(struct srv_action *a, bool is_on, bool is_json)
{
    const enum rt_status st = is_json ? read_json(a, is_on) : read_message(a, is_on);

    if (!st && a->spec.signature.p)
        return rt_fail(a->err, RT_INVALID_ARGUMENT,
                       "a load or an unload names a model, not one of its signatures");
    return st;
}

static void begin(struct srv_action *a, bool is_on, bool is_json)
{
    enum rt_status st = srv_oip_read_switch(a, is_on, is_json);

    if (!st && is_json)
        rt_bytes_adds(a->out, "{}");
    if (!st)
        st = srv_manager_switch(a->server->manager, a->spec.name, is_on, a->cancelled, switched, a,
                                a->err);
    if (st)
        a->done(a, st);
}

static void load_json(struct srv_action *a)
{
    begin(a, true, true);
}

static void unload_json(struct srv_action *a)
{
    begin(a, false, true);
}

static void load(struct srv_action *a)
{
    begin(a, true, false);
}

static void unload(struct srv_action *a)
{
    begin(a, false, false);
}

const struct srv_action_steps srv_oip_load_json = {.perform = load_json, .is_admin = true},
                              srv_oip_load = {.perform = load, .is_admin = true},
                              srv_oip_unload_json = {.perform = unload_json, .is_admin = true},
                              srv_oip_unload = {.perform = unload, .is_admin = true};
