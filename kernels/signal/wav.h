/*
 * WAV files (RIFF, 16-bit PCM). The reader finds the samples in the bytes of a file.
 * It refuses the files that TensorFlow refuses, with TensorFlow's messages.
 *
 * Threads: any; all data belongs to a single run.
 */
#ifndef KN_SIGNAL_WAV_H
#define KN_SIGNAL_WAV_H

#include <stdint.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "runtime/core/run.h"

struct kn_wav {
    int64_t frames, channels; /* a frame has one sample of each channel */
    int64_t sample_rate;
    const unsigned char *samples; /* little-endian 16-bit integers, at any alignment */
};
enum rt_status kn_wav_read(struct rt_span file, struct kn_wav *wav, struct rt_error *err);
/* Appends a WAV file to a buffer of the run (kn_text_begin). `x` has frames * channels samples. */
enum rt_status kn_wav_write(struct rt_run *r, struct rt_bytes *b, const float *x, int64_t frames,
                            int64_t channels, int64_t rate);

#endif
