#include "tests/support/test.h"

#include "server/commands/command.h"

static void ports_to_check(const char *line, size_t n, int64_t rest, int64_t grpc)
{
    struct srv_health_ports p = srv_health_ports(line, n);
    assert_int_equal(p.rest, rest);
    assert_int_equal(p.grpc, grpc);
}

static void the_health_check_follows_the_flags_of_process_1(void **state)
{
    (void)state;
#define LINE(text) text, sizeof(text)
    ports_to_check("", 0, 8501, 8500);
    ports_to_check(LINE("x\0--rest_api_port=9\0--port=10"), 9, 10);
    ports_to_check(LINE("x\0--rest_api_port=9\0--rest_api_port\0"
                        "11"),
                   11, 8500);
    ports_to_check(LINE("x\0--rest_api_port=0"), 0, 8500);
    ports_to_check(LINE("x\0--rest_api_port=99999\0--port=-1\0--port=1x\0--port="), 8501, 8500);
    ports_to_check(LINE("x\0--rest_api_port_not=3\0--port"), 8501, 8500);
    /* Only the first 10 bytes of the command line are read, so the port is cut off. */
    ports_to_check("x\0--port=77", 10, 8501, 8500);
}

static void the_health_check_speaks_tls_where_process_1_does(void **state)
{
    (void)state;
    const struct {
        const char *line;
        size_t n;
        bool tls, grpc_tls;
    } rows[] = {
        {LINE("x\0--rest_tls_key_file=k"), false, false},
        {LINE("x\0--rest_tls_cert_file=c"), true, false},
        {LINE("x\0--rest_tls_cert_file\0c"), true, false},
        {LINE("x\0--rest_tls_cert_file"), false, false},
        {LINE("x\0--rest_tls_cert_file="), false, false},
        {LINE("x\0--rest_tls_cert_file_not=c"), false, false},
        {LINE("x\0--ssl_config_file=c"), false, true},
        {LINE("x\0--ssl_config_file\0c\0--rest_tls_cert_file=c"), true, true},
        {LINE("x\0--ssl_config_file="), false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct srv_health_ports p = srv_health_ports(rows[i].line, rows[i].n);
        assert_int_equal(p.tls, rows[i].tls);
        assert_int_equal(p.grpc_tls, rows[i].grpc_tls);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_health_check_follows_the_flags_of_process_1),
        cmocka_unit_test(the_health_check_speaks_tls_where_process_1_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
