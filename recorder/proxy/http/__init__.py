"""HTTP/1.1 over sockets, server and client.

Must not know: recordings. Of this program it imports only errors.
"""
