"""Write-ahead files: every byte that passes the proxy is here before it is anywhere else.

Must not know: what the bytes mean, HTTP connections, the database.
"""
