"""Small networks that hold the other layers of Keras 3 and tf_keras, by subject."""
from catalogue import Request, in_both, integers, keras_of, model, np, random, save, save_signatures


def default(**inputs):
    return Request("serving_default", inputs)


def randomise(net):
    """Gives every weight a random value, because zeros and ones hide differences."""
    for i, w in enumerate(net.weights):
        if "seed_generator" in (getattr(w, "path", "") or "") or "float" not in str(getattr(w, "dtype", "")):
            continue
        low = 0.5 if "variance" in w.name or "gamma" in w.name else -0.4
        w.assign(random(i, tuple(w.shape), low, low + 0.8))


def built(keras, folder, inputs, outputs):
    net = keras.Model(inputs, outputs)
    randomise(net)
    save(net, folder)
    return net


@model(*in_both("conv1d"), stateless=True)
def conv1d(folder, name):
    _, k = keras_of(name)
    x = k.Input((None, 6), name="x")
    y = k.layers.ZeroPadding1D((1, 2))(x)
    y = k.layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu")(y)
    y = k.layers.SeparableConv1D(10, 3, padding="same", depth_multiplier=2, activation="swish")(y)
    y = k.layers.DepthwiseConv1D(3, strides=1, padding="same", depth_multiplier=2)(y)
    a = k.layers.Conv1DTranspose(4, 4, strides=3, padding="same", output_padding=1)(y)
    b = k.layers.AveragePooling1D(3, 2, padding="same")(k.layers.UpSampling1D(2)(y))
    c = k.layers.Conv1D(6, 2, strides=2, groups=2)(k.layers.Cropping1D(1)(k.layers.MaxPooling1D(2, 1)(y)))
    ends = [layer(y) for layer in (k.layers.GlobalAveragePooling1D(), k.layers.GlobalMaxPooling1D(keepdims=True))]
    built(k, folder, x, [a, b, c, *ends])
    return [default(x=random(i, shape, -1, 1)) for i, shape in enumerate([(1, 12, 6), (3, 12, 6), (2, 17, 6)])]


@model(*in_both("conv2d"), stateless=True)
def conv2d(folder, name):
    _, k = keras_of(name)
    # Keras 3 cannot scale images of unknown sizes up.
    x = k.Input((16, 16, 4) if k.__name__ == "keras" else (None, None, 4), name="x")
    y = k.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu6" if "3" in name else "relu")(x)
    y = k.layers.BatchNormalization()(y)
    y = k.layers.DepthwiseConv2D((3, 5), padding="same", depth_multiplier=2)(y)
    y = k.layers.SeparableConv2D(12, 3, dilation_rate=2, padding="same")(y)
    y = k.layers.ZeroPadding2D(((1, 2), (3, 0)))(y)
    y = k.layers.Conv2D(12, 3, groups=3, padding="valid", activation="gelu")(y)
    a = k.layers.Conv2DTranspose(5, 3, strides=2, padding="same", output_padding=1, activation="tanh")(y)
    b = k.layers.Conv2DTranspose(5, 4, strides=(2, 3), padding="valid", use_bias=False)(y)
    c = [k.layers.UpSampling2D((2, 3), interpolation=how)(y) for how in ("nearest", "bilinear")]
    d = k.layers.AveragePooling2D(3, 2, padding="same")(k.layers.Cropping2D(((0, 1), (1, 1)))(y))
    e = k.layers.MaxPooling2D((2, 3), (1, 2), padding="same")(y)
    ends = [layer(y) for layer in (k.layers.GlobalAveragePooling2D(keepdims=True), k.layers.GlobalMaxPooling2D())]
    built(k, folder, x, [a, b, *c, d, e, *ends])
    width = 16 if k.__name__ == "keras" else 21
    return [default(x=random(i, (n, 16, w, 4), -1, 1)) for i, (n, w) in enumerate([(1, 16), (3, 16), (2, width)])]


@model(*in_both("channels_first"), stateless=True)
def channels_first(folder, name):
    """As models for GPUs are written: only transposes make it run on a CPU."""
    _, k = keras_of(name)
    x = k.Input((14, 14, 3), name="x")
    y = k.layers.Permute((3, 1, 2))(x)
    y = k.layers.BatchNormalization(axis=1)(y)
    y = k.layers.Flatten(data_format="channels_first")(y)
    built(k, folder, x, k.layers.Dense(4)(y))
    return [default(x=random(i, (i, 14, 14, 3), -1, 1)) for i in (1, 3)]


