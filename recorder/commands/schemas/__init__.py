"""What commands write with `--json`, as structs: the names and types of `--schema`, and what each
field means.

Must not know: how any of it is found.
"""
