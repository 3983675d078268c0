"""Writes and reads the protobuf messages of TensorFlow Serving's services without a protobuf package."""
from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _wire as wire
from ._types import CODES, DTYPE_NAMES, STATES, Classes, Metadata, ModelConfig, Signature, TensorInfo, VersionStatus

Bytes = Union[bytes, memoryview]

_NUMPY = {1: 'float32', 2: 'float64', 3: 'int32', 4: 'uint8', 5: 'int16', 6: 'int8', 8: 'complex64', 9: 'int64', 10: 'bool',
          17: 'uint16', 18: 'complex128', 19: 'float16', 22: 'uint32', 23: 'uint64'}
_DTYPE = {np.dtype(name): number for number, name in _NUMPY.items()}
# _FIXED and _VARINTS map a dtype number to the number of the TensorProto field with the values. The values are packed
# little-endian numbers in _FIXED, and varints in _VARINTS.
_FIXED = {1: (5, '<f4'), 2: (6, '<f8'), 8: (9, '<c8'), 18: (12, '<c16')}
_VARINTS = {3: 7, 4: 7, 5: 7, 6: 7, 17: 7, 9: 10, 10: 11, 14: 13, 19: 13, 22: 16, 23: 17}
_MAX_BYTES = 1 << 33


def as_array(value: Any, dtype: Optional[str] = None) -> np.ndarray:
    """Converts lists, numbers and arrays of numbers to an array of the model's type. Returns other arrays unchanged."""
    if isinstance(value, np.ndarray):
        return _converted(value, dtype)
    if dtype == 'DT_STRING' or isinstance(value, (bytes, str)):
        return np.array(value, dtype=object)
    number = next((n for n, name in DTYPE_NAMES.items() if name == dtype), None)
    plain = np.asarray(value)
    if plain.dtype.kind in 'iuf' and dtype:
        plain = _converted(plain, dtype)
    if number == 14:
        return np.asarray(plain, np.float32)
    return np.asarray(plain, _NUMPY.get(number)) if number else plain


def _converted(array: np.ndarray, dtype: Optional[str]) -> np.ndarray:
    number = next((n for n, name in DTYPE_NAMES.items() if name == dtype), None)
    wanted = np.dtype('float32' if number == 14 else _NUMPY.get(number, object) if number else object)
    if array.dtype.name == 'bfloat16' or array.dtype == wanted or array.dtype.kind not in 'iuf' or wanted.kind not in 'iuf':
        return array
    with np.errstate(all='ignore'):
        other = array.astype(wanted)
        if wanted.kind != 'f' and not (np.array_equal(other.astype(array.dtype), array)
                                       and np.array_equal(other < 0, array < 0)):
            raise ValueError(f'{array.dtype} has values that {wanted} has not')
    return other


def check_array(array: np.ndarray) -> None:
    """Raises TypeError for an array that write_tensor cannot write."""
    if array.dtype.kind == 'O':
        for value in array.reshape(-1).tolist():
            if not isinstance(value, (str, bytes, bytearray)):
                raise TypeError(f'{type(value).__name__} is neither text nor bytes')
    elif array.dtype.kind not in 'SU' and array.dtype.name != 'bfloat16' and array.dtype.newbyteorder('=') not in _DTYPE:
        raise TypeError(f'an array of {array.dtype} has no form in TensorFlow')


def write_tensor(array: np.ndarray, dtype: Optional[str] = None) -> bytes:
    """Returns a serialized TensorProto. Only bfloat16, which numpy does not have, needs `dtype`."""
    shape = b''.join(wire.data(2, wire.integer(1, size)) for size in array.shape)
    if array.dtype.kind in 'OSU':
        strings = [s.encode() if isinstance(s, str) else bytes(s) for s in array.reshape(-1).tolist()]
        return wire.integer(1, 7) + wire.data(2, shape) + b''.join(wire.data(8, s) for s in strings)
    if array.dtype.name == 'bfloat16' or (dtype == 'DT_BFLOAT16' and array.dtype == np.float32):
        if array.dtype == np.float32:  # rounds to the nearest bfloat16, ties to even
            bits = np.ascontiguousarray(array).view(np.uint32).astype(np.uint64)
            rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype('<u2')
            array = np.where(np.isnan(array), np.uint16(0x7fc0), rounded).astype('<u2')
        return wire.integer(1, 14) + wire.data(2, shape) + wire.data(4, array.tobytes())
    native = array.dtype.newbyteorder('=')
    if native not in _DTYPE:
        raise TypeError(f'an array of {array.dtype} has no form in TensorFlow')
    content = array.astype(native.newbyteorder('<'), copy=False).tobytes()
    return wire.integer(1, _DTYPE[native]) + wire.data(2, shape) + (wire.data(4, content) if content else b'')


