"""The SQL views: recordings as tables for users. All of them are in `contract`; here nothing is
loaded.

Must not know: the database. It has texts of SQL only.
"""
