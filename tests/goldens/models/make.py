"""Computes with TensorFlow the expected outputs of the models in this folder and of models/digits. Writes the outputs to
answers.json.

The TF1 models next to this file were made by tests/models/make_mnist.py. Needs tensorflow (PyPI).
"""
import glob
import json
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def run(path, signature, feeds):
    with tf.Graph().as_default(), tf.compat.v1.Session() as s:
        sig = tf.compat.v1.saved_model.load(s, ['serve'], path).signature_def[signature]
        out = s.run({k: v.name for k, v in sig.outputs.items()}, {sig.inputs[k].name: v for k, v in feeds.items()})
    return {k: [[x.decode() if isinstance(x, bytes) else round(float(x), 7) for x in row] for row in v.tolist()]
            for k, v in out.items()}


answers = {}
pictures = [json.load(open(p))['instances'][0] for p in sorted(glob.glob(f'{ROOT}/models/digits/held_out/[0-9]*.json'))]
answers['digits'] = {'signature': 'serving_default', 'outputs': run(
    f'{ROOT}/models/digits/1', 'serving_default', {'pixels': np.array(pictures, np.float32)})}
# tests/e2e/models/test_models.py makes the same images.
images = (np.arange(3 * 784).reshape(3, 784) * 7919 % 256 / 256).astype(np.float32)
for name in ('mnist_softmax', 'mnist_cnn'):
    feeds = {'images': images}
    if name == 'mnist_cnn':
        feeds['keep_prob'] = np.float32(1)
    answers[name] = {'signature': 'predict_images', 'outputs': run(f'{HERE}/{name}/1', 'predict_images', feeds)}
with open(f'{HERE}/answers.json', 'w') as f:
    json.dump(answers, f)
    f.write('\n')
