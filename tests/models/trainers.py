"""Training signatures beside prediction: optimisers of both Keras versions, GANs, style transfer, and loops of training."""

from catalogue import Request, integers, model, np, random, tracked

SHOWS = ("predict", "state")
OPTIMISERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion", "Lamb", "Adafactor")


def batches(width=6, classes=3):
    return [{"x": random(n, (n, width), -1, 1), "y": integers(n, (n,), classes)} for n in (1, 8)]


def trainer(tf, net, optimiser, parts, width=6):
    """Returns a module with signatures that train, predict and show the state."""

    class Trainer(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = parts

        @tf.function(input_signature=[tf.TensorSpec([None, width], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                logits = net(x, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
            variables = net.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimiser.apply_gradients(zip(gradients, variables))
            return {"loss": loss, "norm": tf.linalg.global_norm(gradients)}

        @tf.function(input_signature=[tf.TensorSpec([None, width], tf.float32, "x")])
        def predict(self, x):
            return {"probabilities": tf.nn.softmax(net(x, training=False))}

        @tf.function(input_signature=[])
        def state(self):
            shown = [v.value() if callable(getattr(v, "value", None)) else v.value for v in net.variables]
            return {"iterations": tf.identity(optimiser.iterations), **{f"v{i}": tf.identity(v) for i, v in enumerate(shown)}}

    return Trainer()


def small(keras, width=6):
    keras.utils.set_random_seed(4)
    return keras.Sequential(
        [
            keras.Input((width,)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(8, activation="gelu"),
            keras.layers.LayerNormalization(),
            keras.layers.Dense(3),
        ]
    )


def saved(tf, folder, made):
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("train", "predict", "state")})
    one, many = batches()
    return [
        Request("train", many),
        Request("predict", {"x": many["x"]}),
        Request("train", one),
        Request("state", {}),
        Request("predict", {"x": one["x"]}),
    ]


@model(*(f"keras3_{name.lower()}" for name in OPTIMISERS), rtol=1e-3, shows=SHOWS)  # Optimisers divide by the root of tiny gradients.
def keras3(folder, name):
    import keras
    import tensorflow as tf

    kind = next(o for o in OPTIMISERS if f"keras3_{o.lower()}" == name)
    net = small(keras)
    optimiser = getattr(keras.optimizers, kind)(0.02, **({"momentum": 0.9, "nesterov": True} if kind == "SGD" else {}))
    optimiser.build(net.trainable_variables)
    return saved(tf, folder, trainer(tf, net, optimiser, tracked(net, optimiser)))


OLDER = {
    "tf_keras_sgd": ("SGD", {"momentum": 0.9}),
    "tf_keras_adam": ("Adam", {"amsgrad": True}),
    "tf_keras_adamw": ("AdamW", {"weight_decay": 0.01}),
    "tf_keras_rmsprop": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "tf_keras_ftrl": ("Ftrl", {"l1_regularization_strength": 0.01}),
    "tf_keras_nadam": ("Nadam", {"clipnorm": 0.5}),
    "tf_keras_ema": ("Adam", {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 3}),
    "tf_keras_adadelta": ("Adadelta", {}),
    "tf_keras_legacy_adam": ("legacy.Adam", {"decay": 0.01}),
    "tf_keras_legacy_sgd": ("legacy.SGD", {"momentum": 0.8, "nesterov": True}),
    "tf_keras_legacy_adamax": ("legacy.Adamax", {}),
    "tf_keras_legacy_nadam": ("legacy.Nadam", {}),
    "tf_keras_legacy_ftrl": ("legacy.Ftrl", {}),
}


@model(*OLDER, rtol=1e-3, shows=SHOWS)  # as above
def tf_keras_optimisers(folder, name):
    import tensorflow as tf
    import tf_keras

    kind, options = OLDER[name]
    net = small(tf_keras)
    where = tf_keras.optimizers
    for part in kind.split("."):
        where = getattr(where, part)
    optimiser = where(0.02, **options)
    if "legacy" in kind:
        optimiser._create_all_weights(net.trainable_variables)
    else:
        optimiser.build(net.trainable_variables)
    return saved(tf, folder, trainer(tf, net, optimiser, [net, optimiser]))


@model("schedules", "warm_restarts", "piecewise", rtol=1e-3, shows=SHOWS)  # as above
def schedules(folder, name):
    """Learning rates that depend on the step. Keras 3 computes them in float32 from the iterations."""
    import keras
    import tensorflow as tf

    s = keras.optimizers.schedules
    rate = {
        "schedules": s.CosineDecay(0.01, 20, warmup_target=0.05, warmup_steps=4),
        "warm_restarts": s.CosineDecayRestarts(0.05, 3),
        "piecewise": s.PiecewiseConstantDecay([2, 5], [0.1, 0.05, 0.01]),
    }[name]
    net = small(keras)
    optimiser = keras.optimizers.SGD(rate, momentum=0.9, clipvalue=0.5)
    optimiser.build(net.trainable_variables)
    return saved(tf, folder, trainer(tf, net, optimiser, tracked(net, optimiser)))


@model("tf_keras_schedules", rtol=1e-3, shows=SHOWS)  # as above
def tf_keras_schedules(folder):
    import tensorflow as tf
    import tf_keras

    s = tf_keras.optimizers.schedules
    net = small(tf_keras)
    optimiser = tf_keras.optimizers.Adam(s.PolynomialDecay(0.1, 6, 0.01, power=2.0, cycle=True), jit_compile=False)
    optimiser.build(net.trainable_variables)
    return saved(tf, folder, trainer(tf, net, optimiser, [net, optimiser]))


@model("loss_scaling", rtol=1e-3, shows=("state",))  # as above
def loss_scaling(folder):
    """Keras 3's LossScaleOptimizer, which skips a step whose gradients are not finite."""
    import keras
    import tensorflow as tf

    net = small(keras)
    optimiser = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.02), initial_scale=1024.0, dynamic_growth_steps=3)
    optimiser.build(net.trainable_variables)

    class Trainer(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(net, optimiser, optimiser.inner_optimizer)

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x, training=True)))
                scaled = optimiser.scale_loss(loss)
            optimiser.apply(tape.gradient(scaled, net.trainable_variables), net.trainable_variables)
            return {"loss": loss}

        @tf.function(input_signature=[])
        def state(self):
            return {
                "scale": tf.identity(optimiser.dynamic_scale.value),
                "weights": tf.identity(net.trainable_variables[0].value),
                "iterations": tf.identity(optimiser.inner_optimizer.iterations.value),
            }

    made = Trainer()
    tf.saved_model.save(made, folder, {"train": made.train, "state": made.state})
    one, many = batches()
    return [
        Request("train", many),
        Request("state", {}),
        Request("train", one),
        Request("train", {**one, "x": one["x"] * np.float32("inf")}),
        Request("state", {}),
    ]


