"""Preprocessing layers of Keras 3 and tf_keras: of each kind, the modes that give other graphs."""
from catalogue import Request, in_both, integers, keras_of, model, np, random, save, save_signatures, texts

ANIMALS = ["cat", "dog", "bird", "fish", "café", "Straße", "猫"]
WORDS = ["the", "Cat", "sat", "on", "a", "mat", "dog's", "naïve", "ÉTÉ", "x<br/>y", "42", "", "!?", "\t"]


def default(**inputs):
    return Request("serving_default", inputs)


def strings(*rows):
    return np.array([[w.encode() for w in row] for row in rows], object)


def apply_layers(name, folder, inputs, made):
    """Saves a model that gives all inputs to all of the layers."""
    _, k = keras_of(name)
    outputs = [layer(inputs[0] if len(inputs) == 1 else inputs) for layer in made]
    save(k.Model(inputs, outputs), folder)


@model(*in_both("normalization"), stateless=True)
def normalization(folder, name):
    _, k = keras_of(name)
    x = k.Input((4, 3), name="x")
    kinds = [dict(axis=-1), dict(axis=(1, 2)), dict(axis=None), dict(axis=1, invert=True), dict(mean=2.0, variance=0.5, axis=None)]
    made = [k.layers.Normalization(**how) for how in kinds]
    for layer in made[:-1]:
        layer.adapt(random(1, (64, 4, 3), -2, 5))
    apply_layers(name, folder, [x], made)
    return [default(x=random(i, (i, 4, 3), -5, 5)) for i in (1, 5)]


@model(*in_both("discretization"), stateless=True)
def discretization(folder, name):
    _, k = keras_of(name)
    x = k.Input((3,), name="x")
    adapted = k.layers.Discretization(num_bins=6)
    adapted.adapt(random(1, (200, 1), -1, 1))
    made = [k.layers.Discretization(bin_boundaries=[-0.5, 0.0, 0.25, 0.5], output_mode=mode)
            for mode in ("int", "multi_hot", "count")] + [adapted]
    apply_layers(name, folder, [x], made)
    edges = np.array([[-0.5, 0.0, 0.25], [np.nextafter(np.float32(0.5), np.float32(0)), 0.5, -0.0], [1e30, -1e30, np.inf]], np.float32)
    return [default(x=random(1, (1, 3), -1, 1)), default(x=random(2, (4, 3), -1, 1)), default(x=edges)]


@model(*in_both("category_encoding"), stateless=True)
def category_encoding(folder, name):
    _, k = keras_of(name)
    ids, one, weights = k.Input((4,), dtype="int64", name="ids"), k.Input((1,), dtype="int64", name="one"), k.Input((4,), name="weights")
    y = [k.layers.CategoryEncoding(6, output_mode="multi_hot")(ids), k.layers.CategoryEncoding(6, output_mode="count")(ids),
         k.layers.CategoryEncoding(6, output_mode="count")(ids, count_weights=weights),
         k.layers.CategoryEncoding(6, output_mode="one_hot")(one)]
    save(k.Model([ids, one, weights], y), folder)
    asked = [default(ids=integers(i, (i, 4), 6, "int64"), one=integers(i, (i, 1), 6, "int64"), weights=random(i, (i, 4))) for i in (1, 3)]
    wrong = [default(**dict(asked[1].inputs, ids=asked[1].inputs["ids"] + d)) for d in (4, -3)]
    return asked + wrong


@model(*in_both("hashing"), stateless=True)
def hashing(folder, name):
    _, k = keras_of(name)
    words, numbers = k.Input((3,), dtype="string", name="words"), k.Input((3,), dtype="int64", name="numbers")
    kinds = [dict(num_bins=10), dict(num_bins=10, salt=7), dict(num_bins=9, salt=[5, 2**40]), dict(num_bins=7, mask_value=""),
             dict(num_bins=6, output_mode="multi_hot"), dict(num_bins=6, output_mode="count", salt=1)]
    y = [k.layers.Hashing(**how)(words) for how in kinds]
    y += [k.layers.Hashing(**how)(numbers) for how in (dict(num_bins=10), dict(num_bins=10, salt=3), dict(num_bins=8, mask_value=0))]
    save(k.Model([words, numbers], y), folder)
    return [default(words=strings(["cat", "", "a" * 300]), numbers=np.array([[0, -1, 2**62]])),
            default(words=strings(ANIMALS[:3], ANIMALS[4:7], ["\0", "dog", "cat"]), numbers=integers(1, (3, 3), 1000, "int64") - 500)]


