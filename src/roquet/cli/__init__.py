"""The command line: starts the programs and uses the client. The only place that prints."""
