"""Writes predict_golden.inc: a PredictRequest and the PredictResponse for one tensor of each type, as Google's
protobuf writes them. Needs tensorflow and tensorflow-serving-api."""
import sys

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2

FIELD = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "int16": "int_val",
    "int8": "int_val", "uint8": "int_val", "uint16": "int_val", "int64": "int64_val",
    "bool": "bool_val", "complex64": "scomplex_val", "complex128": "dcomplex_val",
    "float16": "half_val", "bfloat16": "half_val", "uint32": "uint32_val", "uint64": "uint64_val",
}
VALUES = {
    "int8": [-128, 127, 0, -1], "uint8": [0, 255, 1, 2], "int16": [-32768, 32767, 0, -1],
    "uint16": [0, 65535, 1, 300], "int32": [-2**31, 2**31 - 1, 0, -1],
    "uint32": [0, 2**32 - 1, 1, 300], "int64": [-2**63, 2**63 - 1, 0, -1],
    "uint64": [0, 2**64 - 1, 1, 300], "bool": [True, False, False, True],
}


def c_bytes(data):
    text = ["".join("\\x%02x" % b for b in data[i:i + 20]) for i in range(0, len(data), 20)]
    return "\n     ".join('"%s"' % row for row in text or [""])


def emit(name, dtype, memory, typed, content):
    def request(t):
        r = predict_pb2.PredictRequest()
        r.model_spec.name = "m"
        r.model_spec.signature_name = "sig"
        r.model_spec.version.value = 7
        r.inputs["x"].CopyFrom(t)
        r.output_filter.append("y")
        return r.SerializeToString(deterministic=True)

    def response(t):
        r = predict_pb2.PredictResponse()
        r.model_spec.name = "m"
        r.model_spec.signature_name = "sig"
        r.model_spec.version.value = 7
        r.outputs["y"].CopyFrom(t)
        return r.SerializeToString(deterministic=True)

    parts = [memory, request(typed), request(content), response(typed), response(content)]
    rows = ",\n     ".join("%s, %d" % (c_bytes(p), len(p)) for p in parts)
    print('    {%d, %s},' % (dtype, rows))


print("/* Written by predict_golden.py. */")
for name, field in FIELD.items():
    dtype = tf.as_dtype(name)
    values = VALUES.get(name, [1.5, -2.25, 0, 3e4])
    a = np.array(values).astype(dtype.as_numpy_dtype).reshape(2, 1, 2)
    typed = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for d in a.shape:
        typed.tensor_shape.dim.add(size=d)
    content = tensor_pb2.TensorProto()
    content.CopyFrom(typed)
    content.tensor_content = a.tobytes()
    flat = a.reshape(-1)
    if "complex" in name:
        flat = flat.view(np.float32 if name == "complex64" else np.float64)
    elif field == "half_val":
        flat = flat.view(np.uint16)
    getattr(typed, field).extend(flat.tolist())
    assert (tf.make_ndarray(typed) == a).all()
    emit(name, dtype.as_datatype_enum, a.tobytes(), typed, content)
