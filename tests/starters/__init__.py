"""What each starter reaches, and that all of them are right on four replicas and after a kill."""
