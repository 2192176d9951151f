"""Tests of the engine itself, on models of a few weights.

Delete this directory if you leave `{{ cookiecutter.package_name }}/engine/` as it is.
"""
