"""Clients beside each other, on the same brokers: `python -m bench --only sdk`.

    rounds ─▶ one child for each client and work ─▶ a line of JSON         numbers by round
        children: ours (async, sync) · pypi (through `proxy`) · Apache's benchmark programs (bench.clients)
    page   ─▶ a table with a column for each client, and the goals

The broker has one topic of eight queues; every child sends or receives messages of 128 bytes for some
seconds, of which the first do not count, and tells its own CPU time.
"""
