"""The REST client, which needs only the standard library."""
from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import urllib.parse
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ._types import Classes, Error, InputError, Metadata, Signature, TensorInfo, VersionStatus

_CODE_OF_HTTP = {400: 'INVALID_ARGUMENT', 401: 'UNAUTHENTICATED', 403: 'PERMISSION_DENIED', 404: 'NOT_FOUND', 409: 'ABORTED',
                 413: 'RESOURCE_EXHAUSTED', 429: 'RESOURCE_EXHAUSTED', 499: 'CANCELLED', 500: 'INTERNAL',
                 501: 'UNIMPLEMENTED', 503: 'UNAVAILABLE', 504: 'DEADLINE_EXCEEDED'}


def b64(data: bytes) -> Dict[str, str]:
    """Returns the JSON form of `data`, an element of a string tensor."""
    return {'b64': base64.b64encode(data).decode()}


def _plain(value: Any) -> Any:
    """Converts values that the json module cannot encode: bytes, and numpy's arrays and numbers."""
    if isinstance(value, (bytes, bytearray)):
        return b64(bytes(value))
    if hasattr(value, 'tolist'):
        return value.tolist()
    raise TypeError(f'{type(value).__name__} has no form in JSON')


class _NamedConnection(http.client.HTTPSConnection):
    """A TLS connection. Verifies the server's certificate against `name` instead of the address."""

    def __init__(self, *args: Any, name: str, **more: Any):
        super().__init__(*args, **more)
        self._name = name

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), self.timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._context.wrap_socket(plain, server_hostname=self._name)  # type: ignore[attr-defined]