@model(*in_both("conv3d"), stateless=True)
def conv3d(folder, name):
    _, k = keras_of(name)
    x = k.Input((8, 9, 10, 2), name="x")
    y = k.layers.Conv3D(6, 3, padding="same", activation="relu")(k.layers.ZeroPadding3D(1)(x))
    y = k.layers.Conv3D(4, (2, 3, 1), strides=2)(y)
    a = k.layers.Conv3DTranspose(3, 3, strides=2, padding="same")(y)
    b = k.layers.MaxPooling3D(2, padding="same")(k.layers.UpSampling3D((1, 2, 2))(y))
    c = k.layers.AveragePooling3D((2, 2, 1))(k.layers.Cropping3D(((1, 0), (0, 1), (0, 0)))(y))
    built(k, folder, x, [a, b, c, k.layers.GlobalAveragePooling3D()(y), k.layers.GlobalMaxPooling3D()(y)])
    return [default(x=random(i, (i, 8, 9, 10, 2), -1, 1)) for i in (1, 2)]


@model(*in_both("normalisation"), stateless=True)
def normalisation(folder, name):
    _, k = keras_of(name)
    x = k.Input((6, 8), name="x")
    kinds = [k.layers.BatchNormalization(axis=1), k.layers.BatchNormalization(center=False, scale=False), k.layers.LayerNormalization(),
             k.layers.LayerNormalization(axis=[1, 2], epsilon=1e-5), k.layers.GroupNormalization(4), k.layers.GroupNormalization(-1),
             k.layers.UnitNormalization(), k.layers.UnitNormalization(axis=1), k.layers.GaussianNoise(1.0), k.layers.AlphaDropout(0.5)]
    if k.__name__ == "keras":
        kinds += [k.layers.RMSNormalization(), k.layers.SpectralNormalization(k.layers.Dense(4))]
    else:
        kinds.append(k.layers.LayerNormalization(axis=1, center=False))
    built(k, folder, x, [layer(x) for layer in kinds])
    return [default(x=random(i, (i, 6, 8), -3, 5)) for i in (1, 4)]


@model(*in_both("activations"), stateless=True)
def activations(folder, name):
    _, k = keras_of(name)
    x = k.Input((5, 6), name="x")
    names = ["elu", "exponential", "gelu", "hard_sigmoid", "linear", "mish", "relu", "selu", "sigmoid", "softmax", "softplus",
             "softsign", "swish", "tanh", "leaky_relu", "log_softmax" if k.__name__ == "keras" else "relu"]
    if k.__name__ == "keras":
        names += ["celu", "glu", "hard_shrink", "hard_silu", "hard_tanh", "log_sigmoid", "relu6", "soft_shrink", "sparse_plus",
                  "sparse_sigmoid", "sparsemax", "squareplus", "tanh_shrink", "threshold"]
    more = {"threshold": [0.2, 0.1]}
    y = [k.layers.Lambda(lambda v, f=getattr(k.activations, n), a=more.get(n, []): f(v, *a), output_shape=None)(x) for n in names
         if hasattr(k.activations, n)]
    y += [k.layers.ELU(0.5)(x), k.layers.LeakyReLU(0.2)(x), k.layers.PReLU(shared_axes=[1])(x), k.layers.PReLU()(x),
          k.layers.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.3)(x), k.layers.Softmax(axis=1)(x)]
    mask = k.Input((5, 6), dtype="bool", name="mask")
    y.append(k.layers.Softmax()(x, mask))
    built(k, folder, [x, mask], y)
    # Extreme values are finite in float32 with each of the functions.
    return [default(x=random(i, (i, 5, 6), -low, low), mask=integers(i, (i, 5, 6), 2).astype(bool)) for i, low in ((1, 4), (3, 4), (2, 80))]


@model(*in_both("attention"), stateless=True)
def attention(folder, name):
    _, k = keras_of(name)
    q, v = k.Input((None, 12), name="q"), k.Input((None, 12), name="v")
    kept = k.Input((None,), dtype="bool", name="kept")
    layers = k.layers
    many = layers.MultiHeadAttention(3, 4, value_dim=5, dropout=0.1)
    y = [layers.Attention(use_scale=True)([q, v], mask=[None, kept]), layers.Attention(score_mode="concat")([q, v]),
         layers.AdditiveAttention()([q, v], mask=[None, kept]), layers.Attention()([q, q], use_causal_mask=True),
         *many(q, v, return_attention_scores=True), many(v, v, use_causal_mask=True),
         layers.MultiHeadAttention(2, 6, output_shape=7, use_bias=False)(q, v, attention_mask=layers.Reshape((1, -1))(kept))]
    if k.__name__ == "keras":
        y += [layers.GroupQueryAttention(4, 4, 2)(q, v), layers.MultiHeadAttention(2, 6, flash_attention=False)(q, v, use_causal_mask=True)]
    built(k, folder, [q, v, kept], y)
    shapes = [(1, 5, 7), (3, 5, 7), (2, 1, 9)]
    return [default(q=random(i, (b, t, 12), -1, 1), v=random(i + 9, (b, s, 12), -1, 1), kept=integers(i, (b, s), 5) > 0)
            for i, (b, t, s) in enumerate(shapes)]


