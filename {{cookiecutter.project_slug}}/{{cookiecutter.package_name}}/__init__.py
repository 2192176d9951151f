"""The package behind train.py."""
