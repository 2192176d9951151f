"""The walk from the blank starter to a classifier of one's own arrays."""
