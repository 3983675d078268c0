#include "server/http/rest_tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/file.h"
#include "server/base/pem.h"

enum {
    MAX_FILE = 1 << 20,
    /* Limits on the key of a client certificate. Within these limits, verifying a signature takes
     * one millisecond. With a 16,384-bit key and an equally long public exponent, it would take
     * 0.35 s. */
    MAX_KEY_BITS = 8192,
    MAX_EXPONENT_BYTES = 8, /* the same as OpenSSL's limit for large keys */
};

/* Reads a PEM file into *out, followed by a NUL. Fails if the file contains no PEM block of the
 * kind `what`. If `path` is empty, leaves *out unchanged. */
static enum rt_status read_file(const char *flag, const char *path, const char *what, char **out,
                                struct rt_error *err)
{
    if (!*path)
        return RT_OK;
    size_t n;
    char name[1024];
    struct rt_error why = {0};
    enum rt_status st = rt_file_read(path, MAX_FILE, out, &n, &why);
    if (st)
        return rt_fail(err, st, "--%s: %s", flag, why.msg);
    snprintf(name, sizeof name, "--%s=%s", flag, path);
    return srv_pem_check(*out, what, name, err);
}

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

/* Checks that GnuTLS accepts the certificates and the key. All daemons load them later. */
static enum rt_status try_out(const struct srv_rest_tls *tls, const struct srv_options *o,
                              struct rt_error *err)
{
    gnutls_certificate_credentials_t all;
    enum rt_status st = RT_OK;
    if (gnutls_certificate_allocate_credentials(&all) < 0)
        return rt_fail_memory(err, "TLS", 0);
    gnutls_datum_t cert = datum(tls->cert), key = datum(tls->key);
    int e = gnutls_certificate_set_x509_key_mem(all, &cert, &key, GNUTLS_X509_FMT_PEM);
    if (e < 0)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "--rest_tls_cert_file=%s and --rest_tls_key_file=%s are not a certificate and "
                     "its key in PEM: %s",
                     o->rest_tls_cert_file, o->rest_tls_key_file, gnutls_strerror(e));
    if (!st && tls->client_ca) {
        gnutls_datum_t ca = datum(tls->client_ca);
        e = gnutls_certificate_set_x509_trust_mem(all, &ca, GNUTLS_X509_FMT_PEM);
        if (e <= 0)
            st = rt_fail(err, RT_INVALID_ARGUMENT,
                         "--rest_tls_client_ca_file=%s holds no certificate in PEM: %s",
                         o->rest_tls_client_ca_file, gnutls_strerror(e));
    }
    gnutls_certificate_free_credentials(all);
    return st;
}

enum rt_status srv_rest_tls_read(struct srv_rest_tls *out, const struct srv_options *o,
                                 struct rt_error *err)
{
    *out = (struct srv_rest_tls){NULL, NULL, NULL};
    if (!*o->rest_tls_cert_file && !*o->rest_tls_key_file && !*o->rest_tls_client_ca_file)
        return RT_OK;
    if (!*o->rest_tls_cert_file || !*o->rest_tls_key_file)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "TLS for REST needs both --rest_tls_cert_file and --rest_tls_key_file");
    enum rt_status st =
        read_file("rest_tls_cert_file", o->rest_tls_cert_file, "CERTIFICATE", &out->cert, err);
    if (!st)
        st = read_file("rest_tls_key_file", o->rest_tls_key_file, "PRIVATE KEY", &out->key, err);
    if (!st)
        st = read_file("rest_tls_client_ca_file", o->rest_tls_client_ca_file, "CERTIFICATE",
                       &out->client_ca, err);
    return st ? st : try_out(out, o, err);
}

void srv_rest_tls_clear(struct srv_rest_tls *tls)
{
    if (tls->key)
        explicit_bzero(tls->key, strlen(tls->key));
    free(tls->cert);
    free(tls->key);
    free(tls->client_ca);
    *tls = (struct srv_rest_tls){NULL, NULL, NULL};
}

/* Returns whether `key` is an RSA key whose public exponent is longer than MAX_EXPONENT_BYTES. */
static bool has_long_exponent(gnutls_pubkey_t key)
{
    gnutls_datum_t modulus = {NULL, 0}, exponent = {NULL, 0};

    if (gnutls_pubkey_export_rsa_raw2(key, &modulus, &exponent, GNUTLS_EXPORT_FLAG_NO_LZ) < 0)
        return false;
    bool is_long = exponent.size > MAX_EXPONENT_BYTES;
    gnutls_free(modulus.data);
    gnutls_free(exponent.data);
    return is_long;
}

/* Checks that the public key in a certificate is within the limits above. Returns 0 or a GnuTLS
 * error code. */
static int check_key(gnutls_x509_crt_t cert, const gnutls_datum_t *der)
{
    gnutls_pubkey_t key = NULL;
    unsigned bits = 0;

    int e = gnutls_x509_crt_import(cert, der, GNUTLS_X509_FMT_DER);
    if (!e)
        e = gnutls_pubkey_init(&key);
    if (!e)
        e = gnutls_pubkey_import_x509(key, cert, 0);
    if (!e && gnutls_pubkey_get_pk_algorithm(key, &bits) < 0)
        e = GNUTLS_E_UNSUPPORTED_CERTIFICATE_TYPE;
    if (!e && (bits > MAX_KEY_BITS || has_long_exponent(key)))
        e = GNUTLS_E_CONSTRAINT_ERROR;
    if (key)
        gnutls_pubkey_deinit(key);
    return e;
}

/* Checks the key in the client's certificate before GnuTLS verifies a signature with this key. In
 * TLS 1.3, GnuTLS verifies the signature before the certificate, when it is still unknown whether a
 * CA has signed the certificate. */
static int before_signature(gnutls_session_t session, unsigned type, unsigned when, unsigned is_in,
                            const gnutls_datum_t *message)
{
    gnutls_x509_crt_t cert;
    unsigned n = 0;
    const gnutls_datum_t *der = gnutls_certificate_get_peers(session, &n);

    (void)type, (void)when, (void)message;
    if (!is_in || !der || !n)
        return 0;
    int e = gnutls_x509_crt_init(&cert);
    if (e < 0)
        return e;
    e = check_key(cert, der);
    gnutls_x509_crt_deinit(cert);
    return e;
}

void srv_rest_tls_request_client_cert(void *session)
{
    gnutls_session_t s = session;
    gnutls_certificate_server_set_request(s, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_cert(s, NULL, 0);
    gnutls_handshake_set_hook_function(s, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY, GNUTLS_HOOK_PRE,
                                       before_signature);
}
