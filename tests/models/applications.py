"""One size of each family of keras.applications, with seeded random weights."""
from catalogue import Request, model, random

SMALLEST = {
    "convnext": "ConvNeXtTiny", "densenet": "DenseNet121", "efficientnet": "EfficientNetB0", "efficientnetv2": "EfficientNetV2B0",
    "inceptionresnetv2": "InceptionResNetV2", "inceptionv3": "InceptionV3", "mobilenet": "MobileNet", "mobilenetv2": "MobileNetV2",
    "mobilenetv3": "MobileNetV3Small", "nasnet": "NASNetMobile", "resnet": "ResNet50", "resnetv2": "ResNet50V2", "vgg16": "VGG16",
    "vgg19": "VGG19", "xception": "Xception",
}


@model(*SMALLEST, stateless=True)
def application(folder, name):
    import keras

    keras.utils.set_random_seed(7)
    net = getattr(keras.applications, SMALLEST[name])(weights=None, classes=100)
    for layer in net.layers:
        # Statistics as after training, because a fresh batch normalisation changes nothing.
        if isinstance(layer, keras.layers.BatchNormalization):
            n = layer.moving_mean.shape
            layer.moving_mean.assign(random(1, n, -0.1, 0.1))
            layer.moving_variance.assign(random(2, n, 0.5, 1.5))
            if layer.scale:
                layer.gamma.assign(random(3, n, 0.8, 1.2))
    net.export(folder, verbose=False)
    scale = 255 if name not in ("resnet", "vgg16", "vgg19", "densenet") else 1
    alias = net.inputs[0].name
    size = [d or 224 for d in net.input_shape[1:]]
    return [Request("serving_default", {alias: random(n, (n, *size), 0, scale)}) for n in (1, 2)]