@model("accumulation", rtol=1e-3)  # as above
def accumulation(folder):
    """Gradients that are applied by every third call, in a tf.cond, and a moving average of the weights that predicts."""
    import tensorflow as tf

    class Trainer(tf.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = tf.Variable(random(1, (6, 3), -1, 1)), tf.Variable(tf.zeros([3]))
            self.sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in (self.w, self.b)]
            self.slots = [tf.Variable(tf.zeros_like(v), trainable=False) for v in (self.w, self.b)]
            self.average = [tf.Variable(v, trainable=False) for v in (self.w, self.b)]
            self.count = tf.Variable(0, dtype=tf.int64)

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ self.w + self.b))
            for total, g in zip(self.sums, tape.gradient(loss, [self.w, self.b])):
                total.assign_add(tf.clip_by_norm(g, 1.0))
            # The order of the loss and the count would be open without it, and so whether a step that is refused counts.
            with tf.control_dependencies([loss]):
                self.count.assign_add(1)

            def apply():
                for v, total, slot, average in zip([self.w, self.b], self.sums, self.slots, self.average):
                    slot.assign(0.9 * slot + total / 3)
                    v.assign_sub(0.1 * slot)
                    total.assign(tf.zeros_like(total))
                    average.assign(0.99 * average + 0.01 * v)
                return True

            return {"loss": loss, "applied": tf.cond(self.count % 3 == 0, apply, lambda: False)}

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
        def predict(self, x):
            return {
                "now": tf.nn.softmax(x @ self.w + self.b),
                "average": tf.nn.softmax(x @ self.average[0] + self.average[1]),
                "count": self.count.read_value(),
            }

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 6], tf.float32, "x"),
                tf.TensorSpec([None], tf.int32, "y"),
                tf.TensorSpec([], tf.int32, "epochs"),
            ]
        )
        def fit(self, x, y, epochs):
            """Several steps in a loop of one call."""
            losses = tf.TensorArray(tf.float32, epochs)
            for i in tf.range(epochs):
                losses = losses.write(i, self.train(x, y)["loss"])
            return {"losses": losses.stack()}

    made = Trainer()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("train", "predict", "fit")})
    one, many = batches()
    return [
        Request("train", many),
        Request("predict", {"x": many["x"]}),
        Request("fit", {**many, "epochs": np.int32(5)}),
        Request("train", one),
        Request("predict", {"x": one["x"]}),
        Request("train", {"x": one["x"], "y": np.array([0, 1], np.int32)}),
    ]


