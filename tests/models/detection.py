"""Object detection and segmentation: images from bytes, anchors, decoding of boxes, and every form of suppression."""

from catalogue import Request, integers, model, np, random, tracked


def picture(seed, height, width, form):
    """Returns the bytes of an image with smooth colours."""
    import tensorflow as tf

    y, x = np.mgrid[0:height, 0:width]
    a, b, c = np.random.default_rng(seed).random(3) * 100
    pixels = np.stack([(x * 2 + a) % 256, (y * 2 + b) % 256, (x + y + c) % 256], -1).astype(np.uint8)
    return {"png": tf.io.encode_png, "jpeg": tf.io.encode_jpeg}[form](pixels).numpy()


def anchors(sizes, image, scales=(1.0, 1.4), ratios=(0.5, 1.0, 2.0)):
    """Returns the boxes (centre y, centre x, height, width) of a pyramid, as a graph computes them."""
    import tensorflow as tf

    made = []
    for size in sizes:
        step = image / size
        centre = (tf.range(size, dtype=tf.float32) + 0.5) * step
        y, x = tf.meshgrid(centre, centre, indexing="ij")
        shapes = tf.constant([(s * step * 2 * r**0.5, s * step * 2 / r**0.5) for s in scales for r in ratios], tf.float32)
        centres = tf.repeat(tf.reshape(tf.stack([y, x], -1), [-1, 2]), len(scales) * len(ratios), axis=0)
        made.append(tf.concat([centres, tf.tile(shapes, [size * size, 1])], 1))
    return tf.concat(made, 0) / image


def decoded(codes, boxes):
    """Returns corners from the codes of a box regression, as in SSD and Faster R-CNN."""
    import tensorflow as tf

    cy, cx, h, w = tf.unstack(boxes, axis=-1)
    ty, tx, th, tw = tf.unstack(codes, axis=-1)
    cy, cx = ty / 10 * h + cy, tx / 10 * w + cx
    h, w = tf.exp(th / 5) * h, tf.exp(tw / 5) * w
    return tf.clip_by_value(tf.stack([cy - h / 2, cx - w / 2, cy + h / 2, cx + w / 2], -1), 0.0, 1.0)


def conv(keras, x, filters, stride):
    x = keras.layers.Conv2D(filters, 3, stride, "same", use_bias=False)(x)
    return keras.layers.ReLU(6.0)(keras.layers.BatchNormalization()(x))


def detector_net(keras, classes, per_cell=6):
    image = keras.Input((96, 96, 3))
    x = conv(keras, conv(keras, image, 16, 2), 32, 2)
    levels = [conv(keras, x, 48, 2)]
    levels.append(conv(keras, levels[-1], 64, 2))
    heads = [[], []]
    for level in levels:
        for made, width in zip(heads, (4, classes)):
            head = keras.layers.Conv2D(per_cell * width, 3, padding="same", kernel_initializer=keras.initializers.RandomNormal(0, 0.5))(
                level
            )
            made.append(keras.layers.Reshape((-1, width))(head))
    return keras.Model(image, [keras.layers.Concatenate(1)(h) for h in heads])


