#!/usr/bin/env python3
"""Runs random programs with side effects in TensorFlow and in op_runner. Several signatures read and write variables of
both kinds and tables, through functions, branches and loops. Runs of the signatures are interleaved, and only control
edges order the side effects. Resource handles are also made inside branches, loops and functions, and returned from
them.

random_state.py [FIRST [LAST]]        runs the seeds FIRST to LAST - 1, or only FIRST; without arguments, 0 to 39
random_state.py --record DIR SEED...  writes the files that tests/unit/exec/test_random_state.c replays, with
                                      TensorFlow's results

Every node that reads or writes state waits for the previous node that does so, so that only one result is right. It
waits for that node directly or through another node: a pure node, a constant, a call, a branch or a loop.
"""
import argparse
import pathlib
import struct
import sys
import zlib

# imported before TensorFlow, because `run` sets environment variables that TensorFlow reads
from run import ROOT, Refusal, Runner, np, packed

from random_run import TUNINGS, Built, session

CONTROL_V1 = 3  # one in CONTROL_V1 seeds gives a program with TensorFlow 1's loops and branches
SIGNATURES = 4
RUNS = 40
SMALL = 1000  # modulus by which the numbers of a program are reduced, so that they stay small


def is_resource(v):
    return hasattr(v, "handle")


