"""Writes to 1/ a model in the style of TensorFlow 1 for classification and regression of tf.Examples. Runs the model on
requests with and without a context Example, and writes the outputs to answers.json. The model uses
parse_example with dense, default and sparse features, a vocabulary table from an asset, and class names from a
HashTable. Needs tensorflow (PyPI)."""
import base64
import json
import os
import shutil
import tempfile

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf

tf1 = tf.compat.v1
HERE = os.path.dirname(os.path.abspath(__file__))
CITIES = ['paris', 'rome', 'berlin']


def build():
    examples = tf1.placeholder(tf.string, [None], name='examples')
    f = tf.io.parse_example(examples, {
        'age': tf.io.FixedLenFeature([], tf.float32),
        'visits': tf.io.FixedLenFeature([2], tf.int64, default_value=[1, 2]),
        'cities': tf.io.VarLenFeature(tf.string)})
    os.chdir(tempfile.mkdtemp())
    vocabulary = 'cities.txt'  # The graph contains the path of the vocabulary file, so a short path is used.
    with open(vocabulary, 'w') as file:
        file.write('\n'.join(CITIES) + '\n')
    words = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(
        vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER), 1)
    ids = tf.SparseTensor(f['cities'].indices, words.lookup(f['cities'].values), f['cities'].dense_shape)
    dense = tf.sparse.to_dense(ids, default_value=-1)
    city = tf.reduce_sum(tf.one_hot(dense, len(CITIES) + 1), 1)
    x = tf.concat([f['age'][:, None], tf.cast(f['visits'], tf.float32), city], 1)
    w = tf1.get_variable('w', initializer=tf.reshape(tf.range(21, dtype=tf.float32), [7, 3]) * 0.01 - 0.1)
    logits = tf.matmul(x, w)
    scores, best = tf.nn.top_k(tf.nn.softmax(logits), 3)
    names = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([0, 1, 2], tf.int64), tf.constant(['stays', 'leaves', 'comes back'])), 'nobody')
    classes = names.lookup(tf.cast(best, tf.int64))
    value = tf.reduce_sum(logits, 1, keepdims=True)
    return examples, classes, scores, value


def example(**features):
    e = tf.train.Example()
    for key, values in features.items():
        to = e.features.feature[key]
        if isinstance(values[0], float):
            to.float_list.value.extend(values)
        elif isinstance(values[0], int):
            to.int64_list.value.extend(values)
        else:
            to.bytes_list.value.extend(v.encode() for v in values)
    return e.SerializeToString()


def main():
    shutil.rmtree(f'{HERE}/1', ignore_errors=True)
    with tf.Graph().as_default(), tf1.Session() as s:
        examples, classes, scores, value = build()
        s.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        m = tf1.saved_model
        builder = m.Builder(f'{HERE}/1')
        info = m.build_tensor_info
        c = {'serving_default': m.classification_signature_def(examples, classes, scores),
             'labels': m.classification_signature_def(examples, classes, None),
             'scores': m.classification_signature_def(examples, None, scores),
             'value': m.regression_signature_def(examples, value),
             'all': m.build_signature_def({'examples': info(examples)},
                                          {'classes': info(classes), 'scores': info(scores),
                                           'value': info(value)}, 'tensorflow/serving/predict')}
        builder.add_meta_graph_and_variables(s, ['serve'], c, main_op=tf1.tables_initializer(),
                                             assets_collection=tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
                                             strip_default_attrs=True)
        builder.save()
        requests = [
            {'context': b'', 'examples': [example(age=[30.0], visits=[3, 4], cities=['rome', 'paris'])]},
            {'context': b'', 'examples': [example(age=[1.5]), example(age=[70.0], cities=['oslo']),
                                          example(age=[-2.0], cities=['berlin', 'berlin', 'oslo'])]},
            {'context': example(visits=[10, 20], cities=['rome']),
             'examples': [example(age=[5.0]), example(age=[6.0], cities=['paris', 'oslo']),
                          example(age=[7.0], visits=[0, -1])]}]
        answers = []
        for r in requests:
            k, p, v = s.run([classes, scores, value],
                            {examples: [r['context'] + e for e in r['examples']]})
            answers.append({'context': base64.b64encode(r['context']).decode(),
                            'examples': [base64.b64encode(e).decode() for e in r['examples']],
                            'classes': [[x.decode() for x in row] for row in k], 'scores': p.tolist(),
                            'values': v[:, 0].tolist()})
    with open(f'{HERE}/answers.json', 'w') as file:
        json.dump(answers, file)
        file.write('\n')


main()