@model("ssd_combined", "ssd_combined_per_class", "ssd_from_bytes")
def ssd(folder, name):
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(5)
    classes = 6
    net = detector_net(keras, classes)
    names = tf.constant(["background", "person", "bicycle", "car", "dog", "cat"])
    per_class = name == "ssd_combined_per_class"

    class Detector(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(net)

        def boxes_of(self, images):
            codes, logits = net(images, training=False)
            boxes = decoded(codes, anchors((12, 6), 96.0)[tf.newaxis])
            boxes = boxes[:, :, tf.newaxis]
            if per_class:
                boxes = tf.tile(boxes, [1, 1, classes, 1]) + tf.reshape(tf.range(classes, dtype=tf.float32) * 0.01, [1, 1, classes, 1])
            return boxes, tf.sigmoid(logits), logits

        def found(self, images, threshold=0.5):
            boxes, scores, _ = self.boxes_of(images)
            boxes, scores, kinds, n = tf.image.combined_non_max_suppression(boxes, scores, 10, 20, 0.5, threshold, pad_per_class=per_class)
            kinds = tf.cast(kinds, tf.int32)
            return {
                "detection_boxes": boxes,
                "detection_scores": scores,
                "detection_classes": kinds,
                "num_detections": tf.cast(n, tf.float32),
                "names": tf.gather(names, kinds),
            }

        @tf.function(input_signature=[tf.TensorSpec([None, 96, 96, 3], tf.uint8, "input_tensor")])
        def detect(self, input_tensor):
            return self.found(tf.image.convert_image_dtype(input_tensor, tf.float32) * 2 - 1)

        @tf.function(input_signature=[tf.TensorSpec([None, 96, 96, 3], tf.uint8, "input_tensor")])
        def raw(self, input_tensor):
            boxes, scores, logits = self.boxes_of(tf.image.convert_image_dtype(input_tensor, tf.float32) * 2 - 1)
            return {"raw_detection_boxes": boxes, "raw_detection_scores": scores, "multiclass": tf.nn.softmax(logits)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "encoded")])
        def from_bytes(self, encoded):
            def one(data):
                image = tf.io.decode_image(data, channels=3, expand_animations=False)
                image = tf.image.convert_image_dtype(image, tf.float32)
                image = tf.image.resize(image, [96, 96], preserve_aspect_ratio=True)
                return tf.image.pad_to_bounding_box(image, 0, 0, 96, 96)

            images = tf.map_fn(one, encoded, fn_output_signature=tf.TensorSpec([96, 96, 3], tf.float32))
            return self.found((images - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225])

    made = Detector()
    signatures = {"serving_default": made.detect, "raw": made.raw}
    if name == "ssd_from_bytes":
        signatures = {"serving_default": made.from_bytes, "tensor": made.detect}
    tf.saved_model.save(made, folder, signatures)
    images = [integers(n, (n, 96, 96, 3), 256, "uint8") for n in (1, 3)]
    if name != "ssd_from_bytes":
        return [Request(s, {"input_tensor": i}) for i in images for s in ("serving_default", "raw")]
    files = [picture(1, 96, 96, "png"), picture(2, 70, 130, "png"), picture(3, 128, 64, "png")]
    return [Request("serving_default", {"encoded": np.array(files[:n], object)}) for n in (1, 3)] + [
        Request("tensor", {"input_tensor": images[0]}),
        Request("serving_default", {"encoded": np.array([files[0], b"no image"], object)}),
        Request("serving_default", {"encoded": np.array([], object)}),
    ]


