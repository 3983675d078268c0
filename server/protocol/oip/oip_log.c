/* Implements Triton's extension `logging` of the protocol: reads and changes the settings of the
 * log. The server's log has a single level. Therefore, if infos are logged, warnings are logged
 * too. */
#include "server/protocol/oip/oip.h"

#include "runtime/base/log.h"
#include "server/json/json_number.h"

/* The current settings, or the settings that a client requests. */
struct settings {
    bool info, warning, error;
    uint64_t verbose; /* log_verbose_level */
};

/* The value of a setting in a request. */
struct value {
    enum { NO_VALUE, A_BOOL, A_NUMBER, A_TEXT } kind;
    uint64_t number;
    struct rt_span text;
};

/* The last log_verbose_level that a client has set. Each level above 0 logs the same. */
static _Atomic uint32_t verbose_level = 1;

static const char FILE_NAME[] = "", FORMAT[] = "ISO8601";

static struct settings current(void)
{
    const int level = atomic_load_explicit(&rt_log_level, memory_order_relaxed);

    return (struct settings){.info = level >= RT_LOG_INFO,
                             .warning = level >= RT_LOG_WARNING,
                             .error = true,
                             .verbose = level >= RT_LOG_DEBUG ? atomic_load(&verbose_level) : 0};
}

static enum rt_status set_bool(bool *to, const char *name, const struct value *v,
                               struct rt_error *err)
{
    if (v->kind != A_BOOL)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the setting %s is neither true nor false", name);
    *to = v->number;
    return RT_OK;
}

/* Checks the value of a setting that can only have the value `only`. */
static enum rt_status check_text(const char *only, const char *name, const struct value *v,
                                 struct rt_error *err)
{
    if (v->kind != A_TEXT)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the setting %s is no string", name);
    if (rt_span_is(v->text, only))
        return RT_OK;
    const struct rt_span shown = rt_error_name(err, v->text);
    return rt_fail(err, RT_UNIMPLEMENTED,
                   "the setting %s is always \"%s\", not \"%.*s\": the log is written to standard "
                   "error",
                   name, only, (int)shown.n, (const char *)shown.p);
}

static enum rt_status set(struct settings *s, struct rt_span name, const struct value *v,
                          struct rt_error *err)
{
    if (rt_span_is(name, "log_info"))
        return set_bool(&s->info, "log_info", v, err);
    if (rt_span_is(name, "log_warning"))
        return set_bool(&s->warning, "log_warning", v, err);
    if (rt_span_is(name, "log_error"))
        return set_bool(&s->error, "log_error", v, err);
    if (rt_span_is(name, "log_file"))
        return check_text(FILE_NAME, "log_file", v, err);
    if (rt_span_is(name, "log_format"))
        return check_text(FORMAT, "log_format", v, err);
    const struct rt_span shown = rt_error_name(err, name);
    if (!rt_span_is(name, "log_verbose_level"))
        return rt_fail(err, RT_INVALID_ARGUMENT, "there is no setting \"%.*s\"", (int)shown.n,
                       (const char *)shown.p);
    if (v->kind != A_NUMBER || v->number > UINT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the setting log_verbose_level is no integer from 0 to 4294967295");
    s->verbose = v->number;
    return RT_OK;
}

static enum rt_status apply(const struct settings *s, struct rt_error *err)
{
    const enum rt_log_level level = s->verbose   ? RT_LOG_DEBUG
                                    : s->info    ? RT_LOG_INFO
                                    : s->warning ? RT_LOG_WARNING
                                                 : RT_LOG_ERROR;

    if (!s->error)
        return rt_fail(err, RT_UNIMPLEMENTED, "errors are always logged: log_error is always true");
    if ((s->verbose && !s->info) || (s->info && !s->warning))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the log has one level: log_verbose_level above 0 needs log_info, and "
                       "log_info needs log_warning");
    if (s->verbose)
        atomic_store(&verbose_level, (uint32_t)s->verbose);
    if ((int)level != atomic_exchange(&rt_log_level, (int)level))
        rt_log_write(RT_LOG_INFO, "the level of the log is %s by request",
                     rt_log_level_name(level));
    return RT_OK;
}

/* ---- JSON ---- */

static void write_json(struct rt_bytes *out)
{
    const struct settings s = current();

    rt_bytes_addf(out,
                  "{\"log_file\":\"%s\",\"log_info\":%s,\"log_warning\":%s,\"log_error\":%s,"
                  "\"log_verbose_level\":%u,\"log_format\":\"%s\"}",
                  FILE_NAME, s.info ? "true" : "false", s.warning ? "true" : "false",
                  s.error ? "true" : "false", (unsigned)s.verbose, FORMAT);
}

static enum rt_status find_log(struct srv_description *d)
{
    (void)d;
    return RT_OK;
}

static void write_log_json(const struct srv_description *d, struct rt_bytes *out)
{
    (void)d;
    write_json(out);
}

static enum rt_status read_value(const struct srv_action *a, struct srv_json v, struct value *out)
{
    struct srv_number x = {.kind = SRV_NUMBER_NONE};

