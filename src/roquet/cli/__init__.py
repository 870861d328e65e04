"""The command line: starts the programs and (later) uses the client. The only place that prints."""
