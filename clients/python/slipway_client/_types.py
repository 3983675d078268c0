"""The types of arguments and results. The REST client and the gRPC client share them."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple, Union

CODES = ('OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS',
         'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED',
         'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED')

# Maps the type names in metadata to the numbers of TensorFlow's DataType.
DTYPES = {'DT_FLOAT': 1, 'DT_DOUBLE': 2, 'DT_INT32': 3, 'DT_UINT8': 4, 'DT_INT16': 5, 'DT_INT8': 6, 'DT_STRING': 7,
          'DT_COMPLEX64': 8, 'DT_INT64': 9, 'DT_BOOL': 10, 'DT_BFLOAT16': 14, 'DT_UINT16': 17, 'DT_COMPLEX128': 18,
          'DT_HALF': 19, 'DT_UINT32': 22, 'DT_UINT64': 23}
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}

STATES = {0: 'UNKNOWN', 10: 'START', 20: 'LOADING', 30: 'AVAILABLE', 40: 'UNLOADING', 50: 'END'}


class Error(Exception):
    """Raised by a call that fails. `code` is the name of a gRPC status code ('NOT_FOUND'), and `message` is the error
    message. Over REST, `http_status` is also set, and `retry_after` is the value of the Retry-After header."""

    def __init__(self, code: str, message: str, http_status: Optional[int] = None, retry_after: Optional[str] = None):
        super().__init__(f'{code}: {message}')
        self.code, self.message, self.http_status, self.retry_after = code, message, http_status, retry_after


class InputError(Error, ValueError):
    """Raised for invalid arguments, before any request is sent."""

    def __init__(self, message: str):
        super().__init__('INVALID_ARGUMENT', message)


@dataclass(frozen=True)
class VersionStatus:
    version: int
    state: str  # 'AVAILABLE'
    code: str  # 'OK', or the error code in the status of the version
    message: str


@dataclass(frozen=True)
class TensorInfo:
    name: str  # the tensor's name in the graph, for example 'x:0'
    dtype: str  # 'DT_FLOAT'
    shape: Optional[Tuple[int, ...]]  # a dimension of -1 means any size, and None means any rank


@dataclass(frozen=True)
class Signature:
    method: str
    inputs: Dict[str, TensorInfo]
    outputs: Dict[str, TensorInfo]


@dataclass(frozen=True)
class Metadata:
    model: str
    version: int
    signatures: Dict[str, Signature]


@dataclass
class ModelConfig:
    """One model of a server's configuration. `versions` is the number of newest versions to serve, 'all', or a list of
    version numbers."""
    name: str
    base_path: str
    platform: str = 'tensorflow'
    versions: Union[None, int, str, Sequence[int]] = None
    labels: Dict[str, int] = field(default_factory=dict)


Classes = List[List[Tuple[str, float]]]