@model("suppression_forms")
def suppression_forms(folder):
    """NonMaxSuppression V3, V4, V5 and WithOverlaps, once a request."""
    import tensorflow as tf

    boxes_spec, scores_spec = tf.TensorSpec([None, 4], tf.float32, "boxes"), tf.TensorSpec([None], tf.float32, "scores")

    class Forms(tf.Module):
        @tf.function(input_signature=[boxes_spec, scores_spec, tf.TensorSpec([], tf.int32, "size")])
        def plain(self, boxes, scores, size):
            kept = tf.image.non_max_suppression(boxes, scores, size, 0.4, 0.2)
            return {"kept": kept, "boxes": tf.gather(boxes, kept)}

        @tf.function(input_signature=[boxes_spec, scores_spec])
        def padded(self, boxes, scores):
            kept, n = tf.raw_ops.NonMaxSuppressionV4(
                boxes=boxes, scores=scores, max_output_size=12, iou_threshold=0.5, score_threshold=0.1, pad_to_max_output_size=True
            )
            return {"kept": kept, "n": n, "boxes": tf.where(tf.range(12)[:, tf.newaxis] < n, tf.gather(boxes, kept), 0.0)}

        @tf.function(input_signature=[boxes_spec, scores_spec, tf.TensorSpec([], tf.float32, "sigma")])
        def soft(self, boxes, scores, sigma):
            kept, kept_scores = tf.image.non_max_suppression_with_scores(boxes, scores, 10, 0.9, 0.05, sigma)
            return {"kept": kept, "scores": kept_scores}

        @tf.function(
            input_signature=[tf.TensorSpec([None, None, 4], tf.float32, "boxes"), tf.TensorSpec([None, None], tf.float32, "scores")]
        )
        def batched(self, boxes, scores):
            kept, n = tf.image.non_max_suppression_padded(
                boxes, scores, 8, 0.5, 0.1, pad_to_max_output_size=True, sorted_input=False, canonicalized_coordinates=True
            )
            return {"kept": kept, "n": n}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, "overlaps"), scores_spec])
        def overlaps(self, overlaps, scores):
            return {"kept": tf.image.non_max_suppression_overlaps(overlaps, scores, 5, 0.5, 0.1)}

    made = Forms()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("plain", "padded", "soft", "batched", "overlaps")})
    requests = []
    for seed, n in ((1, 40), (2, 7), (3, 0)):
        corner = random(seed, (2, n, 2), 0, 0.7)
        boxes = np.concatenate([corner[0], corner[0] + 0.05 + corner[1] * 0.4], -1).astype(np.float32)
        scores = random(seed + 9, (n,))
        requests += [
            Request("plain", {"boxes": boxes, "scores": scores, "size": np.int32(6)}),
            Request("padded", {"boxes": boxes, "scores": scores}),
            Request("soft", {"boxes": boxes, "scores": scores, "sigma": np.float32(0.5)}),
        ]
        if n:
            requests.append(Request("batched", {"boxes": np.stack([boxes, boxes[::-1]]), "scores": np.stack([scores, scores])}))
            requests.append(Request("overlaps", {"overlaps": random(seed, (n, n)), "scores": scores}))
    requests += [
        Request("plain", {"boxes": boxes, "scores": scores, "size": np.int32(-1)}),
        Request("plain", {"boxes": random(1, (3, 4)), "scores": random(1, (2,)), "size": np.int32(1)}),
    ]
    return requests


