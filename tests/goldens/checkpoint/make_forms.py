"""Writes plain.index in other forms (compressed, with other restart intervals, big-endian), and checks whether
TensorFlow 2.21 reads them. Must be run in this folder. Uses Debian's libsnappy."""
import ctypes
import struct
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2

snappy = ctypes.CDLL("libsnappy.so.1")
DATA = ".data-00000-of-00001"
TABLE = [0] * 256
for i in range(256):
    crc = i
    for _ in range(8):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    TABLE[i] = crc


def masked(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def compressed(data):
    room = ctypes.create_string_buffer(32 + len(data) * 2)
    size = ctypes.c_size_t(len(room))
    assert snappy.snappy_compress(data, ctypes.c_size_t(len(data)), room, ctypes.byref(size)) == 0
    return room.raw[:size.value]


def block(entries, restart_every):
    out, restarts, last = b"", [], b""
    for i, (key, value) in enumerate(entries):
        shared = 0
        if i % restart_every == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    restarts = restarts or [0]
    return out + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def table(entries, kind=0, restart_every=16, per_block=1 << 30):
    out = b""

    def put(data):
        nonlocal out
        stored = compressed(data) if kind == 1 else data
        handle = varint(len(out)) + varint(len(stored))
        out += stored + bytes([kind]) + struct.pack("<I", masked(stored + bytes([kind])))
        return handle

    index = []
    for at in range(0, len(entries), per_block):
        part = entries[at:at + per_block]
        index.append((part[-1][0], put(block(part, restart_every))))
    meta = put(block([], 1))
    footer = meta + put(block(index, 1))
    return out + footer.ljust(40, b"\0") + struct.pack("<Q", 0xdb4775248b80fb57)


def varints(data, at, n):
    out = []
    for _ in range(n):
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        out.append(value)
    return out, at


def entries_in(data):
    """Returns the entries of an sstable that has one uncompressed block."""
    handles, _ = varints(data, len(data) - 48, 4)
    lengths, at = varints(data, handles[2], 3)
    (start, size), _ = varints(data, at + lengths[1], 2)
    end = start + size - 4 * (struct.unpack("<I", data[start + size - 4:start + size])[0] + 1)
    out, key, at = [], b"", start
    while at < end:
        (shared, own, n), at = varints(data, at, 3)
        key = key[:shared] + data[at:at + own]
        out.append((key, data[at + own:at + own + n]))
        at += own + n
    return out


def big_endian(entries, data):
    """Returns the entries and data of a big-endian checkpoint. The bytes of elements, string lengths and checksums are
    in reverse order."""
    out, swapped = [], bytearray(data)
    for key, value in entries:
        if not key:
            header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
            header.endianness = header.BIG
            out.append((key, header.SerializeToString(deterministic=True)))
            continue
        entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
        dtype = tf.as_dtype(entry.dtype)
        span = slice(entry.offset, entry.offset + entry.size)
        # The strings of `plain` have lengths 0, 3 and 300, which take 4 bytes in total as varints.
        if dtype == tf.string:
            lengths = struct.pack(">3I", 0, 3, 300)
            stored = struct.pack(">I", masked(lengths))
            swapped[entry.offset + 4:entry.offset + 8] = stored
            entry.crc32c = masked(lengths + stored + data[entry.offset + 8:span.stop])
            out.append((key, entry.SerializeToString(deterministic=True)))
            continue
        size = dtype.size // (2 if dtype.is_complex else 1)
        bytes_ = np.frombuffer(data[span], np.uint8).reshape(-1, size)[:, ::-1].tobytes()
        swapped[span] = bytes_
        entry.crc32c = masked(bytes_)
        out.append((key, entry.SerializeToString(deterministic=True)))
    return out, bytes(swapped)


def write(name, index, data):
    open(name + ".index", "wb").write(index)
    open(name + DATA, "wb").write(data)
    try:
        theirs, ours = (tf.train.load_checkpoint(n) for n in ("plain", name))
        same = all(np.array_equal(theirs.get_tensor(key), ours.get_tensor(key))
                   for key in ours.get_variable_to_dtype_map())
        print(name, "is read by TensorFlow", "alike" if same else "otherwise")
    except Exception as e:  # pylint: disable=broad-except
        print(name, "is refused by TensorFlow:", type(e).__name__, e)


PLAIN, BYTES = entries_in(open("plain.index", "rb").read()), open("plain" + DATA, "rb").read()
if __name__ == "__main__":
    assert table(PLAIN)[:250] == open("plain.index", "rb").read()[:250]
    write("snappy", table(PLAIN, kind=1, per_block=4), BYTES)
    write("restarts", table(PLAIN, restart_every=1, per_block=1), BYTES)
    write("zstd", table(PLAIN, kind=2), BYTES)
    write("big", *(lambda e, d: (table(e), d))(*big_endian(PLAIN, BYTES)))