@model(*in_both("hashed_crossing"), stateless=True)
def hashed_crossing(folder, name):
    _, k = keras_of(name)
    a, b = k.Input((1,), dtype="string", name="a"), k.Input((1,), dtype="int64", name="b")
    kinds = [dict(num_bins=10), dict(num_bins=50, output_mode="one_hot")]
    save(k.Model([a, b], [k.layers.HashedCrossing(**how)((a, b)) for how in kinds]), folder)
    return [default(a=strings(["cat"]), b=np.array([[5]])), default(a=strings(*[[w] for w in ANIMALS]), b=integers(1, (7, 1), 99, "int64"))]


@model(*in_both("integer_lookup"), stateless=True)
def integer_lookup(folder, name):
    _, k = keras_of(name)
    x = k.Input((4,), dtype="int64", name="x")
    words = [5, 10, -7, 2**40]
    kinds = [dict(), dict(num_oov_indices=3), dict(mask_token=0), dict(oov_token=-9, invert=True), dict(output_mode="multi_hot"),
             dict(output_mode="count", num_oov_indices=2), dict(output_mode="tf_idf", idf_weights=[0.5, 0.25, 1.5, 2.0]),
             dict(output_mode="multi_hot", pad_to_max_tokens=True, max_tokens=9)]
    made = [k.layers.IntegerLookup(vocabulary=words, **how) for how in kinds]
    adapted = k.layers.IntegerLookup(max_tokens=4)
    adapted.adapt(integers(3, (90, 1), 6, "int64"))
    apply_layers(name, folder, [x], [*made, adapted])
    return [default(x=np.array([[5, 10, 0, -7]])), default(x=np.array([[2**40, 1, 2, 3], [4, 4, 10, 10], [-1, 0, 5, 2]]))]


@model(*in_both("integer_lookup_strict"), stateless=True)
def integer_lookup_strict(folder, name):
    """Without an index for unknown values the layer refuses them."""
    _, k = keras_of(name)
    x = k.Input((2,), dtype="int64", name="x")
    apply_layers(name, folder, [x], [k.layers.IntegerLookup(vocabulary=[5, 10, 20], num_oov_indices=0)])
    return [default(x=np.array([[5, 10]])), default(x=np.array([[20, 10], [5, 6]])), default(x=np.array([[20, 10], [5, 5]]))]


@model(*in_both("string_lookup"), stateless=True)
def string_lookup(folder, name):
    _, k = keras_of(name)
    x = k.Input((4,), dtype="string", name="x")
    kinds = [dict(), dict(num_oov_indices=3), dict(mask_token=""), dict(output_mode="multi_hot"),
             dict(output_mode="count", num_oov_indices=2), dict(output_mode="tf_idf", idf_weights=[0.5, 0.25, 1.5, 2.0, 0.1, 0.7, 0.9]),
             dict(oov_token="?", mask_token="cat")]
    made = [k.layers.StringLookup(vocabulary=ANIMALS[how.get("mask_token") == "cat":], **how) for how in kinds]
    adapted = k.layers.StringLookup(max_tokens=5, output_mode="tf_idf")
    adapted.adapt(strings(["a", "b", "x", "y"], ["a", "c", "d", "x"], ["b", "d", "y", "a"]))
    apply_layers(name, folder, [x], [*made, adapted])
    return [default(x=strings(["cat", "dog", "", "zebra"])),
            default(x=strings(ANIMALS[:4], ANIMALS[3:7], ["cat", "cat", "x", "y"], ["a", "b", "a", "d"]))]


def argmax(scores):
    import tensorflow as tf

    return tf.argmax(scores, -1)


@model(*in_both("string_lookup_file"), stateless=True)
def string_lookup_file(folder, name):
    """The vocabulary is an asset. The labels are looked up in a second, inverted layer."""
    import os
    import tempfile

    _, k = keras_of(name)
    x, scores = k.Input((1,), dtype="string", name="x"), k.Input((7,), name="scores")
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "animals.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(ANIMALS))
        ids = k.layers.StringLookup(vocabulary=path, output_mode="one_hot")(x)
        best = k.layers.Lambda(argmax, output_shape=())(scores)
        label = k.layers.StringLookup(vocabulary=path, invert=True)(best)
        save(k.Model([x, scores], [ids, label]), folder)
    return [default(x=strings(*[[w] for w in words]), scores=random(len(words), (len(words), 7)))
            for words in (["dog"], ["猫", "x", "café"])]