@model("two_stage")
def two_stage(folder):
    """Proposals by NMS, crops of a feature map by tf.image.crop_and_resize, and a second head, as in Faster R-CNN."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(6)
    backbone = keras.Sequential(
        [
            keras.Input((None, None, 3)),
            keras.layers.Conv2D(16, 3, 2, "same", activation="relu"),
            keras.layers.Conv2D(32, 3, 2, "same", activation="relu"),
        ]
    )
    rpn = keras.layers.Conv2D(6 * 5, 3, padding="same", kernel_initializer=keras.initializers.RandomNormal(0, 0.3))
    head = keras.Sequential(
        [
            keras.Input((7, 7, 32)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(5 + 16),
        ]
    )
    mask = keras.Sequential(
        [keras.Input((7, 7, 32)), keras.layers.Conv2DTranspose(8, 2, 2, activation="relu"), keras.layers.Conv2D(1, 1, activation="sigmoid")]
    )
    rpn.build((None, 16, 16, 32))

    class Detector(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(backbone, rpn, head, mask)

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, "image")])
        def detect(self, image):
            features = backbone(tf.image.resize(image, [64, 64], "bilinear"))
            out = tf.reshape(rpn(features), [tf.shape(image)[0], -1, 5])
            boxes = decoded(out[..., :4], anchors((16,), 64.0)[tf.newaxis])
            scores = tf.sigmoid(out[..., 4])

            def proposals(args):
                kept = tf.image.non_max_suppression(args[0], args[1], 12, 0.7)
                return tf.pad(tf.gather(args[0], kept), [[0, 12 - tf.shape(kept)[0]], [0, 0]])

            rois = tf.map_fn(proposals, (boxes, scores), fn_output_signature=tf.TensorSpec([12, 4], tf.float32))
            flat = tf.reshape(rois, [-1, 4])
            which = tf.repeat(tf.range(tf.shape(image)[0]), 12)
            crops = tf.image.crop_and_resize(features, flat, which, [14, 14])
            crops = tf.nn.max_pool2d(crops, 2, 2, "SAME")
            second = head(crops)
            classes = tf.nn.softmax(second[:, :5])
            kind = tf.argmax(classes[:, 1:], 1, tf.int32)
            codes = tf.gather(tf.reshape(second[:, 5:], [-1, 4, 4]), kind, axis=1, batch_dims=1)
            return {
                "rois": rois,
                "boxes": tf.reshape(codes * 0.1 + flat, [-1, 12, 4]),
                "classes": tf.reshape(kind + 1, [-1, 12]),
                "scores": tf.reshape(tf.reduce_max(classes[:, 1:], 1), [-1, 12]),
                "masks": tf.reshape(mask(crops)[..., 0], [-1, 12, 14, 14]),
            }

    made = Detector()
    tf.saved_model.save(made, folder, {"serving_default": made.detect})
    return [
        Request("serving_default", {"image": random(s, shape)}) for s, shape in enumerate([(1, 64, 64, 3), (2, 50, 80, 3), (3, 64, 64, 3)])
    ]


@model("segmentation")
def segmentation(folder):
    """A U-Net with a decoder of resizing and transposed convolutions, atrous pooling, and masks as run lengths."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(8)
    image = keras.Input((48, 48, 3))
    skips, x = [], image
    for filters in (12, 24):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Concatenate()([keras.layers.Conv2D(16, 3, padding="same", dilation_rate=d, activation="relu")(x) for d in (1, 2, 4)])
    x = keras.layers.Conv2DTranspose(24, 3, 2, "same", activation="relu")(x)
    x = keras.layers.Concatenate()([x, skips[1]])
    x = keras.layers.UpSampling2D(interpolation="bilinear")(x)
    x = keras.layers.Concatenate()([x, skips[0]])
    net = keras.Model(image, keras.layers.Conv2D(4, 1)(keras.layers.DepthwiseConv2D(3, padding="same")(x)))

    class Segmenter(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(net)

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, "image")])
        def segment(self, image):
            size = tf.shape(image)[1:3]
            resized = tf.image.resize(tf.cast(image, tf.float32) / 127.5 - 1, [48, 48], antialias=True)
            logits = tf.image.resize(net(resized), size)
            probabilities = tf.nn.softmax(logits)
            # No argmax, because the class of a pixel depends on the last bits where two classes tie.
            return {"probabilities": probabilities, "area": tf.reduce_mean(probabilities, [1, 2])}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.bool, "mask")])
        def runs(self, mask):
            flat = tf.reshape(mask, [-1])
            change = tf.where(tf.not_equal(flat[1:], flat[:-1]))[:, 0] + 1
            ends = tf.concat([[tf.constant(0, tf.int64)], change, [tf.size(flat, tf.int64)]], 0)
            lengths = ends[1:] - ends[:-1]
            edges = tf.cast(mask, tf.float32)[tf.newaxis, :, :, tf.newaxis]
            sobel = tf.reduce_sum(tf.abs(tf.image.sobel_edges(edges)), -1)
            eroded = tf.nn.erosion2d(edges, tf.zeros([3, 3, 1]), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])
            dilated = tf.nn.dilation2d(edges, tf.zeros([3, 3, 1]), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])
            return {
                "lengths": lengths,
                "code": tf.strings.reduce_join(tf.strings.as_string(lengths), separator=","),
                "sobel": sobel,
                "eroded": eroded,
                "dilated": dilated,
                "first": tf.cast(flat[:1], tf.int32),
            }

    made = Segmenter()
    tf.saved_model.save(made, folder, {"serving_default": made.segment, "runs": made.runs})
    return [
        Request("serving_default", {"image": integers(1, (1, 60, 40, 3), 256, "uint8")}),
        Request("runs", {"mask": random(1, (9, 14)) > 0.6}),
        Request("serving_default", {"image": integers(2, (3, 48, 48, 3), 256, "uint8")}),
        Request("runs", {"mask": np.zeros((4, 4), bool)}),
    ]