def _varints(kind: int, value: int, data: memoryview) -> np.ndarray:
    """Decodes the varints of a field, which may be packed. numpy decodes all of them at once, because there may be
    many."""
    if kind == wire.VARINT:
        return np.array([value], np.uint64)
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 128)
    if not len(octets):
        return np.empty(0, np.uint64)
    if not len(ends) or ends[-1] != len(octets) - 1:
        raise ValueError('a number is cut off')
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(len(octets)) - np.repeat(starts, ends - starts + 1)
    if place.max() > 9:
        raise ValueError('a number of more than ten bytes')
    parts = (octets & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, starts)


def read_tensor(message: Bytes) -> np.ndarray:
    dtype, content = 0, memoryview(b'')
    shape: List[int] = []
    found: List[Tuple[int, int, int, memoryview]] = []
    for number, kind, value, data in wire.fields(message):
        if number == 1:
            dtype = value
        elif number == 2:
            shape += [wire.first_integer(body, 1) for dim, _, _, body in wire.fields(data) if dim == 2]
        elif number == 4:
            content = data
        else:
            found.append((number, kind, value, data))
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * 16 > _MAX_BYTES:
        raise ValueError(f'a tensor of shape {shape}')
    if dtype == 7:
        flat: np.ndarray = np.empty(count, object)
        strings = [bytes(data) for n, kind, _, data in found if n == 8 and kind == wire.BYTES][:count]
        flat[:] = strings + [strings[-1] if strings else b''] * (count - len(strings))
        return flat.reshape(shape)
    if dtype != 14 and dtype not in _NUMPY:
        raise ValueError(f'a tensor of dtype {dtype}')
    native = np.dtype('<u2' if dtype in (14, 19) else _NUMPY[dtype]).newbyteorder('<')
    if len(content):
        flat = np.frombuffer(content, native)
    elif dtype in _FIXED:
        field, code = _FIXED[dtype]
        flat = np.frombuffer(b''.join(bytes(data) for n, _, _, data in found if n == field), code)
    else:
        field = _VARINTS[dtype]
        values = [_varints(kind, value, data) for n, kind, value, data in found if n == field]
        flat = np.concatenate([np.empty(0, np.uint64), *values]).astype(native)
    if len(flat) < count:  # missing trailing values are copies of the last value
        flat = np.concatenate([flat, np.full(count - len(flat), flat[-1] if len(flat) else 0, flat.dtype)])
    if len(flat) != count:
        raise ValueError(f'{len(flat)} values in a tensor of shape {shape}')
    if dtype == 14:
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    elif dtype == 19:
        flat = flat.view(np.float16)
    return flat.reshape(shape).copy()


# ---- model specs ----

def model_spec(model: str, version: Optional[int] = None, label: Optional[str] = None, signature: Optional[str] = None) -> bytes:
    spec = wire.data(1, model)
    if version is not None:
        spec += wire.data(2, wire.integer(1, version))
    elif label is not None:
        spec += wire.data(4, label)
    if signature is not None:
        spec += wire.data(3, signature)
    return wire.data(1, spec)


def read_spec(message: Bytes) -> Tuple[str, int, str]:
    """Reads a ModelSpec and returns (name, version, signature)."""
    return (wire.text(wire.first_data(message, 1)), wire.first_integer(wire.first_data(message, 2), 1),
            wire.text(wire.first_data(message, 3)))


def _entry(message: Bytes) -> Tuple[str, memoryview]:
    """Reads an entry of a map and returns (key, value)."""
    return wire.text(wire.first_data(message, 1)), wire.first_data(message, 2)


# ---- predict ----

def write_predict(spec: bytes, inputs: Mapping[str, Tuple[np.ndarray, Optional[str]]], outputs: Sequence[str]) -> bytes:
    message = spec
    for name, (array, dtype) in inputs.items():
        message += wire.data(2, wire.data(1, name) + wire.data(2, write_tensor(array, dtype)))
    return message + b''.join(wire.data(3, name) for name in outputs)


def read_predict(message: Bytes) -> Tuple[Dict[str, np.ndarray], Tuple[str, int, str]]:
    outputs: Dict[str, np.ndarray] = {}
    spec = ('', 0, '')
    for number, _, _, data in wire.fields(message):
        if number == 1:
            name, tensor = _entry(data)
            outputs[name] = read_tensor(tensor)
        elif number == 2:
            spec = read_spec(data)
    return outputs, spec


# ---- examples ----

