"""The classifier whose features serve to compare generated images with real ones.

Its weights come with the project, so that results can be compared between runs. If you change the
data, train it again in a few seconds: python -m <package>.task.classifier
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np

from .data import load_digits

WEIGHTS = Path(__file__).with_name("classifier.npz")
FEATURES = 32


def create_classifier() -> keras.Sequential:
    """A small CNN in full precision: images float (batch, 8, 8, 1) -> logits (batch, 10)."""
    layers, floatx = keras.layers, keras.config.floatx()
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu", dtype=floatx),
            layers.MaxPooling2D(dtype=floatx),
            layers.Conv2D(32, 3, padding="same", activation="relu", dtype=floatx),
            layers.MaxPooling2D(dtype=floatx),
            layers.Flatten(dtype=floatx),
            layers.Dense(FEATURES, activation="relu", name="features", dtype=floatx),
            layers.Dense(10, name="logits", dtype=floatx),
        ]
    )


def load_classifier() -> keras.Sequential:
    """The trained classifier: images -> logits (batch, 10)."""
    classifier = create_classifier()
    with np.load(WEIGHTS) as file:
        classifier.set_weights([file[name] for name in file.files])
    classifier.trainable = False
    return classifier


def load_features() -> keras.Model:
    """The trained classifier without its last layer: images -> features (batch, FEATURES)."""
    classifier = load_classifier()
    return keras.Model(classifier.inputs[0], classifier.get_layer("features").output)


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    classifier = create_classifier()
    classifier.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    classifier.fit(*load_digits("train"), batch_size=32, epochs=20, verbose=2)
    print("unseen digits:", classifier.evaluate(*load_digits("test"), verbose=0, return_dict=True))
    np.savez_compressed(WEIGHTS, *classifier.get_weights())
