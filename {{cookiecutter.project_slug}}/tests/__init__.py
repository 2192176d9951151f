"""Tests of your task. `engine/` in here tests the engine, and may go if you leave that alone."""
