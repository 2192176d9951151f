"""What a person writes, TODO by TODO: a classifier of points in three clusters.

`body` replaces the TODO's error; `imports` stand above the file's other imports, if it needs any.
The marker goes with the error.
"""

from typing import NamedTuple


class Patch(NamedTuple):
    """One TODO filled in."""

    number: int
    file: str
    body: str
    imports: str = ""

    @property
    def lines(self) -> int:
        """How many lines a person had to write."""
        return len(
            [line for line in (self.imports + "\n" + self.body).splitlines() if line.strip()]
        )


PATCHES = (
    Patch(1, "config.py", "return"),
    Patch(
        2,
        "data.py",
        """
random = np.random.default_rng(0)
labels = np.arange(480) % 3
points = (random.normal(size=(480, 2)) + 4 * np.eye(3, 2)[labels]).astype("float32")
rows = random.permutation(480)
cuts = {"train": rows[:320], "validation": rows[320:400], "test": rows[400:]}
return {name: (points[rows], labels[rows]) for name, rows in cuts.items()}
""",
        "import numpy as np",
    ),
    Patch(3, "data.py", "return None"),
    Patch(
        4,
        "model.py",
        """
layers = keras.layers
return keras.Sequential([keras.Input((2,)), layers.Dense(16, "relu"), layers.Dense(3)])
""",
    ),
    Patch(
        5,
        "losses.py",
        """
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
return {"main": loss}
""",
    ),
    Patch(6, "metrics.py", 'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}'),
    Patch(7, "optimizer.py", "return keras.optimizers.Adam(1e-2)"),
    Patch(8, "pictures.py", "return"),
    Patch(9, "callbacks.py", "return []"),
    Patch(10, "losses.py", "return tf.math.count_nonzero(batch[-1], dtype=tf.int32)"),
    Patch(
        11,
        "steps.py",
        """
points, labels, weights = batch
predictions = run.model(points, training=True)
run.metrics["accuracy"].update_state(labels, predictions, weights)
per_example = run.losses["main"](labels, predictions)
return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        "from .losses import compute_loss",
    ),
    Patch(12, "optimizer.py", "return gradients"),
    Patch(
        13,
        "steps.py",
        """
points, labels, weights = batch
predictions = run.model(points, training=False)
run.metrics["accuracy"].update_state(labels, predictions, weights)
per_example = run.losses["main"](labels, predictions)
return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
    ),
    Patch(14, "steps.py", "return validation_step(run, batch, replica)"),
    Patch(15, "pictures.py", "return"),
)