class RestClient:
    """A REST client with one connection, for use by one thread. `address` is HOST:PORT."""

    def __init__(self, address: str = '127.0.0.1:8501', *, timeout: Optional[float] = 30.0, tls: bool = False,
                 ca: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
                 server_name: Optional[str] = None, token: Optional[str] = None):
        self._address, self._timeout = address.rstrip('/'), timeout
        self._name, self._token = server_name, token
        self._connection: Optional[http.client.HTTPConnection] = None
        self._tls: Optional[ssl.SSLContext] = None
        if tls:
            self._tls = ssl.create_default_context(cafile=ca)
            if cert:
                self._tls.load_cert_chain(cert, key)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def __enter__(self) -> 'RestClient':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _open(self) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._address)
        if self._name:
            return _NamedConnection(self._address, context=self._tls, name=self._name)
        return http.client.HTTPSConnection(self._address, context=self._tls)

    def _exchange(self, method: str, path: str, body: Optional[bytes], timeout: Optional[float]) -> Any:
        fresh = self._connection is None
        if self._connection is None:
            self._connection = self._open()
        self._connection.timeout = timeout
        if self._connection.sock:
            self._connection.sock.settimeout(timeout)
        headers = {'Content-Type': 'application/json'} if body is not None else {}
        if self._token:
            headers['Authorization'] = f'Bearer {self._token}'
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return answer, answer.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # A server may close an idle connection at any time. The request is then sent again, once, on a new
            # connection.
            self.close()
            if fresh:
                raise
            return self._exchange(method, path, body, timeout)

    def _call(self, method: str, path: str, body: Any = None, timeout: Optional[float] = None) -> Any:
        try:
            data = None if body is None else json.dumps(body, default=_plain).encode()
        except (TypeError, ValueError) as wrong:
            raise InputError(str(wrong)) from None
        try:
            answer, text = self._exchange(method, path, data, self._timeout if timeout is None else timeout)
        except (socket.timeout, TimeoutError):
            self.close()
            raise Error('DEADLINE_EXCEEDED', f'no answer of {self._address} within the time given') from None
        except (OSError, http.client.HTTPException) as broken:
            self.close()
            raise Error('UNAVAILABLE', f'{self._address}: {broken or type(broken).__name__}') from broken
        if answer.status != 200:
            try:
                reason = json.loads(text)['error']
            except (ValueError, KeyError, TypeError):
                reason = text.decode(errors='replace') or f'HTTP status {answer.status}'
            raise Error(_CODE_OF_HTTP.get(answer.status, 'UNKNOWN'), reason, answer.status, answer.getheader('Retry-After'))
        try:
            return json.loads(text)
        except ValueError as broken:
            raise Error('DATA_LOSS', f'the answer is not JSON: {broken}', answer.status) from None

    @staticmethod
    def _path(model: str, version: Optional[int], label: Optional[str], rest: str = '') -> str:
        path = '/v1/models/' + urllib.parse.quote(model, safe='')
        if version is not None:
            path += f'/versions/{int(version)}'
        elif label is not None:
            path += '/labels/' + urllib.parse.quote(label, safe='')
        return path + rest

    def predict(self, model: str, instances: Any = None, *, inputs: Any = None, version: Optional[int] = None,
                label: Optional[str] = None, signature: Optional[str] = None, timeout: Optional[float] = None) -> Any:
        """Returns the predictions for `instances` (a list of rows), or the outputs for `inputs` (a tensor, or a mapping
        from names to tensors). If the first argument is a mapping, it is treated as `inputs`, as in the gRPC client.
        Several outputs are returned as mappings from names to values.

        Values may contain numpy arrays and bytes at any depth."""
        if (instances is None) == (inputs is None):
            raise InputError('either instances or inputs are wanted')
        if isinstance(instances, Mapping):
            instances, inputs = None, instances
        body = {'instances': instances} if inputs is None else {'inputs': inputs}
        if signature is not None:
            body['signature_name'] = signature
        answer = self._call('POST', self._path(model, version, label, ':predict'), body, timeout)
        return answer['predictions' if inputs is None else 'outputs']

    def _of_examples(self, what: str, model: str, examples: Sequence[Mapping[str, Any]],
                     context: Optional[Mapping[str, Any]], version: Optional[int], label: Optional[str],
                     signature: Optional[str], timeout: Optional[float]) -> Any:
        body: Dict[str, Any] = {'examples': list(examples)}
        if context is not None:
            body['context'] = context
        if signature is not None:
            body['signature_name'] = signature
        return self._call('POST', self._path(model, version, label, f':{what}'), body, timeout)['results']

    def classify(self, model: str, examples: Sequence[Mapping[str, Any]], *, context: Optional[Mapping[str, Any]] = None,
                 version: Optional[int] = None, label: Optional[str] = None, signature: Optional[str] = None,
                 timeout: Optional[float] = None) -> Classes:
        """Returns a list of (label, score) pairs for each example."""
        results = self._of_examples('classify', model, examples, context, version, label, signature, timeout)
        return [[(name, score) for name, score in classes] for classes in results]

    def regress(self, model: str, examples: Sequence[Mapping[str, Any]], *, context: Optional[Mapping[str, Any]] = None,
                version: Optional[int] = None, label: Optional[str] = None, signature: Optional[str] = None,
                timeout: Optional[float] = None) -> List[float]:
        """Returns the regression value of each example."""
        return self._of_examples('regress', model, examples, context, version, label, signature, timeout)

    def status(self, model: str, version: Optional[int] = None, *, timeout: Optional[float] = None) -> List[VersionStatus]:
        """Returns the status of one version, or of every version that the server reports, newest first."""
        answer = self._call('GET', self._path(model, version, None), timeout=timeout)
        return [VersionStatus(int(v['version']), v['state'], v['status']['error_code'], v['status']['error_message'])
                for v in answer['model_version_status']]

    def metadata(self, model: str, version: Optional[int] = None, label: Optional[str] = None, *,
                 timeout: Optional[float] = None) -> Metadata:
        """Returns the signatures of a model, with the names, types and shapes of their inputs and outputs."""
        answer = self._call('GET', self._path(model, version, label, '/metadata'), timeout=timeout)

        def tensors(infos: Mapping[str, Any]) -> Dict[str, TensorInfo]:
            found = {}
            for alias, info in infos.items():
                shape = info.get('tensor_shape', {})
                dims = None if shape.get('unknown_rank') else tuple(int(d['size']) for d in shape.get('dim', []))
                found[alias] = TensorInfo(info.get('name', ''), info.get('dtype', 'DT_INVALID'), dims)
            return found

        signatures = {name: Signature(s.get('method_name', ''), tensors(s.get('inputs', {})), tensors(s.get('outputs', {})))
                      for name, s in answer['metadata']['signature_def']['signature_def'].items()}
        return Metadata(answer['model_spec']['name'], int(answer['model_spec']['version']), signatures)
