/* Tests the quotas of clients. */
#include "server/base/quota.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

#define S INT64_C(1000000000)

static struct srv_quota *quota(double requests, double bytes, int64_t n_clients)
{
    const struct srv_quota_limits limits = {requests, bytes, n_clients, "x-client"};
    struct srv_quota *q = srv_quota_new(&limits);
    assert_non_null(q);
    return q;
}

static const char *flag; /* the flag with the limit, after a refusal */

/* Returns 0 if the request is accepted, and otherwise the seconds until the next one. */
static int64_t take(struct srv_quota *q, const char *key, uint64_t bytes, int64_t now_ns)
{
    const struct srv_quota_client client = srv_quota_client_of(q, rt_span_str(key));
    int64_t retry_s = -1;
    const enum srv_quota_answer a = srv_quota_take(q, &client, bytes, now_ns, &retry_s, &flag);
    return a == SRV_QUOTA_REFUSED ? retry_s : 0;
}

static void a_client_has_so_many_requests_per_second(void **state)
{
    (void)state;
    struct srv_quota *q = quota(2, 0, 64);
    assert_int_equal(take(q, "a", 1000000, 1 * S), 0);
    assert_int_equal(take(q, "a", 1000000, 1 * S), 0);
    assert_int_equal(take(q, "a", 0, 1 * S), 1);
    assert_int_equal(take(q, "b", 0, 1 * S), 0);
    assert_int_equal(take(q, "a", 0, 1 * S + S / 2), 0);
    assert_int_equal(take(q, "a", 0, 1 * S + S / 2), 1);
    /* An idle client saves the tokens of one second. */
    assert_int_equal(take(q, "a", 0, 100 * S), 0);
    assert_int_equal(take(q, "a", 0, 100 * S), 0);
    assert_int_equal(take(q, "a", 0, 100 * S), 1);
    /* A clock that seems to go back gives no tokens. */
    assert_int_equal(take(q, "a", 0, 99 * S), 1);
    srv_quota_free(q);
}

static void less_than_one_request_per_second_is_a_rate_too(void **state)
{
    (void)state;
    struct srv_quota *q = quota(0.1, 0, 64);
    assert_int_equal(take(q, "", 0, 1 * S), 0);
    assert_int_equal(take(q, "", 0, 2 * S), 9);
    assert_int_equal(take(q, "", 0, 11 * S + 1000), 0);
    srv_quota_free(q);
}

static void a_large_request_is_paid_off(void **state)
{
    (void)state;
    struct srv_quota *q = quota(0, 100, 64);
    assert_int_equal(take(q, "a", 1000, 1 * S), 0);
    assert_int_equal(take(q, "a", 1, 1 * S), 10); /* 901 bytes are missing */
    assert_int_equal(take(q, "a", 1, 9 * S), 2);
    assert_int_equal(take(q, "a", 1, 11 * S), 0);
    const struct srv_quota_client a = srv_quota_client_of(q, rt_span_str("a"));
    srv_quota_charge(q, &a, UINT64_MAX, 12 * S);
    assert_int_equal(take(q, "a", 1, 12 * S), 3600);
    srv_quota_free(q);
}

static void clients_without_a_bucket_share_one(void **state)
{
    (void)state;
    struct srv_quota *q = quota(1, 0, 8);
    int64_t retry_s = 0;
    char key[16];
    int shared = 0, refused = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        const struct srv_quota_client client = srv_quota_client_of(q, rt_span_str(key));
        const enum srv_quota_answer a = srv_quota_take(q, &client, 0, 1 * S, &retry_s, &flag);
        shared += a == SRV_QUOTA_TAKEN_SHARED;
        refused += a == SRV_QUOTA_REFUSED;
    }
    assert_int_equal(shared, 1);
    assert_int_equal(refused, 1000 - 8 - 1);
    /* A client that has a bucket keeps it, and buckets that are full again are taken over. */
    assert_int_equal(take(q, "k0", 0, 1 * S), 1);
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "n%d", i);
        const struct srv_quota_client client = srv_quota_client_of(q, rt_span_str(key));
        assert_int_equal(srv_quota_take(q, &client, 0, 3 * S, &retry_s, &flag), SRV_QUOTA_TAKEN);
    }
    srv_quota_free(q);
}

