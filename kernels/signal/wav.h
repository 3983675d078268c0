/*
 * The header of WAV files (RIFF, 16-bit PCM). The reader finds the samples in the bytes of a file.
 * It refuses the files that TensorFlow refuses, with TensorFlow's messages.
 *
 * Threads: any; the function is pure.
 */
#ifndef KN_SIGNAL_WAV_H
#define KN_SIGNAL_WAV_H

#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

struct kn_wav {
    int64_t frames, channels; /* a frame has one sample of each channel */
    int64_t sample_rate;
    const unsigned char *samples; /* little-endian 16-bit integers, at any alignment */
};
enum rt_status kn_wav_read(struct rt_span file, struct kn_wav *wav, struct rt_error *err);

#endif
