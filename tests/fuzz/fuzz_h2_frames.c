/*
 * Feeds the frame filter the bytes of an HTTP/2 connection in pieces of several sizes. The verdict
 * on the connection, and the filter's final state, must not depend on the sizes. The only exception
 * is the number of bytes counted for bodies. This number grows by SRV_H2_PART_BYTES with each
 * further part of a body.
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
    srv_h2_frames_clear(&whole);
}
