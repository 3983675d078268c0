#include "server/grpc/grpc_tls.h"

#include <grpc/support/time.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/unpack.h"
#include "server/base/pem.h"
#include "server/config/settings.h"
#include "server/config/text_file.h"
#include "tensorflow_serving/config/ssl_config.pb-c.h"

typedef Tensorflow__Serving__SSLConfig ssl_config;

static enum rt_status check(const struct srv_options *o, const ssl_config *c, struct rt_error *err)
{
    const char *path = o->ssl_config_file;
    const struct {
        const char *field, *pem, *what;
    } parts[] = {{"server_key", c->server_key, "PRIVATE KEY"},
                 {"server_cert", c->server_cert, "CERTIFICATE"},
                 {"custom_ca", c->custom_ca, "CERTIFICATE"}};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        bool optional = i == 2;
        if (optional && !*parts[i].pem)
            continue;
        if (!*parts[i].pem)
            return rt_fail(err, RT_INVALID_ARGUMENT, "--ssl_config_file=%s: %s is missing", path,
                           parts[i].field);
        char name[1024];
        snprintf(name, sizeof name, "--ssl_config_file=%s: %s", path, parts[i].field);
        enum rt_status st = srv_pem_check(parts[i].pem, parts[i].what, name, err);
        if (st)
            return st;
    }
    if (c->client_verify && !*c->custom_ca)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--ssl_config_file=%s: client_verify needs custom_ca, by which clients are "
                       "verified",
                       path);
    return srv_settings_check_quota_tls(o, c->client_verify, err);
}

/*
 * Returns whether the core accepts the key and the certificates. The core checks them only when it
 * begins to listen. This function therefore listens briefly on an abstract UNIX socket, which needs
 * no path in the file system.
 */
static bool core_takes(grpc_server_credentials *credentials)
{
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
    grpc_server *probe = grpc_server_create(NULL, NULL);
    const gpr_timespec never = gpr_inf_future(GPR_CLOCK_REALTIME);
    char name[64];

    snprintf(name, sizeof name, "unix-abstract:slipway-trial-%ld", (long)getpid());
    grpc_server_register_completion_queue(probe, cq, NULL);
    const bool takes = grpc_server_add_http2_port(probe, name, credentials) > 0;
    grpc_server_shutdown_and_notify(probe, cq, NULL);
    grpc_completion_queue_next(cq, never, NULL);
    grpc_server_destroy(probe);
    grpc_completion_queue_shutdown(cq);
    while (grpc_completion_queue_next(cq, never, NULL).type != GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(cq);
    return takes;
}

static enum rt_status from_file(const struct srv_options *o, grpc_server_credentials **out,
                                struct rt_error *err)
{
    const char *path = o->ssl_config_file;
    ProtobufCMessage *message = NULL;
    enum rt_status st = srv_text_file_read(&message, &tensorflow__serving__sslconfig__descriptor, o,
                                           "ssl_config_file", path, err);

    if (!st)
        st = check(o, (const ssl_config *)message, err);
    if (!st) {
        const ssl_config *c = (const ssl_config *)message;
        grpc_ssl_pem_key_cert_pair pair = {c->server_key, c->server_cert};
        *out = grpc_ssl_server_credentials_create_ex(
            *c->custom_ca ? c->custom_ca : NULL, &pair, 1,
            c->client_verify ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            NULL);
        if (!*out || !core_takes(*out))
            st = rt_fail(err, RT_INVALID_ARGUMENT,
                         "--ssl_config_file=%s: the key and the certificates are not whole, or do "
                         "not belong together",
                         path);
    }
    pb_free(message);
    return st;
}

static enum rt_status from_alts(grpc_server_credentials **out, struct rt_error *err)
{
    grpc_alts_credentials_options *options = grpc_alts_credentials_server_options_create();

    *out = options ? grpc_alts_server_credentials_create(options) : NULL;
    if (options)
        grpc_alts_credentials_options_destroy(options);
    if (*out)
        return RT_OK;
    return rt_fail(err, RT_FAILED_PRECONDITION,
                   "--use_alts_credentials: ALTS is there on Google Cloud only, and this machine "
                   "does not look like one of it");
}

bool srv_grpc_is_secure(const struct srv_options *o)
{
    return *o->ssl_config_file || o->use_alts_credentials;
}

enum rt_status srv_grpc_credentials(const struct srv_options *o, grpc_server_credentials **out,
                                    struct rt_error *err)
{
    if (*o->ssl_config_file && o->use_alts_credentials)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--ssl_config_file and --use_alts_credentials exclude each other");
    if (*o->ssl_config_file)
        return from_file(o, out, err);
    if (o->use_alts_credentials)
        return from_alts(out, err);
    *out = grpc_insecure_server_credentials_create();
    return *out ? RT_OK : rt_fail(err, RT_INTERNAL, "gRPC's core makes no credentials");
}
