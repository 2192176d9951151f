"""The task: every TODO of the project is in here."""
