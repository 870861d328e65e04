"""asyncio around `wire.connection`: links, the server that accepts them, the dialer that opens them."""
