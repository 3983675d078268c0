/* Tests how many bytes of incomplete bodies each stream of an HTTP/2 connection holds in memory. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "server/grpc/h2_frames.h"
#include "server/grpc/h2_uploads.h"

enum { DATA, HEADERS, RESET = 3, PING = 6 };
enum { END_STREAM = 1, MAX_BLOCK = 33000 };
enum { PART = SRV_H2_PART_BYTES };

static void streams_come_and_go_as_in_a_plain_table(void **state)
{
    (void)state;
    enum { N = 500, ROUNDS = 200000 };
    static uint64_t want[N];
    static bool is_open[N];
    struct srv_h2_uploads u = {.slots = NULL};
    uint64_t held = 0;
    uint32_t n = 0;

    assert_null(srv_h2_uploads_find(&u, 1));
    assert_int_equal(srv_h2_uploads_end(&u, 1), 0);
    srand(1);
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t k = (uint32_t)rand() % N, stream = 2 * k + 1;
        struct srv_h2_upload *at = srv_h2_uploads_find(&u, stream);
        assert_int_equal(at != NULL, is_open[k]);
        if (!at) {
            srv_h2_uploads_begin(&u, stream);
            is_open[k] = true;
            want[k] = 0;
            n++;
        } else if (rand() % 2) {
            assert_int_equal(srv_h2_uploads_end(&u, stream), want[k]);
            held -= want[k];
            is_open[k] = false;
            n--;
        } else {
            srv_h2_uploads_add(&u, at, NULL, 0, (uint64_t)i);
            want[k] += (uint64_t)i;
            held += (uint64_t)i;
        }
        assert_int_equal(u.n, n);
        assert_int_equal(u.held, held);
    }
    srv_h2_uploads_clear(&u);
    assert_int_equal(u.held, 0);
}

static void the_streams_of_a_connection_have_a_limit(void **state)
{
    (void)state;
    struct srv_h2_uploads u = {.slots = NULL};

    for (uint32_t i = 0; i <= SRV_H2_MOST_UPLOADS; i++)
        srv_h2_uploads_begin(&u, 2 * i + 1);
    assert_int_equal(u.n, SRV_H2_MOST_UPLOADS);
    assert_null(srv_h2_uploads_find(&u, 2 * SRV_H2_MOST_UPLOADS + 1));
    srv_h2_uploads_clear(&u);
}

/* ---- counted from frames ---- */

static struct srv_h2_frames f;

static void begin(void)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    srv_h2_frames_init(&f, MAX_BLOCK, 0, 0);
    assert_int_equal(srv_h2_frames_take(&f, preface, sizeof preface - 1), SRV_H2_GOES_ON);
    f.unpaid = 0;
}