@model("images_from_bytes")
def images_from_bytes(folder):
    """A classifier whose input is a batch of files, and the reverse: a generator whose output is a batch of files."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(9)
    net = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            keras.layers.Conv2D(16, 3, 2, activation="relu"),
            keras.layers.SeparableConv2D(32, 3),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(7, activation="softmax"),
        ]
    )

    class Classifier(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = tracked(net)

        def read(self, data, decode):
            image = tf.cast(decode(data), tf.float32)
            side = tf.minimum(tf.shape(image)[0], tf.shape(image)[1])
            image = tf.image.resize_with_crop_or_pad(image, side, side)
            image = tf.image.resize(image, [40, 40], "bicubic")
            image = tf.image.central_crop(image, 0.8)[:32, :32]
            return tf.image.per_image_standardization(tf.reshape(image, [32, 32, 3]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
        def classify(self, image_bytes):
            images = tf.map_fn(
                lambda d: self.read(d, lambda b: tf.io.decode_jpeg(b, channels=3, dct_method="INTEGER_ACCURATE")),
                image_bytes,
                fn_output_signature=tf.float32,
            )
            images.set_shape([None, 32, 32, 3])
            scores, classes = tf.math.top_k(net(images), 3)
            return {"scores": scores, "classes": classes}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, "web_safe")])
        def web_safe(self, web_safe):
            image = self.read(tf.io.decode_base64(web_safe), lambda b: tf.io.decode_png(b, channels=3))
            return {"scores": net(image[tf.newaxis])}

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, "pixels")])
        def draw(self, pixels):
            pixels = tf.image.convert_image_dtype(pixels, tf.uint8, saturate=True)
            boxed = tf.image.draw_bounding_boxes(
                tf.cast(pixels, tf.float32), tf.tile([[[0.1, 0.1, 0.6, 0.7]]], [tf.shape(pixels)[0], 1, 1]), [[255.0, 0.0, 0.0]]
            )
            files = tf.map_fn(tf.io.encode_png, tf.cast(boxed, tf.uint8), fn_output_signature=tf.string)
            # Only the pixels are comparable, because compression depends on the library.
            back = tf.map_fn(lambda f: tf.io.decode_png(f, 3), files, fn_output_signature=tf.uint8)
            hsv = tf.image.rgb_to_hsv(tf.cast(back, tf.float32) / 255)
            return {"back": back, "hue": hsv[..., 0], "gray": tf.image.rgb_to_grayscale(back), "magic": tf.strings.substr(files, 0, 4)}

    made = Classifier()
    tf.saved_model.save(made, folder, {"serving_default": made.classify, "web_safe": made.web_safe, "draw": made.draw})
    jpegs = [picture(s, 40 + s, 60 - s, "jpeg") for s in range(3)]
    safe = tf.io.encode_base64(picture(7, 33, 50, "png")).numpy()
    return [Request("serving_default", {"image_bytes": np.array(jpegs[:n], object)}) for n in (1, 3)] + [
        Request("web_safe", {"web_safe": np.array(safe, object)}),
        Request("draw", {"pixels": random(3, (2, 20, 30, 3))}),
        Request("serving_default", {"image_bytes": np.array([jpegs[0][:50]], object)}),
        Request("web_safe", {"web_safe": np.array(b"*", object)}),
    ]
