"""State between calls: queues, stacks and barriers in TensorFlow 1 graphs, tables that change, reference variables, save and restore."""

import os
import pathlib

from catalogue import Request, integers, model, np, random, texts


def save_v1(folder, session, signatures, main_op=None):
    """Writes a SavedModel as TensorFlow 1 does. A signature is a pair of dictionaries of tensors."""
    import tensorflow as tf

    v1 = tf.compat.v1
    info = v1.saved_model.build_tensor_info
    made = {
        name: v1.saved_model.build_signature_def(
            {k: info(t) for k, t in inputs.items()}, {k: info(t) for k, t in outputs.items()}, "tensorflow/serving/predict"
        )
        for name, (inputs, outputs) in signatures.items()
    }
    builder = v1.saved_model.Builder(folder)
    builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=made, main_op=main_op)
    builder.save()


@model("queues")
def queues(folder):
    """Every kind of queue, fed and drained by signatures. No request blocks, because each looks at the size first."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        rows, keys = v1.placeholder(tf.float32, [None, 3], "rows"), v1.placeholder(tf.int64, [None], "keys")
        n = v1.placeholder(tf.int32, [], "n")
        names = v1.placeholder(tf.string, [None], "names")
        fifo = tf.queue.FIFOQueue(100, [tf.float32, tf.int64], [[3], []], shared_name="fifo")
        priority = tf.queue.PriorityQueue(100, [tf.string], [[]], shared_name="priority")
        padding = tf.queue.PaddingFIFOQueue(100, [tf.float32], [[None]], shared_name="padding")
        shuffle = tf.queue.RandomShuffleQueue(100, 0, [tf.int64], [[]], seed=1, shared_name="shuffle")
        taken = lambda q: tf.minimum(q.size(), n)
        with tf.control_dependencies([fifo.enqueue_many([rows, keys])]):
            put = fifo.size()
        out_rows, out_keys = fifo.dequeue_many(taken(fifo))
        with tf.control_dependencies([priority.enqueue_many([keys, names])]):
            put_priority = priority.size()
        with tf.control_dependencies([padding.enqueue([rows[0]]), padding.enqueue([rows[0, :2]]), padding.enqueue([rows[:, 0]])]):
            put_padding = padding.size()
        with tf.control_dependencies([shuffle.enqueue_many([keys])]):
            put_shuffle = shuffle.size()
        best = priority.dequeue_many(taken(priority))
        v = v1.get_variable("total", initializer=tf.zeros([3]))
        total = v1.assign_add(v, tf.reduce_sum(out_rows, 0))
        session.run(v1.global_variables_initializer())
        save_v1(
            folder,
            session,
            {
                "put": ({"rows": rows, "keys": keys}, {"size": put}),
                "get": ({"n": n}, {"rows": out_rows, "keys": out_keys, "total": tf.identity(total)}),
                "put_priority": ({"keys": keys, "names": names}, {"size": put_priority}),
                "get_priority": ({"n": n}, {"keys": best[0], "names": best[1]}),
                "put_padding": ({"rows": rows}, {"size": put_padding}),
                "get_padding": ({"n": n}, {"rows": tf.sort(padding.dequeue_many(taken(padding)), 0)}),
                # The order is random.
                "put_shuffle": ({"keys": keys}, {"size": put_shuffle}),
                "get_shuffle": ({}, {"keys": tf.sort(shuffle.dequeue_many(shuffle.size()))}),
                "sizes": ({}, {"fifo": fifo.size(), "priority": priority.size(), "closed": tf.identity(fifo.is_closed())}),
                "too_many": ({"rows": rows}, {"size": tf.identity(fifo.dequeue_up_to(taken(fifo))[0])}),
            },
        )
    five = {"rows": random(1, (5, 3)), "keys": integers(1, (5,), 9, "int64")}
    return [
        Request("put", five),
        Request("get", {"n": np.int32(3)}),
        Request("put_priority", {"keys": five["keys"], "names": texts(1, 5, ["a", "b"])}),
        Request("sizes", {}),
        Request("get_priority", {"n": np.int32(2)}),
        Request("put_padding", {"rows": five["rows"]}),
        Request("get", {"n": np.int32(9)}),
        Request("get_padding", {"n": np.int32(3)}),
        Request("put_shuffle", {"keys": five["keys"]}),
        Request("get_shuffle", {}),
        Request("put", {"rows": random(1, (2, 3)), "keys": integers(1, (3,), 9, "int64")}),
        Request("too_many", {"rows": five["rows"]}),
    ]


@model("stacks_and_barriers")
def stacks_and_barriers(folder):
    """Stacks, staging areas, barriers, map stages, conditional accumulators and tensor arrays of version 3."""
    import tensorflow as tf

    v1, raw = tf.compat.v1, tf.raw_ops
    with tf.Graph().as_default(), v1.Session() as session:
        x, keys = v1.placeholder(tf.float32, [None, 2], "x"), v1.placeholder(tf.string, [None], "keys")
        number = v1.placeholder(tf.int64, [], "number")
        stack = raw.StackV2(max_size=50, elem_type=tf.float32, stack_name="s")
        with tf.control_dependencies([raw.StackPushV2(handle=stack, elem=x)]):
            second = raw.StackPushV2(handle=stack, elem=x * 2)
        with tf.control_dependencies([second]):
            popped = raw.StackPopV2(handle=stack, elem_type=tf.float32)
        with tf.control_dependencies([popped]):
            popped_first = raw.StackPopV2(handle=stack, elem_type=tf.float32)
        barrier = raw.Barrier(component_types=[tf.float32, tf.float32], shapes=[[2], [2]], shared_name="barrier")
        with tf.control_dependencies([raw.BarrierInsertMany(handle=barrier, keys=keys, values=x, component_index=0)]):
            incomplete = raw.BarrierIncompleteSize(handle=barrier)
        with tf.control_dependencies([raw.BarrierInsertMany(handle=barrier, keys=keys, values=-x, component_index=1)]):
            ready = raw.BarrierReadySize(handle=barrier)
        taken = raw.BarrierTakeMany(
            handle=barrier, num_elements=raw.BarrierReadySize(handle=barrier), component_types=[tf.float32, tf.float32]
        )
        order = tf.argsort(tf.strings.to_hash_bucket_fast(taken[1], 1 << 40))
        accumulator = v1.ConditionalAccumulator(tf.float32, shape=[2], shared_name="accumulator")
        with tf.control_dependencies([accumulator.apply_grad(x[0], number), accumulator.apply_grad(x[-1] * 3, number)]):
            gathered = accumulator.num_accumulated()
        with tf.control_dependencies([gathered]):
            mean = accumulator.take_grad(1)
        with tf.control_dependencies([raw.Stage(values=[x], container="", shared_name="stage")]):
            staged = raw.StageSize(dtypes=[tf.float32], shared_name="stage")
        with tf.control_dependencies([staged]):
            unstaged = raw.Unstage(dtypes=[tf.float32], shared_name="stage")
        with tf.control_dependencies([raw.MapStage(key=number, indices=[0], values=[x], dtypes=[tf.float32], shared_name="map")]):
            mapped = raw.MapUnstage(key=number, indices=[0], dtypes=[tf.float32], shared_name="map")
        array = raw.TensorArrayV3(size=3, dtype=tf.float32, clear_after_read=False)
        flow = raw.TensorArrayWriteV3(handle=array.handle, index=0, value=x, flow_in=array.flow)
        flow = raw.TensorArrayWriteV3(handle=array.handle, index=1, value=x + 1, flow_in=flow)
        flow = raw.TensorArrayWriteV3(handle=array.handle, index=2, value=x - 1, flow_in=flow)
        joined = raw.TensorArrayConcatV3(handle=array.handle, flow_in=flow, dtype=tf.float32)
        save_v1(
            folder,
            session,
            {
                "stack": ({"x": x}, {"second": popped, "first": popped_first}),
                "insert": ({"x": x, "keys": keys}, {"incomplete": incomplete}),
                "complete": ({"x": x, "keys": keys}, {"ready": ready}),
                "take": ({}, {"keys": tf.gather(taken[1], order), "a": tf.gather(taken[2][0], order), "b": tf.gather(taken[2][1], order)}),
                "accumulate": ({"x": x, "number": number}, {"mean": mean}),
                "stage": ({"x": x}, {"back": tf.identity(unstaged[0])}),
                "map": ({"x": x, "number": number}, {"back": tf.identity(mapped[0])}),
                "array": ({"x": x}, {"value": joined.value, "lengths": joined.lengths}),
            },
        )
    x, keys = random(1, (3, 2)), np.array([b"a", b"b", b"c"], object)
    # The second of two inserts of the same keys fails in TensorFlow, too.
    return [
        Request("stack", {"x": x}),
        Request("insert", {"x": x, "keys": keys}),
        Request("complete", {"x": x, "keys": keys}),
        Request("take", {}),
        Request("accumulate", {"x": x, "number": np.int64(99)}),
        Request("stage", {"x": x[:1]}),
        Request("map", {"x": x, "number": np.int64(5)}),
        Request("array", {"x": x}),
    ]


@model("mutable_tables", shows=("export", "lookup", "fetch"))
def mutable_tables(folder):
    """A mutable and a dense hash table of TensorFlow 2, with content from the checkpoint."""
    import tensorflow as tf

    strings, longs = tf.TensorSpec([None], tf.string, "keys"), tf.TensorSpec([None], tf.int64, "keys")

    class Tables(tf.Module):
        def __init__(self):
            super().__init__()
            self.counts = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
            self.counts.insert(tf.constant(["old", "a"]), tf.constant([100, 1], tf.int64))
            self.vectors = tf.lookup.experimental.DenseHashTable(
                tf.int64, tf.float32, [-1.0, -1.0], empty_key=-1, deleted_key=-2, initial_num_buckets=8
            )
            self.vectors.insert(tf.constant([1, 2], tf.int64), [[0.5, 1.0], [2.0, 3.0]])
            self.calls = tf.Variable(0, dtype=tf.int64)

        @tf.function(input_signature=[strings])
        def count(self, keys):
            """Counts the distinct keys of a request."""
            unique, _, n = tf.unique_with_counts(keys, tf.int64)
            now = self.counts.lookup(unique) + n
            self.counts.insert(unique, now)
            return {"now": self.counts.lookup(keys), "size": self.counts.size(), "calls": self.calls.assign_add(1)}

        @tf.function(input_signature=[strings])
        def lookup(self, keys):
            return {"counts": self.counts.lookup(keys), "calls": self.calls.read_value()}

        @tf.function(input_signature=[strings])
        def forget(self, keys):
            self.counts.remove(keys)
            return {"size": self.counts.size()}

        @tf.function(input_signature=[])
        def export(self):
            keys, values = self.counts.export()
            order = tf.argsort(tf.strings.to_hash_bucket_fast(keys, 1 << 50))
            dense, vectors = self.vectors.export()
            kept = tf.boolean_mask(vectors, tf.reshape(dense, [-1]) >= 0)
            return {
                "keys": tf.gather(keys, order),
                "values": tf.gather(values, order),
                "sum": tf.reduce_sum(kept, 0),
                "dense_size": self.vectors.size(),
            }

        @tf.function(input_signature=[longs, tf.TensorSpec([None, 2], tf.float32, "vectors")])
        def store(self, keys, vectors):
            self.vectors.insert(keys, vectors)
            return {"size": self.vectors.size()}

        @tf.function(input_signature=[longs])
        def fetch(self, keys):
            found = self.vectors.lookup(keys)
            return {"vectors": found, "score": tf.matmul(found, found, transpose_b=True)}

        @tf.function(input_signature=[longs])
        def erase(self, keys):
            self.vectors.erase(keys)
            return {"size": self.vectors.size()}

    made = Tables()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("count", "lookup", "forget", "export", "store", "fetch", "erase")})
    keys = np.array([b"a", b"b", b"a", b"new"], object)
    ids = np.arange(3, 20, dtype=np.int64)
    return [
        Request("count", {"keys": keys}),
        Request("lookup", {"keys": np.array([b"old", b"a", b"none"], object)}),
        Request("export", {}),
        Request("forget", {"keys": keys[:1]}),
        Request("fetch", {"keys": np.array([1, 2, 3], np.int64)}),
        Request("store", {"keys": ids, "vectors": random(1, (17, 2))}),
        Request("erase", {"keys": ids[2:8]}),
        Request("fetch", {"keys": ids}),
        Request("store", {"keys": np.array([-1], np.int64), "vectors": random(1, (1, 2))}),
        Request("fetch", {"keys": np.array([-2], np.int64)}),
        Request("store", {"keys": ids[:2], "vectors": random(1, (1, 2))}),
    ]


@model("tables_tf1")
def tables_tf1(folder):
    """Tables of TensorFlow 1, with a vocabulary as an asset, MutableHashTableOfTensors, and an init op."""
    import tensorflow as tf

    v1, raw = tf.compat.v1, tf.raw_ops
    vocabulary = folder.rstrip("/") + ".vocabulary.txt"
    with open(vocabulary, "w") as file:
        file.write("\n".join(["alpha", "beta", "gamma", "delta"]))
    with tf.Graph().as_default(), v1.Session() as session:
        words, keys, values = (
            v1.placeholder(tf.string, [None, None], "words"),
            v1.placeholder(tf.int64, [None], "keys"),
            v1.placeholder(tf.float32, [None, 4], "values"),
        )
        index = v1.lookup.TextFileIndex
        table = v1.lookup.StaticVocabularyTable(
            v1.lookup.TextFileInitializer(vocabulary, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER), 2
        )
        ids = table.lookup(words)
        back = v1.lookup.StaticHashTable(
            v1.lookup.TextFileInitializer(vocabulary, tf.int64, index.LINE_NUMBER, tf.string, index.WHOLE_LINE), "?"
        ).lookup(ids)
        vectors = raw.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[4], shared_name="vectors")
        with tf.control_dependencies([raw.LookupTableInsertV2(table_handle=vectors, keys=keys, values=values)]):
            size = raw.LookupTableSizeV2(table_handle=vectors)
        found = raw.LookupTableFindV2(table_handle=vectors, keys=keys, default_value=tf.fill([4], -1.0))
        session.run(v1.tables_initializer())
        builder = v1.saved_model.Builder(folder)
        info = v1.saved_model.build_tensor_info
        made = lambda inputs, outputs: v1.saved_model.build_signature_def(
            {k: info(t) for k, t in inputs.items()}, {k: info(t) for k, t in outputs.items()}, "tensorflow/serving/predict"
        )
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": made({"words": words}, {"ids": ids, "back": back}),
                "insert": made({"keys": keys, "values": values}, {"size": size}),
                "find": made({"keys": keys}, {"values": found}),
            },
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()
    os.remove(vocabulary)
    words = np.array([[b"beta", b"unknown"], [b"delta", b""]], object)
    keys = np.array([5, 7, 5], np.int64)
    return [
        Request("serving_default", {"words": words}),
        Request("find", {"keys": keys}),
        Request("insert", {"keys": keys, "values": random(1, (3, 4))}),
        Request("serving_default", {"words": words[:1]}),
        Request("insert", {"keys": keys[:1], "values": random(1, (2, 4))}),
    ]


@model("reference_variables", shows=("serving_default", "last", "state"))
def reference_variables(folder):
    """TensorFlow 1 with reference variables: assignment in predict, control dependencies, slices, scatter and a counter of all calls."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x, ids = v1.placeholder(tf.float32, [None, 4], "x"), v1.placeholder(tf.int32, [None], "ids")
        w = v1.Variable(random(1, (4, 3), -1, 1), use_resource=False, name="w")
        table = v1.Variable(random(2, (6, 4), -1, 1), use_resource=False, name="table")
        mean = v1.Variable(tf.zeros([4]), use_resource=False, name="mean")
        calls = v1.Variable(0, use_resource=False, name="calls")
        last = v1.Variable(tf.zeros([0, 3]), use_resource=False, name="last", validate_shape=False)
        y = tf.matmul(x, w)
        with tf.control_dependencies([v1.assign_add(calls, 1), v1.assign(mean, mean * 0.9 + tf.reduce_mean(x, 0) * 0.1)]):
            counted = tf.identity(calls)
            centred = tf.matmul(x - mean, w)
        with tf.control_dependencies([v1.assign(last, y, validate_shape=False)]):
            kept = tf.shape(last)
        scattered = v1.scatter_add(table, ids, x)
        with tf.control_dependencies([scattered]):
            rows = tf.nn.embedding_lookup(table, ids)
        sliced = v1.assign(table[1:3, ::2], tf.ones([2, 2]) * tf.reduce_sum(x))
        step = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(y**2), var_list=[w])
        with tf.control_dependencies([step]):
            trained = tf.identity(w.read_value())
        average = v1.train.ExponentialMovingAverage(0.9)
        shadow = average.apply([w])
        with tf.control_dependencies([shadow]):
            averaged = tf.identity(average.average(w))
        v1.disable_control_flow_v2()  # Functions take no references.
        loop = tf.while_loop(
            lambda i, _: i < 4, lambda i, s: (i + 1, s + v1.assign_add(calls, 10)), [0, tf.constant(0)], parallel_iterations=1
        )
        chosen = v1.cond(calls > 20, lambda: v1.assign_sub(calls, 20), lambda: tf.identity(calls))
        v1.enable_control_flow_v2()
        session.run(v1.variables_initializer([w, table, mean, calls, last]))
        session.run(v1.variables_initializer([average.average(w)]))
        save_v1(
            folder,
            session,
            {
                "serving_default": ({"x": x}, {"y": y}),
                "counted": ({"x": x}, {"calls": counted, "centred": centred}),
                "keep": ({"x": x}, {"shape": kept}),
                "last": ({}, {"last": tf.identity(last.read_value())}),
                "scatter": ({"x": x, "ids": ids}, {"rows": rows}),
                "slice": ({"x": x}, {"table": tf.identity(sliced)}),
                "train": ({"x": x}, {"w": trained}),
                "average": ({}, {"shadow": averaged}),
                "loop": ({}, {"n": tf.identity(loop[0])}),
                "cond": ({}, {"calls": tf.identity(chosen)}),
                "state": ({}, {"w": tf.identity(w), "table": tf.identity(table), "mean": tf.identity(mean)}),
            },
        )
    one, three = random(1, (1, 4), -1, 1), random(2, (3, 4), -1, 1)
    ids = np.array([0, 5, 0], np.int32)
    return [
        Request("serving_default", {"x": one}),
        Request("counted", {"x": three}),
        Request("keep", {"x": three}),
        Request("last", {}),
        Request("train", {"x": three}),
        Request("serving_default", {"x": three}),
        Request("scatter", {"x": three, "ids": ids}),
        Request("state", {}),
        Request("slice", {"x": one}),
        Request("average", {}),
        Request("loop", {}),
        Request("cond", {}),
        Request("counted", {"x": one}),
        Request("keep", {"x": one}),
        Request("scatter", {"x": three, "ids": ids + 1}),
    ]


