/* DecodeWav and EncodeWav. */
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/signal/wav.h"
#include "kernels/string/text.h"

enum {
    HEADER = 44,
    SAMPLE_BYTES = 2,
    SAMPLE_WORK = 4, /* work per sample, in units of rt_run_spend */
};

/* ---- DecodeWav ---- */

static enum rt_status infer_decode(struct rt_infer *x)
{
    const int64_t samples = rt_attr_int(x->node, "desired_samples");
    const int64_t channels = rt_attr_int(x->node, "desired_channels");

    x->out[0].shape.rank = 2;
    x->out[0].shape.dim[0] = samples < 0 ? -1 : samples;
    x->out[0].shape.dim[1] = channels < 0 ? -1 : channels;
    kn_set_shape(&x->out[1], 0, NULL);
    return RT_OK;
}

/* Copies frames. Missing channels repeat the last channel, and missing frames are silent. */
static enum rt_status frames_copy(struct rt_run *r, const struct kn_wav *wav, float *y,
                                  int64_t frames, int64_t channels)
{
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < frames; i++, y += channels) {
        const int64_t frame = i < wav->frames ? i : 0;
        const unsigned char *x = wav->samples + frame * wav->channels * SAMPLE_BYTES;
        for (int64_t c = 0; c < channels; c++) {
            const int64_t from = c < wav->channels ? c : wav->channels - 1;
            const unsigned char *s = x + from * SAMPLE_BYTES;
            y[c] = i < wav->frames ? (float)(int16_t)(s[0] | s[1] << 8) / 32768 : 0;
            if (rt_run_tick(r, c))
                return r->err->code;
        }
        if (rt_run_spend(r, &left, channels * SAMPLE_WORK))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status decode_wav_run(struct rt_run *r)
{
    const int64_t samples = rt_attr_int(r->node, "desired_samples");
    const int64_t channels = rt_attr_int(r->node, "desired_channels");
    const struct rt_tensor *x = &r->in[0];
    struct kn_wav wav;
    int64_t dim[2];
    float *y;

    if (channels < -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "desired_channels must be >= -1, got %lld",
                       (long long)channels);
    if (samples < -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "desired_samples must be >= -1, got %lld",
                       (long long)samples);
    if (x->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "contents must be scalar, got shape %s",
                       KN_TEXT(x));
    if (kn_wav_read(rt_span_of(rt_str_data(rt_strs(x)), rt_strs(x)->n), &wav, r->err))
        return r->err->code;
    dim[0] = samples < 0 ? wav.frames : samples;
    dim[1] = channels < 0 ? wav.channels : channels;
    y = kn_out(r, 0, 2, dim);
    if (!y)
        return r->err->code;
    kn_put_int(&r->out[1], 0, wav.sample_rate);
    return dim[1] ? frames_copy(r, &wav, y, dim[0], dim[1]) : RT_OK;
}

const struct kn_entry kn_decode_wav = {
    .op = {.name = "DecodeWav", .infer = infer_decode},
    .kernels = KN_KERNELS(
        {.op = "DecodeWav", .device = "CPU", .name = "decode_wav", .run = decode_wav_run}),
};

/* ---- EncodeWav ---- */

static enum rt_status infer_encode(struct rt_infer *x)
{
    kn_set_shape(&x->out[0], 0, NULL);
    return RT_OK;
}

static void put(struct rt_bytes *b, uint32_t v, int n)
{
    for (int i = 0; i < n; i++)
        rt_bytes_addc(b, (char)(v >> 8 * i));
}

static void put_header(struct rt_bytes *b, uint32_t data, uint32_t channels, uint32_t rate)
{
    const uint32_t frame = channels * SAMPLE_BYTES;

    rt_bytes_adds(b, "RIFF");
    put(b, HEADER - 8 + data, 4);
    rt_bytes_adds(b, "WAVEfmt ");
    put(b, 16, 4); /* size of the format chunk */
    put(b, 1, 2);  /* PCM */
    put(b, channels, 2);
    put(b, rate, 4);
    put(b, rate * frame, 4);
    put(b, frame, 2);
    put(b, 8 * SAMPLE_BYTES, 2);
    rt_bytes_adds(b, "data");
    put(b, data, 4);
}

static int16_t to_sample(float v)
{
    const float scaled = roundf(v * 32768);
    return scaled >= INT16_MAX ? INT16_MAX : scaled <= INT16_MIN ? INT16_MIN : (int16_t)scaled;
}

static enum rt_status put_samples(struct rt_run *r, struct rt_bytes *b, const float *x, int64_t n)
{
    enum { CHUNK = 4096 };

    for (int64_t i = 0; i < n; i++) {
        put(b, isnan(x[i]) ? 0 : (uint16_t)to_sample(x[i]), SAMPLE_BYTES);
        if (i % CHUNK == 0 && (b->failed || rt_run_spend(r, &r->left, CHUNK * SAMPLE_WORK)))
            break;
    }
    return r->err->code ? r->err->code : b->failed ? kn_text_failed(b) : RT_OK;
}

enum rt_status kn_wav_write(struct rt_run *r, struct rt_bytes *b, const float *x, int64_t frames,
                            int64_t channels, int64_t rate)
{
    struct rt_error *err = r->err;

    if (rate <= 0 || rate > UINT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "sample_rate must be in (0, 2^32), got: %llu",
                       (unsigned long long)rate);
    if (channels <= 0 || channels > UINT16_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_channels must be in (0, 2^16), got: %lld",
                       (long long)channels);
    if (frames > (INT32_MAX - HEADER) / SAMPLE_BYTES / channels)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Provided channels and frames cannot be encoded "
                       "as a WAV.");
    put_header(b, (uint32_t)(frames * channels) * SAMPLE_BYTES, (uint32_t)channels, (uint32_t)rate);
    return put_samples(r, b, x, frames * channels);
}

static enum rt_status encode_wav_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0];
    struct rt_bytes b;
    struct rt_str *y;
    enum rt_status st;

    if (x->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "audio must be 2-dimensional%s", KN_TEXT(x));
    if (r->in[1].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input sample_rate should be a scalar tensor, got %s instead.",
                       KN_TEXT(&r->in[1]));
    y = kn_out(r, 0, 0, NULL);
    if (!y)
        return r->err->code;
    kn_text_begin(&b, r);
    st = kn_wav_write(r, &b, x->data, x->dim[0], x->dim[1], kn_int_at(&r->in[1], 0));
    if (!st)
        st = kn_set_text(r, &r->left, y, b.p, b.n);
    kn_text_end(&b);
    return st;
}

const struct kn_entry kn_encode_wav = {
    .op = {.name = "EncodeWav", .infer = infer_encode},
    .kernels = KN_KERNELS(
        {.op = "EncodeWav", .device = "CPU", .name = "encode_wav", .run = encode_wav_run}),
};
