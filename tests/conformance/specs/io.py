"""Assertions, printing, and the ops that move a vocabulary, or a matrix in a checkpoint, to a new order."""

import gzip
import itertools
import os
import pathlib
import struct
import tempfile
import zlib

from spec import *


@spec("Assert")
def assert_(g, op):
    def case(*data, condition=False, summarize=3):
        return Case(np.array(condition), list(data), summarize=summarize)

    text = np.array([b"hello", b'a"b\n', b"\x01'", None], object)[:-1]
    yield case(text[0:1].reshape(()), condition=True)
    yield Case(np.array([False]), [np.int32(1)])
    for n in (-1, 0, 1, 3, 100):
        yield case(text, np.arange(5), np.float32([[1.5, 2], [3, 4]]), summarize=n)
        yield case(np.int8([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), summarize=n)
    for dtype in PLAIN:
        if not dtype.startswith("complex"):
            yield case(g.values(dtype, (8,)), summarize=-1)
    yield case(np.zeros((2, 0), np.float32), np.zeros(0, np.float32))
    yield case(np.float64([1 / 3, 1e-5, 1234567, 1e22]), np.float32([1 / 3, 2e20, 16777217]), summarize=-1)


@spec("Print")
def print_(g, op):
    yield Case(g.values("float32", (2, 3)), [np.int32(1)], message="x")


def text(x):
    return np.array(x, object)


@spec("GenerateVocabRemapping")
def vocabulary(g, op):
    place = tempfile.mkdtemp(prefix="slipway-remapping-")

    def file(words):
        data = words if isinstance(words, bytes) else b"".join(w + b"\n" for w in words)
        path = pathlib.Path(place, f"{zlib.crc32(data):08x}.txt")
        path.write_bytes(data)
        return os.fsencode(path)

    def case(new, old, offset=0, n=3, size=-1):
        return Case(text(new), text(old), new_vocab_offset=offset, num_new_vocab=n, old_vocab_size=size, texts=True)

    new, old = file(b"a\nb\nc\nd\ne\n"), file(b"d\nx\na\nb\n")
    blank, twice, returns, empty = file(b"a\n\nb\n\n"), file(b"a\nb\na\n"), file(b"a\r\nb"), file(b"")
    for offset, n, size in ((0, 5, -1), (1, 3, -1), (4, 3, -1), (5, 1, -1), (9, 1, -1), (0, 0, -1), (5, 0, -1), (9, 0, -1), (0, 5, 2), (0, 5, 4), (0, 5, 9), (0, 5, 0),
                            (0, 9, -1), (2, 2, 3)):
        yield case(new, old, offset, n, size)
    for a in (new, blank, twice, returns, empty, b"none", b"nothing", b""):
        for b in (old, blank, twice, returns, empty, b"none", b"nothing", b""):
            for n, size in ((2, -1), (0, 2)):
                yield case(a, b, 0, n, size)
    for offset in (0, 9):
        yield case(new, b"none", offset)
        yield case(new, b"", offset)
        yield case(new, blank, offset)
    yield case([new], old)
    yield case(b"none", [old])
    yield case([new], [old])
    yield case(new, [[old]])
    for _ in range(60):
        some = [bytes(f"word{k}", "ascii") for k in g.rng.permutation(40)]
        a, b = some[: g.rng.integers(1, 40)], [some[k] for k in g.rng.permutation(40)[: g.rng.integers(1, 40)]]
        offset = int(g.rng.integers(0, len(a)))
        yield case(file(a), file(b), offset, int(g.rng.integers(0, len(a) - offset + 1)), int(g.rng.choice([-1, g.rng.integers(1, len(b) + 1)])))


@spec("LoadAndRemapMatrix")
def matrix(g, op):
    f = np.float32

    def graph(rows, columns=(), values=(), n_rows=None, n_columns=4, most=-1, name=b"m", path=None, parted=False):
        stored = [np.arange(20, dtype=f).reshape(5, 4), f([1, 2]), np.float64([[1]]), np.zeros((0, 4), f), np.float16([[1]])]
        names, slices = ["m", "v", "d", "e", "h"], [""] * 5
        if parted:
            stored, names, slices = [stored[0][:2], stored[0][2:]], ["m", "m"], ["5 4 0,2:-", "5 4 2,3:-"]
        # Both sides write the same file, so each case has its own.
        shown = f"{rows} {columns} {values} {n_rows} {n_columns} {most} {name} {path} {parted}"
        own = f"remapping-{zlib.crc32(shown.encode()):08x}"

        def build(tf, r, c, v, p, t):
            save = tf.raw_ops.SaveV2(prefix=own, tensor_names=names, shape_and_slices=slices, tensors=stored)
            load = tf.raw_ops.LoadAndRemapMatrix(ckpt_path=p, old_tensor_name=t, row_remapping=r, col_remapping=c, initializing_values=v, num_cols=n_columns,
                                                 num_rows=np.size(rows) if n_rows is None else n_rows, max_rows_in_memory=most)
            return [[save], [load]]

        return Graph(build, np.array(rows, np.int64), np.array(columns, np.int64), f(values), text(own.encode() if path is None else path), text(name),
                     name=shown, texts=True)

    one = [1, 2, 3, 4]
    for parted in (False, True):
        for rows, columns, values in (([0, 1, 2, 3, 4], [], []), ([4, 0], [], []), ([4, -1], [], one), ([4, -1], [], [1, 2, 3]), ([4, -1], [], one + [5]),
                                      ([-2, 0], [], one), ([1, 1], [], []), ([3, 1, 1, 3], [], []), ([-1, -1], [], one * 2), ([-1], [], one), ([], [], []),
                                      ([], [], [5]), ([0, -1], [], [[1, 2], [3, 4]])):
            yield graph(rows, columns, values, parted=parted)
        for rows, columns, values in (([4, -1], [3, 0, -1], one), ([4, 0], [3, 0, -1], [1, 2]), ([0], [0, -2], [7]), ([1], [1, 1], []), ([0], [0, -1], 9),
                                      ([0], [0, 1, 2, 3, -1], [5]), ([0], [0, 1], [5]), ([0], [-1, -1], [5, 6]), ([-1, 0], [-1, 1], [5, 6, 7])):
            yield graph(rows, columns, values, n_columns=len(columns), parted=parted)
        for most in (0, 1, 2, 3, 5, 9, -5, 2**62):
            yield graph([4, 0, -1, 2], [], one, most=most, parted=parted)
            yield graph([4, 1], [], [], most=most, parted=parted)
            for rows in ([5, 0], [7, -1], [1, 6], [1, 9, 3]):
                yield graph(rows, [], one, most=most, parted=parted)
    for more in ({"name": b"none"}, {"name": b"v"}, {"name": b"d"}, {"name": b"h"}, {"name": b"e"}, {"name": [b"m"]}, {"path": b"nofile"},
                 {"path": b""}, {"path": [b"nofile"]}, {"path": [b"a", b"b"]}, {"n_rows": 3}, {"n_rows": 0}, {"n_columns": 3}, {"columns": [0], "n_columns": 3},
                 {"columns": [0, 0, 0], "n_columns": 2}):
        yield graph([0], **more)
        yield graph([-1], values=one, **more)
    yield graph([[0]], n_rows=1)
    yield graph(0, n_rows=1)
    yield graph([], name=b"e")
    for _ in range(40):
        rows = [int(k) if k < 5 else -1 for k in g.rng.permutation(8)[: g.rng.integers(1, 8)]]
        columns = [int(k) if k < 4 else -1 for k in g.rng.permutation(6)[: g.rng.integers(1, 6)]]
        n = sum(r < 0 or c < 0 for r in rows for c in columns)
        yield graph(rows, columns, list(range(100, 100 + n)), n_columns=len(columns), most=int(g.rng.integers(-1, 6)))


NUMBER = itertools.count()


def files_graph(build, *feeds, name, texts=True):
    """Makes a graph that works in a directory of its own below the working directory. `build` takes tf, a function that returns the
    name of a file there, and the feeds. TensorFlow and Slipway work there one after the other. The name is relative, so that
    replay.py can run a recorded graph in another directory."""
    place = f"files-{next(NUMBER)}"
    return Graph(lambda tf, *x: build(tf, lambda end: f"{place}/{end}", *x), *feeds, name=name, texts=texts)


FILES = {"a": b"hello", "b.txt": b"", "sub/c.txt": b"\x00\xff\n" * 40, "sub/.hidden": b"x", "sub/deep/d.txt": b"z", "[e]": b"e"}


@spec("ReadFile", "WriteFile", "MatchingFiles")
def whole_files(g, op):
    def write(tf, at):
        return [[tf.raw_ops.WriteFile(filename=at(name), contents=data)] for name, data in FILES.items()]

    def read(tf, at, *names):
        return write(tf, at) + [[tf.raw_ops.ReadFile(filename=name if name.startswith(("/", "file:", "foo:")) or not name else at(name))]
                                for name in names]

    def later(tf, x):
        return tf.compat.v1.placeholder_with_default(x, None)

    def each(tf, at):
        paths = ["foo://x/y", "", at("x" * 300)]
        return read(tf, at, *FILES, "none", "sub", "sub/", "a/", "a/b", "none/b", "./a", "sub/./c.txt", "sub//c.txt", "sub/../a", "none/../a", "sub/../none", *paths)

    def wrong(tf, at):
        W, R = tf.raw_ops.WriteFile, tf.raw_ops.ReadFile
        return write(tf, at) + [[W(filename=name, contents="x")] for name in (at("sub"), at("a/b"), at("x" * 300), "", "foo://x", at("new"))] + [
            [W(filename=later(tf, [at("w")]), contents="x")], [W(filename=at("w"), contents=later(tf, ["x"]))], [R(filename=later(tf, [at("a")]))],
            [R(filename=at("w"))], [W(filename=at("a"), contents="shorter")], [R(filename=at("a"))], [R(filename=at("new"))]]

    def match(tf, at):
        patterns = ["*", "sub/*", "*/c.txt", "s?b/*.txt", "a", "none", "none/*", "[ab]*", "[!ab]*", "[^ab]*", "\\a", "\\[e\\]", "[[]e]", "sub/", "sub/*/",
                    "*/*", "*/*/*", "**", "a/*", "a*/b", "sub/.*", "./*", "sub/./*", "sub//c.txt", "sub//*", "{a,b}", "[", "[a", "sub/deep/../*t", "*.txt", "sub",
                    "*/../a", "none/../*", "none/../a", "sub/*/../a"]
        return write(tf, at) + [[tf.raw_ops.MatchingFiles(pattern=at(p))] for p in patterns] + [
            [tf.raw_ops.MatchingFiles(pattern=later(tf, p))] for p in
            ([at("a"), at("none"), at("sub/*"), at("*")], [at("a"), at("a")], [[at("a")]], "foo://*", "")] + [
            [tf.raw_ops.MatchingFiles(pattern=tf.constant([], tf.string))]]

    def uri(tf, at):
        """Names that begin with "file://" must be absolute."""
        begin, there = write(tf, at), f"file://{os.path.abspath(at(''))}"
        each = {"ReadFile": [tf.raw_ops.ReadFile(filename=f"{there}/{name}") for name in ("a", "none", "sub/c.txt", "sub")],
                "MatchingFiles": [tf.raw_ops.MatchingFiles(pattern=f"{there}/{p}") for p in ("*", "a", "s*/*", "none/*")],
                "WriteFile": [tf.raw_ops.WriteFile(filename=f"{there}/new", contents="x"), tf.raw_ops.ReadFile(filename=at("new"))]}
        return begin + [[x] for x in each[op]]

    if op == "WriteFile":
        yield files_graph(wrong, name=op)
        for contents in (b"", b"x" * 100, b"\0\xff" * 500):
            yield files_graph(lambda tf, at: [[tf.raw_ops.WriteFile(filename=at(f"{k % 2}/x"), contents=contents * k)] for k in range(3)] +
                              [[tf.raw_ops.ReadFile(filename=at(f"{k}/x"))] for k in range(2)], name=f"{len(contents)} bytes")
    else:
        for part in range(8):
            def some(tf, at):
                steps = {"ReadFile": each, "MatchingFiles": match}[op](tf, at)
                return steps[: len(FILES)] + steps[len(FILES) + part :: 8]

            yield files_graph(some, name=f"{op} {part}")
    absolute = files_graph(uri, name=f"{op} of file://")
    absolute.records = False
    yield absolute


@spec("ImmutableConst")
def immutable(g, op):
    data = g.values("float32", (10,)).tobytes()

    def one(dtype, shape, contents=data, name=None):
        def build(tf, at):
            file = at("data") if name is None else name
            write = [] if contents is None else [[tf.raw_ops.WriteFile(filename=at("data"), contents=contents)]]
            return write + [[tf.raw_ops.ImmutableConst(dtype=dtype, shape=shape, memory_region_name=file)]]

        return files_graph(build, name=f"{dtype} {shape} {name} {contents is None}")

    for dtype in PLAIN:
        if dtype != "bool":
            yield one(dtype, [2])
    yield one("bool", [4], contents=b"\0\1\1\0\1")
    for shape in ([10], [2, 3], [], [0], [0, 5], [1] * 8, [11], [2**20]):
        yield one("float32", shape)
    yield one("float32", [0], contents=b"")
    yield one("float32", [1], contents=None)
    yield one("float32", [1], name="foo://x")


READERS = {"TextLineReaderV2": [{}, {"skip_header_lines": 1}, {"skip_header_lines": 3}, {"skip_header_lines": 99}, {"skip_header_lines": -1}],
           "WholeFileReaderV2": [{}], "IdentityReaderV2": [{}],
           "TFRecordReaderV2": [{"compression_type": c} for c in ("", "ZLIB", "GZIP", "other")],
           "FixedLengthRecordReaderV2": [{"record_bytes": n, "header_bytes": h, "footer_bytes": f, "hop_bytes": hop, "encoding": e}
                                         for n, h, f, hop, e in ((5, 0, 0, 0, ""), (5, 3, 0, 0, ""), (5, 3, 4, 0, ""), (5, 0, 0, 2, ""), (5, 0, 0, 9, ""),
                                                                 (23, 0, 0, 0, ""), (24, 0, 0, 0, ""), (5, 30, 0, 0, ""),
                                                                 (5, 0, 30, 0, ""), (0, 0, 0, 0, ""), (1, 0, 0, 2**62, ""), (-1, 0, 0, 0, ""), (1, -1, 0, 0, ""),
                                                                 (1, 0, -1, 0, ""), (1, 0, 0, -1, ""), (5, 0, 0, 0, "ZLIB"), (5, 3, 4, 0, "ZLIB"),
                                                                 (5, 0, 0, 2, "ZLIB"), (5, 0, 0, 9, "ZLIB"), (24, 0, 0, 0, "ZLIB"), (5, 30, 0, 0, "ZLIB"),
                                                                 (5, 0, 0, 0, "GZIP"), (5, 0, 0, 0, "other"))]}


def records(*items):
    """Encodes items as TFRecords."""
    def crc(data):
        c = 0xFFFFFFFF
        for byte in data:
            c ^= byte
            for _ in range(8):
                c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
        c ^= 0xFFFFFFFF
        return struct.pack("<I", ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    return b"".join(n + crc(n) + x + crc(x) for x in items for n in [struct.pack("<Q", len(x))])


def gzipped(data):
    return gzip.compress(data, mtime=0)


TEXT = b"a\nbb\n\nc\r\nlast"
ALPHABET = bytes(range(65, 65 + 23))
RECORDS = records(b"hello", b"", b"x" * 300, b"end")
INPUTS = {
    "TextLineReaderV2": [TEXT, b"", b"\n\n", None, b"\r", b"x" * 70000 + b"\ny\n"],
    "WholeFileReaderV2": [TEXT, b"", ALPHABET * 40, None], "IdentityReaderV2": [TEXT, None],
    "FixedLengthRecordReaderV2": [ALPHABET, b"", zlib.compress(ALPHABET), gzipped(ALPHABET), gzipped(b"abcdef") + gzipped(b"ghijkl"), None, ALPHABET * 9],
    "TFRecordReaderV2": [RECORDS, b"", RECORDS[:40], RECORDS[:5], RECORDS[:35], RECORDS[:13] + b"Z" + RECORDS[14:], RECORDS[:2] + b"Z" + RECORDS[3:], TEXT,
                         zlib.compress(RECORDS), gzipped(RECORDS), zlib.compress(RECORDS)[:20], records(b"y" * 70000), None]}


@spec(*READERS, "ReaderReadV2", "ReaderReadUpToV2", "ReaderResetV2", "ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompletedV2", "ReaderSerializeStateV2",
      "ReaderRestoreStateV2")
def readers(g, op):
    """Readers of files that WriteFile has written. The last name is that of a file that does not exist."""
    def graph(kind, attrs, contents, plan, states=(), name=""):
        def build(tf, at):
            def O(what, **inputs):
                return getattr(tf.raw_ops, what + "V2")(**inputs)

            names = [at(f"f{k}") for k in range(len(contents))]
            q = O("FIFOQueue", component_types=[tf.string], shapes=[[]], shared_name=f"names{next(NUMBER)}")
            rd = getattr(tf.raw_ops, kind)(**attrs)
            steps = {"read": list(O("ReaderRead", reader_handle=rd, queue_handle=q)), "n": [O("ReaderNumRecordsProduced", reader_handle=rd)],
                     "w": [O("ReaderNumWorkUnitsCompleted", reader_handle=rd)], "reset": [O("ReaderReset", reader_handle=rd)],
                     "state": [O("ReaderSerializeState", reader_handle=rd)], "left": [O("QueueSize", handle=q)]}
            for n in (0, 1, 2, 5):
                steps[f"up{n}"] = list(O("ReaderReadUpTo", reader_handle=rd, queue_handle=q, num_records=tf.constant(n, tf.int64)))
            for k, state in enumerate(states):
                steps[f"restore{k}"] = [O("ReaderRestoreState", reader_handle=rd, state=tf.compat.v1.placeholder_with_default(tf.constant(state), None))]
            begin = [[tf.raw_ops.WriteFile(filename=n, contents=data)] for n, data in zip(names, contents) if data is not None]
            begin += [[O("QueueEnqueueMany", handle=q, components=[names])], [O("QueueClose", handle=q)]]
            return begin + [steps[what] for what in plan.split()]

        return files_graph(build, name=f"{kind} {attrs} {name or plan}")

    general = {"ReaderReadV2": ["read n w read left read read read n w read read"], "ReaderReadUpToV2": ["left up0 left up2 n up5 n w up5 w n up5 up1 up5 w"],
               "ReaderResetV2": ["read reset n w read reset read up5 n w"], "ReaderNumRecordsProducedV2": ["n up2 n up5 n read n up5 up5 up5 n"],
               "ReaderNumWorkUnitsCompletedV2": ["w up2 w up5 w read w up5 up5 up5 w"], "ReaderSerializeStateV2": ["state read state up5 state read state n w"]}
    if op in READERS:
        for attrs in READERS[op]:
            made = [x for x in INPUTS[op]]
            for contents in [made] + [[x, made[0]] for x in made[1:-1]]:
                if op != "FixedLengthRecordReaderV2":
                    yield graph(op, attrs, contents, "read n up2 w up5 up5 up5 read n w", name=f"{len(contents)} {made.index(contents[0])}")
            if op == "FixedLengthRecordReaderV2":
                fitting = {"ZLIB": [2, 3], "GZIP": [4, 3, 2]}.get(attrs["encoding"], [0, 6])
                yield graph(op, attrs, [made[k] for k in fitting + [1]] + [None, made[0]], "read up5 w up5 up5 up5 read n w")
        return
    if op == "ReaderRestoreStateV2":
        def field(k, v):
            return bytes([k << 3 | 2, len(v)]) + v if isinstance(v, bytes) else bytes([k << 3]) + varint(v)

        def varint(v):
            v &= 2**64 - 1
            return bytes([v & 127 | 128]) + varint(v >> 7) if v > 127 else bytes([v])

        for fields in ([(1, 2), (2, 3)], [(1, 3), (2, 2)], [(1, 3), (2, 2), (4, b"t")], [(1, 2), (2, 2), (3, 7), (4, b"t")], [(1, 2**40), (2, 2**40)],
                       [(9, 1)], [], [(4, b"\xff")]):
            for kind in ("WholeFileReaderV2", "IdentityReaderV2", "TextLineReaderV2"):
                made = graph(kind, {}, INPUTS[kind][:2], "read restore0 state n w read state read state", states=[b"".join(field(*f) for f in fields)], name=str(fields))
                made.texts = False
                yield made
        for state in (b"\xff", b"\x0a", field(1, -1), field(2, -1), field(3, -5)):
            made = graph("IdentityReaderV2", {}, INPUTS["IdentityReaderV2"], "read restore0 state n w read state read state", states=[state], name=repr(state))
            made.texts = False
            yield made
        yield graph("IdentityReaderV2", {}, [TEXT], "restore0", states=[[b""]], name="vector")
        return
    for kind in READERS:
        for plan in general[op]:
            for attrs in READERS[kind][:2]:
                yield graph(kind, attrs, INPUTS[kind], plan)
                yield graph(kind, attrs, INPUTS[kind][:2], plan + " " + plan, name="two files")

# ---- event files -----------------------------------------------------------------------------------------------------



def events_graph(writes, name, texts=True, twice=False, max_queue=10, flush_millis=10**6, suffix=".v2", sizes=False, close="flush", **create):
    """Makes a graph that writes an event file and reads it back. `writes` takes tf and a writer and returns the operations that write
    events; each has a run of its own. A directory with a random name, which a variable keeps, gives each session a file of its own.
    The time, which begins an event, and what a file's name says of it are left out. `sizes`: the file is read after each write."""
    writer_name = f"events{next(NUMBER)}"

    def build(tf):
        R, later = tf.raw_ops, lambda x: x if isinstance(x, tf.Tensor) else tf.constant(x)
        kept = R.VarHandleOp(dtype=tf.string, shape=[], shared_name=f"{writer_name}/directory")
        drawn = tf.strings.join(["events/", writer_name, "-", tf.strings.as_string(tf.random.uniform([], maxval=2**62, dtype=tf.int64))])
        w = R.SummaryWriter(shared_name=writer_name)
        place = R.ReadVariableOp(resource=kept, dtype=tf.string)
        given = dict(logdir=place, max_queue=max_queue, flush_millis=flush_millis, filename_suffix=suffix) | {
            k: tf.compat.v1.placeholder_with_default(later(v(place) if callable(v) else v), None) for k, v in create.items()}
        opened = [R.CreateSummaryFileWriter(writer=w, **given)]
        files = R.MatchingFiles(pattern=tf.strings.join([place, "/*"]))
        look = [[tf.strings.length(R.ReadFile(filename=files[0]))]] if sizes else []
        q = R.FIFOQueueV2(component_types=[tf.string], shapes=[[]], shared_name=f"{writer_name}/files")
        rd = R.TFRecordReaderV2(shared_name=f"{writer_name}/reader")
        with tf.control_dependencies([R.QueueEnqueueManyV2(handle=q, components=[files])]):
            ended = R.QueueCloseV2(handle=q)
        with tf.control_dependencies([ended]):
            _, events = R.ReaderReadUpToV2(reader_handle=rd, queue_handle=q, num_records=tf.constant(100, tf.int64))
        untimed = R.Substr(input=tf.strings.join([events, "123456789"]), pos=9, len=2**30)
        names = R.StaticRegexReplace(input=files, pattern=r"^events/[a-z0-9-]+/events\.out\.tfevents\.\d{10}\..+?\.\d+\.\d+", rewrite="NAME")
        runs = [[R.AssignVariableOp(resource=kept, value=drawn)], opened] + ([opened] if twice else []) + look
        for op in writes(tf, w):
            runs += [[op]] + look
        last = {"flush": R.FlushSummaryWriter, "close": R.CloseSummaryWriter}[close]
        return runs + [[last(writer=w)], [names], [untimed]]

    return Graph(build, name=name, texts=texts)


def event_messages(op):
    """Returns messages for the op that writes given messages: well-formed ones and others."""
    import tensorflow as tf

    v1 = tf.compat.v1

    def value(tag, number):
        return v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=number)]).SerializeToString()

    if op == "WriteRawProtoSummary":
        return [value("a", 1.5), [value("a", 1), value("b", 2)], [[value("a", 1)], [value("b", 2)]], [], b"", [b"", b""], b"\x9a\x06\x01z", b"\xff",
                [value("a", 1), b"\xff"], b"\n\x03\n\x01\xff", b"\n\x05\n", b"\x08\x01"]
    if op == "WriteGraphSummary":
        graph = v1.GraphDef(node=[v1.NodeDef(name="n", op="NoOp", input=["a"])])
        return [graph.SerializeToString(), b"", b"\x9a\x06\x01z", b"\xff", b"\n\x03\n\x01\xff", [graph.SerializeToString()]]
    event = v1.Event(wall_time=7, step=-3, summary=v1.Summary(value=[v1.Summary.Value(tag="t", simple_value=1)])).SerializeToString()
    session = v1.Event(wall_time=8, session_log=v1.SessionLog(status=v1.SessionLog.START, msg="m")).SerializeToString()
    return [event, session, [event], v1.Event(wall_time=9, step=4, graph_def=b"g").SerializeToString(), event + b"\x9a\x06\x01z", b"\xff", b"\x1a\x01\xff",
            b"*\x02\n\x05", b"\t"]


