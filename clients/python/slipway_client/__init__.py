"""A client for Slipway and TensorFlow Serving. The REST client needs only the standard library. The gRPC client needs
grpcio and numpy.

    import slipway_client

    with slipway_client.connect('http://127.0.0.1:8501') as client:
        client.predict('half_plus_two', [1.0, 2.0, 5.0])               # rows: [2.5, 3.0, 4.5]

    with slipway_client.connect('grpc://127.0.0.1:8500') as client:
        client.predict('half_plus_two', {'x': [1, 2, 5]})['y']         # array([2.5, 3. , 4.5], dtype=float32)

A call raises Error if the server refuses it, does not respond in time or cannot be reached. The exception's `code`
is the name of a gRPC status code, and its `message` is the error message. InputError, a subclass of Error and
ValueError, is raised for arguments that cannot be sent.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from ._grpc import GrpcClient
from ._rest import RestClient, b64
from ._types import Error, InputError, Metadata, ModelConfig, Signature, TensorInfo, VersionStatus

__all__ = ['connect', 'RestClient', 'GrpcClient', 'Error', 'InputError', 'Metadata', 'ModelConfig', 'Signature', 'TensorInfo',
           'VersionStatus', 'b64']
__version__ = '0.2.0'


def __getattr__(name: str) -> Any:
    if name == 'GrpcClient':  # imports GrpcClient only when it is used, because it needs grpcio and numpy
        from . import _grpc
        return _grpc.GrpcClient
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def connect(url: str, **options: Any) -> Union[RestClient, 'GrpcClient']:
    """Returns a client for http://, https://, grpc://, grpcs://HOST:PORT or unix:PATH (gRPC).

    Options of both clients: timeout (seconds for each call), ca, cert and key (paths of PEM files), server_name
    (the name in the server's certificate, if the name differs from the address), token (sent as a bearer token).
    """
    scheme, found, address = url.partition('://')
    if not found and not url.startswith('unix:'):
        raise ValueError(f'{url}: say which of its protocols: grpc://{url} or http://{url}')
    if scheme in ('http', 'https'):
        return RestClient(address, tls=scheme == 'https', **options)
    if scheme not in ('grpc', 'grpcs') and found:
        raise ValueError(f'{url}: none of http://, https://, grpc://, grpcs://, unix:')
    from . import _grpc
    return _grpc.GrpcClient(address if found else url, tls=scheme == 'grpcs', **options)
