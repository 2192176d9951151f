"""Refuse answers that can't give a working project, in one line that says how to fix them."""

import json
import re
import sys
import unicodedata
from pathlib import Path

# tojson escapes quotes and backslashes, so no answer can end this raw string early.
ANSWERS = json.loads(r"""{{ cookiecutter | tojson }}""")
# Of the texts before that: a config file with "\\ud83d\\ude00" gives halves of a character, which
# no file can hold, and which JSON has put together here.
LENGTHS = json.loads("""{
  "project_name": {{ cookiecutter.project_name | length }},
  "description": {{ cookiecutter.description | length }},
  "author_name": {{ cookiecutter.author_name | length }}
}""")

TEXTS = ("project_name", "description", "author_name")
# Cookiecutter looks at choices that are typed or given, but not at those of a replay file.
CHOICES = {
    "starter": "image_classification segmentation language_model gan tabular_regression blank",
    "license": "MIT BSD-3-Clause Apache-2.0 none",
    "cluster": "none slurm kubernetes all",
}
TAKEN = set(ANSWERS["_taken_names"].split())
# A project that bears the name of something it depends on can't be installed.
DEPENDENCIES = set(ANSWERS["_dependencies"].split())
MARKER = b"<!-- task -->"  # as in post_gen_project.py
OWN = ".own-files.json"  # read and deleted by post_gen_project.py
WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
LONGEST_SLUG = 64
LONGEST_PACKAGE = 30  # what every import of it has room for in a line of code
LONGEST_TEXT = 300


def problem_with_text(text):
    """What is wrong with a free text, or None."""
    if not text.strip():
        return "is empty; give it at least one word."
    if len(text) > LONGEST_TEXT:
        return f"has {len(text)} characters; use at most {LONGEST_TEXT}."
    # Control characters and separators of lines: neither TOML nor a Markdown heading survives them.
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text):
        return f"holds a line break or another control character: {text!a}; keep it on one line."
    return None


def problem_with_slug(slug):
    """What is wrong with the name of the directory and the distribution, or None."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", slug):
        return "may hold ASCII letters, digits and, between them, '-', '_', '.'; try my-experiment."
    if len(slug) > LONGEST_SLUG:
        return f"has {len(slug)} characters; use at most {LONGEST_SLUG}."
    if WINDOWS_DEVICE.fullmatch(slug):
        return f"is the name of a device on Windows; try {slug.split('.')[0]}-project."
    if re.sub(r"[-_.]+", "-", slug).lower() in DEPENDENCIES:  # names that pip takes for the same
        return f"is a library that the project depends on; try {slug}-project."
    return None


def problem_with_package(name):
    """What is wrong with the name of the Python package, or None."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        return "may hold a-z, 0-9 and '_', and begins with a letter; try my_experiment."
    if len(name) > LONGEST_PACKAGE:
        return f"has {len(name)} characters; use at most {LONGEST_PACKAGE}."
    if name in TAKEN:
        return f"means something to Python, a library or the project already; try {name}_project."
    return None


def first_problem():
    """The first answer that can't stand, as (which, what is wrong and how to fix it), or None."""
    for key in TEXTS:
        if LENGTHS[key] != len(ANSWERS[key]):
            return key, "holds halves of characters; write them as they are, not as \\uXXXX pairs."
        if problem := problem_with_text(ANSWERS[key]):
            return key, problem
    for key, choices in CHOICES.items():
        if ANSWERS[key] not in choices.split():
            return f"{key} {ANSWERS[key]!a}", f"is no choice; use one of {choices}."
    if not isinstance(ANSWERS["extras"], bool):
        return f"extras {ANSWERS['extras']!a}", "is no choice; use one of yes no."
    for key, problem_with in (
        ("project_slug", problem_with_slug),
        ("package_name", problem_with_package),
    ):
        if problem := problem_with(ANSWERS[key]):
            return f"{key} {ANSWERS[key]!a}", problem
    return None


def note_own_files():
    """Of a project that is rendered over: the owner's files where the template brings choices.

    A rendering without hooks, or one that was broken off, has left the template's own there.
    """
    readme = Path("README.md")
    if readme.exists() and MARKER in readme.read_bytes():  # until the other hook has put it right
        return
    folders = map(Path, ("starters", "licenses", "launchers", "extras"))
    own = [path.as_posix() for folder in folders for path in folder.rglob("*") if path.is_file()]
    if own:
        Path(OWN).write_text(json.dumps(own), encoding="utf-8")


if __name__ == "__main__":
    if found := first_problem():
        which, problem = found
        sys.exit(f"ERROR: {which} {problem}")
    note_own_files()
