"""Transports: one request in, one response out (`handle_async_request`, `aclose`). One file for each.

A transport may be wrapped by another one. Two entries of `request.extensions` go with a request:

* `"recorder"`: a `recorder.routing.Origin`, what the request was before it was forwarded;
* `"outcome"`: set by whoever closes a response early, why: a `recorder.events.Outcome`, `"client_disconnect"` if unset.
"""
