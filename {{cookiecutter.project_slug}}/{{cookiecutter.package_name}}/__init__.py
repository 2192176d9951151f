"""{{ cookiecutter.project_name | replace('\\', ' ') | replace('"', "'") }}: the package behind train.py."""