@model(*in_both("text_vectorization"), stateless=True)
def text_vectorization(folder, name):
    _, k = keras_of(name)
    x = k.Input((1,), dtype="string", name="x")
    kinds = [dict(), dict(output_sequence_length=6), dict(output_mode="multi_hot"), dict(output_mode="count", ngrams=2),
             dict(output_mode="tf_idf"), dict(ngrams=(1, 3), max_tokens=30), dict(standardize="lower", split="character"),
             dict(standardize="strip_punctuation", split=None),
             dict(standardize=None, output_mode="tf_idf", max_tokens=12, pad_to_max_tokens=True)]
    made = [k.layers.TextVectorization(**how) for how in kinds]
    for layer in made:
        layer.adapt(texts(1, 40, WORDS))
    apply_layers(name, folder, [x], made)
    return [default(x=texts(seed, n, WORDS)[:, None]) for seed, n in ((2, 1), (3, 5))] + [
        default(x=strings([""])), default(x=np.array([[b"not UTF-8: \xff\xfe cat"]], object))]


@model(*in_both("text_classifier"), stateless=True)
def text_classifier(folder, name):
    """The usual model of a tutorial: strings, words, embeddings, a score."""
    _, k = keras_of(name)
    x = k.Input((), dtype="string", name="text")
    words = k.layers.TextVectorization(max_tokens=30, output_sequence_length=10)
    words.adapt(texts(1, 60, WORDS))
    y = k.layers.Embedding(30, 8)(words(x))
    y = k.layers.Conv1D(8, 3, activation="relu")(k.layers.Dropout(0.2)(y))
    y = k.layers.Dense(1, activation="sigmoid")(k.layers.GlobalAveragePooling1D()(y))
    save(k.Model(x, y), folder)
    return [default(text=texts(seed, n, WORDS)) for seed, n in ((2, 1), (3, 6), (4, 6))]


@model("text_ragged", stateless=True)
def text_ragged(folder):
    """Only tf_keras gives ragged tokens. The signatures flatten them, as clients cannot receive them."""
    import tensorflow as tf
    import tf_keras

    words = tf_keras.layers.TextVectorization(ragged=True, ngrams=2)
    words.adapt(texts(1, 40, WORDS))
    lookup = tf_keras.layers.Hashing(50)

    def tokens(text):
        ids = words(text)
        hashed = lookup(tf.strings.split(text))
        return {"ids": ids.flat_values, "splits": ids.row_splits, "hashed": hashed.to_tensor(-1), "longest": ids.bounding_shape()[1]}

    save_signatures(folder, [words, lookup], serving_default=(tokens, tf.TensorSpec([None], tf.string, name="text")))
    return [default(text=texts(seed, n, WORDS)) for seed, n in ((2, 1), (3, 6), (4, 0))]


@model(*in_both("resizing"), stateless=True)
def resizing(folder, name):
    _, k = keras_of(name)
    x = k.Input((None, None, 3), name="x")
    hows = ["bilinear", "nearest", "bicubic", "lanczos3", "lanczos5"]
    hows += ["area", "gaussian", "mitchellcubic"] if k.__name__ == "tf_keras" else []
    made = [k.layers.Resizing(9, 14, interpolation=how) for how in hows] + [k.layers.Resizing(9, 14, crop_to_aspect_ratio=True)]
    if k.__name__ == "keras":
        made += [k.layers.Resizing(9, 14, antialias=True), k.layers.Resizing(9, 14, pad_to_aspect_ratio=True, fill_value=3.0)]
    apply_layers(name, folder, [x], made)
    return [default(x=random(i, (n, h, w, 3), 0, 255)) for i, (n, h, w) in enumerate([(1, 16, 16), (3, 16, 16), (2, 5, 20), (1, 30, 11)])]


@model(*in_both("cropping"), stateless=True)
def cropping(folder, name):
    _, k = keras_of(name)
    x = k.Input((12, 10, 3), dtype="uint8" if k.__name__ == "tf_keras" else "float32", name="x")
    made = [k.layers.CenterCrop(8, 6), k.layers.CenterCrop(20, 6), k.layers.Rescaling(1 / 127.5, offset=-1.0)]
    apply_layers(name, folder, [x], made)
    dtype = "uint8" if k.__name__ == "tf_keras" else "float32"
    return [default(x=integers(i, (i, 12, 10, 3), 256, dtype)) for i in (1, 3)]


@model(*in_both("random_images"), stateless=True)
def random_images(folder, name):
    """Layers that augment images in training, as they are left in models that are served: most pass images on.

    Keras 3's layers augment unless they are told not to.
    """
    _, k = keras_of(name)
    x = k.Input((12, 10, 3), name="x")
    layers = k.layers
    made = [layers.RandomFlip(), layers.RandomRotation(0.2), layers.RandomZoom(0.3), layers.RandomTranslation(0.1, 0.2),
            layers.RandomContrast(0.2), layers.RandomBrightness(0.2), layers.RandomCrop(8, 8)]
    if k.__name__ == "tf_keras":
        made += [layers.RandomHeight(0.2), layers.RandomWidth(0.2)]
    else:
        made += [layers.RandomHue(0.1), layers.RandomSaturation(0.2), layers.RandomShear(0.1), layers.RandomGrayscale(0.5),
                 layers.RandomSharpness(0.3), layers.RandomGaussianBlur(), layers.RandomErasing(), layers.RandomInvert(),
                 layers.RandomPosterization(4), layers.AutoContrast(), layers.Solarization(threshold_factor=0.5)]
    save(k.Model(x, [layer(x, training=False) for layer in made]), folder)
    return [default(x=np.floor(random(i, (i, 12, 10, 3), 0, 255))) for i in (1, 3)]


