/*
 * Feeds the frame filter the bytes of an HTTP/2 connection in pieces of several sizes. The verdict
 * on the connection, and the filter's final state, must not depend on the sizes. The only exception
 * is the number of bytes counted for bodies. This number grows by SRV_H2_PART_BYTES with each
 * further part of a body.
 *
 * In a second run, the server sends the same frames as the peer, so that it ends streams and grants
 * windows. This run checks that the counts of the streams are consistent.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/grpc/h2_frames.h"
#include "tests/fuzz/cost.h"

/* MAX_BLOCK is below 4 KiB, so that reads of a part of a header block do not use the budget.
 * Otherwise the budget would depend on how the bytes are divided into pieces. */
enum { MAX_BLOCK = 4000 };

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

/* Feeds the bytes `step` at a time. Each piece is a separate allocation, so that a sanitizer
 * reports a read beyond the piece. */
static enum srv_h2_verdict feed(struct srv_h2_frames *f, const uint8_t *p, size_t n, size_t step)
{
    enum srv_h2_verdict v = SRV_H2_GOES_ON;

    srv_h2_frames_init(f, MAX_BLOCK, 0, 0);
    for (size_t at = 0; at < n && !v; at += step) {
        size_t k = step < n - at ? step : n - at;
        uint8_t *piece = malloc(k);
        if (!piece)
            abort();
        memcpy(piece, p + at, k);
        v = srv_h2_frames_take(f, piece, k);
        free(piece);
        if (f->budget > SRV_H2_BUDGET || (!v && (f->budget < 0 || f->block > MAX_BLOCK)))
            abort();
    }
    return v;
}

/* Checks the counts of the streams. Returns the number of bytes of incomplete messages. */
static uint64_t check_uploads(const struct srv_h2_uploads *u)
{
    uint64_t held = 0, incomplete = 0;

    for (uint32_t i = 0; i < u->capacity; i++) {
        const struct srv_h2_upload *at = &u->slots[i];
        if (!at->stream)
            continue;
        held += at->before_mark + at->after_mark + at->incomplete;
        incomplete += at->incomplete;
        if (at->mark > at->end || at->end > at->arrived || at->n_prefix > 5 || at->spent > 2 ||
            (at->end == at->mark && at->after_mark))
            abort();
    }
    if (held != u->held)
        abort();
    return incomplete;
}

/* Grants window for all bytes of each stream. Then only incomplete messages count. */
static void grant_all(struct srv_h2_frames *f)
{
    for (uint32_t i = 0; i < f->uploads.capacity; i++) {
        const uint32_t s = f->uploads.slots[i].stream;
        const uint8_t window[] = {0,
                                  0,
                                  4,
                                  8,
                                  0,
                                  (uint8_t)(s >> 24),
                                  (uint8_t)(s >> 16),
                                  (uint8_t)(s >> 8),
                                  (uint8_t)s,
                                  0x7f,
                                  0xff,
                                  0xff,
                                  0xff};
        srv_h2_frames_sent(f, window, sizeof window);
    }
    if (check_uploads(&f->uploads) != f->uploads.held)
        abort();
}

static void echo(const uint8_t *p, size_t n, size_t step)
{
    enum { PREFACE = 24 };
    struct srv_h2_frames f;
    enum srv_h2_verdict v = SRV_H2_GOES_ON;

    srv_h2_frames_init(&f, MAX_BLOCK, 0, 0);
    for (size_t at = 0; at < n && !v; at += step) {
        const size_t k = step < n - at ? step : n - at;
        v = srv_h2_frames_take(&f, p + at, k);
        check_uploads(&f.uploads);
        const size_t from = at < PREFACE ? PREFACE : at;
        if (from < at + k)
            srv_h2_frames_sent(&f, p + from, at + k - from);
        check_uploads(&f.uploads);
    }
    if (!v && !f.sent.n_frame && !f.sent.skip)
        grant_all(&f);
    srv_h2_frames_clear(&f);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct srv_h2_frames whole, pieces;
    enum srv_h2_verdict v = feed(&whole, data, size, size ? size : 1);

    for (size_t step = 1; step < 16; step = 2 * step + 1)
        if (feed(&pieces, data, size, step) != v || pieces.budget != whole.budget ||
            (!v && (pieces.skip != whole.skip || pieces.n_frame != whole.n_frame ||
                    pieces.has_settings_ack != whole.has_settings_ack ||
                    pieces.uploads.held < whole.uploads.held ||
                    pieces.uploads.held > whole.uploads.held + size * SRV_H2_PART_BYTES ||
                    pieces.uploads.n != whole.uploads.n)))
            abort();
        else
            srv_h2_frames_clear(&pieces);
    check_uploads(&whole.uploads);
    srv_h2_frames_clear(&whole);
    echo(data, size, size ? size : 1);
    echo(data, size, 7);
}
