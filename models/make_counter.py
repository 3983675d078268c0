"""Writes the counter model: make_counter.py [MODELS_DIR]

The model has state: its signatures `get`, `incr`, `incr_by` (with the input `delta`) and `reset` all return the count.
Needs tensorflow (PyPI). The model is committed, so this script is not needed to serve it.
"""
import os
import shutil
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf

out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0.0, name='count')

    @tf.function(input_signature=[])
    def get(self):
        return {'output': self.count.read_value()}

    @tf.function(input_signature=[])
    def incr(self):
        return {'output': self.count.assign_add(1.0)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name='delta')])
    def incr_by(self, delta):
        return {'output': self.count.assign_add(delta)}

    @tf.function(input_signature=[])
    def reset(self):
        return {'output': self.count.assign(0.0)}


counter = Counter()
shutil.rmtree(f'{out}/counter', ignore_errors=True)
tf.saved_model.save(counter, f'{out}/counter/1', signatures={
    'get': counter.get, 'incr': counter.incr, 'incr_by': counter.incr_by, 'reset': counter.reset})