class Program:
    """After make(), a program has the fields `graph`, `init` (names) and `signatures` (lists of fetches)."""

    def __init__(self, tf, seed):
        self.tf, self.rng = tf, np.random.default_rng(seed)
        self.v1 = seed % CONTROL_V1 == CONTROL_V1 - 1

    def pick(self, things):
        return things[int(self.rng.integers(len(things)))]

    def chance(self, p):
        return self.rng.random() < p

    def make(self):
        tf = self.tf
        (tf.compat.v1.disable_control_flow_v2 if self.v1 else tf.compat.v1.enable_control_flow_v2)()
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf.compat.v1.placeholder(tf.int32, [], "x")
            self.row = tf.compat.v1.placeholder(tf.int32, [None], "row")
            variable = tf.compat.v1.get_variable
            self.variables = [variable(f"v{k}", initializer=tf.constant(k + 5), use_resource=True) for k in range(3)]
            self.variables += [variable(f"r{k}", initializer=tf.constant(k + 8), use_resource=False) for k in range(2)]
            self.fixed = [variable("fixed", initializer=tf.constant(3), use_resource=True),
                          variable("fixed_ref", initializer=tf.constant(4), use_resource=False)]
            self.aliases = {v.op.name: self.aliases_of(v) for v in self.variables + self.fixed if not is_resource(v)}
            self.table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int32, shared_name="table")
            self.init = [v.initializer for v in self.variables + self.fixed]
            self.signatures = [self.signature(k) for k in range(SIGNATURES)]
            self.signatures.append([t.name for t in self.all_state()])
        return self

    def aliases_of(self, v):
        """Returns tensors that share a ref variable's buffer. All tensors except the first are computed without waiting
        for any node. Because they share the buffer, they show writes that happen between their computation and their
        use."""
        tf = self.tf
        read = v.value()  # the one Identity node through which all readers read the variable
        return [v._ref(), read, read, read, tf.reshape(tf.reshape(read, [1]), []), tf.stop_gradient(tf.identity(read)),
                tf.raw_ops.IdentityN(input=[read])[0], tf.squeeze(tf.expand_dims(read, 0))]

    def signature(self, k):
        tf = self.tf
        with tf.name_scope(f"signature{k}"):
            values, last = [self.x, tf.size(self.row), tf.constant(2)], None
            values, last = self.steps(values, last, int(self.rng.integers(3, 9)), 0)
            fetches = [self.behind(last, lambda v=v: tf.identity(v)) for v in values[-3:]]
            if self.chance(0.3):
                fetches = fetches[-1:]
            return [t.name for t in fetches]

    def all_state(self):
        keys = self.tf.constant([0, 1, 2], self.tf.int64)
        yield self.tf.raw_ops.LookupTableFindV2(table_handle=self.table, keys=keys, default_value=-1)
        for v in self.variables:
            yield (v.read_value() if is_resource(v) else v._ref()) + 0

    # ---- one after the other ----

    def behind(self, last, make):
        with self.tf.control_dependencies([] if last is None else [last]):
            return make()

    def steps(self, values, last, n, depth):
        """Adds n steps. Returns `values` with the results of the steps, and the operation that waits for all steps.
        The first step waits for the operation `last`, unless `last` is None."""
        values = list(values)
        kinds = [self.effect] * 4 + [self.through_handle] * 2 + [self.through_alias] * 3 + [self.passer] * 5
        if depth < 2:
            kinds += [self.call, self.branch, self.case, self.loop]
        for _ in range(n):
            kind = self.pick(kinds)
            if last is not None and (kind not in (self.effect, self.through_handle, self.through_alias) or self.chance(0.5)):
                # a group waits for `last`, because a branch need not wait for an input that it does not read
                last = self.gate([last])
            made, last = kind(values, last, depth)
            if made is not None:
                values.append(made)
        return values, last

    def small(self, t):
        return self.tf.math.floormod(t, SMALL)

    def effect(self, values, last, depth):
        tf, raw = self.tf, self.tf.raw_ops
        given = self.small(self.pick(values[-4:]))
        kind = self.pick(["add", "add", "set", "read", "read", "fixed", "insert", "find", "size", "guard"])
        may = [v for v in self.variables if self.v1 or not depth or is_resource(v)]  # functions accept no ref variables
        fixed = [v for v in self.fixed if self.v1 or not depth or is_resource(v)]
        v = self.pick(may)
        key = tf.cast(tf.math.floormod(given, 3), tf.int64)
        if self.chance(0.5):
            # The input of the effect also waits for `last`, so that a data edge orders the effect after `last` as well.
            given = self.behind(last, lambda: self.tf.identity(given))

        def make():
            if kind == "add":
                return None, v.assign_add(given).op
            if kind == "set":
                return None, v.assign(given).op
            if kind in ("read", "fixed"):
                of = v if kind == "read" else self.pick(fixed)
                got = self.small((of.read_value() if is_resource(of) else self.pick(self.aliases[of.op.name])) + 1)
                return got, got.op
            if kind == "insert":
                op = raw.LookupTableInsertV2(table_handle=self.table, keys=key, values=given)
                return None, op
            if kind == "find":
                got = raw.LookupTableFindV2(table_handle=self.table, keys=key, default_value=-1)
                return got, got.op
            if kind == "size":
                got = tf.cast(raw.LookupTableSizeV2(table_handle=self.table), tf.int32)
                return got, got.op
            return None, raw.Assert(condition=tf.not_equal(self.x, 7), data=[self.x])

        return self.behind(last, make)

    def through_alias(self, values, last, depth):
        """Writes a ref variable and then reads it through an alias that may have been read before."""
        if depth and not self.v1:  # functions accept no ref variables
            return self.effect(values, last, depth)
        given = self.small(self.pick(values[-4:]))
        v = self.pick([v for v in self.variables if not is_resource(v)])
        aliases = self.aliases[v.op.name]
        kind = self.pick(["add", "set", "more", "twice"])

        def write():
            if kind in ("add", "twice"):
                return v.assign_add(given).op
            return v.assign(given if kind == "set" else self.small(self.pick(aliases) + given)).op

        wrote = self.behind(last, write)
        if kind == "twice":
            seen = self.behind(wrote, lambda: self.small(self.pick(aliases) * 3))
            wrote = self.behind(seen.op, lambda: v.assign_sub(seen).op)
        got = self.behind(wrote, lambda: self.small(self.pick(aliases) + given))
        return got, got.op

    def handle(self, v):
        return self.tf.raw_ops.VarHandleOp(dtype=self.tf.int32, shape=[], shared_name=v.op.name)

    def passed_handle(self, values):
        """Returns a handle to a resource variable. The choice of the variable is known only during the run."""
        tf = self.tf
        v, w = (self.pick([v for v in self.variables if is_resource(v)]) for _ in range(2))
        yes, other = tf.less(self.pick(values), self.pick(values)), tf.equal(self.x, 3)
        at = tf.math.floormod(self.pick(values), 2)
        kind = self.pick(["cond", "cond", "nested", "case", "loop", "call", "argument", "outside"])
        if self.v1 and kind in ("case", "call", "argument"):
            kind = "cond"

        def either():
            return tf.cond(yes, lambda: self.handle(v), lambda: self.handle(w))

        if kind == "nested":
            return tf.cond(other, either, lambda: self.handle(w))
        if kind == "case":
            return tf.switch_case(at, [lambda: self.handle(v), lambda: self.handle(w)])
        if kind == "loop":
            return tf.while_loop(lambda i, h: i < at, lambda i, h: (i + 1, self.handle(v)), [tf.constant(0), self.handle(w)])[1]
        if kind == "call":
            return tf.function(lambda a: tf.cond(a, lambda: self.handle(v), lambda: self.handle(w)))(yes)
        if kind == "argument":
            return tf.function(lambda h, a: tf.raw_ops.IdentityN(input=[a, h])[1])(either(), yes)
        if kind == "outside":
            here, there = self.handle(v), self.handle(w)
            return tf.cond(yes, lambda: tf.identity(here), lambda: tf.identity(there))
        return either()

    def through_handle(self, values, last, depth):
        """Adds an effect through a handle that passed_handle returned, directly or inside a branch or loop that
        captures this handle."""
        tf, raw = self.tf, self.tf.raw_ops
        h, given = self.passed_handle(values[-4:]), self.small(self.pick(values[-4:]))
        kind = self.pick(["add", "add", "set", "set", "read", "branch", "loop"])
        if self.v1 and kind in ("branch", "loop"):
            kind = "add"
        yes = tf.less(self.x, given)

        def read():
            return self.small(tf.reshape(raw.ReadVariableOp(resource=h, dtype=tf.int32), []) + 1)

        def add(by):
            with tf.control_dependencies([raw.AssignAddVariableOp(resource=h, value=by)]):
                return read()

        def make():
            if kind == "add":
                return None, raw.AssignAddVariableOp(resource=h, value=given)
            if kind == "set":
                return None, raw.AssignVariableOp(resource=h, value=given)
            if kind == "read":
                got = read()
            elif kind == "branch":
                got = tf.cond(yes, lambda: add(given), lambda: tf.identity(given))
            else:
                got = tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, add(s)), [tf.constant(0), given],
                                    parallel_iterations=1)[1]
            return got, got.op

        return self.behind(last, make)

    def gate(self, ops):
        return self.behind(None, lambda: self.tf.group(*ops))

    def passer(self, values, last, depth):
        """Adds a random pure node that waits for `last`."""
        tf = self.tf
        v, w = self.pick(values), self.pick(values)
        kind = self.pick(["identity", "constant", "sum", "call", "constant call", "swap", "cond", "known cond", "case", "loop",
                          "no loop", "several", "size", "fold", "noop", "reshape"])
        if self.v1 and kind in ("cond", "known cond", "case", "loop", "no loop"):
            kind = "sum"
        yes = tf.less(self.x, w)

        def pure(a, b):
            return self.small(a * 2 + b)

        def make():
            if kind == "identity":
                return tf.identity(v)
            if kind == "constant":
                return tf.constant(int(self.rng.integers(9)))
            if kind == "sum":
                return self.small(v + w)
            if kind == "call":
                return tf.function(pure)(v, w)
            if kind == "constant call":
                return tf.function(lambda a: tf.constant(6))(v)
            if kind == "swap":
                return tf.function(lambda a, b: (b, a))(v, w)[self.pick([0, 1])]
            if kind == "cond":
                return tf.cond(yes, lambda: v, lambda: pure(v, w))
            if kind == "known cond":
                known = tf.constant(bool(self.chance(0.5)))
                return tf.cond(known, lambda: tf.identity(v), lambda: tf.constant(11))
            if kind == "case":
                return tf.switch_case(tf.math.floormod(v, 2), [lambda: tf.constant(1), lambda: tf.identity(w)])
            if kind == "loop":
                return tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, pure(s, w)), [tf.constant(0), tf.identity(v)])[1]
            if kind == "no loop":
                return tf.while_loop(lambda i, s: i < 0, lambda i, s: (i + 1, pure(s, w)), [tf.constant(0), tf.identity(v)])[1]
            if kind == "several":
                return tf.raw_ops.IdentityN(input=[v, w])[self.pick([0, 1])]
            if kind == "size":
                return tf.size(self.row) if depth == 0 else tf.rank(v)
            if kind == "fold":
                return tf.constant(3) * tf.constant(2) + 1
            if kind == "reshape":
                return tf.reshape(tf.reshape(v, [1]), [])
            return None

        if kind == "noop":
            return None, self.behind(last, tf.no_op)
        made = self.behind(last, make)
        return made, made.op

    # ---- effects inside ----

    def inside(self, values, depth):
        """Adds one to three steps inside a branch, a loop or a function. Returns a value that waits for all of them."""
        more, last = self.steps(values, None, int(self.rng.integers(1, 4)), depth + 1)
        value = more[-1]
        return self.behind(last, lambda: self.tf.identity(value))

    def call(self, values, last, depth):
        tf = self.tf
        if self.v1:
            return None, last
        v, w = self.pick(values), self.pick(values)
        made = self.behind(last, lambda: tf.function(lambda a, b: self.inside([a, b], depth))(v, w))
        return made, made.op

    def branch(self, values, last, depth):
        tf = self.tf
        v, w = self.pick(values), self.pick(values)
        known = self.chance(0.4)
        which = self.behind(last, lambda: tf.constant(bool(self.chance(0.5))) if known and not self.v1
                            else tf.identity(tf.less(v, w)))
        if self.v1:
            v, w = self.behind(which.op, lambda: (tf.identity(v), tf.identity(w)))
        inner = [v, w]
        made = self.behind(last, lambda: tf.cond(which, lambda: self.inside(inner, depth), lambda: self.inside(inner, depth)))
        return made, made.op

    def case(self, values, last, depth):
        tf = self.tf
        if self.v1:
            return None, last
        v, w = self.pick(values), self.pick(values)
        at = self.pick([tf.math.floormod(v, 3), tf.constant(1)])
        sides = [lambda: self.inside([v, w], depth) for _ in range(3)]
        made = self.behind(last, lambda: tf.switch_case(at, sides))
        return made, made.op

    def loop(self, values, last, depth):
        tf = self.tf
        v, w = self.pick(values), self.pick(values)
        if self.v1:
            return None, last
        v = self.behind(last, lambda: tf.identity(v))  # The inputs of a loop need not wait for each other.
        limit = self.pick([tf.constant(2), tf.math.floormod(w, 3), tf.constant(0)])

        def step(i, s):
            return i + 1, self.small(self.inside([i, s, w], depth))
        made = self.behind(last, lambda: tf.while_loop(lambda i, s: i < limit, step, [tf.constant(0), v], parallel_iterations=1))
        return made[1], made[1].op