static size_t head_of(uint8_t *p, int kind, int flags, uint32_t stream, uint32_t n)
{
    const uint8_t head[] = {
        (uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,
        (uint8_t)kind,           (uint8_t)flags,         (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    memcpy(p, head, sizeof head);
    return sizeof head;
}

static void frame(int kind, int flags, uint32_t stream, uint32_t n)
{
    uint8_t head[SRV_H2_FRAME_BYTES];
    uint8_t *payload = malloc(n + 1);

    assert_non_null(payload);
    memset(payload, 0xff, n); /* the beginning of a message of 4 GiB */
    head_of(head, kind, flags, stream, n);
    assert_int_equal(srv_h2_frames_take(&f, head, sizeof head), SRV_H2_GOES_ON);
    for (uint32_t at = 0; at < n; at += 1000)
        assert_int_equal(srv_h2_frames_take(&f, payload, n - at < 1000 ? n - at : 1000),
                         SRV_H2_GOES_ON);
    free(payload);
}

static void a_body_counts_as_it_arrives_until_it_ends(void **state)
{
    (void)state;
    begin();
    frame(HEADERS, 0, 1, 50);
    assert_int_equal(f.uploads.held, 0);
    frame(DATA, 0, 1, 16384);
    assert_int_equal(f.uploads.held, 9 + 50 + 9 + 16384 + 17 * PART);
    frame(DATA, END_STREAM, 1, 3000);
    assert_int_equal(f.uploads.held, 0);
    frame(HEADERS, 0, 3, 50);
    frame(DATA, 0, 3, 100);
    frame(DATA, END_STREAM, 3, 0);
    assert_int_equal(f.uploads.held, 0);
    frame(HEADERS, 0, 5, 50);
    frame(DATA, 0, 5, 100);
    frame(RESET, 0, 5, 4);
    assert_int_equal(f.uploads.held, 0);
    frame(HEADERS, 0, 7, 50);
    frame(DATA, 0, 7, 100);
    frame(HEADERS, END_STREAM, 7, 50); /* the trailers end stream 7 */
    assert_int_equal(f.uploads.held, 0);
    frame(DATA, 0, 7, 100); /* stream 7 has ended, so its DATA frame is not counted */
    frame(HEADERS, END_STREAM, 9, 50);
    frame(DATA, 0, 9, 100);
    assert_int_equal(f.uploads.held, 0);
    assert_int_equal(f.uploads.n, 0);
    srv_h2_frames_clear(&f);
}

/* Only bytes that have arrived count against the limit. Announcing a length costs a peer
 * nothing. */
static void what_is_announced_does_not_count(void **state)
{
    (void)state;
    uint8_t head[SRV_H2_FRAME_BYTES];

    begin();
    frame(HEADERS, 0, 1, 0);
    head_of(head, DATA, END_STREAM, 1, (1 << 24) - 1);
    srv_h2_frames_take(&f, head, sizeof head);
    srv_h2_frames_take(&f, head, 5);
    assert_int_equal(f.uploads.held, 9 + 9 + 5 + PART);
    srv_h2_frames_clear(&f);
}

/* Stream 1 retains a few bytes of every 8 KB received on the connection. gRPC core keeps the
 * complete block of memory while any part of it is held, so the other bytes of the block also
 * count as held. */
static void a_piece_counts_with_what_lies_beside_it(void **state)
{
    (void)state;
    enum { N = 100, BESIDE = 8000 };

    begin();
    frame(HEADERS, 0, 1, 50);
    for (uint32_t i = 0; i < N; i++) {
        frame(DATA, 0, 1, 30);
        frame(HEADERS, 0, 2 * i + 3, 50);
        frame(DATA, END_STREAM, 2 * i + 3, BESIDE);
    }
    frame(DATA, 0, 1, 30);
    assert_true(f.uploads.held > N * BESIDE);
    assert_true(f.uploads.held < N * (BESIDE + 200 + (BESIDE / 1000 + 1) * PART));
    /* Data of stream 1 is counted together with at most SRV_H2_RETAINED_BYTES bytes that arrived
     * before it, because earlier bytes are in other blocks. */
    for (uint32_t i = 0; i < N; i++) {
        frame(HEADERS, 0, 2 * (N + i) + 3, 50);
        frame(DATA, END_STREAM, 2 * (N + i) + 3, BESIDE);
    }
    uint64_t before = f.uploads.held;
    frame(DATA, 0, 1, 30);
    assert_int_equal(f.uploads.held - before, SRV_H2_RETAINED_BYTES + 30 + PART);
    srv_h2_frames_clear(&f);
}

/* gRPC's core keeps a slice for each part of a body, however small the part is. */
static void a_body_in_small_parts_counts_with_its_slices(void **state)
{
    (void)state;
    enum { N = 1000 };
    uint8_t head[SRV_H2_FRAME_BYTES], payload[N] = {0};

    begin();
    frame(HEADERS, 0, 1, 0);
    for (int i = 0; i < N; i++)
        frame(DATA, 0, 1, 1);
    assert_int_equal(f.uploads.held, 9 + N * (9 + 1 + PART));
    frame(RESET, 0, 1, 4);
    assert_int_equal(f.uploads.held, 0);
    f.unpaid = 0;
    frame(HEADERS, 0, 3, 0);
    head_of(head, DATA, 0, 3, N);
    srv_h2_frames_take(&f, head, sizeof head);
    for (int i = 0; i < N; i++)
        srv_h2_frames_take(&f, payload + i, 1);
    assert_int_equal(f.uploads.held, 9 + 9 + N * (1 + PART));
    srv_h2_frames_clear(&f);
}

/* ---- messages of streams ---- */

enum { WINDOW_UPDATE = 8, PADDED = 8, PREFIX = 5 };

static size_t message_of(uint8_t *p, uint32_t n)
{
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                    (uint8_t)n};

    memcpy(p, prefix, PREFIX);
    memset(p + PREFIX, 0xff, n);
    return PREFIX + n;
}

static void send_data(uint32_t stream, const uint8_t *p, size_t n)
{
    uint8_t head[SRV_H2_FRAME_BYTES];

    head_of(head, DATA, 0, stream, (uint32_t)n);
    assert_int_equal(srv_h2_frames_take(&f, head, sizeof head), SRV_H2_GOES_ON);
    assert_int_equal(srv_h2_frames_take(&f, p, n), SRV_H2_GOES_ON);
}

/* The server grants window on a stream. */
static void grant(uint32_t stream, uint32_t n)
{
    uint8_t text[SRV_H2_FRAME_BYTES + 4];

    head_of(text, WINDOW_UPDATE, 0, stream, 4);
    text[9] = 0x80 | (uint8_t)(n >> 24); /* the first bit is reserved */
    text[10] = (uint8_t)(n >> 16);
    text[11] = (uint8_t)(n >> 8);
    text[12] = (uint8_t)n;
    srv_h2_frames_sent(&f, text, sizeof text);
}

/* The server waits for each message before the message arrives, and grants its window afterwards,
 * as gRPC's core does. */
static void a_stream_counts_only_its_untaken_messages(void **state)
{
    (void)state;
    enum { N = 20000, ROUNDS = 100 };
    static uint8_t body[PREFIX + N];
    const size_t n = message_of(body, N);

    begin();
    frame(HEADERS, 0, 1, 50);
    grant(1, PREFIX);
    for (int i = 0; i < ROUNDS; i++) {
        send_data(1, body, 10000);
        assert_in_range(f.uploads.held, 10000, 10000 + SRV_H2_RETAINED_BYTES + 200);
        send_data(1, body + 10000, n - 10000);
        assert_in_range(f.uploads.held, n, n + SRV_H2_RETAINED_BYTES + 200);
        grant(1, (uint32_t)n - PREFIX);
        grant(1, PREFIX);
        assert_int_equal(f.uploads.held, 0);
    }
    /* The server waits for the rest of a message and grants the window for it. */
    send_data(1, body, 10000);
    grant(1, (uint32_t)n - PREFIX);
    assert_true(f.uploads.held >= 10000);
    send_data(1, body + 10000, n - 10000);
    assert_int_equal(f.uploads.held, 0);
    srv_h2_frames_clear(&f);
}

static void messages_that_nobody_takes_count(void **state)
{
    (void)state;
    enum { N = 30, ROUNDS = 1000 };
    uint8_t body[PREFIX + N];
    const size_t n = message_of(body, N);

    begin();
    frame(HEADERS, 0, 1, 0);
    f.unpaid = 0;
    for (int i = 0; i < ROUNDS; i++)
        send_data(1, body, n);
    assert_int_equal(f.uploads.held, ROUNDS * (9 + n + PART));
    /* The first mark is the end of the first message. The second mark is the end of the last one.
     */
    grant(1, (uint32_t)n);
    assert_int_equal(f.uploads.held, (ROUNDS - 1) * (9 + n + PART));
    grant(1, (ROUNDS - 1) * (uint32_t)n - 1);
    assert_int_equal(f.uploads.held, (ROUNDS - 1) * (9 + n + PART));
    grant(1, 1);
    assert_int_equal(f.uploads.held, 0);
    grant(3, 1000); /* an unknown stream */
    send_data(1, body, n);
    frame(RESET, 0, 1, 4);
    assert_int_equal(f.uploads.held, 0);
    srv_h2_frames_clear(&f);
}

/* The core keeps the messages after the client has ended the stream, and grants no more window. */
static void messages_that_nobody_takes_count_after_the_end_of_their_stream(void **state)
{
    (void)state;
    enum { N = 30 };
    uint8_t body[PREFIX + N];
    const size_t n = message_of(body, N);

    begin();
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        frame(HEADERS, 0, stream, 0);
        send_data(stream, body, n);
    }
    frame(DATA, END_STREAM, 1, 0); /* the stream has one message */
    send_data(3, body, n);
    const uint64_t held = f.uploads.held;
    frame(DATA, END_STREAM, 3, 0);
    assert_int_equal(f.uploads.held, held);
    frame(RESET, 0, 3, 4);
    send_data(5, body, n);
    grant(5, 2 * (uint32_t)n);
    assert_int_equal(f.uploads.held, 0);
    frame(DATA, END_STREAM, 5, 0); /* all messages of the stream have been taken */
    assert_int_equal(f.uploads.n, 0);
    srv_h2_frames_clear(&f);
}

/* A frame has the end of one message, two whole messages, one of them empty, and the beginning of
 * another one. */
static void messages_end_at_any_place_of_a_frame(void **state)
{
    (void)state;
    uint8_t body[400];
    size_t n = message_of(body, 100);

    n += message_of(body + n, 0);
    n += message_of(body + n, 50);
    const size_t last = n;
    n += message_of(body + n, 200);
    for (size_t cut = 1; cut < n; cut++)
        for (size_t more = 1; cut + more < n; more += 3) {
            begin();
            frame(HEADERS, 0, 1, 0);
            send_data(1, body, cut);
            send_data(1, body + cut, more);
            grant(1, (uint32_t)last);
            /* All messages that are complete have been taken. */
            const bool is_whole = cut + more == 105 || cut + more == 110 || cut + more == last;
            assert_int_equal(f.uploads.held == 0, is_whole);
            send_data(1, body + cut + more, n - cut - more);
            grant(1, 0);
            const struct srv_h2_upload *at = srv_h2_uploads_find(&f.uploads, 1);
            assert_int_equal(at->end, n);
            assert_in_range(at->n_before_mark + at->n_after_mark, 1, 3);
            grant(1, (uint32_t)(n - last));
            assert_int_equal(f.uploads.held, 0);
            srv_h2_frames_clear(&f);
        }
}

static void a_hostile_length_counts_as_what_arrives(void **state)
{
    (void)state;
    const uint8_t body[] = {1, 0xff, 0xff, 0xff, 0xff};
    static uint8_t zeros[16384];

    begin();
    frame(HEADERS, 0, 1, 0);
    f.unpaid = 0;
    for (size_t i = 0; i < sizeof body; i++)
        send_data(1, body + i, 1);
    grant(1, INT32_MAX);
    grant(1, INT32_MAX);
    for (int i = 0; i < 100; i++)
        send_data(1, zeros, sizeof zeros);
    assert_int_equal(f.uploads.held, 5 * (9 + 1 + PART) + 100 * (9 + sizeof zeros + PART));
    assert_int_equal(srv_h2_uploads_find(&f.uploads, 1)->left, UINT32_MAX - 100 * sizeof zeros);
    srv_h2_frames_clear(&f);
}

/* gRPC's core refuses padded DATA, so its payload belongs to no message. */
static void padded_data_is_no_body(void **state)
{
    (void)state;
    begin();
    frame(HEADERS, 0, 1, 0);
    frame(DATA, PADDED, 1, 100);
    frame(DATA, PADDED, 1, 0);
    assert_int_equal(f.uploads.held, 0);
    assert_int_equal(srv_h2_uploads_find(&f.uploads, 1)->arrived, 0);
    srv_h2_frames_clear(&f);
}

/* ---- frames that the server sends ---- */

static void what_the_server_sends_ends_streams(void **state)
{
    (void)state;
    uint8_t text[600] = {0}, body[PREFIX + 30];
    size_t n = 0;

    message_of(body, 30);
    n += head_of(text + n, HEADERS, 4, 1, 20) + 20;
    n += head_of(text + n, DATA, 0, 1, 100) + 100;
    n += head_of(text + n, HEADERS, 4 | END_STREAM, 1, 30) + 30;
    n += head_of(text + n, WINDOW_UPDATE, 0, 7, 4) + 4;
    text[n - 1] = sizeof body;
    n += head_of(text + n, PING, END_STREAM, 0, 8) + 8;
    n += head_of(text + n, RESET, 0, 3, 4) + 4;
    n += head_of(text + n, DATA, END_STREAM, 5, 10) + 10;
    for (size_t step = 1; step <= n; step++) {
        begin();
        for (uint32_t stream = 1; stream <= 9; stream += 2) {
            frame(HEADERS, 0, stream, 0);
            send_data(stream, body, sizeof body);
        }
        for (size_t at = 0; at < n; at += step)
            srv_h2_frames_sent(&f, text + at, step < n - at ? step : n - at);
        assert_int_equal(f.uploads.n, 2);
        assert_non_null(srv_h2_uploads_find(&f.uploads, 7));
        assert_int_equal(f.uploads.held, srv_h2_uploads_find(&f.uploads, 9)->after_mark +
                                             srv_h2_uploads_find(&f.uploads, 9)->before_mark);
        srv_h2_frames_clear(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_come_and_go_as_in_a_plain_table),
        cmocka_unit_test(the_streams_of_a_connection_have_a_limit),
        cmocka_unit_test(a_body_counts_as_it_arrives_until_it_ends),
        cmocka_unit_test(what_is_announced_does_not_count),
        cmocka_unit_test(a_piece_counts_with_what_lies_beside_it),
        cmocka_unit_test(a_body_in_small_parts_counts_with_its_slices),
        cmocka_unit_test(a_stream_counts_only_its_untaken_messages),
        cmocka_unit_test(messages_that_nobody_takes_count),
        cmocka_unit_test(messages_that_nobody_takes_count_after_the_end_of_their_stream),
        cmocka_unit_test(messages_end_at_any_place_of_a_frame),
        cmocka_unit_test(a_hostile_length_counts_as_what_arrives),
        cmocka_unit_test(padded_data_is_no_body),
        cmocka_unit_test(what_the_server_sends_ends_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
