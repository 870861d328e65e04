"""Other people's clients and tools, driven against a running cluster."""
