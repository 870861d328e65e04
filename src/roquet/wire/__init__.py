"""Bytes ⇄ values: frames, headers, the table of requests and their bodies. Pure: no I/O, no clock."""