@model(*in_both("augmenting"))
def augmenting(folder, name):
    """The same layers in training mode. Random values are not comparable, so the signature gives shapes, ranges and facts."""
    import tensorflow as tf

    _, k = keras_of(name)
    layers = k.layers
    made = {"flip": layers.RandomFlip(), "rotation": layers.RandomRotation(0.2), "zoom": layers.RandomZoom((-0.3, -0.1)),
            "translation": layers.RandomTranslation(0.1, 0.2), "contrast": layers.RandomContrast(0.2),
            "brightness": layers.RandomBrightness(0.2), "crop": layers.RandomCrop(8, 8), "dropout": layers.Dropout(0.4),
            "noise": layers.GaussianNoise(0.5)}
    for layer in made.values():
        layer(np.zeros((2, 12, 10, 3), np.float32), training=True)

    def augment(x):
        y = {n: layer(x, training=True) for n, layer in made.items()}
        facts = {f"{n}_shape": tf.shape(v) for n, v in y.items()}
        facts["within"] = tf.stack([tf.reduce_all((y[n] >= 0) & (y[n] <= 255.01)) for n in ("flip", "rotation", "crop", "brightness")])
        facts["flip_sum"] = tf.round(tf.reduce_sum(y["flip"], [1, 2, 3]))
        kept = y["dropout"] != 0
        facts["dropout_scale"] = tf.reduce_max(tf.abs(tf.where(kept, y["dropout"] - x / 0.6, 0.0))) < 1e-3
        facts["dropout_share"] = tf.abs(tf.reduce_mean(tf.cast(kept, tf.float32)) - 0.6) < 0.15
        facts["noise_moments"] = tf.abs(tf.math.reduce_std(y["noise"] - x) - 0.5) < 0.1
        return facts

    save_signatures(folder, list(made.values()), serving_default=(augment, tf.TensorSpec([None, 12, 10, 3], name="x")))
    return [default(x=np.floor(random(i, (i, 12, 10, 3), 1, 255))) for i in (1, 3)]


@model("feature_space", stateless=True)
def feature_space(folder):
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)
    space = keras.utils.FeatureSpace(
        features={"age": "float_normalized", "pay": keras.utils.FeatureSpace.float_discretized(num_bins=5), "ratio": "float",
                  "rescaled": keras.utils.FeatureSpace.float_rescaled(scale=0.5), "job": "string_categorical",
                  "code": "integer_categorical", "city": keras.utils.FeatureSpace.string_hashed(num_bins=12),
                  "number": keras.utils.FeatureSpace.integer_hashed(num_bins=7)},
        crosses=[("job", "code")], crossing_dim=16, output_mode="concat")

    def rows(seed, n):
        rng = np.random.default_rng(seed)
        return {"age": random(seed, (n, 1), 10, 80), "pay": random(seed + 1, (n, 1), 0, 9), "ratio": random(seed + 2, (n, 1)),
                "rescaled": random(seed + 3, (n, 1)),
                "job": rng.choice([b"cook", b"smith", b"baker"], (n, 1)).astype(object),
                "code": integers(seed, (n, 1), 5), "city": rng.choice([b"Rom", b"Oslo", b""], (n, 1)).astype(object),
                "number": integers(seed + 1, (n, 1), 99)}

    columns = {k: v[:, 0] for k, v in rows(1, 50).items()}
    columns.update({k: v.astype(bytes) for k, v in columns.items() if v.dtype == object})
    space.adapt(tf.data.Dataset.from_tensor_slices(columns))
    inputs = space.get_inputs()
    net = keras.Model(inputs, keras.layers.Dense(3)(space.get_encoded_features()))
    net.export(folder, verbose=False)
    return [Request("serving_default", rows(2, 1)), Request("serving_default", rows(3, 4))]


@model("mel_spectrogram", stateless=True)
def mel_spectrogram(folder):
    import keras

    x = keras.Input((1600,), name="x")
    layer = keras.layers.MelSpectrogram(fft_length=256, sequence_stride=128, num_mel_bins=20, sampling_rate=8000, max_freq=4000)
    keras.Model(x, layer(x)).export(folder, verbose=False)
    return [default(x=random(i, (i, 1600), -1, 1)) for i in (1, 3)]
