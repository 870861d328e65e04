"""The programs that tests and benchmarks talk to: Apache's servers, tools and clients, and Roquet itself.

Everything here runs as a real process on loopback. Nothing is skipped quietly: what is missing raises
`MissingTool` with the remedy. Place in the flow: outside; these modules know no part of `roquet` but its
command line.
"""
