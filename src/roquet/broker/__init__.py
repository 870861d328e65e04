"""The broker: stores messages, hands them out, and says so to the name servers."""
