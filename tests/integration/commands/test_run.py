"""`recorder run`: what is refused before anything begins."""

from __future__ import annotations

from pathlib import Path

from tests.support.server import run

UUID = "0199f3c2-1111-7000-8000-00000000000a"

WRONG = [
    (("--replay", "a", "--session", "b", "--", "true"), "--replay records nothing"),
    (("--session", "\a", "--", "true"), "--session needs a visible name"),
    (("--session", "..", "--", "true"), "--session needs a visible name"),
    (("--session", "latest", "--", "true"), "--session latest would never be found by that name"),
    (
        ("--session", UUID, "--", "true"),
        f"--session {UUID} would never be found by that name, which means an id",
    ),
    (("--speed", "max", "--", "true"), "--speed is for a replay: name a recording with --replay"),
    (("--strict", "--", "true"), "--strict is for a replay"),
    (("--allow-network", "--", "true"), "--allow-network is for a replay"),
    (
        ("--replay", "a", "--upstream", "openai=http://x", "--session", "s", "--", "true"),
        "leave --session and --upstream out",
    ),
    (("--cassette", "run.txt", "--", "true"), "give one that ends in .sse.jsonl"),
    (("--session", "a"), "Missing argument"),
    (("--replay", "./", "--", "true"), "Error: . is a directory: name the files in it."),
    (("--replay", "nosuch", "--", "true"), "There is no database"),
    (("--replay", "no.sse.jsonl", "--", "true"), "There is no file no.sse.jsonl."),
]


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    wrong = []
    for words, said in WRONG:
        ran = run(tmp_path / "recorder.db", "run", *words, cwd=tmp_path)
        code = 3 if said.startswith("There is no") else 2
        if (
            ran.code != code
            or said not in ran.err
            or "Traceback" in ran.err
            or list(tmp_path.iterdir())
        ):
            wrong.append((words, ran))
    assert wrong == []


def test_a_command_that_cannot_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no program")
    for name, code, said in (("nosuch", 127, "not on the PATH"), ("./file", 126, "executed")):
        ran = run(tmp_path / "recorder.db", "run", "--", name, cwd=tmp_path)
        assert ran.code == code
        assert f"Error: {name} " in ran.err
        assert said in ran.err
    assert not (tmp_path / "recorder.db").exists(), "nothing was begun"
