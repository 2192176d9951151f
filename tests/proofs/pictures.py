"""The pictures that every starter draws of a run with its default flags."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from cookiecutter.main import cookiecutter
from PIL import Image
from walk.patches import PATCHES

from . import ROOT, Page

FOLDER = ROOT / "docs" / "pictures"
LARGEST = 150_000  # bytes of a file

HEAD = """# Pictures

What a run draws into its directory, from runs of every starter with its default flags:
`samples.png` before the first step, `curves.png` and `predictions.png` at the end.
`task/pictures.py`, which is yours, draws the first and the last. Numbers in a picture are those of
the first examples of the data that it names: the test's, without it the validation's, else the
training's. Colors differ in lightness, and lines and bars in form too, so that the pictures can be
printed in gray and read by the color-blind.
`nox -s proofs -- pictures` makes this page.
"""

CURVES = """
## Curves, of every starter

A chart for each loss and metric, with the epoch (of a shorter run the step) whose weights were
tested and what they reached; and the learning rate and the gradient norm between validations.

{curves}
"""

STARTERS = {
    "image_classification": """
- Which classes are taken for which others, and how sure the model is where it is right and where
  it is wrong. A mean confidence far above the accuracy: don't trust its probabilities.
- Confident mistakes are often wrong labels: look at them first.
- `samples.png` shows what the augmentation makes of an image. What you can't recognize there, the
  model can't learn.
""",
    "segmentation": """
- From the best test image to the worst: what is missed, invented, or taken for another digit.
- The intersection over union of each class; the metric is the mean.
- Ignored pixels are light gray. `samples.png` shows images and labels as augmented: they must
  still lie on each other.
""",
    "language_model": """
- Wrong answers first, and only their wrong characters are marked.
- How many answers are right in each form of the dates: what is left to learn is often one form.
- Where the model looks when it writes each character of an answer; copied digits make a diagonal.
""",
    "gan": """
- The same random numbers in the course of the training: images that stay the same have converged,
  images that become one another have collapsed.
- Real and generated images on one scale, and how often a classifier finds each digit among them.
- The generated images that are nearest to a training image, and the distances of all of them
  beside those of unseen real images. A generator that copies has them near 0.
""",
    "tabular_regression": """
- Predictions against labels, and what is left over: a trend or a funnel among the residuals is
  something that the model has not learned.
- How much the error grows if the values of one column are shuffled: what the model relies on.
- `samples.png` shows every column with its unit, its missing values and the two sexes.
""",
}

DEFAULT = next(iter(STARTERS))


def make(short: bool) -> Page:
    """Train every starter and the tutorial, and keep their pictures; wrong are those too large.

    The short form trains two epochs of the default starter, and keeps none.
    """
    parts, wrong = [HEAD, CURVES.format(curves=_link(DEFAULT, "curves"))], []
    for starter, text in list(STARTERS.items())[: 1 if short else None]:
        with tempfile.TemporaryDirectory() as scratch:
            directory = _train(starter, Path(scratch), ["--epochs", "2"] if short else [])
            for name in ("samples", "curves", "predictions"):
                data = _small(directory / f"{name}.png")
                if len(data) > LARGEST:
                    wrong.append(f"{starter}/{name}.png has {len(data):,} bytes")
                if not short and (name != "curves" or starter == DEFAULT):
                    FOLDER.mkdir(exist_ok=True)
                    (FOLDER / f"{starter}-{name}.png").write_bytes(data)
        title = starter.replace("_", " ").capitalize().replace("Gan", "GAN")
        parts.append(f"\n## {title}\n{text}\n{_link(starter, 'predictions')}\n")
        parts.append(f"\n{_link(starter, 'samples')}\n")
        print(starter, flush=True)
    if not short:
        with tempfile.TemporaryDirectory() as scratch:
            directory = _train("blank", Path(scratch), [])
            data = _small(directory / "predictions.png")
            wrong += [f"tutorial.png has {len(data):,} bytes"] * (len(data) > LARGEST)
            (FOLDER / "tutorial.png").write_bytes(data)
    return Page("".join(parts), wrong)


def _train(starter: str, scratch: Path, flags: list[str]) -> Path:
    """The run directory of a starter; the blank one is filled in as docs/tutorial.md says.

    Raises:
        subprocess.CalledProcessError: the run has failed.
    """
    context = {"starter": starter}
    project = cookiecutter(
        str(ROOT), no_input=True, output_dir=scratch, extra_context=context, default_config=True
    )
    if starter == "blank":
        (task,) = Path(project).glob("*/task")
        for patch in PATCHES:
            file = task / patch.file
            file.write_text(patch.apply(file.read_text()))
    command = [sys.executable, "train.py", *flags]
    subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    (directory,) = Path(project).glob("runs/*")
    return directory


def _small(file: Path) -> bytes:
    """A picture with 256 colors."""
    content = io.BytesIO()
    with Image.open(file) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(content, "PNG", optimize=True)
    return content.getvalue()


def _link(starter: str, name: str) -> str:
    return f"![{name}.png of {starter}](pictures/{starter}-{name}.png)"
