"""What the broker answers, one file a domain; each takes exactly what it uses and files its routes."""
