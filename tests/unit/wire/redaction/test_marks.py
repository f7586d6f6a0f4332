"""Secrets that what stands before them gives away, in any text; text about secrets stays."""

from __future__ import annotations

import json

from recorder.wire.redaction.bodies import BY_SHAPE
from tests.support.corpus import ROOT
from tests.support.tables import table

SHOWN = {
    "ACME_API_KEY=CANARY-0001-abc": "variable",
    "export ACME_TOKEN='CANARY-0001-abc'": "variable",
    'A_SECRET="CANARY-0001-abc"\nB=2': "variable",
    "set DB_PASSWORD=CANARY-0001-abc& next": "variable",
    'MY_KEY = "CANARY-0001-abc"': "variable",
    'client = Client(api_key="CANARY-0001-abc")': "variable",
    "connect(password='CANARY-0001-abc')": "variable",
    "https://h/x?key=CANARY-0001-abc&y=1": "variable",
    "https://h/x?y=1&access_token=CANARY-0001-abc": "variable",
    "https://h/x?y=1&amp;sig=CANARY-0001-abc%3D&se=2030": "variable",
    "https://b.example/o?X-Amz-Credential=CANARY-0001-abc%2F2026": "variable",
    "https://b.example/o?X-Amz-Date=2&X-Amz-Signature=CANARY-0001-abc": "variable",
    "https://b.example/o?X-Goog-Signature=CANARY-0001-abc": "variable",
    "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=CANARY-0001-abc": "variable",
    "DefaultEndpointsProtocol=https;AccountKey=CANARY-0001-abc==;EndpointSuffix=x": "variable",
    "Endpoint=sb://h/;SharedAccessKey=CANARY-0001-abc=": "variable",
    "tool --api-key=CANARY-0001-abc run": "variable",
    "Authorization: Bearer CANARY-0001-abc": "bearer-token",
    "curl -H 'authorization: bearer CANARY-0001-abc'": "bearer-token",
    "postgres://app:CANARY-0001-abc@db.example/x": "userinfo",
    "git clone https://CANARY-0001-abcdef0@github.com/a/b": "userinfo",
}

ORDINARY = (
    'API_KEY = os.environ["API_KEY"]',
    "api_key=os.environ.get('ACME_KEY_2')",
    "API_KEY=$OTHER_KEY_2 TOKEN=${TOKEN_2} SECRET=$(cat file-2) KEY={{ secrets.KEY_2 }}",
    "API_KEY=your-api-key-1234 TOKEN=xxxxxxxx1 SECRET=<secret-1234> PASSWORD=changeme-1234",
    "password=settings.password_2, token=self.token_12345, key=lambda x: x[12345678]",
    "PASSWORD=hunter SECRET=correct-horse-battery-staple",
    "MAX_TOKENS=4096000000 CACHE_KEY=v1-abcdefgh FOREIGN_KEY=orders_2_customers PUBLIC_KEY=abcdefgh1",
    "SSH_KEY=~/.ssh/id_ed25519 TLS_KEY=/etc/tls/key-2026.pem TOKEN_URL=https://h/token1",
    'key="user:1234:profile" <li key="item-12345678"> sort(key=itemgetter2)',
    'next_token="abcdefgh1234" stop_token="abcdefgh1234"',
    "the bearer of this letter; Bearer authentication; Bearer tokens of RFC 6750; Bearer <token-1234567890>",
    "https://user:password@h/x postgres://me:secret@localhost http://h:8080/a@b ssh://git@github.com/a/b",
    "https://h/x?key=value&token=abc&page_token=abcdefgh1234&design=abcdefgh1234",
)


@table("text", SHOWN)
def test_the_value_is_taken_and_what_names_it_stays(text: str) -> None:
    quoted, twice = {"input": f"See:\n{text}\nand so on."}, {"a": json.dumps({"b": text})}
    for body in (f"See:\n{text}", json.dumps(quoted), json.dumps(twice)):
        redacted, counts = BY_SHAPE.redact(body.encode())
        before, _, behind = body.partition("CANARY")
        said = redacted.decode()
        assert counts == {SHOWN[text]: 1}
        assert said.startswith(f"{before}<REDACTED {SHOWN[text]}, ")
        assert "0001" not in said
        assert behind.endswith(said.rpartition(" bytes>")[2])
        assert BY_SHAPE.redact(redacted) == (redacted, {})


@table("text", ORDINARY)
def test_text_about_secrets_stays(text: str) -> None:
    for body in (f"See:\n{text}", json.dumps({"input": text}), json.dumps([json.dumps([text])])):
        assert BY_SHAPE.redact(body.encode()) == (body.encode(), {})


def test_the_source_of_a_program_with_keys_everywhere_stays() -> None:
    """This program's own: code, documentation, and pages about secrets."""
    pages = [
        path for place in ("recorder", "docs", "migrations") for path in (ROOT / place).rglob("*")
    ]
    pages = [path for path in pages if path.suffix in (".py", ".md", ".js", ".css", ".toml")]
    changed = {path.name: BY_SHAPE.secrets(path.read_text()) for path in pages}
    assert len(pages) > 300
    assert {name: hits for name, hits in changed.items() if hits} == {}