def runs(tf, made, seed):
    """Returns TensorFlow's results, one (signature, feeds, results) per run. The results of a refused run are None.
    Every second run reads the complete state."""
    rng = np.random.default_rng(seed)
    last = None
    with session(tf, made.graph) as theirs:
        theirs.run(made.init)
        for turn in range(RUNS):
            if turn % 2 == 0 and (last is None or rng.random() < 0.7):
                last = int(rng.integers(SIGNATURES))
            k = SIGNATURES if turn % 2 else last
            feeds = {"x:0": np.int32(rng.integers(-2, 8 if rng.random() < 0.2 else 7)),
                     "row:0": np.zeros(int(rng.integers(1, 3)), np.int32)}
            try:
                yield k, feeds, [v.tolist() for v in theirs.run(made.signatures[k], feeds)]
            except tf.errors.InvalidArgumentError:
                yield k, feeds, None


def check(tf, runners, seed, most):
    made = Program(tf, seed).make()
    graph_def = made.graph.as_graph_def().SerializeToString()
    wrong = []
    for runner in runners.values():
        refusal = runner.load(graph_def)
        if refusal:
            return [f"graph: {refusal}"]
        for op in made.init:
            answer = runner.step(Built(made.graph, {}, []), [op], is_load=True)
            if isinstance(answer, Refusal):
                return [f"{op.name}: {answer}"]
        runner.serve()
    for turn, (k, feeds, want) in enumerate(runs(tf, made, seed)):
        for name, runner in runners.items():
            got = runner.run(Built(made.graph, feeds, made.signatures[k]))[0]
            if isinstance(got, Refusal):
                got = None if got.code == 3 else str(got)
            else:
                got = [v.tolist() for v in got]
            if got != want:
                wrong.append(f"run {turn}, signature {k}, {name}: {got}, in TensorFlow {want}")
        if len(wrong) >= most:
            break
    return wrong