@spec("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter", "WriteScalarSummary", "WriteHistogramSummary",
      "WriteSummary", "WriteImageSummary", "WriteAudioSummary", "WriteRawProtoSummary", "WriteGraphSummary", "ImportEvent")
def events(g, op):
    def scalars(tf, w, n=3):
        return [tf.raw_ops.WriteScalarSummary(writer=w, step=np.int64(k), tag=f"t{k}", value=np.float32(k) / 2) for k in range(n)]

    def calls(inputs, name, **how):
        """Writes with the op and each row of inputs."""
        def writes(tf, w):
            later = lambda x: tf.compat.v1.placeholder_with_default(tf.constant(x), None)
            return [getattr(tf.raw_ops, op)(writer=w, **{k: later(v) if isinstance(v, (np.ndarray, np.generic, list, bytes)) else v for k, v in row.items()})
                    for row in inputs]
        return events_graph(writes, name, **how)

    step = np.int64(3)
    if op == "SummaryWriter":
        yield events_graph(scalars, "once")
        yield events_graph(scalars, "twice", twice=True)

        def none(tf, w):
            R, other = tf.raw_ops, tf.raw_ops.SummaryWriter(shared_name=f"none{next(NUMBER)}")
            return [R.WriteScalarSummary(writer=other, step=step, tag="a", value=1.0), R.FlushSummaryWriter(writer=other), R.CloseSummaryWriter(writer=other),
                    R.WriteGraphSummary(writer=other, step=step, tensor=b"\xff"), R.ImportEvent(writer=other, event=b"\xff")]

        yield events_graph(none, "a writer that is not open")
        return
    if op == "CreateSummaryFileWriter":
        for suffix in ("", ".", "x", ".x.y", ".."):
            yield events_graph(scalars, f"suffix {suffix!r}", suffix=suffix)
        for n in (0, 1, 2, 3, 10, -1):
            yield events_graph(lambda tf, w: scalars(tf, w, 7), f"max_queue {n}", max_queue=n, sizes=True)
        for n in (-1, 10**7):
            yield events_graph(lambda tf, w: scalars(tf, w, 4), f"flush_millis {n}", flush_millis=n, sizes=True)
        for name, given in (("logdir", dict(logdir=["a"])), ("max_queue", dict(max_queue=[1])), ("flush_millis", dict(flush_millis=[1])),
                            ("suffix", dict(filename_suffix=["a"])), ("all", dict(logdir=["a"], max_queue=[1], flush_millis=[1], filename_suffix=["a"])),
                            ("scheme", dict(logdir="foo://a/b"))):
            yield events_graph(lambda tf, w: [], f"bad {name}", **given)
        for name, given in (("deep", dict(logdir=lambda d: d + "/")), ("long", dict(logdir=lambda d: d + "/" + "x" * 300)), ("slash", dict(filename_suffix="a/b")),
                            ("long suffix", dict(filename_suffix="x" * 300))):
            yield events_graph(lambda tf, w: [], f"odd {name}", texts=False, **given)
        return
    if op == "FlushSummaryWriter":
        def flushes(tf, w):
            F, (a, b, c) = tf.raw_ops.FlushSummaryWriter(writer=w), scalars(tf, w)
            return [F, a, F, b, c, F, F]

        yield events_graph(flushes, "flush", sizes=True)
        return
    if op == "CloseSummaryWriter":
        def closes(tf, w):
            C, (a, b, c) = tf.raw_ops.CloseSummaryWriter(writer=w), scalars(tf, w)
            return [a, b, C, C, c, tf.raw_ops.FlushSummaryWriter(writer=w)]

        yield events_graph(scalars, "close", close="close")
        yield events_graph(closes, "close twice", sizes=True, close="close")
        return
    if op in ("WriteScalarSummary", "WriteHistogramSummary"):
        what = "value" if op == "WriteScalarSummary" else "values"
        tags = (b"", b"loss", b"a tag of more than fifteen bytes", b"\xff\x00")
        for dtype in REALS + (["bool"] if what == "values" else []):
            shapes = ((), (1,), (3,), (2, 2)) if what == "value" else ((), (0,), (1,), (7,), (5, 60))
            yield calls([dict(step=np.int64(k), tag=np.array(tags[k % 4], object), **{what: g.values(dtype, shape, special=what == "value")})
                         for k, shape in enumerate(shapes)], dtype)
        steps = (0, 1, -1, 2**62, -2**63)
        yield calls([dict(step=np.int64(k), tag=b"t", **{what: np.float32(k % 7)}) for k in steps], "steps")
        yield calls([dict(step=np.int64([5]), tag=[b"t"], **{what: np.float32([[1.5]])})], "vectors")
        numbers = ([2**63 - 1], [2**62 + 2**38 + 1], [2**53 + 1]) if what == "value" else ([2**63 - 1],)
        yield calls([dict(step=step, tag=b"t", **{what: np.int64(x)}) for x in numbers], "large integers")
        if what == "values":
            for x in ([0.0], [-0.0], [1e-13, 1e-12, -1e-12, 1e20, -1e20, 1.7e308], [1, np.nan], [np.inf, np.nan], [-np.inf]):
                yield calls([dict(step=step, tag=b"the tag", values=np.float64(x))], f"{x}")
        return
    if op == "WriteSummary":
        metadata = (b"", b"\x12\x01d", b"\n\x06\n\x01p\x12\x01c\x12\x01d\x1a\x01x", b"\x20\x01", b"\x1a\x01x\x12\x01d", b"\n\x03\n\x01a\n\x03\x12\x01b",
                    b"\x9a\x06\x01z", b"\xff")
        for dtype in PLAIN + ["string"]:
            yield calls([dict(step=np.int64(len(shape)), tensor=g.values(dtype, shape), tag=b"tag", summary_metadata=metadata[len(shape)])
                         for shape in ((), (0,), (3,), (2, 3))], dtype)
        for tag in (b"", b"t", b"a tag of more than fifteen bytes", b"\xff\0"):
            yield calls([dict(step=step, tensor=np.float32([1, 2]), tag=tag, summary_metadata=m) for m in metadata], f"tag {tag}")
        yield calls([dict(step=np.int64([1]), tensor=np.float32([1, 2]), tag=[b"t"], summary_metadata=[b"\x12\x01d"])], "vectors")
        return
    if op == "WriteImageSummary":
        red = np.uint8([255, 0, 0, 255])
        for dtype in ("uint8", "float16", "float32", "float64"):
            for channels in (1, 3, 4):
                yield calls([dict(step=step, tag=b"i", tensor=g.values(dtype, (*shape, channels), special=False), bad_color=red, max_images=most)
                             for shape in ((1, 3, 5), (4, 7, 2), (0, 2, 2), (2, 1, 1)) for most in (1, 3)], f"{dtype} {channels}")
        x = np.float32(g.rng.uniform(-1, 1, (1, 6, 5, 3)))
        x[0, 0, 1, 0], x[0, 3, 3, -1], x[0, 2, 2, :] = np.nan, np.inf, -np.inf
        yield calls([dict(step=step, tag=b"", tensor=x, bad_color=bad) for bad in (red, np.uint8([1, 2, 3]))], "bad pixels")
        yield calls([dict(step=step, tag=[b"t"], tensor=np.zeros((1, 3, 2, 3), np.uint8), bad_color=np.uint8(bad)) for bad in ([], [1], [[1]], 1)], "colours of bytes")
        yield calls([dict(step=step, tag=b"t", tensor=y, bad_color=red) for y in (x[..., :2], x[0], x[None], x[:0], np.float32(1))], "ranks")
        yield calls([dict(step=step, tag=b"t", tensor=x, bad_color=np.uint8(bad)) for bad in ([], [1], [[1, 2, 3]], 1)], "colours")
        return
    if op == "WriteAudioSummary":
        for shape in ((1, 5, 2), (4, 3, 1), (0, 3, 1), (3, 40), (1, 0), (2, 7, 9)):
            yield calls([dict(step=step, tag=b"s", tensor=np.float32(g.rng.uniform(-1.1, 1.1, shape)), sample_rate=np.float32(rate), max_outputs=most)
                         for most in (1, 3) for rate in (8000, 44100.7, 0.5)], f"{shape}")
        x = np.float32(g.rng.uniform(-1, 1, (2, 5, 2)))
        yield calls([dict(step=step, tag=[b""], tensor=x, sample_rate=np.float32([8000]))], "vectors")
        yield calls([dict(step=step, tag=b"t", tensor=y, sample_rate=np.float32(8000)) for y in (x[:1, :, :0], x[:0, :, :0], x[:1, :0, :0],
                                                                                            np.zeros((1, 2, 70000), np.float32))], "channels")
        yield calls([dict(step=step, tag=b"t", tensor=x, sample_rate=np.float32(r)) for r in (0, -1, np.nan, np.inf, 1e20, 4294967296, 0.4)], "rates")
        return
    messages = [np.array(m, object) for m in event_messages(op)]
    rows = [dict(event=m) if op == "ImportEvent" else dict(step=step, tensor=m) for m in messages]
    yield calls(rows, "all")
    for k, row in enumerate(rows):
        yield calls([row], f"message {k}")


