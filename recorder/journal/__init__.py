"""Write-ahead files: `writer` puts every byte that passes the proxy on disk, before it is forwarded and before it is in
the database.

Must not know: what the bytes mean, HTTP connections, the database.
"""