static void a_refusal_has_the_flag_for_which_the_client_waits_longest(void **state)
{
    (void)state;
    struct srv_quota *q = quota(2, 100, 64);
    assert_int_equal(take(q, "a", 1000, 1 * S), 0);
    assert_int_equal(take(q, "a", 1, 1 * S), 10);
    assert_string_equal(flag, "quota_bytes_per_second");
    assert_int_equal(take(q, "b", 1, 1 * S), 0);
    assert_int_equal(take(q, "b", 1, 1 * S), 0);
    assert_int_equal(take(q, "b", 1, 1 * S), 1);
    assert_string_equal(flag, "quota_requests_per_second");
    srv_quota_free(q);
}

static void without_rates_every_request_is_accepted(void **state)
{
    (void)state;
    struct srv_quota *q = quota(0, 0, 8);
    for (int i = 0; i < 100; i++)
        assert_int_equal(take(q, "a", 1 << 20, 1 * S), 0);
    const struct srv_quota_client a = srv_quota_client_of(q, rt_span_str("a"));
    srv_quota_charge(q, &a, UINT64_MAX, 1 * S);
    assert_int_equal(take(q, "a", 1, 1 * S), 0);
    srv_quota_free(q);
}

static void a_refusal_names_the_client_in_bounded_printable_ascii(void **state)
{
    (void)state;
    const struct {
        const char *key;
        size_t n;
        const char *words;
    } cases[] = {
        {"a", 1,
         "the client \"a\" has used up its quota (--quota_bytes_per_second); retry after 7 s"},
        {"", 0, "the client without a name has used up"},
        {"a\nb\x1b[1m\xff", 8, "the client \"a?b?[1m?\" has"},
        {"a\0b", 3, "the client \"a?b\" has"},
        {"0123456789012345678901234567890123456789012345678901234567890123", 64, "90123\" has"},
        {"01234567890123456789012345678901234567890123456789012345678901234", 65, "90123\" has"},
    };
    struct srv_quota *q = quota(1, 1, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct srv_quota_client client =
            srv_quota_client_of(q, rt_span_of(cases[i].key, cases[i].n));
        struct rt_error err = {0};
        assert_fails(srv_quota_fail("quota_bytes_per_second", 7, &client, &err),
                     RT_RESOURCE_EXHAUSTED, &err, cases[i].words);
    }
    srv_quota_free(q);
}

static void a_key_that_is_a_secret_is_not_shown(void **state)
{
    (void)state;
    static const char *const names[] = {"authorization", "proxy-authorization", "cookie",
                                        "x-api-key",     "x-auth-token",        "x-secret"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct srv_quota_limits limits = {1, 1, 8, names[i]};
        struct srv_quota *q = srv_quota_new(&limits);
        assert_non_null(q);
        const struct srv_quota_client a = srv_quota_client_of(q, rt_span_str("Bearer abc")),
                                      b = srv_quota_client_of(q, rt_span_str("Bearer abd")),
                                      none = srv_quota_client_of(q, rt_span_str(""));
        assert_int_equal(a.shown[0], '#');
        assert_int_equal(srv_quota_shown(&a).n, 9);
        assert_int_equal(strspn(a.shown + 1, "0123456789abcdef"), 8);
        assert_string_not_equal(a.shown, b.shown);
        assert_null(srv_quota_shown(&none).p);
        srv_quota_free(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_has_so_many_requests_per_second),
        cmocka_unit_test(less_than_one_request_per_second_is_a_rate_too),
        cmocka_unit_test(a_large_request_is_paid_off),
        cmocka_unit_test(clients_without_a_bucket_share_one),
        cmocka_unit_test(a_refusal_has_the_flag_for_which_the_client_waits_longest),
        cmocka_unit_test(without_rates_every_request_is_accepted),
        cmocka_unit_test(a_refusal_names_the_client_in_bounded_printable_ascii),
        cmocka_unit_test(a_key_that_is_a_secret_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
