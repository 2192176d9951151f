"""The commands of this repository; CONTRIBUTING.md says when to run which."""

import os
import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
DEFAULT_SLUG = "my-experiment"
GROUPS = nox.project.load_toml("pyproject.toml")

TESTED = ROOT / "{{cookiecutter.project_slug}}" / "constraints.txt"

PROVED = ("parity", "starters")  # by `full`; the others take hours
LAUNCHERS = ("slurm-wlm", "munge", "openmpi-bin")  # Debian's packages, 25 MB
BROWSER = ("chromium", "chromedriver")

PARALLEL = ("--numprocesses", "auto", "--dist", "worksteal")  # of pytest-xdist

nox.needs_version = ">=2024.10.9"  # the first with dependency_groups
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


def install(session: nox.Session, group: str, *options: str) -> None:
    """Install one group of pyproject.toml's dependencies."""
    session.install(*nox.project.dependency_groups(GROUPS, group), *options)


def install_all(session: nox.Session, *options: str) -> None:
    """Install what the template's tests need, and what a rendered project needs."""
    install(session, "test", *options)
    project = render(session, session.name)
    session.install(f"{project}[dev]", *options)
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


def apt_install(session: nox.Session, programs: tuple[str, ...], packages: tuple[str, ...]) -> None:
    """Install Debian's packages unless their programs are there; skip where that can't be done."""
    if all(map(shutil.which, programs)):
        return
    if not (shutil.which("apt-get") and os.geteuid() == 0):
        session.skip(f"it needs Debian's {', '.join(packages)}, and root to install them")
    apt_get = ("apt-get", "--quiet", "--yes", "--no-install-recommends")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    session.run(*apt_get, "update", external=True)
    session.run(*apt_get, "install", *packages, external=True, env=quiet)


@nox.session
def test(session: nox.Session) -> None:
    """Run what must pass on every change, with the tested versions; of each proof a sample."""
    install_all(session, "--constraint", str(TESTED))
    lint(session)
    session.run("pytest", *PARALLEL, *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Run what `test` leaves out, with the newest versions, and make some pages of docs/ whole."""
    install_all(session)
    install(session, "full")
    lint(session)
    session.run("pytest", *PARALLEL, "-m", "full", *session.posargs)
    prove(session, *PROVED)


@nox.session
def render_only(session: nox.Session) -> None:
    """Test what can be tested without TensorFlow: the answers, the hooks, the files."""
    install(session, "test")
    session.run("pytest", *PARALLEL, "-m", "not full and not environment", *session.posargs)


@nox.session
def proofs(session: nox.Session) -> None:
    """Make pages of docs/: those named, as by `nox -s proofs -- parity`, or all of `NAMES`."""
    install_all(session)
    prove(session, *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Make docs/cluster.md: what happens to two workers under a real Slurm and under mpirun.

    Slurm's daemons are its own, on 127.0.0.1 only, and end with it.
    """
    apt_install(session, ("slurmctld", "mpirun"), LAUNCHERS)
    if os.geteuid() != 0:
        session.skip("Slurm's daemons must be started as root")
    install_all(session)
    prove(session, "cluster")


@nox.session
def screenshots(session: nox.Session) -> None:
    """Make docs/screenshots.md: the terminal, TensorBoard and the page of a run."""
    apt_install(session, BROWSER, ("chromium", "chromium-driver", "fonts-dejavu-core"))
    install_all(session)
    install(session, "full")  # with selenium
    prove(session, "screenshots")


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
    session.run("python", "benchmarks/peers.py")
    session.run("python", "benchmarks/growth.py")
    session.run("python", "benchmarks/data.py")
    session.run("python", "benchmarks/scaling.py")
    session.run("python", "benchmarks/parameter_servers.py")


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation site in build/site/."""
    install(session, "site")
    session.run("sphinx-build", "-W", "-b", "html", "-c", "docs", ".", str(BUILD / "site"))
    session.log(f"{BUILD / 'site' / 'index.html'}")


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


@nox.session
def constraints(session: nox.Session) -> None:
    """Write the newest versions to the rendered constraints.txt, which `test` installs."""
    session.install("cookiecutter", "uv")
    project = render(session, session.name)
    with session.chdir(project):
        session.run(
            *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.10"),
            *("--upgrade", "--extra", "dev", "--no-annotate", "--no-header"),
            *("pyproject.toml", "--output-file", "constraints.txt"),
        )
    comment = [line for line in TESTED.read_text().splitlines(True) if line.startswith("#")]
    TESTED.write_text("".join(comment) + (project / "constraints.txt").read_text())
