"""Sends one Predict request and prints the response as JSON: python3 -m slipway_client URL MODEL JSON"""
import json
import sys

from . import Error, RestClient, connect

USAGE = '''usage: python3 -m slipway_client URL MODEL JSON
URL: http://HOST:PORT, https://, grpc://, grpcs:// (or HOST:PORT: REST)
JSON: a list of instances, an object of inputs, or a whole request body'''


def ask(url, model, value):
    with connect(url) as client:
        if not isinstance(client, RestClient):
            outputs = client.predict(model, value)
            return {name: array.tolist() for name, array in outputs.items()}
        if isinstance(value, dict) and ('instances' in value or 'inputs' in value):
            return client.predict(model, value.get('instances'), inputs=value.get('inputs'),
                                  signature=value.get('signature_name'))
        return client.predict(model, value) if isinstance(value, list) else client.predict(model, inputs=value)


def main():
    if sys.argv[1:] in (['--help'], ['-h']):
        print(USAGE)
        return
    if len(sys.argv) != 4:
        sys.exit(f'URL, MODEL and JSON are wanted, not {len(sys.argv) - 1} arguments: {sys.argv[1:]}\n{USAGE}')
    url = sys.argv[1] if '://' in sys.argv[1] or sys.argv[1].startswith('unix:') else 'http://' + sys.argv[1]
    try:
        value = json.loads(sys.argv[3])
    except ValueError as error:
        sys.exit(f'the third argument is not JSON: {error}')
    try:
        print(json.dumps(ask(url, sys.argv[2], value), default=lambda v: v.decode(errors='replace')))
    except (Error, ValueError) as error:
        sys.exit(str(error))


if __name__ == '__main__':
    main()
