"""What the client promises, against each of three servers: a package, so that they end with its last test."""
