"""The real outside world: clock, sockets, files, event loop, settings and logs.

Programs build their four ports here once (`real.real_ports`), in their composition root, and hand them
down. Nothing in this package knows what a message is. The simulated counterparts live in `roquet.sim`.
"""
