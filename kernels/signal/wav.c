#include "kernels/signal/wav.h"

#include <string.h>

enum {
    TAG = 4,
    PCM = 1,
    BITS = 16,
    SAMPLE_BYTES = BITS / 8,
    SHORT_FORMAT = 16,
    /* size of a format chunk that ends with the size of an extension */
    LONG_FORMAT = 18,
};

struct reader {
    struct rt_span file;
    uint64_t at;
    struct rt_error *err;
};

/* Moves past n bytes. Returns NULL if there are fewer. */
static const unsigned char *take(struct reader *r, uint64_t n)
{
    const unsigned char *p = r->file.p + (r->at < r->file.n ? r->at : r->file.n);

    if (r->at > r->file.n || n > r->file.n - r->at) {
        (void)rt_fail(r->err, RT_INVALID_ARGUMENT, "Data too short when trying to read string");
        return NULL;
    }
    r->at += n;
    return p;
}

static uint32_t number(const unsigned char *p, int n)
{
    uint32_t v = 0;

    while (n > 0)
        v = v << 8 | p[--n];
    return v;
}

static enum rt_status expect_tag(struct reader *r, const char *tag)
{
    const unsigned char *p = take(r, TAG);

    if (p && memcmp(p, tag, TAG) != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Header mismatch: Expected %s but found %.4s",
                       tag, (const char *)p);
    return r->err->code;
}

/* Skips the chunks that some recorders write before the format chunk. */
static enum rt_status find_format(struct reader *r)
{
    static const char *const known[] = {"JUNK", "bext", "iXML", "qlty",
                                        "mext", "levl", "link", "axml"};
    const unsigned char *tag = take(r, TAG), *size;

    while (tag && memcmp(tag, "fmt ", TAG) != 0) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= memcmp(tag, known[i], TAG) == 0;
        if (!is_known)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Unexpected field %.4s", (const char *)tag);
        size = take(r, sizeof(uint32_t));
        tag = size && take(r, number(size, 4)) ? take(r, TAG) : NULL;
    }
    return r->err->code;
}

static enum rt_status fail_format(struct reader *r, const char *what, uint32_t got)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s%u", what, got);
}

static enum rt_status read_format(struct reader *r, struct kn_wav *wav)
{
    const unsigned char *p = take(r, sizeof(uint32_t));
    const uint32_t size = p ? number(p, 4) : 0;
    uint32_t step_bytes, wanted, rate_bytes;

    if (!p)
        return r->err->code;
    if (size != SHORT_FORMAT && size != LONG_FORMAT)
        return fail_format(r, "Bad format chunk size for WAV: Expected 16 or 18, but got", size);
    p = take(r, SHORT_FORMAT);
    if (!p)
        return r->err->code;
    if (number(p, 2) != PCM)
        return fail_format(r, "Bad audio format for WAV: Expected 1 (PCM), but got", number(p, 2));
    wav->channels = number(p + 2, 2);
    if (wav->channels < 1)
        return fail_format(r, "Bad number of channels for WAV: Expected at least 1, but got ", 0);
    wav->sample_rate = number(p + 4, 4);
    rate_bytes = number(p + 8, 4);
    step_bytes = number(p + 12, 2);
    if (number(p + 14, 2) != BITS)
        return fail_format(r, "Can only read 16-bit WAV files, but received ", number(p + 14, 2));
    wanted = (uint32_t)wav->channels * SAMPLE_BYTES;
    if (wanted != step_bytes)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Bad bytes per sample in WAV header: Expected %u but got %u", wanted,
                       step_bytes);
    if ((int64_t)step_bytes * wav->sample_rate != rate_bytes)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Bad bytes per second in WAV header: Expected %lld but got %u "
                       "(sample_rate=%lld, bytes_per_sample=%u)",
                       (long long)step_bytes * wav->sample_rate, rate_bytes,
                       (long long)wav->sample_rate, step_bytes);
    r->at += size - SHORT_FORMAT;
    return RT_OK;
}

static enum rt_status read_chunk(struct reader *r, struct kn_wav *wav)
{
    const unsigned char *tag = take(r, TAG), *p = tag ? take(r, sizeof(uint32_t)) : NULL;
    const uint32_t size = p ? number(p, 4) : 0;

    if (!p)
        return r->err->code;
    if (size > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "WAV data chunk '%.4s' is too large: %u bytes, but the limit is %d",
                       (const char *)tag, size, INT32_MAX);
    if (memcmp(tag, "data", TAG) != 0) {
        r->at += size;
        return RT_OK;
    }
    if (wav->samples)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "More than one data chunk found in WAV");
    wav->frames = size / (wav->channels * SAMPLE_BYTES);
    wav->samples = take(r, (uint64_t)(wav->frames * wav->channels) * SAMPLE_BYTES);
    return r->err->code;
}

enum rt_status kn_wav_read(struct rt_span file, struct kn_wav *wav, struct rt_error *err)
{
    struct reader r = {.file = file, .err = err};

    *wav = (struct kn_wav){0};
    if (expect_tag(&r, "RIFF") || !take(&r, sizeof(uint32_t)) || expect_tag(&r, "WAVE") ||
        find_format(&r) || read_format(&r, wav))
        return err->code;
    while (r.at < file.n)
        if (read_chunk(&r, wav))
            return err->code;
    if (!wav->samples)
        return rt_fail(err, RT_INVALID_ARGUMENT, "No data chunk found in WAV");
    return RT_OK;
}
