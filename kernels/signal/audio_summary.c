/* AudioSummaryV2 writes WAV files into a Summary message. */
#include <math.h>
#include <stdio.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/signal/wav.h"
#include "kernels/string/summary_bytes.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

/* Fields of Summary.Value and Summary.Audio, as tags of the wire format: number * 8 + wire type. */
enum {
    AUDIO = 0x32,
    SAMPLE_RATE = 0x0d,
    CHANNELS = 0x10,
    FRAMES = 0x18,
    ENCODED = 0x22,
    CONTENT_TYPE = 0x2a,
};

static enum rt_status check(struct rt_run *r, float *rate)
{
    const struct rt_tensor *x = &r->in[1], *rates = &r->in[2];

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tag must be a scalar");
    if (x->rank != 2 && x->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor must be 3-D or 2-D, got: %s",
                       KN_TEXT(x));
    if (rt_tensor_count(rates) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sample_rate must be rank-0 or contain a single value");
    *rate = *(const float *)rates->data;
    if (!(*rate > 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "sample_rate must be > 0");
    return RT_OK;
}

/* Appends the Summary.Audio message of one sound to `b`. */
static enum rt_status put_audio(struct rt_run *r, struct rt_bytes *b, const float *samples,
                                int64_t frames, int64_t channels, float rate)
{
    static const char type[] = "audio/wav";
    const double rounded = ceil((double)rate);
    struct rt_bytes file;

    if (frames > 0 && channels == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "audio is null");
    kn_text_begin(&file, r);
    enum rt_status st = kn_wav_write(r, &file, samples, frames, channels, rt_int64_of(rounded));
    if (!st) {
        rt_bytes_addc(b, SAMPLE_RATE);
        rt_bytes_add(b, &rate, sizeof rate);
        rt_bytes_addc(b, CHANNELS);
        kn_put_varint(b, (uint64_t)channels);
        if (frames) {
            rt_bytes_addc(b, FRAMES);
            kn_put_varint(b, (uint64_t)frames);
        }
        st = kn_put_bytes(r, b, ENCODED, file.p, file.n);
    }
    if (!st)
        st = kn_put_bytes(r, b, CONTENT_TYPE, type, sizeof type - 1);
    kn_text_end(&file);
    return st;
}

/* Appends sound i of n as a value of the Summary. */
static enum rt_status put_value(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                const struct rt_tensor *x, int64_t i, bool is_only, float rate)
{
    const int64_t frames = x->dim[1], channels = x->rank == 3 ? x->dim[2] : 1;
    struct rt_bytes audio;
    char suffix[40];

    const size_t n = is_only ? (size_t)snprintf(suffix, sizeof suffix, "/audio")
                             : (size_t)snprintf(suffix, sizeof suffix, "/audio/%lld", (long long)i);
    kn_text_begin(&audio, r);
    enum rt_status st = put_audio(r, &audio, (const float *)x->data + i * frames * channels, frames,
                                  channels, rate);
    if (!st && audio.failed)
        st = kn_text_failed(&audio);
    if (!st) {
        kn_put_length(b, KN_SUMMARY_VALUE, kn_field_size(tag.n + n) + kn_field_size(audio.n));
        kn_put_length(b, KN_SUMMARY_TAG, tag.n + n);
        rt_bytes_add(b, tag.p, tag.n);
        rt_bytes_add(b, suffix, n);
        st = kn_put_bytes(r, b, AUDIO, audio.p, audio.n);
    }
    kn_text_end(&audio);
    return st;
}

enum rt_status kn_put_audio_values(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                   const struct rt_tensor *sounds, float rate, int64_t most)
{
    const int64_t n = sounds->dim[0] < most ? sounds->dim[0] : most;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st && !b->failed; i++)
        st = put_value(r, b, tag, sounds, i, most == 1, rate);
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[1];
    const struct rt_str *tag = rt_strs(&r->in[0]);
    struct rt_bytes b;
    float rate = 0;
    enum rt_status st = check(r, &rate);

    if (st)
        return st;
    kn_text_begin(&b, r);
    st = kn_put_audio_values(r, &b, rt_span_of(rt_str_data(tag), tag->n), x, rate,
                             rt_attr_int(r->node, "max_outputs"));
    if (!st)
        return kn_put_summary(r, &b);
    kn_text_end(&b);
    return st;
}

const struct kn_entry kn_audio_summary_v2 = {
    .op = {.name = "AudioSummaryV2", .infer = kn_infer_scalars},
    .kernels =
        KN_KERNELS({.op = "AudioSummaryV2", .device = "CPU", .name = "audio_summary", .run = run}),
};
