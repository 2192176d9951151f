"""The one sentence that matters of what Keras, TensorFlow and autograph raise."""

from __future__ import annotations

import re
import sys
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine import causes
from proof.engine.causes import LONGEST, TASK, cause_of, missing_name
from proof.engine.check import check
from proof.engine.errors import UsageError, usage_errors
from proof.engine.relations import select
from proof.task.config import TaskConfig

from .toys import FEATURES, Toy, laboratory

pytestmark = [
    pytest.mark.quick,
    # Keras' own, with numpy 2 (Keras 3.15).
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
PLACE = "proof/task/steps.py"
X = tf.ones((4, FEATURES))


def task_function(body: str, **names: Any) -> Callable[..., Any]:
    """A function of x whose line 2 is `body`, in the owner's task/steps.py."""
    defined = {"tf": tf, "np": np, "keras": keras, **names}
    code = f"def f(x, *others):\n    {body}\n"
    exec(compile(code, str(TASK / "steps.py"), "exec", dont_inherit=True), defined)
    return defined["f"]  # type: ignore[no-any-return]


def in_layer(body: str) -> Callable[[], Any]:
    function = task_function(body)

    class Sampling(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return function(x)

    return lambda: Sampling()(X)


def in_graph(body: str) -> Callable[[], Any]:
    layer = in_layer(body)
    return lambda: tf.function(layer, autograph=False)()


def in_map(body: str) -> Callable[[], Any]:
    function = task_function(body)
    return lambda: list(tf.data.Dataset.range(3).map(function))


def in_step(body: str) -> Callable[[], Any]:
    """While the graph of a step runs, in a loop over the steps."""
    data = tf.data.Dataset.from_tensors(tf.constant("7,x")).map(task_function(body)).repeat()

    @tf.function(autograph=False)
    def steps(iterator: Any, number: tf.Tensor) -> Any:
        def step(i: tf.Tensor) -> tf.Tensor:
            return i + tf.size(next(iterator), tf.int32)

        return tf.while_loop(lambda i: i < number, step, [0])

    return lambda: steps(iter(data), tf.constant(9))


def chained() -> None:
    try:
        task_function("{}['mean']")(X)
    except KeyError as error:
        raise RuntimeError from error


def generator() -> None:
    function = task_function("raise ValueError('row 7 has no label')")
    signature = tf.TensorSpec((), tf.float32)

    def rows() -> Any:
        yield 1.0
        function(X)

    list(tf.data.Dataset.from_generator(rows, output_signature=signature))


def wrong_shape() -> None:
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="logits")])(X)


SENTENCES: dict[str, tuple[Callable[[], Any], str]] = {
    "layer": (in_layer("return x.nothing"), f"{PLACE}:2: .* object has no attribute 'nothing'"),
    "KeyError in a layer": (in_layer("return {}['mean']"), f"{PLACE}:2: KeyError: mean"),
    "KeyError": (lambda: task_function("{}['mean']")(X), f"{PLACE}:2: KeyError: 'mean'"),
    "KeyError as the cause": (chained, f"{PLACE}:2: KeyError: 'mean'"),
    "no text": (lambda: task_function("assert x is None")(X), f"{PLACE}:2: AssertionError"),
    "eager operation": (
        in_layer("return tf.matmul(x, tf.ones((7, 3), x.dtype))"),
        rf"{PLACE}:2: Matrix size-incompatible: In\[0\]: \[4,5\], In\[1\]: \[7,3\]",
    ),
    "operation of a graph": (
        in_graph("return tf.matmul(x, tf.ones((7, 3), x.dtype))"),
        rf"{PLACE}:2: Dimensions must be equal, but are 5 and 7 for MatMul with input shapes: "
        r"\[4,5\], \[7,3\]",
    ),
    "graph execution": (
        in_step("return tf.io.decode_csv(x, [0.0, 0.0])"),
        "Field 1 in record 0 is not a valid float: x",
    ),
    "data": (
        in_map("return tf.io.decode_png(tf.io.read_file('none.png'))"),
        "none.png; No such file or directory",
    ),
    "generator": (generator, f"{PLACE}:2: ValueError: row 7 has no label"),
    "layer of Keras": (
        wrong_shape,
        "Input 0 with name 'None' of layer 'logits' is incompatible with the layer: expected axis "
        r"-1 of input shape to have value 3, but received input with shape \(4, 5\)",
    ),
    "file": (
        lambda: task_function("open('none.csv')")(X),
        f"{PLACE}:2: none.csv: No such file or directory",
    ),
    "several": (
        lambda: task_function("raise ValueError(others[0])")(
            X,
            "2 root error(s) found.\n  (0) INVALID_ARGUMENT: Not a float: x\n\t [[{{node A}}]]\n\t "
            "[[B/_1]]\n  (1) INVALID_ARGUMENT: Not a float: y\n\t [[{{node A}}]]\n0 successful "
            "operations.\n0 derived errors ignored. [Op:__inference_steps_1]",
        ),
        f"{PLACE}:2: Not a float: x",
    ),
    "defined at": (
        lambda: task_function("raise ValueError(others[0])")(
            X,
            "Graph execution error:\n\nDetected at node a/B defined at (most recent call last):\n"
            f'  File "train.py", line 9, in <module>\n\n  File "{TASK / "losses.py"}", '
            "line 31, in f\n\nlogits and labels differ\n\t [[{{node a/B}}]] [Op:__inference_f_1]",
        ),
        "proof/task/losses.py:31: logits and labels differ",
    ),
}


