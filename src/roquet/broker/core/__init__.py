"""The broker's logic without I/O: tables of topics, groups, offsets and clients, parked pulls, counters."""