@model("save_and_restore")
def save_and_restore(folder):
    """A counter and weights that requests save, change and restore; in both formats of checkpoints and of both sorts of variables."""
    import tensorflow as tf

    v1 = tf.compat.v1
    place = str(pathlib.Path(__file__).resolve().parent.parent.parent / "build/models/saved_and_restored")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        name = v1.placeholder(tf.string, [], "name")
        w = v1.get_variable("w", initializer=random(1, (3, 2), -1, 1), use_resource=True)
        r = v1.Variable(random(2, (2,), -1, 1), use_resource=False, name="r")
        step = v1.get_variable("step", initializer=np.int64(0), use_resource=True)
        y = tf.matmul(x, w) + r
        with tf.control_dependencies([v1.assign_add(w, tf.ones([3, 2]) * 0.1), v1.assign_add(r, [0.5, -0.5]), v1.assign_add(step, 1)]):
            changed = tf.identity(step.read_value())
        path = tf.strings.join([place, "-", name])
        with tf.control_dependencies(
            [
                tf.raw_ops.SaveV2(
                    prefix=path,
                    tensor_names=["w", "r", "step"],
                    shape_and_slices=["", "", ""],
                    tensors=[w.read_value(), r, step.read_value()],
                )
            ]
        ):
            saved = tf.identity(name)
        loaded = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=["w", "r", "step"], shape_and_slices=["", "", ""], dtypes=[tf.float32, tf.float32, tf.int64]
        )
        with tf.control_dependencies(
            [
                v1.assign(w, tf.reshape(loaded[0], [3, 2])),
                v1.assign(r, tf.reshape(loaded[1], [2])),
                v1.assign(step, tf.reshape(loaded[2], [])),
            ]
        ):
            restored = tf.identity(step.read_value())
        with tf.control_dependencies([tf.raw_ops.Save(filename=path + ".old", tensor_names=["w"], data=[w.read_value()])]):
            old = tf.raw_ops.Restore(file_pattern=path + ".old", tensor_name="w", dt=tf.float32)
        session.run(v1.global_variables_initializer())
        save_v1(
            folder,
            session,
            {
                "serving_default": ({"x": x}, {"y": y}),
                "change": ({}, {"step": changed}),
                "save": ({"name": name}, {"saved": saved}),
                "restore": ({"name": name}, {"step": restored}),
                "old": ({"name": name}, {"w": old}),
            },
        )
    a, b, none = ({"name": np.array(s, object)} for s in (b"a", b"b", b"none"))
    x = {"x": random(3, (2, 3))}
    return [
        Request("serving_default", x),
        Request("save", a),
        Request("change", {}),
        Request("serving_default", x),
        Request("save", b),
        Request("restore", a),
        Request("serving_default", x),
        Request("restore", b),
        Request("restore", none),
        Request("old", a),
    ]
