#include "server/protocol/admin.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/log.h"
#include "runtime/files/file.h"
#include "server/versions/model_root.h"

enum { MAX_TOKEN = 4096 };

/* Reads the token from a file and strips white space around it. An empty token is an error. */
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

/* Compares two tokens. The comparison takes the same time wherever the tokens differ. */
static bool same_token(struct rt_span a, struct rt_span b)
{
    unsigned differ = a.n != b.n;

    for (size_t i = 0; i < a.n; i++)
        differ |= (unsigned)(a.p[i] ^ b.p[b.n ? i % b.n : 0]);
    return !differ;
}

static enum rt_status check_token(const char *path, const struct srv_admin_request *r,
                                  struct rt_error *err)
{
    static const char scheme[] = "bearer ";
    const size_t skip = sizeof scheme - 1;
    const struct rt_span sent = r->authorization;
    struct rt_span token;
    char buffer[MAX_TOKEN + 1];
    /* The token file is read for each call, so that the token can be changed while the server
     * runs. */
    enum rt_status st = read_token(path, buffer, &token, err);

    if (st)
        return st;
    if (!sent.p)
        return rt_fail(err, RT_UNAUTHENTICATED,
                       "%s wants the %s \"authorization: Bearer TOKEN\", with the token of "
                       "--admin_token_file",
                       r->what, r->place);
    if (sent.n < skip || strncasecmp((const char *)sent.p, scheme, skip) != 0 ||
        !same_token(token, rt_span_of(sent.p + skip, sent.n - skip)))
        return rt_fail(err, RT_UNAUTHENTICATED,
                       "%s: the token of %s \"authorization\" is not the one of "
                       "--admin_token_file",
                       r->what, r->place);
    return RT_OK;
}

bool srv_admin_has_address(const struct srv_options *o)
{
    return *o->admin_address || *o->admin_socket;
}

enum rt_status srv_admin_check(const struct srv_options *o, const struct srv_admin_request *r,
                               struct rt_error *err)
{
    if (!r->is_at_admin_address && srv_admin_has_address(o))
        return rt_fail(err, RT_PERMISSION_DENIED,
                       "%s is not served here, only at --admin_address and --admin_socket",
                       r->what);
    if (*o->admin_token_file)
        return check_token(o->admin_token_file, r, err);
    if (r->is_from_page)
        return rt_fail(err, RT_PERMISSION_DENIED,
                       "%s is not for web pages: the request has an Origin, and there is no "
                       "--admin_token_file",
                       r->what);
    return RT_OK;
}

enum rt_status srv_admin_check_files(const struct srv_options *o, struct rt_error *err)
{
    char buffer[MAX_TOKEN + 1];
    struct rt_span token;
    const enum rt_status st = srv_model_root_exists(o->model_root, err);

    if (st || !*o->admin_token_file)
        return st;
    return read_token(o->admin_token_file, buffer, &token, err);
}

void srv_admin_warn(const struct srv_options *o)
{
    if (!srv_admin_has_address(o) && !*o->admin_token_file)
        RT_LOG(RT_LOG_WARNING, "whoever reaches the gRPC port or the REST port may change which "
                               "models are served (HandleReloadConfigRequest, load and unload): "
                               "see --admin_address, --admin_socket, --admin_token_file and "
                               "--model_root");
}
