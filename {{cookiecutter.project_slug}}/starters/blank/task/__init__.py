"""Your task: every TODO of the project is in this package."""