@pytest.mark.parametrize(("fails", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_cause_of_an_error(fails: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(Exception) as found:  # noqa: PT011
        fails()
    assert re.fullmatch(sentence, cause_of(found.value)), cause_of(found.value)


def test_autograph_shows_the_line_of_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_such_attribute(x: tf.Tensor) -> tf.Tensor:
        return x.nothing  # type: ignore[attr-defined]

    monkeypatch.setattr(causes, "PROJECT", Path(__file__).parent)
    monkeypatch.setattr(causes, "TASK", Path(__file__).parent)
    with pytest.raises(AttributeError) as found:
        tf.data.Dataset.range(3).map(has_no_such_attribute)
    line = has_no_such_attribute.__code__.co_firstlineno + 1
    assert str(found.value).startswith("in user code:")
    assert cause_of(found.value) == (
        f"{Path(__file__).name}:{line}: AttributeError: "
        "'SymbolicTensor' object has no attribute 'nothing'"
    )


def test_a_long_text_is_cut() -> None:
    assert cause_of(ValueError("a " * LONGEST)) == ("a " * LONGEST)[: LONGEST - 1] + "..."


@pytest.mark.parametrize(
    "body",
    [
        "others[0].nothing",
        *(
            pytest.param(body, marks=pytest.mark.full)
            for body in ("raise ValueError('no')", "return {}[1]")
        ),
    ],
)
def test_check_names_the_line_of_a_step_that_fails(body: str) -> None:
    step = task_function(body)
    toy = Toy(train_steps=(lambda run, batch, replica: step(run, batch, replica),))
    found = [f for f in check(laboratory(toy), select()) if f[1].verdict == "WRONG"]
    ((claim, finding),) = found  # once, and not by every relation
    assert claim == "a train step runs"
    assert f"{PLACE}:2: " in finding.seen


def fail_on_a_file(body: str) -> None:
    with usage_errors():
        task_function(body)(X)


def damaged(directory: Path) -> dict[str, str]:
    """Lines of `create_datasets` on files that are damaged or not there, and what is said."""
    (directory / "rows.csv").write_text("1,2\n3,x\n")
    (directory / "broken.npz").write_bytes(b"PK\x03\x04nothing")
    (directory / "latin.txt").write_bytes(b"\xe9t\xe9")
    (directory / "cut.json").write_text("[1, 2")
    return {
        "open('none.csv')": "none.csv: No such file or directory",
        "np.loadtxt('none.csv')": "none.csv not found",
        "np.loadtxt('rows.csv', delimiter=',')": "could not convert string 'x' to float64 at row 1",
        "np.load('broken.npz')": "File is not a zip file",
        "open('latin.txt', encoding='utf-8').read()": "'utf-8' codec can't decode byte 0xe9",
        "__import__('json').load(open('cut.json'))": "Expecting ',' delimiter: line 1 column 6",
        "tf.io.read_file('none.png')": "none.png; No such file or directory",
        "tf.data.Dataset.list_files('none-*')": "No files matched pattern: none-*",
        "next(iter(tf.data.TextLineDataset('none.txt')))": "none.txt; No such file or directory",
    }


def of_keras(directory: Path) -> dict[str, str]:
    """The same on files of Keras and of pictures."""
    (directory / "broken.keras").write_bytes(b"nothing")
    (directory / "broken.png").write_bytes(b"nothing")
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save_weights("two.weights.h5")
    model = "keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name='dense_1')])"
    return {
        "keras.models.load_model('none.keras')": "File not found: filepath=none.keras",
        "keras.models.load_model('broken.keras')": "File not found: filepath=broken.keras",
        f"{model}.load_weights('none.weights.h5')": "Unable to synchronously open file",
        f"{model}.load_weights('two.weights.h5')": (
            "A total of 1 objects could not be loaded. Example error message for object <Dense "
            "name=dense_1, built=True>: The shape of the target variable and the shape of the "
            "target value in `variable.assign(value)` must match. variable.shape=(3, 4), Received: "
            "value.shape=(3, 2)."
        ),
        "tf.io.decode_png(tf.io.read_file('broken.png'))": "Unknown image file format",
        "keras.utils.get_file('x', 'http://127.0.0.1:9/x')": "URL fetch failure on http",
    }


@pytest.mark.parametrize("files", [damaged, of_keras])
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_file_that_the_task_cannot_read_is_one_sentence(
    files: Callable[[Path], dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for body, sentence in files(tmp_path).items():
        with pytest.raises(SystemExit) as end:
            fail_on_a_file(body)
        assert end.value.code == 2
        message = capsys.readouterr().err
        assert message.startswith(f"error: {PLACE}:2: {sentence}"), message
        assert message.count("\n") == 1


@pytest.mark.parametrize(
    "body",
    [
        "float(x)",
        "int(x)",
        "range(x)",
        "x.numpy()",
        "x.tolist()",
        "np.array(x)",
        "np.mean(x)",
        "len(x)",
        "f'{x:.3f}'",
        "'%.3f' % x",
        "[1, 2][x]",
    ],
)
def test_a_value_that_a_tensor_has_not_yet(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    function = task_function(body)
    with pytest.raises(SystemExit) as end, usage_errors():
        tf.function(function, autograph=False)(tf.TensorSpec(None, tf.float32))
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert re.fullmatch(rf"error: {PLACE}:2: .*; steps, layers and .* tf.print\.\n", message)


def test_a_module_that_an_installed_package_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModuleNotFoundError):
        fail_on_a_file("import numpy.nothing")
    assert "add the package" not in capsys.readouterr().err


def test_a_package_that_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        fail_on_a_file("import nothing.at_all")
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        f"error: {PLACE}:2: No module named 'nothing'; if the name is right, add the package to "
        "dependencies in pyproject.toml, then python -m pip install -e .\n"
    )


@pytest.mark.parametrize(
    "body", ["x.nothing", "np.zeros(2)[3]", "float('x')", "np.delete(x, 1, 9)"]
)
def test_a_mistake_in_the_task_keeps_its_traceback(body: str) -> None:
    with pytest.raises((AttributeError, IndexError, ValueError)) as raised:
        fail_on_a_file(body)
    if sys.version_info >= (3, 11):  # the last line, below what Keras and TensorFlow add
        assert traceback.format_exception(raised.value)[-1].startswith(f"in {PLACE}:2, as called")


@pytest.mark.quick
@pytest.mark.parametrize("error", [UsageError("no"), SystemExit(138)])
def test_an_error_does_not_keep_what_reads_ahead(error: BaseException) -> None:
    class Iterator:
        """Of a pipeline."""

    left: list[weakref.ref[Iterator]] = []

    def read() -> None:
        iterator = Iterator()
        left.append(weakref.ref(iterator))
        raise error

    with pytest.raises(SystemExit), usage_errors():
        read()
    assert left[0]() is None


def test_names_that_the_task_lacks_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("proof.task.steps.TERMS")
    monkeypatch.delattr("proof.task.model.adapt")
    monkeypatch.delattr("proof.task.predictions.READERS")
    with pytest.raises(ImportError) as raised:
        exec("from proof.task.steps import TERMS")
    said = missing_name(raised.value)
    assert "proof/task/model.py must define adapt; proof/task/steps.py must define TERMS; " in said
    assert "proof/task/predictions.py must define READERS; " in said


def draw_samples(datasets: Any, file: Any) -> None:
    """As it was once."""


def test_arguments_that_a_function_of_the_task_lacks_are_named() -> None:
    with pytest.raises(TypeError) as raised:
        draw_samples(1, 2, 3)  # type: ignore[call-arg]
    assert missing_name(raised.value).startswith(
        "proof/task/pictures.py: draw_samples() takes 2 positional arguments but 3 were given; it "
    )
    assert "it is called as draw_samples(1, 2, 3); " in missing_name(raised.value)
    with pytest.raises(TypeError) as raised:
        len()  # type: ignore[call-arg]
    assert not missing_name(raised.value)


def test_a_field_that_the_engine_reads_and_the_task_lacks_is_named() -> None:
    with pytest.raises(AttributeError) as raised:
        TaskConfig().newer  # type: ignore[attr-defined]  # noqa: B018
    said = missing_name(raised.value)
    assert said.startswith("proof/task/config.py: TaskConfig must have the field newer; ")


def test_a_name_of_the_engine_that_the_task_looks_for_in_vain_is_named() -> None:
    with pytest.raises(ImportError) as raised:
        exec(compile("\nfrom proof.engine.types import Older", str(TASK / "steps.py"), "exec"))
    assert missing_name(raised.value).startswith(
        "proof/task/steps.py:2: cannot import name 'Older' from 'proof.engine.types'"
    )


@pytest.mark.parametrize(
    "code",
    ["import proof.nothing_else", "import nothing", "from proof.task.steps import nothing"],
)
def test_other_imports_keep_their_traceback(code: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(code)
    assert not missing_name(raised.value)


def test_a_mistake_of_the_task_with_its_own_flags_keeps_its_traceback() -> None:
    with pytest.raises(AttributeError) as raised:
        exec(compile("flags.newer", str(TASK / "steps.py"), "exec"), {"flags": TaskConfig()})
    assert not missing_name(raised.value)
