"""Put what was chosen in place, remove the rest, and say what to type next.

Offline, and safe to run twice: whatever has been moved already is left alone.
"""

import contextlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

# tojson escapes quotes and backslashes, so no answer can end this raw string early.
ANSWERS = json.loads(r"""{{ cookiecutter | tojson }}""")
PACKAGE, STARTER, LICENSE = ANSWERS["package_name"], ANSWERS["starter"], ANSWERS["license"]
CLUSTER, EXTRAS = ANSWERS["cluster"], ANSWERS["extras"]

OWN = Path(".own-files.json")  # of a project that is rendered over, by pre_gen_project.py
OWN_FILES = set(json.loads(OWN.read_text(encoding="utf-8"))) if OWN.exists() else set()
OWN.unlink(missing_ok=True)
# What the template brings for the owner to choose from. A project that is rendered over may have
# folders and files of these names of its own.
STARTERS = "image_classification segmentation language_model gan tabular_regression blank"
LICENSES = "MIT BSD-3-Clause Apache-2.0"
LAUNCHERS = "slurm kubernetes"
IMAGE = "Dockerfile .dockerignore"  # needed by cluster/jobset.yaml too
FOR_A_TEAM = f"{IMAGE} .github .pre-commit-config.yaml .devcontainer .editorconfig CITATION.cff"
MARKER = "<!-- task -->\n"  # where the starter's README goes in the project's


def is_own(path):
    """Whether it was there before, so it is the owner's, even where a flag has kept it."""
    return path.relative_to(Path.cwd()).as_posix() in OWN_FILES


def select_starter(project):
    """Move the chosen starter's task into the package, its page into the README; drop the rest."""
    (project / PACKAGE / "task.py").unlink(missing_ok=True)  # says what is wrong without hooks
    starter = project / "starters" / STARTER
    if not starter.is_dir():
        return  # done before
    task = project / PACKAGE / "task"
    if task.exists():
        print(
            f"Kept the {task.relative_to(project)}/ that was there: it is yours. "
            f"README.md has the page of the starter {STARTER}."
        )
    else:
        shutil.move(starter / "task", task)
        for path in starter.glob("*.py"):  # what a starter needs at the project's top
            path.replace(project / path.name)
    readme = project / "README.md"
    page = readme.read_text(encoding="utf-8")
    section = (starter / "README.md").read_text(encoding="utf-8")
    readme.write_bytes(page.replace(MARKER, section).encode())
    drop(project / "starters", STARTERS)


def select_license(project):
    """Move licenses/<chosen> to LICENSE, then drop licenses/."""
    licenses, file = project / "licenses", project / "LICENSE"
    chosen = licenses / LICENSE
    if chosen.exists() and not is_own(chosen):  # not if done before, or for "none"
        if file.exists() and file.read_bytes() != chosen.read_bytes():
            print("Kept the LICENSE that was there: it is yours.")
        else:
            chosen.replace(file)
    drop(licenses, LICENSES)


def select_launchers(project):
    """Move the files of the chosen launchers to cluster/, then drop launchers/."""
    launchers = project / "launchers"
    if not launchers.is_dir():
        return  # done before
    cluster = project / "cluster"
    if cluster.exists():
        print("Kept the cluster/ that was there: it is yours.")
    else:
        for launcher in LAUNCHERS.split():
            if CLUSTER in (launcher, "all"):
                cluster.mkdir(exist_ok=True)
                for path in list((launchers / launcher).iterdir()):
                    if not is_own(path):
                        path.replace(cluster / path.name)
    drop(launchers, LAUNCHERS)


def select_extras(project):
    """Move the files for a team to the project's top, or those that Kubernetes needs, or none."""
    extras = project / "extras"
    wanted = FOR_A_TEAM if EXTRAS else IMAGE if CLUSTER in ("kubernetes", "all") else ""
    for source in sorted(extras.rglob("*")):  # nothing if done before
        name = source.relative_to(extras)
        target = project / name
        if source.is_dir() or name.parts[0] not in wanted.split() or is_own(source):
            continue
        if target.exists() and target.read_bytes() != source.read_bytes():
            print(f"Kept the {name.as_posix()} that was there: it is yours.")
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
    drop(extras, FOR_A_TEAM)


def drop(folder, names):
    """Delete what the template put into a folder, and the folder if nothing else is in it."""
    brought = [folder / name for name in names.split()]
    inside = [path for top in brought for path in sorted(top.rglob("*"), reverse=True)]
    for path in [*inside, *brought, folder]:  # a folder after what is in it
        if path.is_dir():
            with contextlib.suppress(OSError):  # not empty
                path.rmdir()
        elif not is_own(path):
            path.unlink(missing_ok=True)


def remove_caches(project):
    """Drop the __pycache__ that a template directory in use brings along."""
    for folder in (PACKAGE, "tests"):
        for cache in list((project / folder).rglob("__pycache__")):
            shutil.rmtree(cache)


def count_todos(project):
    """How many places of the task are marked as the owner's to fill in."""
    sources = [
        path.read_text(encoding="utf-8") for path in (project / PACKAGE / "task").rglob("*.py")
    ]
    return len(re.findall(r"# TODO\(\d+\): ", "\n".join(sources)))


def is_update(project):
    """Whether cruft renders for an update (or a diff), in a new folder among temporary files.

    Cruft 2.16 alone tells hooks a `_commit`, and its `create` renders where the project is to be.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    folder = project.parent
    is_temporary = folder.parent == temporary and folder.name.startswith(tempfile.gettempprefix())
    return "_commit" in ANSWERS and is_temporary


if __name__ == "__main__":
    project = Path.cwd()
    select_starter(project)
    select_license(project)
    select_launchers(project)
    select_extras(project)
    remove_caches(project)
    if is_update(project):
        sys.exit()
    # If the terminal can't show the path, the hook must not fail: all would be taken back.
    sys.stdout.reconfigure(errors="replace")
    print(f"""
Your project is ready. Next:

    cd "{project}"
    python3 -m venv .venv && source .venv/bin/activate
    python -m pip install -e ".[dev]"
    python train.py

Then make it yours: {count_todos(project)} numbered TODOs in {PACKAGE}/task/.""")
