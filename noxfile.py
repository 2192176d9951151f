"""The commands of this repository; CONTRIBUTING.md says when to run which."""

import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
DEFAULT_SLUG = "my-experiment"
GROUPS = nox.project.load_toml("pyproject.toml")

PROVED = ("parity", "reliability", "starters")  # by `full`
SAMPLED = ("mutations", "false_alarms", "unusual_tasks")  # these take an hour and a half

nox.options.sessions = ["test"]
nox.options.reuse_venv = (
    "yes"  # TensorFlow is half a gigabyte: install it once per session, not once per run
)


def render(session: nox.Session, directory: str) -> Path:
    """Render the default project into build/<directory>, which is emptied first."""
    output = BUILD / directory
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    session.run("cookiecutter", str(ROOT), "--no-input", "--output-dir", str(output), silent=True)
    return output / DEFAULT_SLUG


def install(session: nox.Session, group: str) -> None:
    """Install one group of pyproject.toml's dependencies."""
    session.install(*nox.project.dependency_groups(GROUPS, group))


def install_all(session: nox.Session) -> None:
    """Install what the template's tests need, and what a rendered project needs."""
    install(session, "test")
    project = render(session, session.name)
    session.install(f"{project}[dev]")
    # Only its dependencies are wanted: the tests run each rendered project from its own directory.
    session.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", DEFAULT_SLUG)


def lint(session: nox.Session) -> None:
    """Look for mistakes in code, format and spelling."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")


def prove(session: nox.Session, *names: str) -> None:
    """Make pages of docs/, all of them unless some are named."""
    with session.chdir("tests"):
        session.run("python", "-m", "proofs", *names)


@nox.session
def test(session: nox.Session) -> None:
    """Run what must pass on every change; of each proof a sample."""
    install_all(session)
    lint(session)
    session.run("pytest", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Run every test, and make proofs instead of their samples, but for the longest."""
    install_all(session)
    lint(session)
    session.run("pytest", "-m", "not short", *session.posargs)
    prove(session, *PROVED)
    prove(session, "--short", *SAMPLED)


@nox.session
def render_only(session: nox.Session) -> None:
    """Test what can be tested without TensorFlow: the answers, the hooks, the files."""
    install(session, "test")
    session.run("pytest", "-m", "not full and not environment", *session.posargs)


@nox.session
def proofs(session: nox.Session) -> None:
    """Make pages of docs/: all, or those named, such as `nox -s proofs -- parity starters`."""
    install_all(session)
    prove(session, *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """Try the oldest and the newest dependencies on every Python; or some, `-- 3.10-lowest`."""
    install(session, "matrix")
    with session.chdir("tests"):
        session.run("python", "-m", "proofs.versions", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Compare loop and pipelines with others, see what grows, and fit the model of scaling.md."""
    install_all(session)
    install(session, "benchmarks")
    session.run("python", "benchmarks/peers.py")
    session.run("python", "benchmarks/growth.py")
    session.run("python", "benchmarks/data.py")
    session.run("python", "benchmarks/scaling.py")
    session.run("python", "benchmarks/parameter_servers.py")


@nox.session
def demo(session: nox.Session) -> None:
    """Render the default project, train it, and list its pictures."""
    install(session, "demo")
    project = render(session, "demo")
    session.install("--editable", str(project))
    session.chdir(project)
    session.run("python", "train.py", *session.posargs)
    pictures = sorted((project / "runs").rglob("*.png"))
    session.log("The pictures:\n" + "\n".join(f"    {picture}" for picture in pictures))
