"""What an agent can ask of a log: tools with arguments and bounded answers, and the server of
`recorder mcp`.

Must not know: how a verb prints.
"""
