"""Sessions that go for good: their rows (`delete`), the space they took (`vacuum`), and what is left (`tombstone`).

Must not know: journals and other files beside the database; the command looks after those.
"""
