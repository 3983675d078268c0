/* Tests which frames an HTTP/2 peer may send, and for which frames its connection is closed. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "server/grpc/h2_frames.h"

enum { DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION };
enum { END_HEADERS = 4, ACK = 1, MAX_BLOCK = 33000, MAX_TEXT = 4 << 20 };

/* the bytes that a peer sends on the connection */
static uint8_t *text;
static size_t n_text;

static void begin(void)
{
    n_text = 0;
    memcpy(text, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    n_text = 24;
}

static void add(int kind, int flags, uint32_t stream, uint32_t n)
{
    const uint8_t head[] = {
        (uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,
        (uint8_t)kind,           (uint8_t)flags,         (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    assert_true(n_text + sizeof head + n <= MAX_TEXT);
    memcpy(text + n_text, head, sizeof head);
    /* If the payload were not skipped, it would be parsed as frames. */
    memset(text + n_text + sizeof head, 1, n);
    n_text += sizeof head + n;
}

static struct srv_h2_frames f;

static void start(uint32_t max_block, uint64_t sent)
{
    srv_h2_frames_clear(&f);
    srv_h2_frames_init(&f, max_block, 0, sent);
}

static enum srv_h2_verdict feed(size_t step)
{
    enum srv_h2_verdict v = SRV_H2_GOES_ON;

    start(MAX_BLOCK, 0);
    for (size_t at = 0; at < n_text && !v; at += step)
        v = srv_h2_frames_take(&f, text + at, step < n_text - at ? step : n_text - at);
    return v;
}

static void expect(enum srv_h2_verdict want)
{
    assert_int_equal(feed(n_text), want);
    for (size_t step = 1; step < 40; step++)
        assert_int_equal(feed(step), want);
}

static void a_cut_at_any_place_changes_nothing(void **state)
{
    (void)state;
    begin();
    add(SETTINGS, 0, 0, 12);
    add(SETTINGS, ACK, 0, 0);
    add(HEADERS, 0, 1, 90);
    add(CONTINUATION, END_HEADERS, 1, 30);
    add(DATA, 1, 1, 100);
    add(WINDOW, 0, 0, 4);
    for (size_t cut = 1; cut < n_text; cut++) {
        start(100, 0);
        enum srv_h2_verdict v = srv_h2_frames_take(&f, text, cut);
        if (!v)
            v = srv_h2_frames_take(&f, text + cut, n_text - cut);
        assert_int_equal(v, SRV_H2_LARGE_BLOCK);
        start(120, 0);
        assert_int_equal(srv_h2_frames_take(&f, text, cut), SRV_H2_GOES_ON);
        assert_int_equal(srv_h2_frames_take(&f, text + cut, n_text - cut), SRV_H2_GOES_ON);
        assert_true(f.has_settings_ack);
        assert_int_equal(f.skip + f.n_frame, 0);
        assert_int_equal(f.last_stream, 1);
        /* Three frames use the budget: the CONTINUATION, DATA and WINDOW_UPDATE frames. */
        assert_int_equal(f.budget, SRV_H2_BUDGET - 3);
    }
}

static void a_block_has_a_limit_with_all_of_its_frames(void **state)
{
    (void)state;
    begin();
    add(HEADERS, 0, 1, 16384);
    add(CONTINUATION, 0, 1, 16384);
    add(CONTINUATION, END_HEADERS, 1, MAX_BLOCK - 2 * 16384);
    add(HEADERS, END_HEADERS, 3, MAX_BLOCK);
    assert_int_equal(feed(n_text), SRV_H2_GOES_ON);
    add(CONTINUATION, 0, 3, 1);
    assert_int_equal(feed(n_text), SRV_H2_LARGE_BLOCK);
    begin();
    add(HEADERS, END_HEADERS, 1, 0xffffff & (MAX_BLOCK + 1));
    expect(SRV_H2_LARGE_BLOCK);
}

/* Returns how many frames of the given kind are accepted before they are treated as a flood, or -1
 * if all are accepted. */
static int most(int kind, int flags, uint32_t stream, uint32_t n)
{
    int frames = 0;

    begin();
    start(MAX_BLOCK, 0);
    enum srv_h2_verdict v = srv_h2_frames_take(&f, text, n_text);
    for (; !v && frames < 100000; frames++) {
        n_text = 0;
        add(kind, flags, stream, n);
        v = srv_h2_frames_take(&f, text, n_text);
    }
    return v == SRV_H2_FLOOD ? frames - 1 : -1;
}

static void frames_that_ask_for_nothing_have_a_budget(void **state)
{
    (void)state;
    assert_int_equal(most(SETTINGS, 0, 0, 0), SRV_H2_BUDGET);
    assert_int_equal(most(SETTINGS, ACK, 0, 0), SRV_H2_BUDGET);
    assert_int_equal(most(SETTINGS, 0, 0, 64 * 99), SRV_H2_BUDGET / 100);
    assert_int_equal(most(PING, 0, 0, 8), SRV_H2_BUDGET);
    assert_int_equal(most(PRIORITY, 0, 1, 5), SRV_H2_BUDGET);
    assert_int_equal(most(WINDOW, 0, 0, 4), SRV_H2_BUDGET);
    assert_int_equal(most(GOAWAY, 0, 0, 8), SRV_H2_BUDGET);
    assert_int_equal(most(PUSH, 0, 1, 8), SRV_H2_BUDGET);
    assert_int_equal(most(0x77, 0xff, 1, 0), SRV_H2_BUDGET);
    assert_int_equal(most(CONTINUATION, 0, 1, 0), SRV_H2_BUDGET);
    assert_int_equal(most(RESET, 0, 1, 4), SRV_H2_BUDGET / 13);
    assert_int_equal(most(DATA, 0, 1, 0), SRV_H2_BUDGET);
    assert_int_equal(most(DATA, 0, 1, SRV_H2_LARGE_DATA - 1), SRV_H2_BUDGET);
    assert_int_equal(most(DATA, 0, 1, SRV_H2_LARGE_DATA), -1);
    assert_int_equal(most(0x77, 0, 1, 0xffff), 9); /* each frame costs 1 + 65535 / 64 */
}

static void a_block_in_small_pieces_is_a_flood(void **state)
{
    (void)state;
    begin();
    add(HEADERS, 0, 1, 16000);
    /* Each CONTINUATION may make gRPC core parse the header block's 16,000 bytes again. */
    for (int i = 0; i < 2400; i++)
        add(CONTINUATION, 0, 1, 1);
    assert_int_equal(feed(n_text), SRV_H2_FLOOD);

    begin();
    add(HEADERS, END_HEADERS, 1, 32000);
    /* Each read returns one TCP segment of 1,460 bytes. */
    assert_int_equal(feed(1460), SRV_H2_GOES_ON);
    assert_true(f.budget > SRV_H2_BUDGET - 200);
    assert_int_equal(feed(2), SRV_H2_FLOOD);
}

/* Opens calls at the given rate and cancels n out of every `of` calls. Each call has a small
 * message if has_message is set. Returns whether the connection stays open. */
static bool cancels_calls(int n, int of, int64_t per_second, bool has_message)
{
    enum srv_h2_verdict v;

    begin();
    add(SETTINGS, ACK, 0, 0);
    start(MAX_BLOCK, 0);
    v = srv_h2_frames_take(&f, text, n_text);
    for (int64_t i = 0; !v && i < 100000; i++) {
        n_text = 0;
        add(HEADERS, END_HEADERS, 2 * (uint32_t)i + 1, 100);
        if (has_message)
            add(DATA, 1, 2 * (uint32_t)i + 1, 50);
        if (i % of < n)
            add(RESET, 0, 2 * (uint32_t)i + 1, 4);
        srv_h2_frames_fill(&f, 1 + i * 1000 / per_second, 0);
        v = srv_h2_frames_take(&f, text, n_text);
    }
    return !v;
}

static void calls_may_be_cancelled_but_not_by_a_machine(void **state)
{
    (void)state;
    for (int has_message = 0; has_message < 2; has_message++) {
        assert_true(cancels_calls(1, 1, 1000, has_message));
        assert_false(cancels_calls(1, 1, 1500, has_message));
        assert_true(cancels_calls(3, 5, INT64_C(1) << 40, has_message));
        assert_false(cancels_calls(4, 5, INT64_C(1) << 40, has_message));
    }
}

static void calls_with_a_message_may_be_cancelled_in_one_burst(void **state)
{
    (void)state;
    begin();
    add(SETTINGS, ACK, 0, 0);
    for (uint32_t i = 0; i < 1990; i++) {
        add(HEADERS, END_HEADERS, 2 * i + 1, 100);
        add(DATA, 1, 2 * i + 1, 50);
        add(RESET, 0, 2 * i + 1, 4);
    }
    assert_int_equal(feed(n_text), SRV_H2_GOES_ON);
    for (uint32_t i = 1990; i < 2010; i++) {
        add(HEADERS, END_HEADERS, 2 * i + 1, 100);
        add(DATA, 1, 2 * i + 1, 50);
        add(RESET, 0, 2 * i + 1, 4);
    }
    assert_int_equal(feed(n_text), SRV_H2_FLOOD);
}

static void streams_before_the_settings_are_acknowledged_have_a_limit(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < SRV_H2_MAX_STREAMS_BEFORE_ACK; i++)
        add(HEADERS, END_HEADERS, 2 * i + 1, 10);
    size_t n = n_text;
    assert_int_equal(feed(n_text), SRV_H2_GOES_ON);
    add(HEADERS, END_HEADERS, 9999, 10);
    expect(SRV_H2_NO_SETTINGS_ACK);
    n_text = n;
    add(SETTINGS, ACK, 0, 0);
    add(HEADERS, END_HEADERS, 9999, 10);
    expect(SRV_H2_GOES_ON);
}

static void what_is_sent_pays_for_windows(void **state)
{
    (void)state;
    /* `sent` starts near the maximum, so that the counter of sent bytes wraps during the test. */
    uint64_t sent = UINT64_MAX - 5000;

    begin();
    start(MAX_BLOCK, sent);
    assert_int_equal(srv_h2_frames_take(&f, text, n_text), SRV_H2_GOES_ON);
    n_text = 0;
    add(WINDOW, 0, 0, 4);
    add(WINDOW, 0, 1, 4);
    for (int i = 0; i < 100000; i++, sent += 512) {
        srv_h2_frames_fill(&f, 0, sent);
        assert_int_equal(srv_h2_frames_take(&f, text, n_text), SRV_H2_GOES_ON);
    }
    assert_true(f.budget >= SRV_H2_BUDGET - 10);
}

/* The frames are those of grpc-go, which sends a ping in each round trip and updates windows
 * immediately. */
static void a_call_pays_for_its_data_a_ping_and_windows(void **state)
{
    (void)state;
    begin();
    add(SETTINGS, ACK, 0, 0);
    start(MAX_BLOCK, 0);
    assert_int_equal(srv_h2_frames_take(&f, text, n_text), SRV_H2_GOES_ON);
    for (uint32_t i = 0; i < 100000; i++) {
        n_text = 0;
        add(HEADERS, END_HEADERS, 2 * i + 1, 100);
        add(DATA, 0, 2 * i + 1, 5);
        add(DATA, 0, 2 * i + 1, 100);
        add(DATA, 1, 2 * i + 1, 0);
        add(PING, 0, 0, 8);
        add(PING, ACK, 0, 8);
        add(WINDOW, 0, 0, 4);
        add(WINDOW, 0, 2 * i + 1, 4);
        assert_int_equal(srv_h2_frames_take(&f, text, n_text), SRV_H2_GOES_ON);
    }
}

/* Sends messages on one stream. The prefix of each message has the given number of frames. The rest
 * of the message has one frame, and n_others frames of other kinds follow. If are_taken is set, the
 * server takes each message. Returns whether the connection stays open. */
static bool sends_messages(uint32_t prefix_frames, uint32_t n_others, bool are_taken)
{
    enum { ROUNDS = 30000, BODY = 24 };
    const uint8_t message[] = {0, 0, 0, 0, BODY};
    uint8_t granted[] = {0, 0, 4, WINDOW, 0, 0, 0, 0, 1, 0, 0, 0, sizeof message + BODY};
    enum srv_h2_verdict v;

    begin();
    add(HEADERS, END_HEADERS, 1, 100);
    start(MAX_BLOCK, 0);
    v = srv_h2_frames_take(&f, text, n_text);
    for (int i = 0; !v && i < ROUNDS; i++) {
        n_text = 0;
        for (uint32_t k = 0; k < prefix_frames; k++) {
            uint32_t n = (uint32_t)sizeof message / prefix_frames;
            add(DATA, 0, 1, n);
            memcpy(text + n_text - n, message + k * n, n);
        }
        add(DATA, 0, 1, BODY);
        for (uint32_t k = 0; k < n_others; k++)
            add(k % 2 ? WINDOW : PING, 0, 0, k % 2 ? 4 : 8);
        v = srv_h2_frames_take(&f, text, n_text);
        if (are_taken)
            srv_h2_frames_sent(&f, granted, sizeof granted);
    }
    return !v;
}

/* The frames of each message are those of grpc-go, as in the previous test. */
static void a_message_of_a_stream_pays_as_a_call_does(void **state)
{
    (void)state;
    assert_true(sends_messages(1, 4, true));
    assert_true(sends_messages(1, 8, true));
    assert_false(sends_messages(1, 9, true));
    assert_true(sends_messages(1, 0, false));
    assert_false(sends_messages(1, 1, false));
    assert_false(sends_messages(5, 0, false)); /* tiny pieces, and nobody takes the message */
    assert_false(sends_messages(5, 5, true));
}

/* The first message of a stream has been paid by its HEADERS. Messages that nobody takes must not
 * pay for resets. */
static void messages_do_not_pay_for_resets(void **state)
{
    (void)state;
    const uint8_t empty[5] = {0}, granted[] = {0, 0, 4, WINDOW, 0, 0, 0, 0, 1, 0, 0, 0, 5};

    for (int n = 1; n < 10; n++) {
        begin();
        start(MAX_BLOCK, 0);
        enum srv_h2_verdict v = srv_h2_frames_take(&f, text, n_text);
        f.has_settings_ack = true;
        for (uint32_t i = 0; i < 5000 && !v; i++) {
            uint8_t window[sizeof granted];
            n_text = 0;
            add(HEADERS, END_HEADERS, 2 * i + 1, 100);
            for (int k = 0; k < n; k++) {
                add(DATA, 0, 2 * i + 1, sizeof empty);
                memcpy(text + n_text - sizeof empty, empty, sizeof empty);
            }
            v = srv_h2_frames_take(&f, text, n_text);
            memcpy(window, granted, sizeof window);
            window[7] = (uint8_t)((2 * i + 1) >> 8);
            window[8] = (uint8_t)(2 * i + 1);
            srv_h2_frames_sent(&f, window, sizeof window);
            n_text = 0;
            add(RESET, 0, 2 * i + 1, 4);
            v = v ? v : srv_h2_frames_take(&f, text, n_text);
        }
        assert_int_equal(v, SRV_H2_FLOOD);
    }
}

static void the_budget_has_an_upper_limit(void **state)
{
    (void)state;
    start(MAX_BLOCK, 0);
    srv_h2_frames_fill(&f, INT64_MAX / 2, UINT64_MAX);
    assert_int_equal(f.budget, SRV_H2_BUDGET);
    srv_h2_frames_fill(&f, 5, 5); /* a clock that moves backwards does not refill the budget */
    assert_int_equal(f.budget, SRV_H2_BUDGET);
}

static void key_updates_spend_the_budget(void **state)
{
    (void)state;
    start(MAX_BLOCK, 0);
    assert_int_equal(srv_h2_frames_rekeyed(&f, SRV_H2_MAX_REKEYS), SRV_H2_GOES_ON);
    assert_int_equal(f.n_work, SRV_H2_MAX_REKEYS);
    assert_int_equal(srv_h2_frames_rekeyed(&f, 1), SRV_H2_FLOOD);
    start(MAX_BLOCK, 0);
    assert_int_equal(srv_h2_frames_rekeyed(&f, UINT32_MAX), SRV_H2_FLOOD);
    start(MAX_BLOCK, 0);
    for (int second = 0; second < 100; second++) {
        srv_h2_frames_fill(&f, second * 1000, 0);
        assert_int_equal(srv_h2_frames_rekeyed(&f, 5), SRV_H2_GOES_ON);
    }
}

static void another_protocol_is_refused_at_its_first_byte(void **unused)
{
    (void)unused;
    begin();
    expect(SRV_H2_GOES_ON);
    n_text = 23;
    expect(SRV_H2_GOES_ON);
    text[22] = ' ';
    expect(SRV_H2_NO_PREFACE);
    memcpy(text, "GET / HTTP/1.1", 14);
    n_text = 1;
    expect(SRV_H2_NO_PREFACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_at_any_place_changes_nothing),
        cmocka_unit_test(a_block_has_a_limit_with_all_of_its_frames),
        cmocka_unit_test(frames_that_ask_for_nothing_have_a_budget),
        cmocka_unit_test(a_block_in_small_pieces_is_a_flood),
        cmocka_unit_test(another_protocol_is_refused_at_its_first_byte),
        cmocka_unit_test(calls_may_be_cancelled_but_not_by_a_machine),
        cmocka_unit_test(calls_with_a_message_may_be_cancelled_in_one_burst),
        cmocka_unit_test(streams_before_the_settings_are_acknowledged_have_a_limit),
        cmocka_unit_test(what_is_sent_pays_for_windows),
        cmocka_unit_test(a_call_pays_for_its_data_a_ping_and_windows),
        cmocka_unit_test(a_message_of_a_stream_pays_as_a_call_does),
        cmocka_unit_test(messages_do_not_pay_for_resets),
        cmocka_unit_test(the_budget_has_an_upper_limit),
        cmocka_unit_test(key_updates_spend_the_budget),
    };
    text = malloc(MAX_TEXT);
    int failed = text ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    srv_h2_frames_clear(&f);
    free(text);
    return failed;
}
