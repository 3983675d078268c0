#include "clients/cli/remote.h"

#include <errno.h>
#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/message.h"
#include "clients/cli/compare.h"
#include "clients/cli/file.h"
#include "clients/cli/rest.h"
#include "runtime/base/print.h"

enum { MAX_RESPONSE = INT32_MAX };

#define AT(field) offsetof(struct cl_target, field)
const struct cl_flag cl_target_flags[] = {
    {"--server", CL_TEXT, AT(server), "URL",
     "grpc://HOST:PORT, grpcs:// (port 8500), http://, https:// (8501), unix:PATH (gRPC)", 0},
    {"--timeout", CL_REAL, AT(timeout_s), "S", "seconds for a call (30; reload: 600); 0: no limit",
     0},
    {"--ca", CL_TEXT, AT(ca), "FILE", "PEM: whom to trust instead of the system's list", 0},
    {"--cert", CL_TEXT, AT(cert), "FILE", "PEM: our own certificate", 0},
    {"--key", CL_TEXT, AT(key), "FILE", "PEM: its key", 0},
    {"--server_name", CL_TEXT, AT(server_name), "NAME", "in the server's certificate", 0},
    {"--token_file", CL_TEXT, AT(token_file), "FILE", "whose line is sent as a bearer token", 0},
};
#undef AT

#define AT(field) offsetof(struct cl_version_flags, field)
const struct cl_flag cl_version_flags[] = {
    {"--model_version", CL_TEXT, AT(version), "N", "instead of the newest", 0},
    {"--label", CL_TEXT, AT(label), "LABEL", "the version of that label", 0},
    {"--signature", CL_TEXT, AT(signature), "NAME", "instead of serving_default", 0},
};
#undef AT

/* ---- errors ---- */

void cl_print_line(FILE *out, const char *text)
{
    while (*text) {
        const size_t n = strcspn(text, "\n\t"), blank = strspn(text + n, "\n\t ");
        rt_print(out, "%.*s%s", (int)n, text, blank && text[n + blank] ? " " : "");
        text += n + blank;
    }
    putc('\n', out);
}

int cl_failed(const char *command, const struct rt_error *err)
{
    rt_print(stderr, "slipway %s: %s: ", command, rt_status_name(err->code));
    cl_print_line(stderr, rt_error_text(err));
    return CL_EXIT_FAILED;
}

int cl_refused(const char *command, const struct rt_error *err)
{
    const int failed = cl_failed(command, err);
    return err->code == RT_INVALID_ARGUMENT ? CL_EXIT_USAGE : failed;
}

enum rt_status cl_of_slipway(const struct slipway_error *e, struct rt_error *err)
{
    static const char *const signs[] = {"Socket closed", "wrong version number", "http1.x"};
    bool is_other = false;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        is_other |= e->code == SLIPWAY_UNAVAILABLE && strstr(e->text, signs[i]);
    return rt_fail(err, (enum rt_status)e->code, "%s%s", e->text,
                   is_other ? " (is TLS or REST spoken at this port?)" : "");
}

/* Drops gRPC's log messages, because a failed call reports its error anyway. */
static void ignore_grpc_log(gpr_log_func_args *args)
{
    (void)args;
}

/* ---- opening ---- */

/* contents of the files of --ca, --cert, --key and --token_file */
struct identity {
    const char *ca, *cert, *key, *token;
};

static enum rt_status read_identity(const struct cl_target *t, struct rt_arena *arena,
                                    struct identity *id, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    *id = (struct identity){0};
    if (t->ca)
        st = cl_read_text(t->ca, arena, &id->ca, err);
    if (!st && t->cert)
        st = cl_read_text(t->cert, arena, &id->cert, err);
    if (!st && t->key)
        st = cl_read_text(t->key, arena, &id->key, err);
    if (!st && t->token_file && !(st = cl_read_text(t->token_file, arena, &id->token, err)))
        id->token = rt_arena_strndup(arena, id->token, strcspn(id->token, "\r\n"));
    if (!st && !id->cert != !id->key)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--cert and --key are given together");
    return st;
}

