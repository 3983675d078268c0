/* Tests that text without a valid certificate or key is refused. The error must state what the
 * text contains instead. */
#include "tests/support/test.h"

#include "server/base/pem.h"

#define CERTIFICATE "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
#define KEY         "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n"

static void is_refused(const char *text, const char *what, const char *words)
{
    struct rt_error err = {0};
    assert_fails(srv_pem_check(text, what, "--flag=file", &err), RT_INVALID_ARGUMENT, &err, words);
    assert_non_null(strstr(rt_error_text(&err), "--flag=file"));
}

static void a_block_is_found_wherever_it_stands(void **state)
{
    (void)state;
    struct rt_error err = {0};
    assert_ok(srv_pem_check("text\n" KEY, "PRIVATE KEY", "", &err), &err);
    assert_ok(srv_pem_check(KEY CERTIFICATE, "CERTIFICATE", "", &err), &err);
    assert_ok(srv_pem_check("-----BEGIN X-----\n-----BEGIN\n" CERTIFICATE, "CERTIFICATE", "", &err),
              &err);
}

static void the_error_says_what_is_there_instead(void **state)
{
    (void)state;
    is_refused(CERTIFICATE, "PRIVATE KEY",
               "is not the contents of a PEM file with a PRIVATE KEY: it holds a CERTIFICATE");
    is_refused(KEY, "CERTIFICATE", "a CERTIFICATE: it holds a RSA PRIVATE KEY");
    is_refused("/etc/ssl/key.pem", "PRIVATE KEY", "it has no line \"-----BEGIN PRIVATE KEY-----\"");
    is_refused("", "CERTIFICATE", "it has no line");
    is_refused("-----BEGIN CERTIFICATE", "CERTIFICATE", "it has no line");
    is_refused("-----BEGIN PRIVATE KEY-----\nabc", "PRIVATE KEY", "its PRIVATE KEY has no end");
}

static void a_key_with_a_passphrase_is_named(void **state)
{
    (void)state;
    is_refused("-----BEGIN ENCRYPTED PRIVATE KEY-----\nabc\n-----END ENCRYPTED PRIVATE KEY-----\n",
               "PRIVATE KEY", "has a passphrase");
    is_refused("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nabc\n"
               "-----END RSA PRIVATE KEY-----\n",
               "PRIVATE KEY", "has a passphrase");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_found_wherever_it_stands),
        cmocka_unit_test(the_error_says_what_is_there_instead),
        cmocka_unit_test(a_key_with_a_passphrase_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