    *out = (struct value){.kind = NO_VALUE};
    switch (srv_json_type(v)) {
    case SRV_JSON_TRUE:
    case SRV_JSON_FALSE:
        out->kind = A_BOOL;
        out->number = srv_json_type(v) == SRV_JSON_TRUE;
        break;
    case SRV_JSON_NUMBER:
        srv_number_read(v.p, v.end, &x);
        if (x.kind == SRV_NUMBER_INT && x.i >= 0) {
            out->kind = A_NUMBER;
            out->number = (uint64_t)x.i;
        }
        break;
    case SRV_JSON_STRING:
        out->kind = A_TEXT;
        return srv_oip_json_text(v, "a setting", a->arena, &out->text, a->err);
    default:
        break;
    }
    return RT_OK;
}

static enum rt_status set_from_json(struct srv_action *a)
{
    struct settings s = current();
    struct srv_json_doc doc;
    struct rt_span body, key;
    struct srv_json v;
    struct value value;
    enum rt_status st = srv_cursor_span(a->message, &body, a->arena, a->err);

    if (!st)
        st = srv_json_check(&doc, body, NULL, a->err);
    if (st)
        return st;
    const unsigned char *at = srv_json_first(doc.top);
    while (!st && srv_json_member(&at, doc.top, &key, &v)) {
        st = read_value(a, v, &value);
        if (!st)
            st = set(&s, rt_span_of(key.p + 1, key.n - 2), &value, a->err);
    }
    return st ? st : apply(&s, a->err);
}

static void set_json(struct srv_action *a)
{
    const enum rt_status st = set_from_json(a);

    if (!st)
        write_json(a->out);
    a->done(a, st);
}

/* ---- messages ---- */

/* Reads a SettingValue. */
static enum rt_status read_setting_value(const struct srv_action *a, struct srv_cursor at,
                                         struct value *out)
{
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_VARINT))
            *out = (struct value){.kind = A_BOOL, .number = f.value != 0};
        else if (srv_field_is(&f, 2, SRV_VARINT))
            *out = (struct value){.kind = A_NUMBER, .number = f.value};
        else if (srv_field_is(&f, 3, SRV_BYTES)) {
            out->kind = A_TEXT;
            st = srv_field_span(&f, &out->text, a->arena, a->err);
        }
    }
    return got < 0 ? srv_wire_malformed(a->err, "SettingValue") : st;
}

/* Reads an entry of the map of settings. */
static enum rt_status set_entry(const struct srv_action *a, struct srv_cursor at,
                                struct settings *s)
{
    struct rt_span name = {0};
    struct value value = {.kind = NO_VALUE};
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_field_span(&f, &name, a->arena, a->err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = read_setting_value(a, f.body, &value);
    }
    if (!st && got < 0)
        st = srv_wire_malformed(a->err, "LogSettingsRequest");
    return st ? st : set(s, name, &value, a->err);
}

/* Reads a LogSettingsRequest. Sets *changes if the request contains settings. */
static enum rt_status read_settings(struct srv_action *a, struct settings *s, bool *changes)
{
    struct srv_cursor at = a->message;
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (!srv_field_is(&f, 1, SRV_BYTES))
            continue;
        if (!*changes)
            st = a->check(a, true);
        *changes = true;
        if (!st)
            st = set_entry(a, f.body, s);
    }
    return got < 0 ? srv_wire_malformed(a->err, "LogSettingsRequest") : st;
}

/* Appends an entry of the map of settings. `number` is the number of the field that contains the
 * value. */
static void put_setting(struct rt_bytes *out, const char *name, uint32_t number, uint64_t v,
                        const char *text)
{
    unsigned char varint[16];
    struct rt_bytes item, value;

    rt_bytes_init(&item, out->limit);
    rt_bytes_init(&value, out->limit);
    if (text) {
        srv_put_head(&value, number, strlen(text));
        rt_bytes_adds(&value, text);
    } else { /* a member of a oneof is written even if it is 0 */
        const unsigned char *end = srv_write_varint(srv_write_tag(varint, number, SRV_VARINT), v);
        rt_bytes_add(&value, varint, (size_t)(end - varint));
    }
    srv_put_text(&item, 1, name);
    srv_put_message(&item, 2, &value);
    srv_put_message(out, 1, &item);
    rt_bytes_clear(&item);
    rt_bytes_clear(&value);
}

static void log_settings(struct srv_action *a)
{
    struct settings s = current();
    bool changes = false;
    enum rt_status st = read_settings(a, &s, &changes);

    if (!st && changes)
        st = apply(&s, a->err);
    if (!st) {
        s = current();
        put_setting(a->out, "log_file", 3, 0, FILE_NAME);
        put_setting(a->out, "log_info", 1, s.info, NULL);
        put_setting(a->out, "log_warning", 1, s.warning, NULL);
        put_setting(a->out, "log_error", 1, s.error, NULL);
        put_setting(a->out, "log_verbose_level", 2, s.verbose, NULL);
        put_setting(a->out, "log_format", 3, 0, FORMAT);
    }
    a->done(a, st);
}

const struct srv_description_steps srv_oip_log_json = {find_log, write_log_json, NULL};
const struct srv_action_steps srv_oip_set_log_json = {.perform = set_json, .is_admin = true},
                              srv_oip_log = {.perform = log_settings};
