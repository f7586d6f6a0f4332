"""A scripted provider for tests: a server that speaks wire formats, without key or network.

`recorder demo` answers from recordings of it (`tools.demo_cassettes`). It uses only
`recorder.proxy.http` and errors.

    server       an app of `recorder.proxy.http`: pace, codings, pieces; knows no wire format
    app          the routing of paths to wire formats
    scripts      the content of answers, whatever the wire format
    openai_responses, openai_chat, anthropic, gemini, ollama, bedrock, …
                 the wire formats
    prompt_cache which tokens of a prompt a provider would not compute again
    continued    conversations that a request continues by `previous_response_id`
    load         streams of a given rate and size, for tests of load

Which script is played is chosen by the last user text: "shell" and "delegate" call the client's own
tool for it, if it offers one that is known, "weather" calls two functions, "search" searches the
web, "slow" takes half a minute, "refuse" refuses, "fail" breaks in mid-stream, "rate limit", "bad
request" and "unauthorized" are refused at once; anything else is reasoning and text. An answer that
has to fit a JSON schema does. A request that carries tool results gets an answer that uses them.
"""