def _feature(name: str, value: Any) -> bytes:
    values = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
    values = values.reshape(-1).tolist() if isinstance(values, np.ndarray) else list(values)
    if all(isinstance(v, (bytes, str)) for v in values) and values:
        return wire.data(1, b''.join(wire.data(1, v) for v in values))
    if all(isinstance(v, (bool, int, np.integer, np.bool_)) for v in values) and values:
        return wire.data(3, wire.data(1, b''.join(wire.varint(int(v)) for v in values)))
    if all(isinstance(v, (float, int, np.floating, np.integer)) for v in values):
        return wire.data(2, wire.data(1, np.asarray(values, '<f4').tobytes()) if values else b'')
    raise TypeError(f'feature {name!r}: strings, integers or floats are wanted, all of one kind')


def write_example(example: Any) -> bytes:
    """Serializes an example, which is a mapping from features to values, a tf.Example, or the bytes of a serialized
    tf.Example."""
    if isinstance(example, bytes):
        return example
    if hasattr(example, 'SerializeToString'):
        return example.SerializeToString()
    entries = (wire.data(1, wire.data(1, name) + wire.data(2, _feature(name, value))) for name, value in example.items())
    return wire.data(1, b''.join(entries))


def write_examples(spec: bytes, examples: Sequence[Any], context: Any = None) -> bytes:
    """Returns a serialized ClassificationRequest or RegressionRequest."""
    items = b''.join(wire.data(1, write_example(e)) for e in examples)
    if context is None:
        return spec + wire.data(2, wire.data(1, items))
    return spec + wire.data(2, wire.data(2, items + wire.data(2, write_example(context))))


def _all(message: Bytes, number: int) -> List[memoryview]:
    return [data for n, _, _, data in wire.fields(message) if n == number]


def read_classes(message: Bytes) -> Classes:
    return [[(wire.text(wire.first_data(one, 1)), wire.float32(wire.first_data(one, 2))) for one in _all(classes, 1)]
            for classes in _all(wire.first_data(message, 1), 1)]


def read_regressions(message: Bytes) -> List[float]:
    return [wire.float32(wire.first_data(one, 1)) for one in _all(wire.first_data(message, 1), 1)]


# ---- about models ----

def read_status(message: Bytes) -> List[VersionStatus]:
    found = []
    for one in _all(message, 1):
        code, text = read_status_proto(wire.first_data(one, 3))
        name = CODES[code] if 0 <= code < len(CODES) else 'UNKNOWN'
        state = STATES.get(wire.first_integer(one, 2), 'UNKNOWN')
        found.append(VersionStatus(wire.first_integer(one, 1), state, name, text))
    return found


def read_status_proto(message: memoryview) -> Tuple[int, str]:
    return wire.first_integer(message, 1), wire.text(wire.first_data(message, 2))


def read_reload(message: Bytes) -> Tuple[int, str]:
    return read_status_proto(wire.first_data(message, 1))


def _infos(message: memoryview, field: int) -> Dict[str, TensorInfo]:
    found = {}
    for entry in _all(message, field):
        alias, info = _entry(entry)
        dims: Optional[Tuple[int, ...]] = None
        for number, _, _, shape in wire.fields(info):
            if number == 3 and not wire.first_integer(shape, 3):
                dims = tuple(wire.first_integer(dim, 1) for dim in _all(shape, 2))
        dtype = DTYPE_NAMES.get(wire.first_integer(info, 2), 'DT_INVALID')
        found[alias] = TensorInfo(wire.text(wire.first_data(info, 1)), dtype, dims)
    return dict(sorted(found.items()))


def read_metadata(message: Bytes) -> Metadata:
    name, version, _ = read_spec(wire.first_data(message, 1))
    signatures = {}
    for key, packed in map(_entry, _all(message, 2)):
        if key == 'signature_def':  # the map's value is an Any that contains a SignatureDefMap
            for alias, definition in map(_entry, _all(wire.first_data(packed, 2), 1)):
                method = wire.text(wire.first_data(definition, 3))
                signatures[alias] = Signature(method, _infos(definition, 1), _infos(definition, 2))
    return Metadata(name, version, dict(sorted(signatures.items())))


# ---- reload ----

def _policy(versions: Any) -> bytes:
    if versions is None:
        return b''
    if versions == 'all':
        return wire.data(7, wire.data(101, b''))
    if isinstance(versions, int):
        return wire.data(7, wire.data(100, wire.integer(1, versions)))
    return wire.data(7, wire.data(102, b''.join(wire.integer(1, v) for v in versions)))


def write_reload(models: Iterable[ModelConfig]) -> bytes:
    configs = b''
    for m in models:
        one = wire.data(1, m.name) + wire.data(2, m.base_path) + wire.data(4, m.platform) + _policy(m.versions)
        for label, version in m.labels.items():
            one += wire.data(8, wire.data(1, label) + wire.integer(2, version))
        configs += wire.data(1, one)
    return wire.data(1, wire.data(1, configs))
