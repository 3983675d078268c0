"""Trains the digits model and writes it: make_digits.py [MODELS_DIR]

The model is a small convolutional network, trained on scikit-learn's handwritten digits (1,797 scans of 8 by 8 pixels,
grey levels 0 to 16). 40 images are held out, and written with their labels next to the model as request bodies. Needs
tensorflow and scikit-learn (PyPI). The model is committed, so this script is not needed to serve it.
"""
import json
import os
import shutil
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import keras
import numpy as np
from sklearn.datasets import load_digits

out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
keras.utils.set_random_seed(11)
data = load_digits()
images = data.images.astype('float32')[..., None]
labels = data.target
order = np.random.RandomState(5).permutation(len(labels))
held, rest = order[:40], order[40:]

L = keras.layers
pixels = keras.Input((8, 8, 1), name='pixels')
x = L.Rescaling(1 / 16)(pixels)
x = L.Conv2D(16, 3, padding='same', use_bias=False)(x)
x = L.BatchNormalization()(x)
x = L.ReLU()(x)
x = L.MaxPooling2D()(x)
x = L.Conv2D(32, 3, padding='same', activation='relu')(x)
x = L.GlobalAveragePooling2D()(x)
x = L.Dropout(0.2)(x)
model = keras.Model(pixels, L.Dense(10, activation='softmax', name='digit')(x))
model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(images[rest], labels[rest], epochs=60, batch_size=32, verbose=0)
right = np.argmax(model.predict(images[held], verbose=0), 1) == labels[held]
print(f'held out: {right.sum()} of {len(held)} right')

shutil.rmtree(f'{out}/digits', ignore_errors=True)
model.export(f'{out}/digits/1', verbose=False)
os.makedirs(f'{out}/digits/held_out')
for k, i in enumerate(held):
    with open(f'{out}/digits/held_out/{k:02d}.json', 'w') as f:
        rows = [[[int(v)] for v in row] for row in data.images[i].astype(int)]
        f.write('{"instances": [[\n  ' + ',\n  '.join(json.dumps(r) for r in rows) + ']]}\n')
with open(f'{out}/digits/held_out/labels.json', 'w') as f:
    json.dump([int(v) for v in labels[held]], f)
    f.write('\n')
