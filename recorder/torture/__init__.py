"""The proof of a client: one fault at each boundary of the streams that it asks for, and a verdict
on what it made of it.

Must not know: how a command is started, and how a report is printed.

Rules of this folder:

* A fault becomes a recording (`faulty`): what the faults of `recorder.replay.faults` make of a
  recorded exchange, as it would have been recorded. So a run is a plain replay, a request is
  answered with its fault whenever it comes, and what a run was answered with is a cassette.
* The fault strikes once: who asks again gets the recorded answer.
* Boundaries are those that the decoder of a format sees (`plan`): nothing here knows a format.
"""
