"""Layouts of the store's files, byte for byte as Apache 5.5.0 writes them; pure."""
