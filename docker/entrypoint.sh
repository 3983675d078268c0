#!/bin/sh
# With MODEL_NAME or MODEL_BASE_PATH: as the tensorflow/serving image. Otherwise every directory under
# /models is a model. exec, so that the server is process 1 and gets the signals.
set -eu
if [ -n "${MODEL_NAME:-}${MODEL_BASE_PATH:-}" ]; then
    name=${MODEL_NAME:-model}
    exec tensorflow_model_server --port=8500 --rest_api_port=8501 --model_name="$name" \
        --model_base_path="${MODEL_BASE_PATH:-/models}/$name" "$@"
fi
exec slipway serve --bind_address=0.0.0.0 --models=/models "$@"
