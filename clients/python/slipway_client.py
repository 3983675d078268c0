"""A client for Slipway and TensorFlow Serving's REST API that needs nothing but Python.

    from slipway_client import Client
    client = Client('127.0.0.1:8501')
    client.predict('half_plus_two', [1.0, 2.0, 5.0])            # row format: [2.5, 3.0, 4.5]
    client.predict('half_plus_two', inputs={'x': [1.0]})        # columnar format
    client.status('half_plus_two')                              # [(1, 'AVAILABLE', '')]

One Client holds one connection and belongs to one thread. A refusal raises Refused, with the HTTP status
and the server's own sentence.
"""
import base64
import http.client
import json
import sys
import urllib.parse


class Refused(Exception):
    def __init__(self, status, reason, retry_after=None):
        super().__init__(f'{status}: {reason}')
        self.status, self.reason, self.retry_after = status, reason, retry_after


def b64(data):
    """Bytes, as an element of a string tensor."""
    return {'b64': base64.b64encode(data).decode()}


class Client:
    def __init__(self, address='127.0.0.1:8501', timeout=30.0):
        self._address, self._timeout, self._connection = address, timeout, None

    def close(self):
        if self._connection:
            self._connection.close()
        self._connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _call(self, method, path, body=None):
        fresh = self._connection is None
        if fresh:
            self._connection = http.client.HTTPConnection(self._address, timeout=self._timeout)
        try:
            self._connection.request(method, path, body)
            answer = self._connection.getresponse()
            data = answer.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # The server may end an idle connection at any time; a request that met that is sent once more.
            self.close()
            if fresh:
                raise
            return self._call(method, path, body)
        except Exception:
            self.close()
            raise
        if answer.status != 200:
            try:
                reason = json.loads(data)['error']
            except (ValueError, KeyError, TypeError):
                reason = data.decode(errors='replace')
            raise Refused(answer.status, reason, answer.getheader('Retry-After'))
        return data

    @staticmethod
    def _path(model, version, label, rest=''):
        path = '/v1/models/' + urllib.parse.quote(model, safe='')
        if version is not None:
            path += f'/versions/{version}'
        elif label is not None:
            path += '/labels/' + urllib.parse.quote(label, safe='')
        return path + rest

    def predict(self, model, instances=None, *, inputs=None, version=None, label=None, signature=None):
        """The predictions (for instances) or outputs (for inputs)."""
        body = {'instances': instances} if inputs is None else {'inputs': inputs}
        if signature is not None:
            body['signature_name'] = signature
        data = json.loads(self._call('POST', self._path(model, version, label, ':predict'), json.dumps(body)))
        return data['predictions' if inputs is None else 'outputs']

    def status(self, model, version=None):
        """(version, state, reason) of each version, newest first."""
        data = json.loads(self._call('GET', self._path(model, version, None)))
        return [(int(v['version']), v['state'], v['status']['error_message'])
                for v in data['model_version_status']]

    def metadata(self, model, version=None):
        return json.loads(self._call('GET', self._path(model, version, None, '/metadata')))


def main(argv):
    usage = ('usage: slipway_client.py HOST:PORT MODEL JSON\n'
             'JSON: a list of instances, an object of inputs, or a whole request body')
    if argv[1:] in (['--help'], ['-h']):
        print(usage)
        return
    if len(argv) != 4:
        sys.exit(usage)
    try:
        value = json.loads(argv[3])
    except ValueError as error:
        sys.exit(f'the third argument is not JSON: {error}')
    whole = isinstance(value, dict) and ('instances' in value or 'inputs' in value)
    with Client(argv[1].removeprefix('http://').rstrip('/')) as client:
        try:
            if whole:
                answer = client.predict(argv[2], value.get('instances'), inputs=value.get('inputs'),
                                        signature=value.get('signature_name'))
            elif isinstance(value, list):
                answer = client.predict(argv[2], value)
            else:
                answer = client.predict(argv[2], inputs=value)
        except Refused as refused:
            sys.exit(str(refused))
        except OSError as error:
            sys.exit(f'{argv[1]}: {error}')
    print(json.dumps(answer))


if __name__ == '__main__':
    main(sys.argv)
