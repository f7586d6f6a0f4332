"""Who may not get in, and what may not get out: attacks on real sockets and real files."""
