"""What source and sink promise on any broker: a package, so that Apache's node ends with its last test."""
