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
        uint64_t *at = srv_h2_uploads_find(&u, stream);
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
            *at += (uint64_t)i;
            u.held += (uint64_t)i;
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
    uint8_t *payload = calloc(1, n + 1);

    assert_non_null(payload);
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

static void what_the_server_sends_ends_streams(void **state)
{
    (void)state;
    uint8_t text[600] = {0};
    size_t n = 0;

    n += head_of(text + n, HEADERS, 4, 1, 20) + 20;
    n += head_of(text + n, DATA, 0, 1, 100) + 100;
    n += head_of(text + n, HEADERS, 4 | END_STREAM, 1, 30) + 30;
    n += head_of(text + n, PING, END_STREAM, 0, 8) + 8;
    n += head_of(text + n, RESET, 0, 3, 4) + 4;
    n += head_of(text + n, DATA, END_STREAM, 5, 10) + 10;
    for (size_t step = 1; step <= n; step++) {
        struct srv_h2_sent s = {.skip = 0};
        uint32_t ended[4] = {0}, stream;
        int k = 0;
        for (size_t at = 0; at < n; at += step) {
            const uint8_t *p = text + at;
            size_t left = step < n - at ? step : n - at;
            while ((stream = srv_h2_sent_take(&s, &p, &left)))
                ended[k++] = stream;
        }
        assert_int_equal(k, 3);
        assert_int_equal(ended[0], 1);
        assert_int_equal(ended[1], 3);
        assert_int_equal(ended[2], 5);
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
        cmocka_unit_test(what_the_server_sends_ends_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
