"""Writes and reads TFRecord files of PredictionLogs without TensorFlow."""
import os
import struct

from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import prediction_log_pb2


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82f63b78 if n & 1 else n >> 1
        table.append(n)
    return table


TABLE = _table()


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def frame(data):
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked_crc(length)) + data
            + struct.pack("<I", masked_crc(data)))


def write(path, records):
    """Writes records, each given as a PredictionLog or as bytes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        for r in records:
            file.write(frame(r if isinstance(r, bytes) else r.SerializeToString()))


def read(path):
    """Reads PredictionLogs and fails if the last record is incomplete."""
    with open(path, "rb") as file:
        data = file.read()
    logs = []
    while data:
        n, = struct.unpack("<Q", data[:8])
        body = data[12:12 + n]
        assert len(data) >= 16 + n and data[12 + n:16 + n] == struct.pack("<I", masked_crc(body))
        logs.append(prediction_log_pb2.PredictionLog.FromString(body))
        data = data[16 + n:]
    return logs


def floats(tensor, values):
    tensor.dtype = types_pb2.DT_FLOAT
    tensor.tensor_shape.dim.add(size=len(values))
    tensor.float_val.extend(values)


def predict(values, answer=None, signature="", name="any"):
    """Returns a PredictLog of half_plus_two with the input x, and with the output y if `answer` is
    given."""
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = name
    request.model_spec.version.value = 999
    request.model_spec.signature_name = signature
    floats(request.inputs["x"], values)
    if answer is not None:
        floats(log.predict_log.response.outputs["y"], answer)
    return log
