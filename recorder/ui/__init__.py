"""The viewer: a web server of its own, for people who look at recordings in a browser, and one HTML
file of a session.

Must not know: the proxy, the ingester, commands. It reads the log, and starts, changes and spends
nothing.

    static/      the pages: plain ES modules that draw, and interpret no protocol
    vendor/      the one library of the pages, as its registry has it
"""
