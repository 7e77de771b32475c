"""The interface for agents outside: real clients, over standard input and output, over HTTP, and on a real kernel."""