@model(*in_both("transformer"), stateless=True)
def transformer(folder, name):
    """A causal language model with signatures for logits, for the next token and for the loss."""
    import tensorflow as tf

    _, k = keras_of(name)
    width, vocabulary, longest = 32, 80, 20

    class Positions(k.layers.Layer):
        def build(self, shape):
            self.table = self.add_weight(shape=(longest, width), initializer="uniform", name="table")

        def call(self, x):
            return x + self.table[:tf.shape(x)[1]]

    x = k.Input((None,), dtype="int32", name="tokens")
    y = Positions()(k.layers.Embedding(vocabulary, width, mask_zero=True)(x))
    for _ in range(2):
        a = k.layers.LayerNormalization(epsilon=1e-6)(y)
        y = k.layers.Add()([y, k.layers.MultiHeadAttention(4, 8)(a, a, use_causal_mask=True)])
        a = k.layers.LayerNormalization(epsilon=1e-6)(y)
        a = k.layers.EinsumDense("abc,cd->abd", output_shape=(None, 64), bias_axes="d", activation="gelu")(a)
        y = k.layers.Add()([y, k.layers.Dropout(0.1)(k.layers.Dense(width)(a))])
    net = k.Model(x, k.layers.Dense(vocabulary)(y))
    randomise(net)

    def best(tokens):
        scores, ids = tf.math.top_k(tf.nn.log_softmax(net(tokens, training=False)[:, -1]), 5)
        return {"scores": scores, "ids": ids}

    def greedy(tokens, n):
        for _ in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(tokens, tf.TensorShape([None, None]))])
            chosen = tf.argmax(net(tokens, training=False)[:, -1], -1, output_type=tf.int32)
            tokens = tf.concat([tokens, chosen[:, None]], 1)
        return {"tokens": tokens}

    ids = tf.TensorSpec([None, None], tf.int32, name="tokens")
    save_signatures(folder, [net], serving_default=(lambda tokens: {"logits": net(tokens, training=False)}, ids),
                    best=(best, ids), greedy=(greedy, ids, tf.TensorSpec([], tf.int32, name="n")))
    ids = integers(5, (3, 8), vocabulary - 1) + 1
    ids[1, 5:] = 0
    return [default(tokens=ids[:1]), default(tokens=ids), Request("best", {"tokens": ids}), Request("best", {"tokens": ids[:1, :4]}),
            Request("greedy", {"tokens": ids[:2, :5], "n": np.int32(6)}), default(tokens=ids + 79),
            default(tokens=integers(6, (2, 24), 79))]


@model(*in_both("merging"), stateless=True)
def merging(folder, name):
    _, k = keras_of(name)
    a, b, ids = k.Input((4, 6), name="a"), k.Input((4, 6), name="b"), k.Input((3,), dtype="int32", name="ids")
    layers = k.layers
    y = [layer([a, b]) for layer in (layers.Add(), layers.Subtract(), layers.Multiply(), layers.Average(), layers.Maximum(),
                                     layers.Minimum(), layers.Concatenate(axis=1), layers.Dot(2),
                                     layers.Dot((2, 2), normalize=True), layers.Dot(1))]
    flat = layers.Flatten()(layers.Permute((2, 1))(a))
    y += [layers.RepeatVector(3)(flat), layers.Reshape((2, -1, 3))(b),
          layers.EinsumDense("...x,xy->...y", output_shape=5, bias_axes="y")(a),
          layers.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")(b),
          layers.Embedding(10, 4)(ids), layers.SpatialDropout1D(0.5)(a), layers.ActivityRegularization(0.1)(b), layers.Dense(3)(flat)]
    if k.__name__ == "tf_keras":
        y += [layers.LocallyConnected1D(3, 2)(a), layers.LocallyConnected2D(2, 2, implementation=3)(layers.Reshape((4, 6, 1))(b)),
              layers.ThresholdedReLU(0.4)(a)]
    built(k, folder, [a, b, ids], y)
    return [default(a=random(i, (i, 4, 6), -1, 1), b=random(i + 5, (i, 4, 6), -1, 1), ids=integers(i, (i, 3), limit))
            for i, limit in ((1, 10), (3, 10), (2, 40))]


