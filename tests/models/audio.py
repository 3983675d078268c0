"""Audio from WAV bytes, spectral features, keyword spotting, and CTC decoders and losses."""

from catalogue import Request, integers, model, np, random, tracked


def wave(seed, samples, rate, channels=1):
    """Returns the bytes of a WAV file of a few tones."""
    import tensorflow as tf

    t = np.arange(samples)[:, np.newaxis] / rate
    tones = np.random.default_rng(seed).random((3, channels)) * 2000 + 100
    sound = sum(np.sin(2 * np.pi * f * t) for f in tones) * 0.3
    return tf.audio.encode_wav(sound.astype(np.float32), rate).numpy()


@model("audio_features")
def audio_features(folder):
    """STFT, its inverse, mel and MFCC by tf.signal, and the legacy ops AudioSpectrogram and Mfcc, from samples or WAV bytes."""
    import tensorflow as tf

    samples = tf.TensorSpec([None, None], tf.float32, "samples")

    class Features(tf.Module):
        @tf.function(input_signature=[samples])
        def mel(self, samples):
            stft = tf.signal.stft(samples, 400, 160, 512, pad_end=True)
            power = tf.abs(stft) ** 2
            weights = tf.signal.linear_to_mel_weight_matrix(40, 257, 16000, 80.0, 7600.0)
            mel = tf.tensordot(power, weights, 1)
            log_mel = tf.math.log(mel + 1e-6)
            return {"log_mel": log_mel, "mfcc": tf.signal.mfccs_from_log_mel_spectrograms(log_mel)[..., :13], "frames": tf.shape(stft)[1]}

        @tf.function(input_signature=[samples])
        def inverse(self, samples):
            stft = tf.signal.stft(samples, 256, 128)
            back = tf.signal.inverse_stft(stft, 256, 128, window_fn=tf.signal.inverse_stft_window_fn(128))
            mdct = tf.signal.mdct(samples, 128, pad_end=True)
            return {"back": back, "mdct": mdct, "envelope": tf.abs(tf.signal.ifft(tf.signal.fft(tf.cast(samples, tf.complex64))))}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, "wav")])
        def from_wav(self, wav):
            sound, rate = tf.audio.decode_wav(wav, desired_channels=1)
            spectrogram = tf.raw_ops.AudioSpectrogram(input=sound, window_size=480, stride=160, magnitude_squared=True)
            mfcc = tf.raw_ops.Mfcc(spectrogram=spectrogram, sample_rate=rate, dct_coefficient_count=10)
            return {"rate": rate, "spectrogram": spectrogram, "mfcc": mfcc, "sound": sound}

        @tf.function(input_signature=[samples, tf.TensorSpec([], tf.int32, "factor")])
        def resample(self, samples, factor):
            """Resamples by a windowed sinc: zeros between the samples, a filter, and every second sample of the result."""
            n = tf.range(-16, 17, dtype=tf.float32)
            kernel = tf.where(n == 0, 0.5, tf.sin(np.pi * n * 0.5) / (np.pi * tf.where(n == 0, 1.0, n))) * tf.signal.hann_window(33, False)
            shape = tf.shape(samples)
            spread = tf.reshape(tf.pad(samples[..., tf.newaxis], [[0, 0], [0, 0], [0, factor - 1]]), [shape[0], -1])
            low = tf.nn.conv1d(spread[..., tf.newaxis], kernel[:, tf.newaxis, tf.newaxis] * tf.cast(factor, tf.float32), 1, "SAME")[..., 0]
            framed = tf.signal.frame(low, 64, 32, pad_end=True)
            overlap = tf.signal.overlap_and_add(framed * tf.signal.hamming_window(64), 32)
            return {"low": low[:, ::2], "energy": tf.reduce_mean(framed**2, -1), "overlap": overlap}

        @tf.function(input_signature=[samples])
        def encode(self, samples):
            data = tf.map_fn(lambda s: tf.audio.encode_wav(s[:, tf.newaxis], 8000), samples, fn_output_signature=tf.string)
            dct = [tf.signal.dct(samples, t, norm="ortho") for t in (2, 3)] + [tf.signal.dct(samples, 1)]
            return {"wav": data, "dct": tf.stack(dct)}

    made = Features()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("mel", "inverse", "from_wav", "resample", "encode")})
    short, long = random(1, (1, 4000), -1, 1), random(2, (3, 8000), -1, 1)
    requests = []
    for sound in (short, long):
        requests += [
            Request("mel", {"samples": sound}),
            Request("inverse", {"samples": sound}),
            Request("encode", {"samples": sound[:, :400]}),
            Request("resample", {"samples": sound, "factor": np.int32(3)}),
        ]
    requests += [Request("from_wav", {"wav": np.array(wave(n, 16000 // n, 16000, n), object)}) for n in (1, 2)]
    requests += [Request("from_wav", {"wav": np.array(b"RIFF....WAVE", object)}), Request("mel", {"samples": random(1, (1, 10))})]
    return requests


@model("keyword_spotting")
def keyword_spotting(folder):
    """The speech commands of TensorFlow 1's tutorials: a frozen graph from WAV bytes to labels, and a streaming recurrent one."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        wav = v1.placeholder(tf.string, [], "wav_data")
        sound = tf.audio.decode_wav(wav, desired_channels=1, desired_samples=16000)
        spectrogram = tf.raw_ops.AudioSpectrogram(input=sound.audio, window_size=480, stride=320, magnitude_squared=True)
        mfcc = tf.raw_ops.Mfcc(spectrogram=spectrogram, sample_rate=sound.sample_rate, dct_coefficient_count=40)
        fingerprint = v1.placeholder_with_default(tf.reshape(mfcc, [-1, 49 * 40]), [None, 49 * 40], "fingerprint")
        weight = lambda seed, *shape: v1.Variable(random(seed, shape, -0.1, 0.1), use_resource=False)
        x = tf.reshape(fingerprint, [-1, 49, 40, 1]) * 0.1
        x = tf.nn.relu(tf.nn.conv2d(x, weight(1, 20, 8, 1, 16), 1, "SAME") + weight(2, 16))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        x = tf.nn.relu(tf.nn.conv2d(x, weight(3, 10, 4, 16, 16), 1, "SAME") + weight(4, 16))
        logits = tf.matmul(tf.reshape(x, [-1, 25 * 20 * 16]), weight(5, 25 * 20 * 16, 6)) * 0.1
        labels = tf.nn.softmax(logits, name="labels_softmax")
        best, which = tf.math.top_k(labels, 2)
        table = v1.lookup.StaticHashTable(
            v1.lookup.KeyValueTensorInitializer(np.arange(6), ["_silence_", "yes", "no", "up", "down", "left"]), "none"
        )
        words = table.lookup(tf.cast(which, tf.int64))
        state = v1.get_variable("smoothed", initializer=tf.zeros([6]), use_resource=False)
        smoothed = v1.assign(state, 0.7 * state + 0.3 * labels[0])
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        info = v1.saved_model.build_tensor_info
        made = lambda inputs, outputs: v1.saved_model.build_signature_def(
            {k: info(t) for k, t in inputs.items()}, {k: info(t) for k, t in outputs.items()}, "tensorflow/serving/predict"
        )
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={
                "serving_default": made({"wav": wav}, {"scores": best, "words": words}),
                "fingerprints": made({"fingerprint": fingerprint}, {"labels": labels}),
                "streaming": made({"wav": wav}, {"smoothed": smoothed}),
            },
            main_op=v1.tables_initializer(),
        )
        builder.save()
    files = [np.array(wave(s, n, 16000), object) for s, n in ((1, 16000), (2, 9000), (3, 20000))]
    return (
        [Request("serving_default", {"wav": f}) for f in files]
        + [Request("streaming", {"wav": f}) for f in files]
        + [Request("fingerprints", {"fingerprint": random(n, (n, 49 * 40), -20, 20)}) for n in (1, 4)]
    )


@model("ctc_keras")
def ctc_keras(folder):
    """A recurrent acoustic model with greedy and beam decoders, and both losses."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(3)
    net = keras.Sequential(
        [
            keras.Input((None, 13)),
            keras.layers.Conv1D(32, 5, 2, "same", activation="relu"),
            keras.layers.Bidirectional(keras.layers.GRU(24, return_sequences=True)),
            keras.layers.Dense(9),
        ]
    )
    letters = tf.constant(list("abcdefgh"))
    frames, lengths = tf.TensorSpec([None, None, 13], tf.float32, "frames"), tf.TensorSpec([None], tf.int32, "lengths")

    class Recogniser(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(net)

        def logits(self, frames):
            # The scale makes the classes of a random model differ.
            return tf.transpose(net(frames, training=False) * 8, [1, 0, 2])

        def spell(self, decoded):
            return tf.strings.reduce_join(
                tf.RaggedTensor.from_sparse(tf.SparseTensor(decoded.indices, tf.gather(letters, decoded.values), decoded.dense_shape)), 1
            )

        @tf.function(input_signature=[frames, lengths])
        def greedy(self, frames, lengths):
            decoded, score = tf.nn.ctc_greedy_decoder(self.logits(frames), lengths)
            return {"text": self.spell(decoded[0]), "dense": tf.sparse.to_dense(decoded[0], -1), "score": score}

        @tf.function(input_signature=[frames, lengths])
        def beam(self, frames, lengths):
            decoded, score = tf.nn.ctc_beam_search_decoder(self.logits(frames), lengths, 12, 3)
            return {"best": self.spell(decoded[0]), "third": tf.sparse.to_dense(decoded[2], -1), "score": score}

        @tf.function(input_signature=[frames, lengths, tf.TensorSpec([None, None], tf.int32, "labels")])
        def loss(self, frames, lengths, labels):
            logits = self.logits(frames)
            n = tf.reduce_sum(tf.cast(labels >= 0, tf.int32), 1)
            dense = tf.nn.ctc_loss(tf.maximum(labels, 0), logits, n, lengths, blank_index=8)
            sparse = tf.sparse.from_dense(labels + 1)
            sparse = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
            return {
                "dense": dense,
                "sparse": tf.nn.ctc_loss(sparse, logits, None, lengths, blank_index=-1),
                "classic": tf.compat.v1.nn.ctc_loss(sparse, logits, lengths, ignore_longer_outputs_than_inputs=True),
            }

        @tf.function(input_signature=[frames, lengths, tf.TensorSpec([None, None], tf.int32, "labels")])
        def gradient(self, frames, lengths, labels):
            with tf.GradientTape() as tape:
                n = tf.reduce_sum(tf.cast(labels >= 0, tf.int32), 1)
                loss = tf.reduce_mean(tf.nn.ctc_loss(tf.maximum(labels, 0), self.logits(frames), n, lengths, blank_index=8))
            grads = tape.gradient(loss, net.trainable_variables)
            return {"loss": loss, **{f"g{i}": g for i, g in enumerate(grads)}}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "a"), tf.TensorSpec([None, None], tf.int32, "b")])
        def error_rate(self, a, b):
            return {"distance": tf.edit_distance(tf.sparse.from_dense(a), tf.sparse.from_dense(b), normalize=True)}

    made = Recogniser()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("greedy", "beam", "loss", "gradient", "error_rate")})
    requests = []
    for seed, n, time, valid in ((1, 1, 40, [20]), (2, 3, 60, [30, 12, 25])):
        given = {"frames": random(seed, (n, time, 13), -1, 1), "lengths": np.array(valid, np.int32)}
        labels = integers(seed, (n, 6), 8)
        labels[-1, 4:] = -1
        requests += [
            Request("greedy", given),
            Request("beam", given),
            Request("loss", {**given, "labels": labels}),
            Request("gradient", {**given, "labels": labels}),
        ]
    requests += [
        Request("error_rate", {"a": integers(1, (3, 5), 4), "b": integers(2, (3, 7), 4)}),
        Request("greedy", {**given, "lengths": np.array([90, 1, 1], np.int32)}),
    ]
    return requests
