"""What your task may not happen to show of steps and evaluation, on a model of a few weights."""
