"""One client's view of a cluster: name servers, routes, connections, heartbeats, callbacks."""
