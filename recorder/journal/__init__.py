"""Write-ahead files: `writer` appends every byte that passes the proxy to a file, before it goes on
and before the database. A process that is killed loses none of it; `Journal.sync` waits for the
disk, against a power cut.

Must not know: what the bytes mean, HTTP connections, the database.
"""
