/* Checks whether a call may perform admin actions (--admin_address, --admin_socket,
 * --admin_token_file). */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/files/file.h"
#include "server/grpc/grpc_internal.h"
#include "server/versions/model_root.h"

enum { MAX_TOKEN = 4096 };

/* Reads the token from a file, without surrounding white space. An empty token is an error. */
static enum rt_status read_token(const char *path, char *buffer, struct rt_span *token,
                                 struct rt_error *err)
{
    static const char blanks[] = " \t\r\n";
    struct rt_error why = {0};
    char *text = NULL;
    size_t n = 0;

    if (rt_file_read(path, MAX_TOKEN, &text, &n, &why))
        return rt_fail(err, RT_FAILED_PRECONDITION, "--admin_token_file: %s", why.msg);
    memcpy(buffer, text, n);
    explicit_bzero(text, n);
    free(text);
    while (n && memchr(blanks, buffer[n - 1], sizeof blanks - 1))
        n--;
    while (n && memchr(blanks, *buffer, sizeof blanks - 1)) {
        buffer++;
        n--;
    }
    if (!n)
        return rt_fail(err, RT_FAILED_PRECONDITION, "--admin_token_file=%s is empty", path);
    *token = rt_span_of(buffer, (size_t)n);
    return RT_OK;
}

/* Compares two tokens in a time that does not depend on the position of the first difference. */
static bool same_token(struct rt_span a, struct rt_span b)
{
    unsigned differ = a.n != b.n;

    for (size_t i = 0; i < a.n; i++)
        differ |= (unsigned)(a.p[i] ^ b.p[b.n ? i % b.n : 0]);
    return !differ;
}

static enum rt_status check_token(struct srv_call *c, struct rt_error *err)
{
    static const char scheme[] = "bearer ";
    const size_t skip = sizeof scheme - 1;
    struct rt_span sent = srv_call_metadata(c, "authorization"), token;
    char buffer[MAX_TOKEN + 1];
    /* Each call reads the token file, so that the token can be changed while the server runs. */
    enum rt_status st = read_token(c->server->options.admin_token_file, buffer, &token, err);

    if (st)
        return st;
    if (!sent.p)
        return rt_fail(err, RT_UNAUTHENTICATED,
                       "%s wants the metadata \"authorization: Bearer TOKEN\", with the token of "
                       "--admin_token_file",
                       c->method->path);
    if (sent.n < skip || strncasecmp((const char *)sent.p, scheme, skip) != 0 ||
        !same_token(token, rt_span_of(sent.p + skip, sent.n - skip)))
        return rt_fail(err, RT_UNAUTHENTICATED,
                       "%s: the token of metadata \"authorization\" is not the one of "
                       "--admin_token_file",
                       c->method->path);
    return RT_OK;
}

enum rt_status srv_grpc_check_admin(struct srv_call *c)
{
    const struct srv_options *o = &c->server->options;

    if (!c->port->is_admin && srv_grpc_has_admin(o))
        return rt_fail(&c->err, RT_PERMISSION_DENIED,
                       "%s is not served here, only at --admin_address and --admin_socket",
                       c->method->path);
    return *o->admin_token_file ? check_token(c, &c->err) : RT_OK;
}

bool srv_grpc_has_admin(const struct srv_options *o)
{
    return *o->admin_address || *o->admin_socket;
}

enum rt_status srv_grpc_check_admin_files(const struct srv_options *o, struct rt_error *err)
{
    char buffer[MAX_TOKEN + 1];
    struct rt_span token;
    enum rt_status st = srv_model_root_exists(o->model_root, err);

    if (!st && *o->admin_token_file)
        st = read_token(o->admin_token_file, buffer, &token, err);
    return st;
}

enum rt_status srv_grpc_start_admin(const struct srv_options *o, struct rt_error *err)
{
    enum rt_status st = srv_grpc_check_admin_files(o, err);

    if (!st && !srv_grpc_has_admin(o) && !*o->admin_token_file)
        RT_LOG(RT_LOG_WARNING, "whoever reaches the gRPC port may change which models are served "
                               "(HandleReloadConfigRequest): see --admin_address, --admin_socket, "
                               "--admin_token_file and --model_root");
    return st;
}
