"""The gRPC client, which needs grpcio and numpy."""
from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import grpc
import numpy as np

from . import _messages as messages
from ._types import CODES, Classes, Error, InputError, Metadata, ModelConfig, Signature, VersionStatus

_PREDICTION = '/tensorflow.serving.PredictionService/'
_MODEL = '/tensorflow.serving.ModelService/'


class Prediction(Mapping[str, np.ndarray]):
    """The outputs of a Predict call, as a mapping from names to arrays. `model`, `version` and `signature` identify the
    executed signature."""

    def __init__(self, outputs: Dict[str, np.ndarray], model: str, version: int, signature: str):
        self._outputs, self.model, self.version, self.signature = outputs, model, version, signature

    def __getitem__(self, name: str) -> np.ndarray:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        return f'<Prediction of {self.model} version {self.version}: {self._outputs!r}>'


def _read(path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    with open(path, 'rb') as file:
        return file.read()


def _sibling(request: Any, response: str) -> Any:
    """Returns the response class for a request object of the official client. Looks it up by name in the module of the
    request's class."""
    found = getattr(sys.modules[type(request).__module__], response, None)
    if found is None:
        raise TypeError(f'{type(request).__name__} is no request for a {response}')
    return found


class GrpcClient:
    """A gRPC client, which any number of threads may share. `address` is HOST:PORT or unix:PATH.

    Every method that takes a model's name can instead be called with a single argument, a request object of TensorFlow
    Serving's official client (PredictRequest, GetModelStatusRequest, ...). The method then returns an object of the
    matching response class."""

    def __init__(self, address: str = '127.0.0.1:8500', *, timeout: Optional[float] = 30.0, tls: bool = False,
                 ca: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
                 server_name: Optional[str] = None, token: Optional[str] = None,
                 options: Sequence[Tuple[str, Any]] = ()):
        settings = [('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1), *options]
        if tls:
            if server_name:
                settings.append(('grpc.ssl_target_name_override', server_name))
            credentials = grpc.ssl_channel_credentials(_read(ca), _read(key), _read(cert))
            self._channel = grpc.secure_channel(address, credentials, settings)
        else:
            self._channel = grpc.insecure_channel(address, settings)
        self._timeout = timeout
        self._metadata = [('authorization', f'Bearer {token}')] if token else None
        self._signatures: Dict[Any, Dict[str, Signature]] = {}

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> 'GrpcClient':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _call(self, method: str, request: bytes, timeout: Optional[float]) -> bytes:
        try:
            return self._channel.unary_unary(method)(request, timeout=self._timeout if timeout is None else timeout,
                                                     metadata=self._metadata)
        except grpc.RpcError as refused:
            raise Error(refused.code().name, refused.details() or '') from None

    def _send(self, method: str, request: Any, response: str, timeout: Optional[float]) -> Any:
        """Sends a request object of the official client and returns the response object."""
        answer = _sibling(request, response)()
        answer.MergeFromString(self._call(method, request.SerializeToString(), timeout))
        return answer

    def _signature(self, model: str, version: Optional[int], label: Optional[str], signature: str,
                   timeout: Optional[float]) -> Signature:
        key = (model, version, label)
        if signature not in self._signatures.get(key, {}):
            self._signatures[key] = self.metadata(model, version, label, timeout=timeout).signatures
        try:
            return self._signatures[key][signature]
        except KeyError:
            raise Error('FAILED_PRECONDITION', f'Serving signature key "{signature}" not found.') from None

    def predict(self, model: Any, inputs: Any = None, *, version: Optional[int] = None, label: Optional[str] = None,
                signature: Optional[str] = None, outputs: Sequence[str] = (), timeout: Optional[float] = None) -> Any:
        """Runs a model and returns its outputs as a mapping from names to arrays. If `outputs` is given, returns only
        the outputs that it names.

        `inputs` is a mapping from names to arrays, or the array of the only input. Values are converted to the types
        in the model's metadata, which is fetched once. Floating-point numbers are rounded to the model's precision.
        Integers must be in the range of the type. Floating-point numbers become integers only if they have no
        fractional part. If every input is an array of a type other than numpy's defaults (float64 and int64),
        the arrays are sent unchanged."""
        if hasattr(model, 'SerializeToString'):
            return self._send(_PREDICTION + 'Predict', model, 'PredictResponse', timeout)
        named = inputs if isinstance(inputs, Mapping) else None
        infos = {}
        if named is None or not all(isinstance(value, np.ndarray) and value.dtype not in (np.float64, np.int64)
                                    for value in named.values()):
            infos = self._signature(model, version, label, signature or 'serving_default', timeout).inputs
        if named is None:
            if len(infos) != 1:
                raise InputError(f'{len(infos)} inputs are wanted, by name: {", ".join(infos)}')
            named = {next(iter(infos)): inputs}
        arrays = {}
        for name, value in named.items():
            dtype = infos[name].dtype if name in infos else None
            try:
                arrays[name] = (messages.as_array(value, dtype), dtype)
                messages.check_array(arrays[name][0])
            except (ValueError, TypeError, OverflowError) as wrong:
                raise InputError(f'input "{name}": {wrong}') from None
        request = messages.write_predict(messages.model_spec(model, version, label, signature), arrays, outputs)
        try:
            answer = self._call(_PREDICTION + 'Predict', request, timeout)
        except Error:
            # A new version of the model may have a different signature, so the metadata may be out of date.
            self._signatures.pop((model, version, label), None)
            raise
        found, spec = self._understand(messages.read_predict, answer)
        return Prediction(found, *spec)

    @staticmethod
    def _understand(read: Any, answer: bytes) -> Any:
        try:
            return read(answer)
        except (ValueError, TypeError) as broken:
            raise Error('DATA_LOSS', f'the answer cannot be understood: {broken}') from broken

    def classify(self, model: Any, examples: Sequence[Any] = (), *, context: Any = None, version: Optional[int] = None,
                 label: Optional[str] = None, signature: Optional[str] = None, timeout: Optional[float] = None) -> Any:
        """Returns a list of (label, score) pairs for each example. An example is a mapping from features to values, or
        a tf.Example, which may be serialized."""
        if hasattr(model, 'SerializeToString'):
            return self._send(_PREDICTION + 'Classify', model, 'ClassificationResponse', timeout)
        spec = messages.model_spec(model, version, label, signature)
        answer = self._call(_PREDICTION + 'Classify', messages.write_examples(spec, examples, context), timeout)
        classes: Classes = self._understand(messages.read_classes, answer)
        return classes

    def regress(self, model: Any, examples: Sequence[Any] = (), *, context: Any = None, version: Optional[int] = None,
                label: Optional[str] = None, signature: Optional[str] = None, timeout: Optional[float] = None) -> Any:
        """Returns the regression value of each example."""
        if hasattr(model, 'SerializeToString'):
            return self._send(_PREDICTION + 'Regress', model, 'RegressionResponse', timeout)
        spec = messages.model_spec(model, version, label, signature)
        answer = self._call(_PREDICTION + 'Regress', messages.write_examples(spec, examples, context), timeout)
        values: List[float] = self._understand(messages.read_regressions, answer)
        return values

    def status(self, model: Any, version: Optional[int] = None, *, timeout: Optional[float] = None) -> Any:
        """Returns the status of one version, or of every version that the server reports."""
        if hasattr(model, 'SerializeToString'):
            return self._send(_MODEL + 'GetModelStatus', model, 'GetModelStatusResponse', timeout)
        answer = self._call(_MODEL + 'GetModelStatus', messages.model_spec(model, version), timeout)
        versions: List[VersionStatus] = self._understand(messages.read_status, answer)
        return versions

    def metadata(self, model: Any, version: Optional[int] = None, label: Optional[str] = None, *,
                 timeout: Optional[float] = None) -> Any:
        """Returns the signatures of a model, with the names, types and shapes of their inputs and outputs."""
        if hasattr(model, 'SerializeToString'):
            return self._send(_PREDICTION + 'GetModelMetadata', model, 'GetModelMetadataResponse', timeout)
        request = messages.model_spec(model, version, label) + messages.wire.data(2, 'signature_def')
        answer = self._call(_PREDICTION + 'GetModelMetadata', request, timeout)
        found: Metadata = self._understand(messages.read_metadata, answer)
        return found

    def reload(self, models: Union[Mapping[str, str], Sequence[ModelConfig], Any], *, timeout: Optional[float] = None) -> Any:
        """Replaces the models that the server serves. `models` maps names to base paths, or is a list of ModelConfigs.
        Returns when the server serves the new models. Raises Error if it cannot serve one of them."""
        method = _MODEL + 'HandleReloadConfigRequest'
        if hasattr(models, 'SerializeToString'):
            return self._send(method, models, 'ReloadConfigResponse', timeout)
        if isinstance(models, Mapping):
            models = [ModelConfig(name, path) for name, path in models.items()]
        answer = self._call(method, messages.write_reload(models), timeout)
        code, text = self._understand(messages.read_reload, answer)
        if code:
            raise Error(CODES[code] if 0 <= code < len(CODES) else 'UNKNOWN', text)
        return None
