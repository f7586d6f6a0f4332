"""What `recorder export` writes a session as: one file for each format, with a function `write`.

Must not know: the options of a command.
"""
