"""The model that the tests with foreign clients of the Open Inference Protocol use: a signature for each datatype returns
its input."""
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Maps a signature to the type of its input.
TYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "int8": np.int8, "int16": np.int16,
         "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
         "uint64": np.uint64, "bool": np.bool_}
# Debian's Python writes the models, because it has the protobuf version of the generated messages.
WRITE_TYPES = """
import sys
sys.path[:0] = [{e2e!r}]
import run
run.generate({out!r})
run.make_importable({out!r})
import small_models
small_models.write_types({folder!r})
"""


def write_types(folder):
    subprocess.run(["/usr/bin/python3", "-c", WRITE_TYPES.format(
        e2e=str(ROOT / "tests" / "e2e"), out=str(ROOT / "build" / "python"), folder=folder)], check=True)