@model("gan", rtol=1e-3)  # as above
def gan(folder):
    """Two optimisers on two networks: both steps in one signature and apart, and a generator that draws from given noise."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(5)
    generator = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(7 * 7 * 8),
            keras.layers.BatchNormalization(),
            keras.layers.LeakyReLU(),
            keras.layers.Reshape((7, 7, 8)),
            keras.layers.Conv2DTranspose(8, 4, 2, "same", activation="relu"),
            keras.layers.Conv2DTranspose(1, 4, 2, "same", activation="tanh"),
        ]
    )
    critic = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(8, 4, 2, "same"),
            keras.layers.LeakyReLU(),
            keras.layers.Conv2D(16, 4, 2, "same"),
            keras.layers.LeakyReLU(),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    first, second = keras.optimizers.Adam(1e-3, 0.5), keras.optimizers.RMSprop(1e-3)
    first.build(generator.trainable_variables), second.build(critic.trainable_variables)
    noise, images = tf.TensorSpec([None, 8], tf.float32, "noise"), tf.TensorSpec([None, 28, 28, 1], tf.float32, "images")
    entropy = lambda target, logits: tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(target * tf.ones_like(logits), logits))

    class Gan(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(generator, critic, first, second)

        @tf.function(input_signature=[noise, images])
        def step(self, noise, images):
            with tf.GradientTape() as a, tf.GradientTape() as b:
                fake = critic(generator(noise, training=True), training=True)
                real = critic(images, training=True)
                generator_loss, critic_loss = entropy(1.0, fake), entropy(0.9, real) + entropy(0.0, fake)
            first.apply_gradients(zip(a.gradient(generator_loss, generator.trainable_variables), generator.trainable_variables))
            second.apply_gradients(zip(b.gradient(critic_loss, critic.trainable_variables), critic.trainable_variables))
            return {"generator_loss": generator_loss, "critic_loss": critic_loss}

        @tf.function(input_signature=[noise, images])
        def critic_step(self, noise, images):
            """A critic of a WGAN with a gradient penalty, which needs gradients of gradients."""
            fake = generator(noise, training=False)
            with tf.GradientTape() as tape:
                between = (images + fake) / 2
                with tf.GradientTape() as inner:
                    inner.watch(between)
                    scores = critic(between)
                slope = tf.sqrt(tf.reduce_sum(inner.gradient(scores, between) ** 2, [1, 2, 3]) + 1e-12)
                loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(images)) + 10 * tf.reduce_mean((slope - 1) ** 2)
            second.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
            return {"loss": loss, "slope": slope}

        @tf.function(input_signature=[noise])
        def draw(self, noise):
            images = generator(noise, training=False)
            return {"images": images, "scores": critic(images)}

    made = Gan()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("step", "critic_step", "draw")})
    requests = []
    for n in (4, 1):
        given = {"noise": random(n, (n, 8), -1, 1), "images": random(n + 5, (n, 28, 28, 1), -1, 1)}
        requests += [Request("step", given), Request("draw", {"noise": given["noise"]}), Request("critic_step", given)]
    return requests


@model("style_transfer", rtol=1e-3)  # Ten steps of Adam on an image, as above.
def style_transfer(folder):
    """An image is a variable that one step, or ten in a while loop, draw towards the Gram matrices of a style; and a feed-forward one."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(6)
    image = keras.Input((32, 32, 3))
    a = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    b = keras.layers.Conv2D(16, 3, padding="same", activation="relu")(keras.layers.AveragePooling2D(2)(a))
    net = keras.Model(image, [a, b])
    image_variable = keras.Variable(random(1, (1, 32, 32, 3)))
    optimiser = keras.optimizers.Adam(0.02, 0.99, epsilon=0.1)
    optimiser.build([image_variable])
    pixels = lambda name: tf.TensorSpec([1, 32, 32, 3], tf.float32, name)
    transform = keras.Sequential(
        [
            keras.Input((None, None, 3)),
            keras.layers.Conv2D(8, 9, padding="same"),
            keras.layers.GroupNormalization(-1),
            keras.layers.ReLU(),
            keras.layers.Conv2D(12, 3, 2, "same"),
            keras.layers.ReLU(),
            keras.layers.Conv2DTranspose(3, 3, 2, "same"),
        ]
    )

    def gram(x):
        return tf.einsum("bijc,bijd->bcd", x, x) / tf.cast(tf.shape(x)[1] * tf.shape(x)[2], tf.float32)

    class Style(tf.Module):
        def __init__(self):
            super().__init__()
            self.image = image_variable.value
            self.parts = tracked(net, transform, optimiser)

        def improve(self, content, style):
            with tf.GradientTape() as tape:
                now, content, style = net(self.image), net(content), net(style)
                loss = tf.add_n([tf.reduce_mean((gram(x) - gram(y)) ** 2) for x, y in zip(now, style)])
                loss += 0.1 * tf.reduce_mean((now[1] - content[1]) ** 2) + 1e-5 * tf.reduce_sum(tf.image.total_variation(self.image))
            optimiser.apply_gradients([(tape.gradient(loss, self.image), image_variable)])
            self.image.assign(tf.clip_by_value(self.image, 0.0, 1.0))
            return loss

        @tf.function(input_signature=[pixels("content"), pixels("style")])
        def step(self, content, style):
            return {"loss": self.improve(content, style), "image": self.image.read_value()}

        @tf.function(input_signature=[pixels("content"), pixels("style")])
        def ten(self, content, style):
            loss = tf.zeros([])
            for _ in tf.range(10):
                loss = self.improve(content, style)
            return {"loss": loss, "image": self.image.read_value()}

        @tf.function(input_signature=[pixels("content")])
        def start(self, content):
            self.image.assign(content)
            return {"mean": tf.reduce_mean(self.image)}

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, "content")])
        def feed_forward(self, content):
            padded = tf.pad(content, [[0, 0], [4, 4], [4, 4], [0, 0]], "REFLECT")
            return {"image": tf.clip_by_value(transform(padded)[:, 4:-4, 4:-4], 0.0, 1.0)}

    made = Style()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("step", "ten", "start", "feed_forward")})
    given = {"content": random(2, (1, 32, 32, 3)), "style": random(3, (1, 32, 32, 3)) ** 3}
    return [
        Request("step", given),
        Request("ten", given),
        Request("start", {"content": given["content"]}),
        Request("step", given),
        Request("feed_forward", {"content": random(4, (2, 40, 24, 3))}),
        Request("feed_forward", {"content": random(5, (1, 3, 3, 3))}),
    ]
