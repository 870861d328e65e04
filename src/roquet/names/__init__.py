"""The name server: who serves which topic, and who is still alive."""