static enum rt_status open_grpc(struct cl_remote *r, const struct cl_target *t,
                                const struct identity *id, const char *address, bool tls,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct slipway_error why;
    size_t n = strlen(address);
    if (n && (!strchr(address, ':') || address[n - 1] == ']'))
        address = rt_arena_printf(arena, "%s:8500", address);
    if (!address)
        return rt_fail_memory(err, "an address", n);
    const struct slipway_options o = {.address = address,
                                      .tls = tls,
                                      .ca = id->ca,
                                      .cert = id->cert,
                                      .key = id->key,
                                      .server_name = t->server_name,
                                      .token = id->token,
                                      .own_connection = true};
    r->grpc = slipway_client_new(&o, &why);
    return r->grpc ? RT_OK : cl_of_slipway(&why, err);
}

static enum rt_status open_rest(struct cl_remote *r, const struct cl_target *t,
                                const struct identity *id, const char *address, bool tls,
                                struct rt_arena *arena, struct rt_error *err)
{
    size_t n = strcspn(address, "/");
    if (address[n] && address[n + 1])
        return rt_fail(err, RT_INVALID_ARGUMENT, "--server %s: a path is not wanted", t->server);
    char *host = rt_arena_strndup(arena, address, n);
    if (!host)
        return rt_fail_memory(err, "an address", n);
    char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    const char *port = "8501";
    if (colon && (!bracket || colon > bracket)) {
        *colon = '\0';
        port = colon + 1;
    }
    if (*host == '[' && bracket) {
        *bracket = '\0';
        host++;
    }
    if (!*host || !*port)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--server %s: HOST:PORT is wanted", t->server);
    const struct cl_http_options o = {.host = host,
                                      .port = port,
                                      .tls = tls,
                                      .ca = id->ca,
                                      .cert = id->cert,
                                      .key = id->key,
                                      .server_name = t->server_name,
                                      .token = id->token,
                                      .max_body = MAX_RESPONSE};
    r->rest = cl_http_new(&o, err);
    return r->rest ? RT_OK : err->code;
}

enum rt_status cl_remote_open(struct cl_remote *r, const struct cl_target *t,
                              struct rt_arena *arena, struct rt_error *err)
{
    static const struct {
        const char *scheme;
        bool is_rest, tls;
    } schemes[] = {{"grpc://", false, false},
                   {"grpcs://", false, true},
                   {"http://", true, false},
                   {"https://", true, true}};
    struct identity id;
    gpr_set_log_function(ignore_grpc_log);
    *r =
        (struct cl_remote){.timeout_ms = (int64_t)(t->timeout_s * 1000), .max_bytes = MAX_RESPONSE};
    enum rt_status st = read_identity(t, arena, &id, err);
    if (st)
        return st;
    const char *address = t->server;
    bool is_rest = false, tls = false;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i].scheme);
        if (strncmp(t->server, schemes[i].scheme, n) != 0)
            continue;
        address += n;
        is_rest = schemes[i].is_rest;
        tls = schemes[i].tls;
    }
    if (address == t->server && strstr(address, "://"))
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "--server %s: none of grpc://, grpcs://, http://, https://, unix:", t->server);
    if (!tls && (id.ca || id.cert))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--server %s: certificates need grpcs:// or https://", t->server);
    return is_rest ? open_rest(r, t, &id, address, tls, arena, err)
                   : open_grpc(r, t, &id, address, tls, arena, err);
}

void cl_remote_close(struct cl_remote *r)
{
    slipway_client_free(r->grpc);
    cl_http_free(r->rest);
    r->grpc = NULL;
    r->rest = NULL;
}

enum rt_status cl_model_of(struct slipway_model *m, const char *name,
                           const struct cl_version_flags *f, struct rt_error *err)
{
    *m = (struct slipway_model){.name = name, .label = f->label, .signature = f->signature};
    if (!f->version)
        return RT_OK;
    if (f->label)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--model_version %s and --label %s: only one of them says the version",
                       f->version, f->label);
    char *end;
    errno = 0;
    m->has_version = true;
    m->version = strtoll(f->version, &end, 10);
    if (!*f->version || *end || errno)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--model_version %s is no number", f->version);
    return RT_OK;
}

