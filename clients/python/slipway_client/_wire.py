"""The part of protobuf's wire format that this client's messages need."""
from __future__ import annotations

import struct
from typing import Iterator, Tuple, Union

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    value &= 0xffffffffffffffff
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def data(number: int, value: Union[bytes, str]) -> bytes:
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def read_varint(view: memoryview, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(view) or shift > 63:
            raise ValueError('a number is cut off')
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xffffffffffffffff, at
        shift += 7


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_NOTHING = memoryview(b'')


def fields(message: Union[bytes, memoryview]) -> Iterator[Tuple[int, int, int, memoryview]]:
    """Yields (number, type, integer, data) for each field. For a varint, `integer` is its value, and `data` is empty.
    For any other type, `integer` is 0, and `data` is the value."""
    view, at = memoryview(message), 0
    while at < len(view):
        tag, at = read_varint(view, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(view, at)
            yield tag >> 3, kind, value, _NOTHING
            continue
        if kind == BYTES:
            size, at = read_varint(view, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f'a field of type {kind}')
        if size > len(view) - at:
            raise ValueError('a field is cut off')
        yield tag >> 3, kind, 0, view[at:at + size]
        at += size


def first_integer(message: memoryview, number: int) -> int:
    return next((signed(value) for n, _, value, _ in fields(message) if n == number), 0)


def first_data(message: Union[bytes, memoryview], number: int) -> memoryview:
    return next((data for n, _, _, data in fields(message) if n == number), _NOTHING)


def text(data: memoryview) -> str:
    return bytes(data).decode(errors='replace')


def float32(data: memoryview) -> float:
    value: float = struct.unpack('<f', data)[0] if len(data) == 4 else 0.0
    return value
