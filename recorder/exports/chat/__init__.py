"""Chat JSONL, the form in which OpenAI takes conversations for fine-tuning, and evaluation tools
take them, too.

Must not know: the command line, HTTP, databases other than through a reader of the log.

    conversation    the messages of a conversation, and what is lost on the way to them
    lines           requests of any API as messages, which exchanges are conversations of their own, and their lines
"""
