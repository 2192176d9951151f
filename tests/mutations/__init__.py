"""Known faults, planted in a rendered project: each must be caught, and named."""
