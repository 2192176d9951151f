"""Put what was chosen in place, remove the rest, and say what to type next.

Offline, and safe to run twice: whatever has been moved already is left alone.
"""

import json
import re
import shutil
import sys
from pathlib import Path

# tojson escapes quotes and backslashes, so no answer can end this raw string early.
ANSWERS = json.loads(r"""{{ cookiecutter | tojson }}""")
PACKAGE, STARTER, LICENSE = ANSWERS["package_name"], ANSWERS["starter"], ANSWERS["license"]
CLUSTER = ANSWERS["cluster"]

MARKER = "<!-- task -->\n"  # where the starter's README goes in the project's


def select_starter(project):
    """Move the chosen starter's task into the package, its page into the README; drop the rest."""
    starter = project / "starters" / STARTER
    if not starter.is_dir():
        return  # done before
    task = project / PACKAGE / "task"
    if task.exists():
        print(f"Kept the {task.relative_to(project)}/ that was there: it is yours.")
    else:
        shutil.move(starter / "task", task)
        for path in starter.glob("*.py"):  # what a starter needs at the project's top
            path.replace(project / path.name)
    readme = project / "README.md"
    page = readme.read_text(encoding="utf-8")
    section = (starter / "README.md").read_text(encoding="utf-8")
    readme.write_bytes(page.replace(MARKER, section).encode())
    shutil.rmtree(project / "starters")


def select_license(project):
    """Move licenses/<chosen> to LICENSE, then drop licenses/."""
    licenses = project / "licenses"
    if not licenses.is_dir():
        return  # done before
    if (licenses / LICENSE).exists():  # there is no file for "none"
        (licenses / LICENSE).replace(project / "LICENSE")
    shutil.rmtree(licenses)


def select_launchers(project):
    """Move the files of the chosen launchers to cluster/, then drop launchers/."""
    launchers = project / "launchers"
    if not launchers.is_dir():
        return  # done before
    cluster = project / "cluster"
    if cluster.exists():
        print("Kept the cluster/ that was there: it is yours.")
    else:
        for launcher in launchers.iterdir():
            if CLUSTER in (launcher.name, "all"):
                cluster.mkdir(exist_ok=True)
                for path in launcher.iterdir():
                    path.replace(cluster / path.name)
    shutil.rmtree(launchers)


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


if __name__ == "__main__":
    project = Path.cwd()
    select_starter(project)
    select_license(project)
    select_launchers(project)
    remove_caches(project)
    # If the terminal can't show the path, the hook must not fail: all would be taken back.
    sys.stdout.reconfigure(errors="replace")
    print(f"""
Your project is ready. Next:

    cd "{project}"
    python -m pip install -e ".[dev]"
    python train.py

Then make it yours: {count_todos(project)} numbered TODOs in {PACKAGE}/task/.""")
