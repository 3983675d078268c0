"""Sequence to sequence: beam search in while loops, caches of keys and values, and sampling from logits."""

from catalogue import Request, integers, model, np, random, tracked


@model("rnn_beam_search")
def rnn_beam_search(folder):
    """An LSTM encoder, and an attention decoder that searches beams in a while loop of TensorArrays, as tensorflow-addons does."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(11)
    vocabulary, units, beams, steps = 30, 24, 4, 10
    embed = keras.layers.Embedding(vocabulary, 16, mask_zero=True, embeddings_initializer=keras.initializers.RandomNormal(0, 1.0))
    encoder = keras.layers.LSTM(units, return_sequences=True, return_state=True)
    cell = keras.layers.LSTMCell(units)
    query, out = keras.layers.Dense(units, use_bias=False), keras.layers.Dense(
        vocabulary, kernel_initializer=keras.initializers.RandomNormal(0, 1.0)
    )

    for layer, shape in (
        (embed, (None, None)),
        (encoder, (None, None, 16)),
        (cell, (None, 16 + units)),
        (query, (None, units)),
        (out, (None, units)),
    ):
        layer.build(shape)

    class Translator(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(embed, encoder, cell, query, out)

        def attend(self, state, memory, mask):
            scores = tf.einsum("bku,btu->bkt", query(state), memory) + (1 - tf.cast(mask, tf.float32))[:, tf.newaxis] * -1e9
            weights = tf.nn.softmax(scores)
            return tf.einsum("bkt,btu->bku", weights, memory), weights

        def step(self, tokens, h, c, memory, mask):
            n = tf.shape(tokens)[0]
            flat = lambda t: tf.reshape(t, [-1, t.shape[-1]])
            context, weights = self.attend(h, memory, mask)
            x = tf.concat([embed(tokens), context], -1)
            _, (h, c) = cell(flat(x), [flat(h), flat(c)])
            logits = out(h)
            again = lambda t: tf.reshape(t, [n, tokens.shape[1] or -1, t.shape[-1]])
            return again(logits), again(h), again(c), weights

        def encode(self, source):
            memory, h, c = encoder(embed(source), mask=source > 0)
            return memory, h, c, source > 0

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "source")])
        def beam(self, source):
            memory, h, c, mask = self.encode(source)
            n = tf.shape(source)[0]
            h, c = tf.repeat(h[:, tf.newaxis], beams, 1), tf.repeat(c[:, tf.newaxis], beams, 1)
            tokens = tf.fill([n, beams], 1)
            total = tf.tile([[0.0] + [-1e9] * (beams - 1)], [n, 1])
            finished = tf.zeros([n, beams], tf.bool)
            lengths = tf.zeros([n, beams], tf.int32)
            ids = tf.TensorArray(tf.int32, steps, element_shape=[None, beams])
            parents = tf.TensorArray(tf.int32, steps, element_shape=[None, beams])
            i = tf.constant(0)
            only_end = tf.where(tf.range(vocabulary) == 2, 0.0, -1e9)
            while i < steps and not tf.reduce_all(finished):
                tf.autograph.experimental.set_loop_options(
                    shape_invariants=[
                        (tokens, tf.TensorShape([None, beams])),
                        (total, tf.TensorShape([None, beams])),
                        (finished, tf.TensorShape([None, beams])),
                        (lengths, tf.TensorShape([None, beams])),
                        (h, tf.TensorShape([None, beams, units])),
                        (c, tf.TensorShape([None, beams, units])),
                    ]
                )
                logits, h, c, _ = self.step(tokens, h, c, memory, mask)
                logs = tf.where(finished[..., tf.newaxis], only_end, tf.nn.log_softmax(logits))
                flat = tf.reshape(total[..., tf.newaxis] + logs, [n, beams * vocabulary])
                total, chosen = tf.math.top_k(flat, beams)
                parent, tokens = chosen // vocabulary, chosen % vocabulary
                h, c = tf.gather(h, parent, batch_dims=1), tf.gather(c, parent, batch_dims=1)
                finished, lengths = tf.gather(finished, parent, batch_dims=1), tf.gather(lengths, parent, batch_dims=1)
                lengths += tf.cast(~finished, tf.int32)
                finished |= tokens == 2
                ids, parents = ids.write(i, tokens), parents.write(i, parent)
                i += 1
            ids, parents = ids.stack()[:i], parents.stack()[:i]
            beam = tf.tile(tf.range(beams)[tf.newaxis], [n, 1])
            follow = lambda state, now: (tf.gather(now[0], state[1], batch_dims=1), tf.gather(now[1], state[1], batch_dims=1))
            tree, _ = tf.scan(follow, (ids, parents), (tokens, beam), reverse=True)
            return {"tokens": tf.transpose(tree, [1, 2, 0]), "scores": total, "lengths": lengths, "steps": i}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "source"), tf.TensorSpec([], tf.int32, "limit")])
        def greedy(self, source, limit):
            memory, h, c, mask = self.encode(source)
            h, c = h[:, tf.newaxis], c[:, tf.newaxis]
            tokens = tf.ones([tf.shape(source)[0], 1], tf.int32)
            ids = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[None])
            attention = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[None, None])
            for i in tf.range(limit):
                tf.autograph.experimental.set_loop_options(
                    shape_invariants=[
                        (h, tf.TensorShape([None, None, units])),
                        (c, tf.TensorShape([None, None, units])),
                        (tokens, tf.TensorShape([None, None])),
                    ]
                )
                logits, h, c, weights = self.step(tokens, h, c, memory, mask)
                tokens = tf.argmax(logits, -1, tf.int32)
                ids, attention = ids.write(i, tokens[:, 0]), attention.write(i, weights[:, 0])
            return {"tokens": tf.transpose(ids.stack()), "attention": tf.transpose(attention.stack(), [1, 0, 2])}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "source"), tf.TensorSpec([None, None], tf.int32, "target")])
        def score(self, source, target):
            """Teacher forcing, by tf.scan."""
            memory, h, c, mask = self.encode(source)
            first = (tf.zeros([tf.shape(source)[0], 1, vocabulary]), h[:, tf.newaxis], c[:, tf.newaxis])
            logits, _, _ = tf.scan(lambda s, t: self.step(t[:, tf.newaxis], s[1], s[2], memory, mask)[:3], tf.transpose(target)[:-1], first)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.transpose(target)[1:], logits[:, :, 0])
            return {"loss": tf.reduce_sum(losses, 0)}

    made = Translator()
    tf.saved_model.save(made, folder, {"serving_default": made.beam, "greedy": made.greedy, "score": made.score})
    one, three = integers(1, (1, 7), 27) + 3, integers(2, (3, 5), 27) + 3
    three[1, 3:] = 0
    return [
        Request("serving_default", {"source": one}),
        Request("greedy", {"source": one, "limit": np.int32(5)}),
        Request("score", {"source": one, "target": integers(3, (1, 6), 30)}),
        Request("serving_default", {"source": three}),
        Request("greedy", {"source": three, "limit": np.int32(9)}),
        Request("score", {"source": three, "target": integers(4, (3, 4), 30)}),
        Request("serving_default", {"source": np.array([[99]], np.int32)}),
    ]


@model("transformer_decoder")
def transformer_decoder(folder):
    """A transformer that generates in a while loop with a cache of keys and values, greedily or by beams, and its logits."""
    import tensorflow as tf

    vocabulary, width, heads, layers, longest = 40, 32, 4, 2, 24
    depth = width // heads

    class Decoder(tf.Module):
        def __init__(self):
            super().__init__()
            made = lambda seed, *shape: tf.Variable(random(seed, shape, -0.6, 0.6))
            self.tokens, self.positions = made(1, vocabulary, width), made(2, longest, width)
            self.blocks = [
                {
                    "qkv": made(10 * i + 3, width, 3, heads, depth),
                    "o": made(10 * i + 4, heads, depth, width),
                    "up": made(10 * i + 5, width, 64),
                    "down": made(10 * i + 6, 64, width),
                    "g": tf.Variable(tf.ones([2, width])),
                    "b": tf.Variable(tf.zeros([2, width])),
                }
                for i in range(layers)
            ]

        def norm(self, x, block, i):
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, block["b"][i], block["g"][i], 1e-5)

        def forward(self, ids, at, keys, values):
            """Returns logits and the caches after the tokens `ids` at the positions from `at` on."""
            n = tf.shape(ids)[1]
            x = tf.gather(self.tokens, ids) + tf.gather(self.positions, at + tf.range(n))
            visible = tf.range(longest)[tf.newaxis] <= at + tf.range(n)[:, tf.newaxis]
            new_keys, new_values = [], []
            for i, block in enumerate(self.blocks):
                q, k, v = tf.unstack(tf.einsum("bnd,dthk->tbhnk", self.norm(x, block, 0), block["qkv"]))
                where = tf.one_hot(at + tf.range(n), longest)
                kept = 1 - tf.reduce_sum(where, 0)[:, tf.newaxis]
                key = keys[:, i] * kept + tf.einsum("bhnk,nl->bhlk", k, where)
                value = values[:, i] * kept + tf.einsum("bhnk,nl->bhlk", v, where)
                weights = tf.einsum("bhnk,bhlk->bhnl", q, key) * depth**-0.5
                weights = tf.nn.softmax(tf.where(visible, weights, -1e9))
                x += tf.einsum("bhnl,bhlk,hkd->bnd", weights, value, block["o"])
                x += tf.nn.gelu(self.norm(x, block, 1) @ block["up"]) @ block["down"]
                new_keys.append(key), new_values.append(value)
            return tf.einsum("bnd,vd->bnv", x, self.tokens), tf.stack(new_keys, 1), tf.stack(new_values, 1)

        def empty(self, n):
            return tf.zeros([n, layers, heads, longest, depth])

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "prompt"), tf.TensorSpec([], tf.int32, "new_tokens")])
        def generate(self, prompt, new_tokens):
            n, at = tf.shape(prompt)[0], tf.shape(prompt)[1]
            tf.debugging.assert_less_equal(at + new_tokens, longest, "the prompt and the new tokens are too long")
            logits, keys, values = self.forward(prompt, 0, self.empty(n), self.empty(n))
            token = tf.argmax(logits[:, -1:], -1, tf.int32)

            def body(i, token, keys, values, ids):
                logits, keys, values = self.forward(token, i, keys, values)
                return i + 1, tf.argmax(logits, -1, tf.int32), keys, values, tf.concat([ids, token], 1)

            cache = tf.TensorShape([None, layers, heads, longest, depth])
            _, token, _, _, ids = tf.while_loop(
                lambda i, *_: i < at + new_tokens,
                body,
                [at, token, keys, values, prompt],
                [at.shape, tf.TensorShape([None, 1]), cache, cache, tf.TensorShape([None, None])],
            )
            return {"ids": ids, "next": token}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "prompt")])
        def logits(self, prompt):
            n = tf.shape(prompt)[0]
            return {"logits": self.forward(prompt, 0, self.empty(n), self.empty(n))[0]}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "prompt"), tf.TensorSpec([], tf.int32, "new_tokens")])
        def beams(self, prompt, new_tokens):
            width, n, at = 3, tf.shape(prompt)[0], tf.shape(prompt)[1]
            logits, keys, values = self.forward(prompt, 0, self.empty(n), self.empty(n))
            total, token = tf.math.top_k(tf.nn.log_softmax(logits[:, -1]), width)
            keys, values = tf.repeat(keys, width, 0), tf.repeat(values, width, 0)
            ids = tf.concat([tf.repeat(prompt, width, 0), tf.reshape(token, [-1, 1])], 1)

            def body(i, total, keys, values, ids):
                logits, keys, values = self.forward(ids[:, -1:], i, keys, values)
                scores = tf.reshape(total, [-1, 1]) + tf.nn.log_softmax(logits[:, 0])
                total, chosen = tf.math.top_k(tf.reshape(scores, [n, -1]), width)
                rows = tf.reshape(chosen // vocabulary + tf.range(n)[:, tf.newaxis] * width, [-1])
                ids = tf.concat([tf.gather(ids, rows), tf.reshape(chosen % vocabulary, [-1, 1])], 1)
                return i + 1, total, tf.gather(keys, rows), tf.gather(values, rows), ids

            cache = tf.TensorShape([None, layers, heads, longest, depth])
            _, total, _, _, ids = tf.while_loop(
                lambda i, *_: i < at + new_tokens,
                body,
                [at, total, keys, values, ids],
                [at.shape, tf.TensorShape([None, width]), cache, cache, tf.TensorShape([None, None])],
            )
            return {"ids": tf.reshape(ids, [n, width, -1]), "scores": total}

    made = Decoder()
    tf.saved_model.save(made, folder, {"serving_default": made.generate, "logits": made.logits, "beams": made.beams})
    requests = []
    for n, length, new in ((1, 4, 6), (3, 2, 15), (1, 1, 0)):
        prompt = integers(n, (n, length), vocabulary)
        requests += [Request(s, {"prompt": prompt, "new_tokens": np.int32(new)}) for s in ("serving_default", "beams")]
        requests.append(Request("logits", {"prompt": prompt}))
    return requests + [Request("serving_default", {"prompt": prompt, "new_tokens": np.int32(50)})]


@model("sampling")
def sampling(folder):
    """Random ops whose seeds are inputs, truncation of logits for sampling, and properties of random values without a seed."""
    import tensorflow as tf

    logits, seed = tf.TensorSpec([None, None], tf.float32, "logits"), tf.TensorSpec([2], tf.int32, "seed")

    class Sampler(tf.Module):
        def __init__(self):
            super().__init__()
            self.generator = tf.random.Generator.from_seed(42, alg="philox")

        def truncated(self, logits, k, p, temperature):
            logits = logits / temperature
            kth = tf.math.top_k(logits, k).values[:, -1:]
            logits = tf.where(logits < kth, -1e9, logits)
            ordered = tf.sort(logits, direction="DESCENDING")
            summed = tf.cumsum(tf.nn.softmax(ordered), -1, exclusive=True)
            least = tf.reduce_min(tf.where(summed < p, ordered, np.inf), -1, keepdims=True)
            return tf.where(logits < least, -1e9, logits)

        @tf.function(
            input_signature=[
                logits,
                seed,
                tf.TensorSpec([], tf.int32, "k"),
                tf.TensorSpec([], tf.float32, "p"),
                tf.TensorSpec([], tf.float32, "temperature"),
            ]
        )
        def nucleus(self, logits, seed, k, p, temperature):
            kept = self.truncated(logits, k, p, temperature)
            return {
                "sample": tf.random.stateless_categorical(kept, 5, seed),
                "kept": tf.reduce_sum(tf.cast(kept > -1e8, tf.int32), -1),
                "probabilities": tf.nn.softmax(kept),
            }

        @tf.function(input_signature=[logits, seed])
        def gumbel(self, logits, seed):
            noise = -tf.math.log(-tf.math.log(tf.random.stateless_uniform(tf.shape(logits), seed, 1e-6, 1 - 1e-6)))
            return {
                "sample": tf.argmax(logits + noise, -1),
                "noise": noise,
                "normal": tf.random.stateless_normal([3, 4], tf.random.split(seed)[1]),
                "truncated": tf.random.stateless_truncated_normal([8], seed),
                "integers": tf.random.stateless_uniform([6], seed, 0, 100, tf.int32),
                "shuffled": tf.random.experimental.stateless_shuffle(tf.range(9), seed),
                "fold": tf.random.fold_in(seed, 3),
            }

        @tf.function(input_signature=[seed])
        def more(self, seed):
            return {
                "gamma": tf.random.stateless_gamma([20], seed, 2.0),
                "poisson": tf.random.stateless_poisson([20], seed, 3.0),
                "binomial": tf.random.stateless_binomial([20], seed, 10.0, 0.3),
            }

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "n")])
        def generator_next(self, n):
            """A generator keeps its state in a variable, so that every call gives other numbers, in both servers alike."""
            return {
                "uniform": self.generator.uniform([n]),
                "normal": self.generator.normal([3]),
                "state": self.generator.state.read_value(),
            }

        @tf.function(input_signature=[])
        def generator_reset(self):
            self.generator.reset_from_seed(7)
            return {"state": self.generator.state.read_value()}

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "n")])
        def unseeded(self, n):
            x = tf.random.normal([n, 1000])
            u = tf.random.uniform([n, 1000])
            inside = tf.reduce_all(tf.abs(tf.reduce_mean(x, 1)) < 0.3) & tf.reduce_all(tf.abs(tf.math.reduce_std(x, 1) - 1) < 0.3)
            dropped = tf.nn.dropout(tf.ones([n, 1000]), 0.5)
            return {
                "shape": tf.shape(x),
                "inside": inside & tf.reduce_all((u >= 0) & (u < 1)),
                "dropped": tf.reduce_all(tf.abs(tf.reduce_mean(dropped, 1) - 1) < 0.3),
                "values": tf.unique(tf.sort(tf.reshape(dropped, [-1])))[0],
                "shuffled": tf.sort(tf.random.shuffle(tf.range(n))),
            }

    made = Sampler()
    tf.saved_model.save(
        made, folder, {k: getattr(made, k) for k in ("nucleus", "gumbel", "more", "generator_next", "generator_reset", "unseeded")}
    )
    requests = []
    for n in (1, 4):
        scores, seed = random(n, (n, 50), -4, 4), np.array([n, 7], np.int32)
        requests += [
            Request("nucleus", {"logits": scores, "seed": seed, "k": np.int32(12), "p": np.float32(0.8), "temperature": np.float32(0.7)}),
            Request("gumbel", {"logits": scores, "seed": seed}),
            Request("more", {"seed": seed}),
            Request("generator_next", {"n": np.int32(n)}),
            Request("unseeded", {"n": np.int32(n)}),
        ]
    return requests + [
        Request("generator_reset", {}),
        Request("generator_next", {"n": np.int32(2)}),
        Request("nucleus", {"logits": scores, "seed": seed, "k": np.int32(99), "p": np.float32(0.8), "temperature": np.float32(1)}),
    ]
