"""The proxy between client and upstream: it records what passes, and then forwards it.

Must not know: the database, and what the bytes mean.

A transport turns a request into a response (`http.messages` declares both, and their bodies).
`recorder serve` wires them so: `app` → `durable` (strict only) → `recording` → `upstream`.

The way of one chunk is a chain of calls from one socket to the other, without a task in between:

    http/client_connection   data_received   the event loop has read the upstream's socket
    http/client_response     feed            the body bytes of that read, as one piece
    recording                pass_on         adds the time, and hands it to the journal
    journal/writer           wait, flush     on disk: at once, or with the other chunks of this turn of the loop
    http/server_exchange     write           framed, into the client's socket

`app._pass_on` starts it with `BodyStream.pump`; `recording._RecordedBody.pump` puts the recorder in
between.
"""