SAVED = [d for d in PLAIN if d not in ("bfloat16", "uint32", "uint64")] + ["qint8", "quint8", "qint32", "string"]
NOT_SAVED = ["bfloat16", "uint32", "uint64", "qint16", "quint16", "variant"]
BITS = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}


@spec("Save", "SaveSlices")
def first_format(g, op):
    """Compares the bytes of the file, and reads the tensors with Restore and RestoreSlice."""
    has_slices = op == "SaveSlices"

    def later(tf, x, *, dtype=None):
        return tf.compat.v1.placeholder_with_default(tf.constant(x, dtype or tf.string), None)

    def values(dtype, shape):
        return g.values(BITS.get(dtype, dtype), shape) if dtype != "variant" else np.int32(1)

    def graph(tensors, names, slices=None, parts=(), file="saved", title="", texts=True):
        """`tensors` are pairs of a type and an array. `parts` are names, types and slices to read."""
        def build(tf, at, *feeds):
            raw = tf.raw_ops
            data = [tf.bitcast(x, tf.as_dtype(dtype)) if dtype in BITS else raw.TensorListReserve(element_shape=-1, num_elements=x, element_dtype=tf.float32)
                    if dtype == "variant" else x for (dtype, _), x in zip(tensors, feeds)]
            path = [at(f) for f in file] if isinstance(file, list) else at(file) if file else file
            inputs = {"filename": later(tf, path), "tensor_names": later(tf, names), "data": data}
            if has_slices:
                inputs["shapes_and_slices"] = later(tf, [""] * len(tensors) if slices is None else slices)
            reads = [raw.Restore(file_pattern=path, tensor_name=n, dt=tf.as_dtype(dtype)) if part is None else
                     raw.RestoreSlice(file_pattern=path, tensor_name=n, shape_and_slice=part, dt=tf.as_dtype(dtype)) for n, dtype, part in parts]
            return [[raw.WriteFile(filename=at("sub/place"), contents="")], [getattr(raw, op)(**inputs)],
                    [raw.ReadFile(filename=at("saved"))]] + [[x] for x in reads]

        return files_graph(build, *[x for _, x in tensors], name=title or f"{op} {names} {slices} {file}", texts=texts)

    for dtype in SAVED:
        for shape in ((2, 3),) if has_slices else ((), (0,), (5,), (2, 3), (3, 0, 2), (1,) * 8, (130,)):
            yield graph([(dtype, values(dtype, shape))], ["t"], parts=[("t", dtype, None)], title=f"{dtype} {shape}")
    for dtype in NOT_SAVED:
        yield graph([(dtype, values(dtype, (2,)))], ["t"], title=dtype)
    for dtype in ("int64", "float32", "string"):
        yield graph([(dtype, values(dtype, (40000,)))], ["t"], title=f"large {dtype}")
    yield graph([("string", np.array([b"", b"x" * 127, b"y" * 128, b"z" * 20000, b"\0\xff"], object))], ["t"], parts=[("t", "string", None)], title="long strings")

    def x(*v):
        return ("float32", np.array(v, np.float32))

    def one(*v):
        return ("float32", np.float32(*v))

    many = [x(k) for k in range(60)]
    yield graph(many, [f"name{k:02}" for k in range(60)], parts=[("name07", "float32", None), ("none", "float32", None), ("name07", "int32", None)], title="60 names")
    yield graph(many[:20], [f"{k}" for k in g.rng.permutation(20)], title="names out of order")
    yield graph([("float32", g.values("float32", (300, 300)))] * 3, ["c", "a", "b"], parts=[("b", "float32", None)], title="several blocks")
    yield graph([("float32", g.values("float32", (9,))), ("string", values("string", (3,))), one(3)], ["b", "a", "c"],
                parts=[("a", "string", None), ("b", "float32", None), ("c", "float32", None), ("", "float32", None)])
    for names in (["a", "b"], "a", [["a"]], [], [""], ["x" * 300], ["\xff\xfe".encode("latin1")], ["a/b:0"]):
        yield graph([x(1)], names)
    for names in (["a", "a"], [["a", "b"]], ["a"], ["a", "b", "c"]):
        yield graph([x(1), x(2)], names, parts=[("a", "float32", None)])
    yield graph([x(1), ("int32", np.int32([1]))], ["a", "a"])
    yield graph([x(1), x(2, 3)], ["a", "a"])
    for file in (["saved"], ["saved", "b"], []):
        yield graph([x(1)], ["a"], file=file)
    for file in ("", "none/saved", "sub", "sub/place/a", "x" * 300):
        yield graph([x(1)], ["a"], file=file, texts=False)
    yield graph([x(1)], ["a"], file="sub/../saved")
    if not has_slices:
        return
    for slices in (["2 0,1"], ["2 -"], ["2 0,2"], ["3 0,2"], ["2 0,3"], [""], ["2 1,1"], ["x"], ["4 2,2"], ["2,2 -"], [["2 -"]], ["2 -", "2 -"], [], "2 -",
                   [" "], ["2 "], ["2  -"], ["2 -:-"], ["2 2 -:-"], ["2 2 0,1:-"], ["9 7,2"], ["9 8,2"], ["2 0,0"], ["2 3,0"], ["4 2,2 "], ["4 -2,2"],
                   ["99999999999999999999 -"], ["2 x"], ["2 :0,2:"], ["2 0,2x"], ["2 0,99999999999999999999"], ["2 0,9223372036854775807"]):
        yield graph([x(1, 2)], ["a"], slices, parts=[("a", "float32", None), ("a", "float32", "4 2,2"), ("a", "float32", "4 3,1"), ("a", "float32", "2 -")])
    whole = g.values("float32", (5, 4))
    for cuts in (["5 4 0,2:-", "5 4 2,3:-"], ["5 4 0,2:0,4", "5 4 2,3:-"], ["5 4 2,3:-", "5 4 0,2:-"], ["5 4 0,2:-", "5 4 1,3:-"], ["5 4 0,2:-", "6 4 2,3:-"],
                 ["5 4 0,2:-", "5 4 0,3:-"], ["5 4 0,2:-", ""], ["5 4 1,2:-", "5 4 1,3:-"]):
        yield graph([("float32", whole[:2]), ("float32", whole[2:])], ["a", "a"], cuts,
                    parts=[("a", "float32", None), ("a", "float32", "5 4 1,3:1,2"), ("a", "float32", "5 4 0,2:-"), ("a", "float32", "5 4 3,1:-")])
    for dtype in SAVED:
        yield graph([(dtype, values(dtype, (2, 3))), (dtype, values(dtype, (2, 1)))], ["a", "a"], ["2 4 -:0,3", "2 4 -:3,1"], parts=[("a", dtype, None), ("a", dtype, "2 4 1,1:1,3")],
                    title=f"slices {dtype}")
    yield graph([one(2)], ["a"], [""], parts=[("a", "float32", None)])