@model("keras_operations", stateless=True)
def operations(folder):
    """A model written with keras.ops, as code for several back ends is."""
    import keras
    from keras import ops

    keras.utils.set_random_seed(7)

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(8)

        def call(self, inputs):
            x, ids = inputs["x"], inputs["ids"]
            y = self.dense(x)
            picked = ops.take_along_axis(y, ops.argsort(x, axis=1)[:, :3], axis=1)
            values, at = ops.top_k(y, 3)
            sums = ops.segment_sum(y, ids, num_segments=4)
            total = ops.fori_loop(0, 4, lambda i, s: s + ops.cast(i, "float32") * ops.mean(y), ops.zeros(()))
            carried, stacked = ops.scan(lambda c, v: (c * 0.5 + v, c), ops.zeros_like(y[0]), y)
            return {"picked": picked, "values": values, "at": at, "sums": sums, "total": total, "carried": carried, "stacked": stacked,
                    "cond": ops.cond(ops.sum(x) > 0, lambda: y * 2, lambda: y - 1), "norm": ops.norm(y, axis=-1),
                    "einsum": ops.einsum("bi,bj->bij", y, x), "fft": ops.fft((x, x * 0.5))[0],
                    "logsumexp": ops.logsumexp(y, axis=1), "one_hot": ops.one_hot(ids, 5), "erf": ops.erf(x),
                    "median": ops.median(x, axis=1),
                    "quantile": ops.quantile(x, ops.convert_to_tensor([0.25, 0.8]), axis=1), "digitize": ops.digitize(x, [-0.5, 0.0, 0.5]),
                    "unfold": ops.extract_sequences(x, 4, 2), "tril": ops.tril(ops.outer(x[0], x[0])), "std": ops.std(x, axis=0),
                    "roll": ops.roll(x, 2, axis=1), "cumsum": ops.cumsum(x, axis=1), "bincount": ops.bincount(ids, minlength=5),
                    "scatter": ops.scatter(ops.stack([ids, ids], 1), x[:, 0], (4, 4)),
                    "where": ops.where(x > 0, x, ops.cast(ids, "float32")[:, None])}

    net = Net()
    net({"x": np.zeros((2, 6), np.float32), "ids": np.zeros(2, np.int32)})
    archive = keras.export.ExportArchive()
    archive.track(net)
    spec = {"x": keras.InputSpec(shape=(None, 6), dtype="float32", name="x"),
            "ids": keras.InputSpec(shape=(None,), dtype="int32", name="ids")}
    archive.add_endpoint("serve", lambda inputs: net(inputs), input_signature=[spec])
    archive.write_out(folder, verbose=False)
    return [Request("serve", {"x": random(i, (i, 6), -1, 1), "ids": integers(i, (i,), 4)}) for i in (1, 4)]


@model("quantized_int8", stateless=True)
def quantized(folder):
    import keras

    keras.utils.set_random_seed(7)
    x, ids = keras.Input((16,), name="x"), keras.Input((4,), dtype="int32", name="ids")
    y = keras.layers.Dense(32, activation="relu")(x)
    z = keras.layers.Flatten()(keras.layers.Embedding(20, 8)(ids))
    y = keras.layers.Dense(5)(keras.layers.Concatenate()([y, z]))
    net = keras.Model([x, ids], y)
    net.quantize("int8")
    net.export(folder, verbose=False)
    return [default(x=random(i, (i, 16), -1, 1), ids=integers(i, (i, 4), 20)) for i in (1, 4)]


@model("mixed_float16_keras3", "mixed_bfloat16_keras3", rtol=1e-3, stateless=True)
def mixed(folder, name):
    """Outputs are float32, and inner values have 8 or 11 bits, which sums in another order may round up or down."""
    import keras

    keras.utils.set_random_seed(7)
    policy = name[:-len("_keras3")]
    x = keras.Input((12, 12, 3), name="x")
    y = keras.layers.Conv2D(8, 3, activation="relu", dtype=policy)(x)
    y = keras.layers.BatchNormalization(dtype=policy)(y)
    y = keras.layers.GlobalAveragePooling2D(dtype=policy)(y)
    y = keras.layers.Dense(16, activation="gelu", dtype=policy)(y)
    net = keras.Model(x, keras.layers.Dense(4, activation="softmax", dtype="float32")(y))
    net.export(folder, verbose=False)
    return [default(x=random(i, (i, 12, 12, 3), -1, 1)) for i in (1, 3)]
