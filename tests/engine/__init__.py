"""What the engine does beyond the default task, on models of a few weights."""
