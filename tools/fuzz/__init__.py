"""What reads bytes of strangers, told any bytes: `targets` say what must hold, `run` looks for
bytes that break it.
"""
