"""Write-ahead files: `writer` puts every byte that passes the proxy on disk, before it goes on and before the database.

Must not know: what the bytes mean, HTTP connections, the database.
"""