/* ---- gRPC ---- */

static enum rt_status query(struct cl_remote *r, const char *method, struct rt_bytes *request,
                            unsigned char **response, size_t *n, struct rt_error *err)
{
    struct slipway_error why;
    const struct slipway_call call = {.timeout_ms = r->timeout_ms};
    enum rt_status st = request->failed ? rt_fail_memory(err, "a request", 0) : RT_OK;
    if (!st && slipway_unary(r->grpc, method, request->p, request->n, &call, response, n, &why))
        st = cl_of_slipway(&why, err);
    rt_bytes_clear(request);
    return st;
}

enum rt_status cl_shoot(struct cl_remote *r, const struct cl_shot *shot, struct rt_bytes *response,
                        struct rt_error *err)
{
    struct slipway_error why;
    unsigned char *bytes;
    size_t n;
    if (r->rest)
        return cl_rest(r, "POST", shot->path, shot->request, response, err);
    const struct slipway_call call = {.timeout_ms = r->timeout_ms};
    rt_bytes_clear(response);
    if (slipway_unary(r->grpc, cl_log_method(shot->type), shot->request.p, shot->request.n, &call,
                      &bytes, &n, &why))
        return cl_of_slipway(&why, err);
    response->p = (char *)bytes; /* `bytes` has a NUL after its last byte, as rt_bytes requires */
    response->n = n;
    response->capacity = n + 1;
    return RT_OK;
}

enum rt_status cl_remote_status(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_status *out,
                                struct rt_error *err)
{
    struct rt_bytes request;
    unsigned char *response;
    size_t n;
    if (r->rest)
        return cl_rest_status(r, m, arena, out, err);
    rt_bytes_init(&request, MAX_RESPONSE);
    cl_write_status_request(&request, m);
    enum rt_status st =
        query(r, "/tensorflow.serving.ModelService/GetModelStatus", &request, &response, &n, err);
    if (st)
        return st;
    st = cl_read_status(rt_span_of(response, n), arena, out, err);
    free(response);
    return st;
}

enum rt_status cl_remote_metadata(struct cl_remote *r, const struct slipway_model *m,
                                  struct rt_arena *arena, struct slipway_metadata *out,
                                  struct rt_error *err)
{
    struct rt_bytes request;
    unsigned char *response;
    size_t n;
    if (r->rest)
        return cl_rest_metadata(r, m, arena, out, err);
    rt_bytes_init(&request, MAX_RESPONSE);
    cl_write_metadata_request(&request, m);
    enum rt_status st = query(r, "/tensorflow.serving.PredictionService/GetModelMetadata", &request,
                              &response, &n, err);
    if (st)
        return st;
    st = cl_read_metadata(rt_span_of(response, n), arena, out, err);
    free(response);
    return st;
}

enum rt_status cl_remote_signature(struct cl_remote *r, const struct slipway_model *m,
                                   struct rt_arena *arena, const struct slipway_signature **out,
                                   struct rt_error *err)
{
    struct slipway_metadata all;
    struct slipway_model plain = *m;
    plain.signature = NULL;
    enum rt_status st = cl_remote_metadata(r, &plain, arena, &all, err);
    const char *wanted = m->signature ? m->signature : "serving_default";
    for (int i = 0; !st && i < all.n_signatures; i++)
        if (strcmp(all.signatures[i].name, wanted) == 0) {
            *out = &all.signatures[i];
            return RT_OK;
        }
    return st ? st
              : rt_fail(err, RT_NOT_FOUND, "model \"%s\" has no signature \"%s\"", m->name, wanted);
}

enum rt_status cl_remote_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                                int *n, struct rt_error *err)
{
    if (r->rest)
        return cl_rest_models(r, arena, out, n, err);
    *n = 0;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "gRPC has no list of models: name one, or give --server http://HOST:PORT");
}