def record(tf, folder, seeds):
    """Writes the graph, the names of the initialisers and of each signature's fetches, and the runs."""
    for seed in seeds:
        made = Program(tf, seed).make()
        graph_def = made.graph.as_graph_def()
        for node in list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]:
            for key in [k for k in node.attr if k in ("_output_shapes", "_xla_inferred_shapes")]:
                del node.attr[key]
        out = [packed(graph_def.SerializeToString())]
        for names in ([op.name for op in made.init], *made.signatures):
            out += [struct.pack("<i", len(names)), *(packed(n.encode()) for n in names)]
        for k, feeds, want in runs(tf, made, seed):
            out.append(struct.pack("<iiii", k, feeds["x:0"], len(feeds["row:0"]), want is not None))
            for value in want or ():
                value = np.ravel(value)
                out.append(struct.pack(f"<i{len(value)}i", len(value), *value))
        data = b"".join(out)
        (pathlib.Path(folder) / f"{seed}.bin").write_bytes(struct.pack("<q", len(data)) + zlib.compress(data, 9))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("last", nargs="?", type=int)
    parser.add_argument("--runner", default=str(ROOT / "build" / "release" / "tests" / "op_runner"))
    parser.add_argument("--most", type=int, default=4, help="differences shown of a program")
    parser.add_argument("--record", metavar="DIR")
    parser.add_argument("--write", metavar="FILE", help="the graph of FIRST, as text")
    options, more = parser.parse_known_args()

    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    if options.write:
        with open(options.write, "w", encoding="utf-8") as out:
            out.write(str(Program(tf, options.first).make().graph.as_graph_def()))
        return 0
    if options.record:
        seeds = [options.first, *([options.last] if options.last is not None else []), *map(int, more)]
        record(tf, options.record, seeds)
        return 0
    last = options.last if options.last is not None else options.first + (1 if options.first else 40)
    runners = {name: Runner(options.runner, tf, tuning) for name, tuning in TUNINGS.items()}
    n_wrong = 0
    for seed in range(options.first, last):
        wrong = check(tf, runners, seed, options.most)
        n_wrong += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} seed {seed}", flush=True)
        for text in wrong:
            print("     ", text)
    n = last - options.first
    print(f"{n - n_wrong} of {n} programs agree")
    return 1 if n_wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
