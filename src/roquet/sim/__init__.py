"""The simulated outside world: virtual time, a network and disks that misbehave, from one seed.

Production code runs here unchanged, on `SimLoop` and through the same ports as on a real machine.
`World(seed)` puts the pieces together; two runs with one seed do exactly the same and say so with
equal trace hashes.
"""
