"""Roquet beside Apache RocketMQ 5.5.0 on the machine at hand: `python -m bench`.

    __main__ ─▶ rounds ─▶ servers · clients · kinds · probe · process_info · oldstore      what is measured
        ├────▶ results ─▶ figures ─▶ table                                                 what it says
        ├────▶ sdk      clients beside each other ─┬▶ site (a broker with messages)
        └────▶ spark    topics in and out of Spark ┴▶ results.Tally ─▶ lines

Both brokers read the same broker.conf, take the same load from Apache's own programs, and are measured from
outside: by those programs' reports, by a plain socket and by /proc. `bench.micro` measures our own code
without sockets. docs/BENCHMARKS.md explains the method.
"""
