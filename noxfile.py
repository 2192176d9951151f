"""What `make demo` and `make test` do, and the longer sessions."""

import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
DEFAULT_SLUG = "my-experiment"
GROUPS = nox.project.load_toml("pyproject.toml")

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


def run_tests(session: nox.Session, *arguments: str) -> None:
    """Run the template's tests in an environment that also holds what a rendered project needs."""
    install_all(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("pytest", *arguments, *session.posargs)


@nox.session
def test(session: nox.Session) -> None:
    """Test the template and the projects it renders."""
    run_tests(session)


@nox.session
def full(session: nox.Session) -> None:
    """Run every test, the long ones included."""
    run_tests(session, "-m", "full or not full")


@nox.session
def render_only(session: nox.Session) -> None:
    """Test what can be tested without TensorFlow: the answers, the hooks, the files."""
    install(session, "test")
    session.run("pytest", "-m", "not full and not environment", *session.posargs)


@nox.session
def mutations(session: nox.Session) -> None:
    """Plant every known fault in a rendered project and write docs/mutations.md."""
    install_all(session)
    session.chdir("tests")
    session.run("python", "-m", "mutations.table")


@nox.session
def parity(session: nox.Session) -> None:
    """Measure how far N replicas are from one, and write docs/parity.md."""
    install_all(session)
    session.chdir("tests")
    session.run("python", "-m", "engine.parity")


@nox.session
def faults(session: nox.Session) -> None:
    """Kill runs, fill their disks, feed them bad data, and write docs/reliability.md."""
    install_all(session)
    session.run("python", "tests/faults", "docs/reliability.md")


@nox.session
def starters(session: nox.Session) -> None:
    """Train every starter, compare four replicas with one, and write docs/starters.md."""
    install_all(session)
    session.chdir("tests")
    session.run("python", "-m", "starters.table")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Set the loop beside its peers, see what grows, and write the tables in benchmarks/."""
    install_all(session)
    session.run("python", "benchmarks/peers.py")
    session.run("python", "benchmarks/growth.py")


@nox.session
def demo(session: nox.Session) -> None:
    """Render the default project, train it, and say where the pictures are."""
    install(session, "demo")
    project = render(session, "demo")
    session.install("--editable", str(project))
    session.chdir(project)
    session.run("python", "train.py", *session.posargs)
    pictures = sorted((project / "runs").rglob("*.png"))
    session.log("The pictures:\n" + "\n".join(f"    {picture}" for picture in pictures))
