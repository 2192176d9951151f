"""The walk from the blank starter to a classifier of your own arrays."""
